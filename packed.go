package informer

import (
	"reflect"

	room "github.com/typedinformer/informer/internal/packed"
)

// packed is one version of an object in encoded and compressed form. With Config.Compact, an informer of T is an
// informer of *packed inside: its store, FIFO and backlogs hold a *packed for each version, and only what a caller
// reads is decoded. packed is an [Object].
type packed = room.Object

// packer packs objects. It implements [packing].
type packer = room.Packer

// newPacker returns a packer of objects of type t, a pointer, for one collection. It returns an error if no object can
// be decoded into a t. Its Failures are DecodeErrors.
func newPacker(t reflect.Type, keepManagedFields bool, resource Resource) (*packer, error) {
	k, err := room.NewPacker(t, keepManagedFields)
	k.Failures.Error = func(p *packed, why error) error {
		return &DecodeError{Resource: resource, Key: KeyOf(p), Err: reasonOf(why)}
	}
	return k, err
}

// unpack returns the object of p, or the zero T if p is nil or cannot be decoded.
func unpack[T Object](p *packed) T {
	var none T
	if p == nil {
		return none
	}
	obj, _ := p.Decoded(nil).(T)
	return obj
}

// failureOf returns why a reader could not decode p. Nil means that no reader has failed.
func failureOf(p *packed) *DecodeError {
	failed, _ := p.Failed().(*DecodeError)
	return failed
}

// unreadable has the packed objects that readers could not decode.
type unreadable = room.Failures

// failuresIn returns the failures of the objects that get returns for their keys.
func failuresIn(lost *unreadable, get func(Key) *packed) (all []*DecodeError) {
	for _, err := range lost.In(func(namespace, name string) *packed {
		return get(Key{Namespace: namespace, Name: name})
	}) {
		all = append(all, err.(*DecodeError))
	}
	return all
}
