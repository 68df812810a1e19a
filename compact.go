package informer

import "fmt"

// compactConfig returns the configuration of the informer of packed objects for config, and makes packer call its Transform.
func compactConfig[T Object](config Config[T], packer *packer) Config[*packed] {
	c := Config[*packed]{
		Filter:            config.Filter,
		KeepManagedFields: config.KeepManagedFields,
		OnDecodeError:     config.OnDecodeError,
		OnFailure:         config.OnFailure,
		PagedList:         config.PagedList,
		PageSize:          config.PageSize,
		AbsentIsSynced:    config.AbsentIsSynced,
		Snapshot:          config.Snapshot,
		Logger:            config.Logger,
	}
	if config.Transform != nil {
		packer.transform = func(obj any) (any, error) {
			var none T
			result, err := config.Transform(obj.(T))
			if result == none {
				return nil, err
			}
			return result, err
		}
		c.Transform = packer.transformed
	}
	return c
}

// newCompactStore returns a store that shows the objects of packed.
func newCompactStore[T Object](of *Store[*packed]) *Store[T] {
	s := &Store[T]{packed: of}
	show := func(next *Snapshot[*packed]) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.current.Store(&Snapshot[T]{hints: next.hints, records: next.records, sources: next.sources, packed: next})
		s.notifyLocked()
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	of.show = show
	show(of.Snapshot())
	return s
}

// compactSubscription returns the handler of packed objects for h, and its configuration for config.
func compactSubscription[T Object](h Handler[T], config SubscriptionConfig[T]) (Handler[*packed], SubscriptionConfig[*packed]) {
	c := SubscriptionConfig[*packed]{
		Name:       config.Name,
		Delivery:   config.Delivery,
		MaxBacklog: config.MaxBacklog,
		Block:      config.Block,
		Resync:     config.Resync,
		NewOnly:    config.NewOnly,
		OnPanic:    config.OnPanic,
	}
	if filter := config.Filter; filter != nil {
		c.Filter = func(p *packed) bool { return filter(unpack[T](p)) }
	}
	if c.Name == "" {
		c.Name = fmt.Sprintf("%T", h)
	}
	if h == nil {
		return nil, c
	}
	return unpacker[T]{h}, c
}

// unpacker is the Handler of packed objects for a handler of T.
type unpacker[T Object] struct{ handler Handler[T] }

func (u unpacker[T]) OnAdd(obj *packed, initial bool) { u.handler.OnAdd(unpack[T](obj), initial) }

func (u unpacker[T]) OnUpdate(old, new *packed) {
	obj := unpack[T](new)
	u.handler.OnUpdate(unpackOld(old, obj), obj)
}

func (u unpacker[T]) OnDelete(last *packed, final bool) { u.handler.OnDelete(unpack[T](last), final) }

// unpackEvent returns e with decoded objects.
func unpackEvent[T Object](e Event[*packed]) Event[T] {
	obj := unpack[T](e.Object)
	return Event[T]{Type: e.Type, Object: obj, Old: unpackOld(e.Old, obj), Initial: e.Initial, Final: e.Final}
}

// unpackOld returns the object of old, or the zero T if old is nil. It shares with obj, another version of the object, what did
// not change.
func unpackOld[T Object](old *packed, obj T) T {
	if old == nil {
		var none T
		return none
	}
	return old.object(any(obj)).(T)
}
