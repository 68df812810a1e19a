package compact

import "github.com/typedinformer/informer/internal/object"

// Handler receives the changes of objects, one call at a time, as informer.Handler does.
type Handler[T any] interface {
	OnAdd(obj T, initial bool)
	OnUpdate(old, new T)
	OnDelete(last T, final bool)
}

// Unpacker is a [Handler] of packed objects for one handler of T, which receives them decoded. old is nil for a handler
// that does not need it.
//
// If an object cannot be decoded again, the Unpacker leaves out the addition or update. The next version is then an
// update, or an addition if the handler does not have the object. For an old or deleted object that cannot be decoded,
// the handler receives one that has only the identity and the version.
type Unpacker[T any] struct {
	Handler Handler[T]

	hidden map[object.Key]struct{} // objects that exist and that the handler does not have
}

// OnAdd implements Handler.
func (u *Unpacker[T]) OnAdd(obj *Object, initial bool) {
	if unpacked, ok := as[T](obj.Decoded(nil)); ok {
		u.show(obj)
		u.Handler.OnAdd(unpacked, initial)
		return
	}
	if u.hidden == nil {
		u.hidden = map[object.Key]struct{}{}
	}
	u.hidden[object.KeyOf(obj)] = struct{}{}
}

// OnUpdate implements Handler.
func (u *Unpacker[T]) OnUpdate(old, new *Object) {
	var before T
	var other any
	if old != nil {
		other = old.Alive()
	}
	unpacked, ok := as[T](new.Decoded(other))
	switch {
	case !ok:
		return
	case u.show(new):
		u.Handler.OnAdd(unpacked, false)
		return
	case old != nil:
		if before, ok = as[T](old.Decoded(any(unpacked))); !ok { // it shares what did not change
			before, _ = as[T](old.Bare())
		}
	}
	u.Handler.OnUpdate(before, unpacked)
}

// OnDelete implements Handler.
func (u *Unpacker[T]) OnDelete(last *Object, final bool) {
	unpacked, ok := as[T](last.Decoded(nil))
	if u.show(last) {
		return
	}
	if !ok {
		final = false
		if unpacked, ok = as[T](last.Bare()); !ok {
			return
		}
	}
	u.Handler.OnDelete(unpacked, final)
}

// show notes that the handler has the object of p, or that there is none. It reports whether the object was hidden.
func (u *Unpacker[T]) show(p *Object) (hidden bool) {
	if len(u.hidden) == 0 { // the common case
		return false
	}
	_, hidden = u.hidden[object.KeyOf(p)]
	delete(u.hidden, object.KeyOf(p))
	return hidden
}

// as returns obj as a T. ok is false if obj is nil or not a T.
func as[T any](obj any) (t T, ok bool) {
	t, _ = obj.(T)
	return t, !object.IsNil(t)
}
