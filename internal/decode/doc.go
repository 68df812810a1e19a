// Package decode turns the bytes that an API server sends into Go objects: it splits lists into items and watches into frames
// ([List], [Frames]), reads an object's identity without decoding it ([Format.Peek]), and decodes it ([Decoder]), from JSON and
// from protobuf. All of the module's unsafe code is here.
//
// A Decoder decodes by itself what API servers write. It rejects unusual input, and then decodes that object with the library that
// client-go uses, so that the result is always client-go's.
//
// An object can be decoded as the version that follows another one. It then takes from that version all parts that did not
// change: see reuse.go.
//
// The package knows nothing of informers. It is not generic, and works over [reflect.Type]. Nothing here panics on bytes from the
// network, no length that a server sends makes it allocate memory, and no error quotes what is in an object.
package decode
