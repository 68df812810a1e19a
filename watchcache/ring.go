package watchcache

import (
	"fmt"
	"sort"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer"
)

// event is one change of the collection. It is immutable once it is in the ring.
type event[T Object] struct {
	seq     uint64 // the sequence number; see ring
	rv      uint64
	old     *element[T] // the previous version; nil if there was none
	new     *element[T] // the new version; if removed is set, the last state with the version of the removal
	removed bool
	values  []fieldChange                   // of the fields that watchers selected by at the time
	after   *informer.Snapshot[*element[T]] // the collection after the event

	left     *element[T] // the previous version, with the version of the event; see leaving
	leftOnce sync.Once
}

// concerns reports whether a watcher of the group may have to see the event.
func (e *event[T]) concerns(g *group) bool { return g.key.concerns(informer.KeyOf(e.new), e.values) }

// leaving returns the object for a watcher whose selector it no longer matches: the previous state, with the version of
// the event.
func (e *event[T]) leaving() *element[T] {
	e.leftOnce.Do(func() {
		obj := ShallowCopy(e.old.obj)
		obj.SetResourceVersion(formatRV(e.rv))
		e.left = &element[T]{obj: obj}
	})
	return e.left
}

// ring holds the latest events, ordered by rv. Events have consecutive sequence numbers, which never restart; a watcher
// remembers its position by them.
type ring[T Object] struct {
	events []*event[T] // the event with sequence number s is at (s - origin) modulo window
	origin uint64
	window int
	first  uint64 // sequence number of the oldest event; equal to next when the ring is empty
	next   uint64 // sequence number of the next event

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

// after returns the sequence number of the first event after version rv. It returns false if the ring may have dropped
// such an event.
func (r *ring[T]) after(rv uint64) (seq uint64, ok bool) {
	if rv < r.floor {
		return 0, false
	}
	n := sort.Search(int(r.next-r.first), func(i int) bool { return r.at(r.first+uint64(i)).rv > rv })
	return r.first + uint64(n), true
}

// snapshot returns the collection at version rv, or false if that version is no longer available.
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

// tooOld returns the error of kube-apiserver's cacher for a watch from a version before its window.
func (r *ring[T]) tooOld(rv uint64) error {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", rv, r.floor))
}
