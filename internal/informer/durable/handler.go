package durable

import (
	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
)

// handler passes changes on, and acknowledges each one in the book when the call has returned. If the call panics, the
// change is not acknowledged.
type handler[T object.Object] struct {
	next     deliver.Handler[T]
	book     *book[T]
	newOnly  bool
	recovers bool
	listener func() *deliver.Listener[T]
}

// OnAdd implements deliver.Handler.
func (h handler[T]) OnAdd(obj T, initial bool) {
	if have, ok := h.book.take(object.KeyOf(obj)); ok {
		h.found(have, obj)
		return
	}
	h.add(obj, initial && h.book.first())
}

// add calls OnAdd when the storage knows of that.
func (h handler[T]) add(obj T, initial bool) {
	l := h.listener()
	for l.Open() {
		saved := h.book.announce(obj, l.Waiting)
		if saved == nil {
			break
		}
		l.Await(saved)
	}
	h.both(func() { h.deleteOthers(obj) }, func() { h.give(obj, initial) })
}

// both calls deletions and then next, also if deletions panics and the subscription survives that.
func (h handler[T]) both(deletions, next func()) {
	returned := false
	defer func() {
		if returned || !h.recovers {
			return
		}
		if r := recover(); r != nil { // not runtime.Goexit
			next()
			panic(r)
		}
	}()
	deletions()
	returned = true
	next()
}

// give calls OnAdd.
func (h handler[T]) give(obj T, initial bool) {
	if !h.listener().Open() {
		return
	}
	returned := false
	defer func() {
		if !returned {
			h.book.owe(obj)
		}
	}()
	h.next.OnAdd(obj, initial)
	returned = true
	h.book.acknowledge(obj)
}

// OnUpdate implements deliver.Handler.
func (h handler[T]) OnUpdate(old, new T) {
	key := object.KeyOf(new)
	if object.SameVersion(old, new) && h.book.isPast(new) { // a resync
		return
	}
	if have, ok := h.book.take(key); ok { // with a filter, the listener knows what the handler has
		h.found(have, new)
		return
	}
	if !h.book.acknowledged(new) { // the handler may have the object
		h.add(new, h.book.first())
		return
	}
	h.next.OnUpdate(old, new)
	h.book.acknowledge(new)
}

// OnDelete implements deliver.Handler.
func (h handler[T]) OnDelete(last T, final bool) {
	h.both(func() { h.deleteOthers(last) }, func() { h.remove(last, final) })
}

// remove calls OnDelete, unless the handler knows of the deletion: that of an unknown key can come twice.
func (h handler[T]) remove(last T, final bool) {
	if !h.listener().Open() || !h.book.mayHave(last) {
		return
	}
	if have, ok := h.book.later(last); ok {
		last, final = have, false
	}
	h.book.try(last)
	h.next.OnDelete(last, final)
	h.book.forget(last)
}

// deleteOthers delivers the deletions of objects of the same name that the handler has, or may have, beside obj.
func (h handler[T]) deleteOthers(obj T) {
	for _, other := range h.book.others(obj) {
		if h.listener().Open() && h.book.try(other) {
			h.next.OnDelete(other, false)
			h.book.forget(other)
		}
	}
}

// found delivers obj, which the store lacked at the comparison. The handler has that of have.
func (h handler[T]) found(have entry[T], obj T) {
	if have.obj.GetUID() != obj.GetUID() {
		h.both(func() { h.OnDelete(have.obj, false) }, func() { h.add(obj, false) })
		return
	}
	h.both(func() { h.deleteOthers(obj) }, func() { h.update(have, obj) })
}

// update calls OnUpdate if obj is another version than that of have.
func (h handler[T]) update(have entry[T], obj T) {
	switch {
	case !h.listener().Open():
		return
	case h.book.codec.same(have, obj):
	case h.newOnly:
		var none T
		h.next.OnUpdate(none, obj)
	default:
		h.next.OnUpdate(have.obj, obj)
	}
	h.book.acknowledge(obj)
}
