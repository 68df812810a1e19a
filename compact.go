package informer

import (
	"context"
	"fmt"
	"reflect"

	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/object"
	room "github.com/typedinformer/informer/internal/store/compact"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// packed is one version of an object in encoded and compressed form. With Config.Compact, an informer of T is an
// informer of *packed inside: its store, buffer and backlogs hold a *packed for each version, which is decoded only
// when a caller reads it. packed is an [Object].
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

// compact is the engine of an informer of T with Config.Compact: one of packed objects, which it decodes for handlers.
type compact[T Object] struct{ own[*packed] }

// newCompact returns a compact engine, and the store of its decoded objects.
func newCompact[T Object](client *Client, resource Resource, config Config[T]) (compact[T], *Store[T]) {
	packer, err := newPacker(config.goType(), config.KeepManagedFields, resource)
	if invalid := config.validate(); invalid != nil {
		err = invalid // says more
	}
	e := newEngine(client, resource, compactConfig(config, packer), packer, packer.Settle, err)
	packer.Failures.Report = func(err error) {
		failed := err.(*DecodeError)
		config.logger().Error("an object of the store cannot be decoded", "resource", resource.String(),
			"key", failed.Key.String(), "err", failed.Err)
	}
	return compact[T]{own[*packed]{e}}, (*Store[T])(core.Opened[T](e.Store(), &packer.Failures))
}

// subscribe implements engine.
func (c compact[T]) subscribe(h Handler[T], config SubscriptionConfig[T]) *Subscription {
	return c.own.subscribe(compactSubscription(h, config))
}

// pull implements engine.
func (c compact[T]) pull(ctx context.Context, yield func(Event[T]) bool) {
	var events eventBuffer[T]
	unpacker := room.Unpacker[T]{Handler: &events}
	c.own.pull(ctx, func(e Event[*packed]) bool {
		if e.handleBy(&unpacker); len(events) == 0 {
			return true
		}
		unpacked := events[0]
		clear(events) // it must not keep objects in memory
		events = events[:0]
		return yield(unpacked)
	})
}

// compactConfig returns the configuration of the informer of packed objects for config, and makes packer call its
// Transform.
func compactConfig[T Object](config Config[T], packer *packer) Config[*packed] {
	c := Config[*packed]{
		Filter:            config.Filter,
		KeepManagedFields: config.KeepManagedFields,
		OnDecodeError:     config.OnDecodeError,
		OnFailure:         config.OnFailure,
		PagedList:         config.PagedList,
		PollEvery:         config.PollEvery,
		PageSize:          config.PageSize,
		AbsentIsSynced:    config.AbsentIsSynced,
		AuditEvery:        config.AuditEvery,
		WarmStart:         config.WarmStart,
		Logger:            config.Logger,
	}
	if config.Transform != nil {
		packer.Transform = func(obj any) (any, error) {
			result, err := config.Transform(obj.(T))
			if object.IsNil(result) {
				return nil, err
			}
			return result, err
		}
		c.Transform = packer.Transformed
	}
	return c
}

// compactSubscription returns the handler of packed objects for h, and its configuration for config.
func compactSubscription[T Object](h Handler[T],
	config SubscriptionConfig[T]) (Handler[*packed], SubscriptionConfig[*packed]) {
	c := SubscriptionConfig[*packed]{
		Name:     config.Name,
		Delivery: config.Delivery,
		Resync:   config.Resync,
		NewOnly:  config.NewOnly,
		OnPanic:  config.OnPanic,
	}
	if filter := config.Filter; filter != nil {
		c.Filter = func(p *packed) bool {
			obj := room.Opener[T]{}.Open(p)
			return object.IsNil(obj) || filter(obj) // the unpacker leaves it out
		}
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("%T", h)
	}
	if h == nil {
		return nil, c
	}
	return &room.Unpacker[T]{Handler: h}, c
}
