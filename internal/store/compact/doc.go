// Package compact holds objects in encoded and compressed form, and decodes them when somebody reads them. Readers
// share a decoded object as long as one of them holds it.
//
// A [Packer] packs bytes that a decoder has decoded or checked, so each [Object] can be decoded. If that fails later,
// the type's own decoder is not deterministic, or the memory is damaged. [Failures] collects these objects.
//
// Only [Unpacker] and [Opener] are generic. The rest of the package works over any and [reflect.Type].
package compact
