package watchcache

import (
	"fmt"
	"sort"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer"
)

// event is one change of the collection. Nothing in it changes once it is in the ring.
type event[T Object] struct {
	rv      uint64
	old     *element[T] // the version before; nil when there was none
	new     *element[T] // the version after; the state at the removal, with the version of that, when removed is set
	removed bool
	after   *informer.Snapshot[*element[T]] // the collection after the event

	left     *element[T] // the version before, with the version of the event; see leaving
	leftOnce sync.Once
}

// leaving returns what a watcher is sent whose selector the object no longer meets: the object as it met it, with the
// version of the event.
func (e *event[T]) leaving() *element[T] {
	e.leftOnce.Do(func() {
		obj := ShallowCopy(e.old.obj)
		obj.SetResourceVersion(formatRV(e.rv))
		e.left = &element[T]{obj: obj}
	})
	return e.left
}

// ring holds the latest events, ordered by rv. Events have consecutive sequence numbers, which never start again: that
// is how a watcher remembers its place.
type ring[T Object] struct {
	events []*event[T] // the event with sequence number s is at (s - origin) modulo window
	origin uint64
	window int
	first  uint64 // of the oldest event; equal to next when the ring is empty
	next   uint64 // of the event to come

	floor uint64                          // every event after this version is in the ring
	base  *informer.Snapshot[*element[T]] // the collection at floor
}

// reset empties the ring: the collection is base, at version rv.
func (r *ring[T]) reset(window int, rv uint64, base *informer.Snapshot[*element[T]]) {
	r.events, r.window = nil, window
	r.origin, r.first = r.next, r.next
	r.floor, r.base = rv, base
}

func (r *ring[T]) append(e *event[T]) {
	if len(r.events) < r.window {
		r.events = append(r.events, e)
	} else {
		slot := r.slot(r.next)
		r.floor, r.base = (*slot).rv, (*slot).after
		*slot = e
		r.first++
	}
	r.next++
}

func (r *ring[T]) slot(seq uint64) **event[T] { return &r.events[(seq-r.origin)%uint64(r.window)] }

// at returns the event with that sequence number, which must be in the ring.
func (r *ring[T]) at(seq uint64) *event[T] { return *r.slot(seq) }

// after returns the sequence number of the first event after version rv, or false when there may have been one that is
// no longer in the ring.
func (r *ring[T]) after(rv uint64) (seq uint64, ok bool) {
	if rv < r.floor {
		return 0, false
	}
	n := sort.Search(int(r.next-r.first), func(i int) bool { return r.at(r.first+uint64(i)).rv > rv })
	return r.first + uint64(n), true
}

// snapshot returns the collection as it was at version rv, or false when that is no longer known.
func (r *ring[T]) snapshot(rv uint64) (*informer.Snapshot[*element[T]], bool) {
	seq, ok := r.after(rv)
	switch {
	case !ok:
		return nil, false
	case seq == r.first:
		return r.base, true
	}
	return r.at(seq - 1).after, true
}

// tooOld is what kube-apiserver's cacher answers to a watch from a version before its window.
func (r *ring[T]) tooOld(rv uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, r.floor))
}
