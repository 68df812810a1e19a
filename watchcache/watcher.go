package watchcache

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
)

// watcher is the position of a watch request in the ring.
//
//	startWatch ──► following ──► ended
//
// It ends when the collection is replaced, when EndWatches is called, or when it falls too far behind. In the first two
// cases it finishes the current frame. In the last case the request is aborted, as it may be stuck in a write.
type watcher[T Object] struct {
	cache *Cache[T]
	from  uint64        // it sees no event up to this version, which may be in the future
	next  atomic.Uint64 // the sequence number of the first event that it has not finished
	ended chan struct{} // closed by Cache.endLocked

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
func (c *Cache[T]) startWatch(ctx context.Context, s start, fail func()) (*watcher[T], *informer.Snapshot[*element[T]],
	uint64, error) {
	fresh := uint64(0)
	if s.initial {
		fresh = s.rv
	}
	if err := c.waitFresh(ctx, fresh); err != nil {
		return nil, nil, 0, err
	}
	w := &watcher[T]{cache: c, ended: make(chan struct{}), fail: fail}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.initial {
		w.next.Store(c.ring.next)
		c.watchers[w] = struct{}{}
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
	w.next.Store(seq)
	c.watchers[w] = struct{}{}
	return w, nil, c.rv, nil
}

// take appends the next events for w to buf, as many as fit, and returns them. It also returns the version of the
// cache, and a channel that the next event closes. If there are no events, w has seen everything up to that version. It
// returns false if w has ended.
func (w *watcher[T]) take(buf []*event[T]) (events []*event[T], rv uint64, wake <-chan struct{}, ok bool) {
	c := w.cache
	c.mu.RLock()
	defer c.mu.RUnlock()
	next := w.next.Load()
	if next < c.ring.first || w.hasEnded() {
		return nil, 0, nil, false
	}
	for ; next < c.ring.next && len(buf) < cap(buf); next++ {
		buf = append(buf, c.ring.at(next))
	}
	return buf, c.rv, c.wake, true
}

// done advances w by one event.
func (w *watcher[T]) done() { w.next.Add(1) }

func (w *watcher[T]) hasEnded() bool {
	return run.IsClosed(w.ended)
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
	w.cache.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}
