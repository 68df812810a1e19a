package informer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
	room "github.com/typedinformer/informer/internal/store/compact"
	"github.com/typedinformer/informer/internal/store/table"
)

// compact is the engine of an informer of T with Config.Compact: a follower of packed objects, which it decodes for
// handlers.
type compact[T Object] struct{ *follower[*packed] }

// newCompact returns a compact engine, and the store of its decoded objects.
func newCompact[T Object](client *Client, resource Resource, config Config[T]) (compact[T], *Store[T]) {
	packer, err := newPacker(config.goType(), config.KeepManagedFields, resource)
	if invalid := config.validate(); invalid != nil {
		err = invalid // says more
	}
	f := newFollower(client, resource, compactConfig(config, packer), packer, err)
	f.beside = func(ctx context.Context) { settle(ctx, f, packer) }
	packer.Failures.Report = func(err error) { f.reportUnreadable(err.(*DecodeError)) }
	return compact[T]{f}, newCompactStore[T](f.store, &packer.Failures)
}

// settle packs the objects of f again, when the handlers have processed the first list. It may run until ctx ends.
func settle(ctx context.Context, f *follower[*packed], packer *packer) {
	if f.waitSynced(ctx) != nil {
		return
	}
	for _, l := range f.hub.All() {
		_ = l.WaitSynced(ctx) // the handlers need the processor more
	}
	packer.Settle(ctx, f.store.All())
}

// subscribe implements engine.
func (c compact[T]) subscribe(h Handler[T], config SubscriptionConfig[T]) *Subscription {
	return c.follower.subscribe(compactSubscription(h, config))
}

// pull implements engine.
func (c compact[T]) pull(ctx context.Context, yield func(Event[T]) bool) {
	var events eventBuffer[T]
	unpacker := room.Unpacker[T]{Handler: &events}
	c.follower.pull(ctx, func(e Event[*packed]) bool {
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

// newCompactStore returns a store that decodes the objects of another one, which is not in use yet. lost has the
// objects that readers could not decode.
func newCompactStore[T Object](of *Store[*packed], lost *unreadable) *Store[T] {
	var opener room.Opener[T]
	s := &Store[T]{addIndex: func(x table.AnyIndex[T]) { of.addIndex(table.OpenedIndex(x, opener)) }}
	of.show = func(next *Snapshot[*packed], changes []change[*packed]) {
		version := &next.version
		next.late = &unpackings{version, lost}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.Store(&Snapshot[T]{
			version: table.Opened(version, opener),
			sources: next.sources,
			late:    next.late,
			labels:  func(slot uint32) labels.Labels { return version.Shared(slot).Labels() },
		})
		s.notifyLocked()
		if s.board.Waits() {
			s.board.Reached(arrivals[T]{s.Snapshot()}, deliver.Keys(changes))
		}
	}
	of.show(of.Snapshot(), nil)
	return s
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
