package informer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer/internal/table"
)

// compact is the engine of an informer of T with Config.Compact: a follower of packed objects, whose objects it decodes
// for handlers.
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
	var unpack unpacking[T]
	c.follower.pull(ctx, func(packed Event[*packed]) bool {
		e, ok := unpack.event(packed)
		return !ok || yield(e)
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
		PageSize:          config.PageSize,
		AbsentIsSynced:    config.AbsentIsSynced,
		AuditEvery:        config.AuditEvery,
		WarmStart:         config.WarmStart,
		Logger:            config.Logger,
	}
	if config.Transform != nil {
		packer.Transform = func(obj any) (any, error) {
			var none T
			result, err := config.Transform(obj.(T))
			if result == none {
				return nil, err
			}
			return result, err
		}
		c.Transform = packer.Transformed
	}
	return c
}

// newCompactStore returns a store that shows the objects of another one, which is not in use yet. Readers could not
// decode those in lost.
func newCompactStore[T Object](of *Store[*packed], lost *unreadable) *Store[T] {
	var opener opener[T]
	s := &Store[T]{addIndex: func(x table.AnyIndex[T]) { of.addIndex(table.OpenedIndex(x, opener)) }}
	of.show = func(next *Snapshot[*packed]) {
		version := &next.version
		next.reopened = &unpackings{version, lost}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.Store(&Snapshot[T]{
			version:  table.Opened(version, opener),
			sources:  next.sources,
			reopened: next.reopened,
			labels:   func(slot uint32) labels.Labels { return version.Shared(slot).Labels() },
		})
		s.notifyLocked()
	}
	of.show(of.Snapshot())
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
			var none T
			obj := unpack[T](p)
			return obj == none || filter(obj) // the unpacker leaves it out
		}
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("%T", h)
	}
	if h == nil {
		return nil, c
	}
	return &unpacker[T]{handler: h}, c
}

// unpacker is the Handler of packed objects for a handler of T.
type unpacker[T Object] struct {
	handler Handler[T]
	unpacking[T]
}

func (u *unpacker[T]) OnAdd(obj *packed, initial bool) {
	u.call(Event[*packed]{Type: Added, Object: obj, Initial: initial})
}

func (u *unpacker[T]) OnUpdate(old, new *packed) {
	u.call(Event[*packed]{Type: Updated, Object: new, Old: old})
}

func (u *unpacker[T]) OnDelete(last *packed, final bool) {
	u.call(Event[*packed]{Type: Deleted, Object: last, Final: final})
}

func (u *unpacker[T]) call(packed Event[*packed]) {
	switch e, _ := u.event(packed); e.Type {
	case Added:
		u.handler.OnAdd(e.Object, e.Initial)
	case Updated:
		u.handler.OnUpdate(e.Old, e.Object)
	case Deleted:
		u.handler.OnDelete(e.Object, e.Final)
	}
}

// unpacking decodes the events of one subscription. If an object cannot be decoded again, it leaves out the addition or
// update. The next version is then an update, or an addition if the subscription does not have the object.
type unpacking[T Object] struct {
	hidden map[Key]struct{} // objects of the store that the subscription does not have
}

// event returns e with decoded objects. It returns false for an event to leave out.
func (u *unpacking[T]) event(e Event[*packed]) (result Event[T], ok bool) {
	var none T
	key := KeyOf(e.Object)
	_, hidden := u.hidden[key]
	result = Event[T]{Type: e.Type, Object: unpack[T](e.Object), Initial: e.Initial, Final: e.Final}
	switch {
	case e.Type == Deleted && hidden:
		delete(u.hidden, key)
		return Event[T]{}, false
	case e.Type == Deleted && result.Object == none:
		result.Object, result.Final = bare[T](e.Object), false
		return result, result.Object != none
	case e.Type == Added && result.Object == none:
		if u.hidden == nil {
			u.hidden = map[Key]struct{}{}
		}
		u.hidden[key] = struct{}{}
		return Event[T]{}, false
	case result.Object == none:
		return Event[T]{}, false
	case e.Type == Updated && hidden:
		result.Type = Added
	case e.Type == Updated && e.Old != nil:
		if result.Old = unpackOld(e.Old, result.Object); result.Old == none {
			result.Old = bare[T](e.Old)
		}
	}
	if hidden {
		delete(u.hidden, key)
	}
	return result, true
}

// unpackOld returns the object of old, or the zero T if it cannot be decoded. It shares with obj, another version of
// the object, what did not change.
func unpackOld[T Object](old *packed, obj T) T {
	unpacked, _ := old.Decoded(any(obj)).(T)
	return unpacked
}

// bare returns an object that has only the identity and the version of p, for a handler that has had p. It returns the
// zero T if there is no such T.
func bare[T Object](p *packed) T {
	obj, _ := p.Bare().(T)
	return obj
}
