package intake

import (
	"reflect"

	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
)

// Packing is the form in which an informer holds each object: it makes a T of the decoded object. Its methods are safe
// for concurrent use. An intake calls Unread, Pack and Alive. The other methods are for those who save, compare or
// measure the objects that it has made.
type Packing[T object.Object] interface {
	// Type returns the type of the decoded objects, a pointer.
	Type() reflect.Type
	// Unread returns the T of the object that d would decode from raw, without decoding it. It returns the zero T if
	// the object must be decoded. old is the previous version, or the zero T.
	Unread(d *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, old T) T
	// Pack returns the T of obj, which d has decoded from raw. old is the previous version, or the zero T.
	Pack(d *decode.Decoder, f decode.Format, raw []byte, list *decode.ListInfo, obj any, old T) T
	// Value returns the T of obj, which nobody has decoded.
	Value(obj any) T
	// Alive returns the decoded object of old, or nil if it would have to be decoded again.
	Alive(old T) any
	// Encoded returns obj in encoded form, in the memory of buf[:cap(buf)] or of its own. ok is false if obj is not held
	// in encoded form; Whole returns the object to encode.
	Encoded(obj T, buf []byte) (e decode.Encoded, ok bool, err error)
	// Whole returns obj decoded.
	Whole(obj T) any
	// Restored returns the T of the object that e encodes. If the object must be decoded, d decodes it. It then shares
	// memory with other objects if share is true.
	Restored(d *decode.Decoder, e decode.Encoded, share bool) (T, error)
	// SameContent reports whether a and b are equal.
	SameContent(a, b T) bool
	// Measure adds the memory that obj takes to set.
	Measure(obj T, set *heapsize.Set)
}

// Unpacked is the packing that holds the decoded objects themselves. Decoded is their type, a pointer.
type Unpacked[T object.Object] struct{ Decoded reflect.Type }

// Type implements Packing.
func (u Unpacked[T]) Type() reflect.Type { return u.Decoded }

// Unread implements Packing.
func (Unpacked[T]) Unread(*decode.Decoder, decode.Format, []byte, *decode.ListInfo, T) (none T) {
	return none
}

// Pack implements Packing.
func (Unpacked[T]) Pack(_ *decode.Decoder, _ decode.Format, _ []byte, _ *decode.ListInfo, obj any, _ T) T {
	return obj.(T)
}

// Value implements Packing.
func (Unpacked[T]) Value(obj any) T { return obj.(T) }

// Alive implements Packing.
func (Unpacked[T]) Alive(old T) any { return old }

// Encoded implements Packing.
func (Unpacked[T]) Encoded(T, []byte) (e decode.Encoded, ok bool, err error) { return e, false, nil }

// Whole implements Packing.
func (Unpacked[T]) Whole(obj T) any { return obj }

// Restored implements Packing.
func (Unpacked[T]) Restored(d *decode.Decoder, e decode.Encoded, share bool) (T, error) {
	obj, err := d.Decode(e.Format, e.Raw, decode.Origin{List: e.List, Share: share})
	if err != nil {
		var none T
		return none, err
	}
	return obj.(T), nil
}

// SameContent implements Packing.
func (Unpacked[T]) SameContent(a, b T) bool { return reflect.DeepEqual(a, b) }

// Measure implements Packing.
func (Unpacked[T]) Measure(obj T, set *heapsize.Set) { set.Add(obj) }
