package informer

import (
	"context"
	"iter"
	"reflect"

	"github.com/typedinformer/informer/internal/deliver"
	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/informer/durable"
	"github.com/typedinformer/informer/internal/object"
	room "github.com/typedinformer/informer/internal/store/compact"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// packed is one version of an object in encoded and compressed form. With LayoutCompact, an informer of T is an
// informer of *packed inside: its store, buffer and backlogs hold a *packed for each version, which is decoded only
// when a caller reads it. packed is an [Object].
type packed = room.Object

// packer packs objects. It implements [intake.Packing].
type packer = room.Packer

// newPacker returns a packer of objects of type t, a pointer, for one collection. It returns an error if no object can
// be decoded into a t. Its Failures are DecodeErrors.
func newPacker(t reflect.Type, keepManagedFields bool, parts *Parts, resource Resource) (*packer, error) {
	k, err := room.NewPacker(t, keepManagedFields, parts.decoders(),
		parts.packer(t.String()+" of "+resource.GroupVersionResource.String()))
	k.Failures.Error = func(p *packed, why error) error {
		return &DecodeError{Resource: resource, Key: KeyOf(p), Err: undecoded.Reason(why)}
	}
	return k, err
}

// compact is the engine of an informer of T with LayoutCompact: one of packed objects, which it decodes for handlers.
type compact[T Object] struct{ *core.Informer[*packed] }

// newCompact returns a compact engine, and the store of its decoded objects.
func newCompact[T Object](client *Client, resource Resource, config Config[T]) (compact[T], *Store[T]) {
	packer, err := newPacker(config.goType(), config.KeepManagedFields, config.Parts, resource)
	if invalid := config.validate(); invalid != nil {
		err = invalid // says more
	}
	var transform func(*packed) (*packed, error)
	if config.Transform != nil {
		packer.Transform = func(obj any) (any, error) {
			result, err := config.Transform(obj.(T))
			if object.IsNil(result) {
				return nil, err
			}
			return result, err
		}
		transform = packer.Transformed
	}
	e := newEngine(client, resource, config, packer, transform, packer.Settle, err)
	packer.Failures.Report = func(err error) {
		failed := err.(*DecodeError)
		config.logger().Error("an object of the store cannot be decoded", "resource", resource.String(),
			"key", failed.Key.String(), "err", failed.Err)
	}
	return compact[T]{e}, (*Store[T])(core.Opened[T](e.Store(), &packer.Failures))
}

// undecoding is a handler that reads only the identity of objects.
type undecoding interface {
	// ofPacked returns the handler for objects that are not decoded.
	ofPacked() deliver.Handler[*packed]
}

// Subscribe implements engine.
func (c compact[T]) Subscribe(h deliver.Handler[T], filter func(T) bool, config deliver.Config,
	keep *durable.Config, invalid error) deliver.Subscriber {
	if h, ok := h.(undecoding); ok && filter == nil {
		return c.Informer.Subscribe(h.ofPacked(), nil, config, keep, invalid)
	}
	var opened func(*packed) bool
	if filter != nil {
		opened = func(p *packed) bool {
			obj := room.Opener[T]{}.Open(p)
			return object.IsNil(obj) || filter(obj) // the unpacker leaves it out
		}
	}
	return c.Informer.Subscribe(&room.Unpacker[T]{Handler: h}, opened, config, keep, invalid)
}

// Loading implements engine. It decodes each object.
func (c compact[T]) Loading() iter.Seq[T] {
	return func(yield func(T) bool) {
		for p := range c.Informer.Loading() {
			if obj := (room.Opener[T]{}).Open(p); !object.IsNil(obj) && !yield(obj) {
				return
			}
		}
	}
}

// Pull implements engine.
func (c compact[T]) Pull(ctx context.Context, h deliver.Handler[T], drain func(open func() bool) bool) {
	c.Informer.Pull(ctx, &room.Unpacker[T]{Handler: h}, drain)
}
