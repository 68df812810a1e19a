package informer

import (
	"reflect"

	room "github.com/typedinformer/informer/internal/store/compact"
	"github.com/typedinformer/informer/internal/store/table"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// packed is one version of an object in encoded and compressed form. With Config.Compact, an informer of T is an
// informer of *packed inside: its store, FIFO and backlogs hold a *packed for each version, which is decoded only when
// a caller reads it. packed is an [Object].
type packed = room.Object

// packer packs objects. It implements [intake.Packing].
type packer = room.Packer

// newPacker returns a packer of objects of type t, a pointer, for one collection. It returns an error if no object can
// be decoded into a t. Its Failures are DecodeErrors.
func newPacker(t reflect.Type, keepManagedFields bool, resource Resource) (*packer, error) {
	k, err := room.NewPacker(t, keepManagedFields)
	k.Failures.Error = func(p *packed, why error) error {
		return &DecodeError{Resource: resource, Key: KeyOf(p), Err: undecoded.Reason(why)}
	}
	return k, err
}

// failureOf returns why a reader could not decode p. Nil means that no reader has failed, or that p is nil.
func failureOf(p *packed) *DecodeError {
	if p == nil {
		return nil
	}
	failed, _ := p.Failed().(*DecodeError)
	return failed
}

// unreadable has the packed objects that readers could not decode.
type unreadable = room.Failures

// unpackings are the [lateFailures] of a snapshot with that version.
type unpackings struct {
	version *table.Version[*packed]
	lost    *unreadable
}

func (u *unpackings) failure(key Key) *DecodeError { return failureOf(u.get(key)) }

func (u *unpackings) get(key Key) *packed {
	_, p, _ := u.version.Find(key)
	return p
}

func (u *unpackings) failures() (all []*DecodeError) {
	for _, err := range u.lost.In(func(namespace, name string) *packed {
		return u.get(Key{Namespace: namespace, Name: name})
	}) {
		all = append(all, err.(*DecodeError))
	}
	return all
}
