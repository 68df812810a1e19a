package ondemand

import (
	"container/list"
	"time"

	"github.com/typedinformer/informer/internal/object"
)

// held are the objects that a [Reader] holds: the most recently used ones, within a limit of bytes. It has no lock.
type held[T any] struct {
	limit   int64
	bytes   int64
	entries map[object.Key]*list.Element
	order   list.List // of *entry[T], the most recently used first
}

// entry is an object that is held.
type entry[T any] struct {
	key   object.Key
	obj   Object[T]
	bytes int64
	used  time.Time
}

// get returns the object with a key, without using it. It returns nil if there is none.
func (h *held[T]) get(key object.Key) *entry[T] {
	if e, ok := h.entries[key]; ok {
		return e.Value.(*entry[T])
	}
	return nil
}

// use marks an entry as used now.
func (h *held[T]) use(e *entry[T]) {
	e.used = time.Now()
	h.order.MoveToFront(h.entries[e.key])
}

// fits reports whether an object of some bytes needs no other object to go.
func (h *held[T]) fits(bytes int64) bool { return h.bytes+bytes <= h.limit }

// put adds an object in place of one with its key, and returns how many others had to go. It does not add an object
// that is larger than the limit.
func (h *held[T]) put(key object.Key, obj Object[T], bytes int64) (evicted int) {
	h.drop(key)
	if bytes > h.limit {
		return 0
	}
	for ; !h.fits(bytes); evicted++ {
		h.drop(h.oldest().key)
	}
	h.entries[key] = h.order.PushFront(&entry[T]{key: key, obj: obj, bytes: bytes, used: time.Now()})
	h.bytes += bytes
	return evicted
}

// oldest returns the entry that was not used for the longest time, or nil if there is none.
func (h *held[T]) oldest() *entry[T] {
	if last := h.order.Back(); last != nil {
		return last.Value.(*entry[T])
	}
	return nil
}

// drop removes the object with a key. It returns false if there is none.
func (h *held[T]) drop(key object.Key) bool {
	e, ok := h.entries[key]
	if ok {
		h.bytes -= h.order.Remove(e).(*entry[T]).bytes
		delete(h.entries, key)
	}
	return ok
}

// clear removes all objects.
func (h *held[T]) clear() {
	clear(h.entries)
	h.order.Init()
	h.bytes = 0
}
