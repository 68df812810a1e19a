package watchcache

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/typedinformer/informer"
)

// watcher is the position of a watch request in the ring.
//
//	startWatch ──► following ──► ended
//
// When the collection is replaced, the watcher ends after the current frame. After EndWatches, it ends after the events
// so far. When it falls too far behind, the cache aborts the request, which may be stuck in a write.
//
// take, done and the field scanned belong to the goroutine of the request.
type watcher[T Object] struct {
	cache   *Cache[T]
	group   *group
	from    uint64                // it sees no event up to this version, which may be in the future
	scanned uint64                // the sequence number of the first event that take has not visited
	next    atomic.Uint64         // the sequence number of the first event that the watcher has not finished
	asleep  atomic.Pointer[alarm] // the alarm that it waits for; nil after take has returned events
	last    uint64                // it ends before the event with this sequence number; protected by Cache.mu
	ended   atomic.Bool           // it ends now

	mu      sync.Mutex // protects stopped; held by abort, so that fail is not called after the watch
	stopped bool
	fail    func() // makes writes to the client fail; must not block
}

// start is the start of a watch.
type start struct {
	rv      uint64 // watch from after this version; 0 means the current one
	initial bool   // begin with the current objects, at version rv or later
}

// startWatch opens a watch. It returns the watcher, the initial collection if requested, and its version. The caller
// must call stop.
func (c *Cache[T]) startWatch(ctx context.Context, s start, key groupKey,
	fail func()) (*watcher[T], *informer.Snapshot[*element[T]], uint64, error) {
	fresh := uint64(0)
	if s.initial {
		fresh = s.rv
	}
	if err := c.waitFresh(ctx, fresh); err != nil {
		return nil, nil, 0, err
	}
	w := &watcher[T]{cache: c, fail: fail, last: math.MaxUint64}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.initial {
		c.addLocked(w, key, c.ring.next)
		return w, c.objects.Snapshot(), c.rv, nil
	}
	if s.rv == 0 {
		s.rv = c.rv
	}
	seq, ok := c.ring.after(s.rv)
	if !ok {
		return nil, nil, 0, c.ring.tooOld(s.rv)
	}
	w.from = s.rv
	c.addLocked(w, key, seq)
	return w, nil, c.rv, nil
}

// addLocked adds a watcher that begins with the event with sequence number seq.
func (c *Cache[T]) addLocked(w *watcher[T], key groupKey, seq uint64) {
	w.scanned = seq
	w.next.Store(seq)
	w.group = c.groups.joinLocked(key)
	c.watchers[w] = struct{}{}
}

// take appends the next events for w to buf, as many as fit, and returns them. It also returns the version of the
// cache. If there are no events, w has seen everything up to that version, and wake is a channel that the next event
// closes. Otherwise, the caller must call done for each event. take returns false if w has ended.
func (w *watcher[T]) take(buf []*event[T]) (events []*event[T], rv uint64, wake <-chan struct{}, ok bool) {
	c := w.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	if a := w.asleep.Load(); a != nil {
		w.scanned = c.ring.next // no event in between concerned its group
		if a.rung {
			w.scanned = a.seq
		}
		w.asleep.Store(nil)
	}
	w.next.Store(w.scanned)
	if w.scanned < c.ring.first || w.ended.Load() {
		return nil, 0, nil, false
	}
	for ; w.scanned < min(c.ring.next, w.last) && len(buf) < cap(buf); w.scanned++ {
		if e := c.ring.at(w.scanned); e.concerns(w.group) {
			buf = append(buf, e)
		}
	}
	if len(buf) == 0 {
		if w.scanned >= w.last {
			return nil, 0, nil, false
		}
		a := w.group.wait()
		w.asleep.Store(a)
		wake = a.ringing
	}
	return buf, c.rv, wake, true
}

// done advances w past e.
func (w *watcher[T]) done(e *event[T]) { w.next.Store(e.seq + 1) }

// positionLocked returns the sequence number of the first event that w has not finished.
func (w *watcher[T]) positionLocked() uint64 {
	switch a := w.asleep.Load(); {
	case a == nil:
		return w.next.Load()
	case a.rung:
		return a.seq
	}
	return w.cache.ring.next
}

// abort makes the request fail, at any point.
func (w *watcher[T]) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.fail()
	}
}

// stop removes w from the cache. After it returns, fail is not called.
func (w *watcher[T]) stop() {
	w.cache.mu.Lock()
	delete(w.cache.watchers, w)
	w.cache.groups.leaveLocked(w.group)
	w.cache.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}
