package watchcache

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/typedinformer/informer"
)

// watcher is one watch request's place in the ring.
//
//	startWatch ──► following ──► ended
//
// It is ended when the collection is replaced, when EndWatches is called, and when it falls too far behind; the first
// two let it finish the frame that it is writing, the last one aborts the request, which may be stuck in a write.
type watcher[T Object] struct {
	cache *Cache[T]
	from  uint64        // it is told of nothing up to this version, which may be yet to come
	next  atomic.Uint64 // the sequence number of the first event that it has not been done with
	ended chan struct{} // closed by Cache.endLocked

	mu      sync.Mutex // protects stopped; held by abort, so that it does nothing to what comes after the watch
	stopped bool
	fail    func() // makes writes to the client fail; must not block
}

// start is where a watch begins.
type start struct {
	rv      uint64 // watch from after this version; 0 means the present one
	initial bool   // the current objects first; rv is then the version that they must not be older than
}

// startWatch opens a watch and returns its watcher, the collection to begin with if that was asked for, and the version
// that it is at. The caller calls stop in the end.
func (c *Cache[T]) startWatch(ctx context.Context, s start, fail func()) (*watcher[T], *informer.Snapshot[*element[T]], uint64, error) {
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

// take appends the events that w has yet to see to buf, as many as fit in, and returns them. When there are none it
// returns the version up to which w has seen everything, and a channel that the next event closes. It returns false when
// w has ended.
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

// done says that w has dealt with one more event.
func (w *watcher[T]) done() { w.next.Add(1) }

func (w *watcher[T]) hasEnded() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// abort makes the request fail, wherever it is.
func (w *watcher[T]) abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.fail()
	}
}

// stop takes w out of the cache. fail is not called any more when it returns.
func (w *watcher[T]) stop() {
	w.cache.mu.Lock()
	delete(w.cache.watchers, w)
	w.cache.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}
