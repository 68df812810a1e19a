// Package decode decodes the bytes that an API server sends into Go objects, from JSON and from protobuf. It splits
// lists into items and watches into frames ([List], [Frames]), reads an object's identity without decoding it
// ([Format.Peek]), and decodes objects ([Decoder]). All of the module's unsafe code is here.
//
// A Decoder has its own code for the input that API servers usually write. For other input, it falls back to the
// library that client-go uses. So the result is always the same as client-go's.
//
// A Decoder can check an object without making it: see check.go.
//
// A Decoder can decode an object as the successor of a previous version. The object then shares all unchanged parts of
// that version: see reuse.go. It reads the memory of that version before it needs it: see warm.go.
//
// The package knows nothing of informers. It is not generic: it works over [reflect.Type]. It does not panic on bytes
// from the network. It does not allocate memory by a length that a server sends. Its errors quote nothing of an object.
package decode
