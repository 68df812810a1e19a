// Package cow provides copy-on-write collections for one writer and any number of readers: [Tree], a sorted map;
// [Array], a growable array; and [Hints], a hash table that says where in an Array to look first.
//
// A Tree or an Array is a small value that stands for one version of the collection. Copying the value keeps that
// version: it never changes, whatever the writer does to other copies. A write copies only the nodes between the root
// and the changed element, and shares all others with earlier versions. A version therefore costs a few hundred bytes.
//
// # Generations
//
// Each write takes a generation. Each node remembers the generation that created it, and a write changes a node in
// place if both generations are equal. Several writes with one generation therefore copy a node once. They become
// visible together when the writer publishes the result:
//
//	gen++
//	next := published // copies the Tree and Array values
//	next.Set(gen, ...)
//	next.Delete(gen, ...)
//	published = next // readers see all of it, or none
//
// The writer must follow three rules:
//
//   - Only one goroutine writes at a time.
//   - Generations grow, and the writer does not reuse a generation after it has published or abandoned its writes.
//   - It writes to the newest version. To abandon writes, it drops that version and continues from the published one.
//
// # Concurrency
//
// Any number of goroutines may read a published version without a lock. The caller provides the synchronization that
// makes a version visible to them, for example an atomic pointer. A goroutine must not read a version while another one
// writes to it. Hints has no versions; its readers need no synchronization with its writer.
//
// # Errors
//
// No operation returns an error. The Check methods do: they report a broken invariant, which a bug in this package or a
// writer that breaks the rules above can cause. They visit every element, so they are for tests and debug builds.
package cow
