package deliver

import (
	"context"
	"slices"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// Keeper knows what a handler has received, also in earlier processes. A listener with a keeper begins when the store
// has the whole collection. Its first changes lead from what the handler has to the objects of the store.
type Keeper[T object.Object] interface {
	// Prepare returns when Compare may be called for l. The listener ends with its error.
	Prepare(ctx context.Context, l *Listener[T]) error
	// Compare returns the changes from what the handler has to the objects of the store, ordered by key. The caller holds
	// the lock of the hub, so that later changes of the store follow. given is not nil if the listener has a filter and
	// this is the first call: Compare then adds what the handler has to given, and also returns unchanged objects, as
	// changes from an object to itself. Later calls return what was not known at the first one.
	Compare(given map[object.Key]T) []Change[T]
	// Keep saves what the handler of l has received, until ctx ends. It calls l.Compare when Compare may have more
	// changes.
	Keep(ctx context.Context, l *Listener[T])
	// Close saves for the last time. No call of the handler is under way.
	Close()
	// Status is the present status. It may be called at any time.
	Status() status.Durable
}

// keeping is the keeper of a listener, and its state. Listener.mu protects the fields.
type keeping[T object.Object] struct {
	Keeper[T]
	started  bool          // a goroutine runs keep
	compared chan struct{} // closed when changes reach the backlog
	closed   bool          // the keeper has saved for the last time
	quiet    chan struct{} // closed when the listener has ended and no call is under way
}

// Keep gives l a keeper, before [Hub.Join].
func (l *Listener[T]) Keep(k Keeper[T]) {
	l.keeping = &keeping[T]{Keeper: k, compared: make(chan struct{}), quiet: make(chan struct{})}
}

// waitsForKeeperLocked reports whether no changes reach the backlog yet.
func (l *Listener[T]) waitsForKeeperLocked() bool {
	return l.keeping != nil && !run.IsClosed(l.keeping.compared)
}

// startKeepingLocked starts the keeper. The caller must hold the lock of the hub, whose store has the whole collection.
func (l *Listener[T]) startKeepingLocked() {
	h := l.hub.Load()
	l.keeping.started = true
	h.delivering.Add(1)
	go l.keep(h)
}

// keep runs the keeper until l has ended and no call is under way, and then releases l.
func (l *Listener[T]) keep(h *Hub[T]) {
	defer h.delivering.Done()
	k := l.keeping
	ctx, end := run.Until(context.Background(), l.closed, context.Canceled)
	defer end()
	if err := k.Prepare(ctx, l); err == nil {
		l.Compare()
		k.Keep(ctx, l)
	} else if l.Open() {
		h.Report(l.config.Name, err)
		h.end(l, err)
	}
	<-k.quiet
	k.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	k.closed = true
	l.releaseLocked()
}

// Compare adds the changes of [Keeper.Compare] to the backlog. Only the keeper calls it.
func (l *Listener[T]) Compare() {
	h := l.hub.Load()
	h.enter()
	defer h.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return
	}
	first := l.waitsForKeeperLocked()
	var given map[object.Key]T
	if first {
		given = l.filter.given // later, only the delivering goroutine may use it
	}
	changes := l.keeping.Compare(given)
	if first {
		close(l.keeping.compared)
	}
	_ = l.enqueueLocked(changes, true, time.Since(l.epoch)) // changes of Compare do not count toward a limit
	if first {
		l.loadLocked()
	}
}

// Waiting returns the objects of the backlog that pass the filter, the newest of each change that waits. Only the
// delivering goroutine may call it.
func (l *Listener[T]) Waiting() []T {
	all := l.waiting()
	if l.filter.passes == nil {
		return all
	}
	return slices.DeleteFunc(all, func(obj T) bool { return !l.mayPass(obj) })
}

func (l *Listener[T]) waiting() (all []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := l.backlog.head; i < len(l.backlog.queue); i++ {
		if p := &l.backlog.queue[i]; !object.IsNil(p.New) {
			all = append(all, p.New)
		}
	}
	return all
}

// mayPass reports whether the filter lets obj pass, or panics: it panics again when obj is delivered.
func (l *Listener[T]) mayPass(obj T) (passes bool) {
	passes = true
	defer func() { _ = recover() }()
	return l.filter.passes(obj)
}

// Await waits, within a call of the handler, until ready is closed or l has ended. This is not time of the call, so
// that a handler which waits for its keeper is not a slow one: the change waits as those of the backlog do.
func (l *Listener[T]) Await(ready <-chan struct{}) {
	l.mu.Lock()
	l.calls.await(time.Since(l.epoch))
	l.mu.Unlock()
	select {
	case <-ready:
	case <-l.closed:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls.resume(time.Since(l.epoch))
}

// Synced returns a channel that is closed when the handler has processed the initial changes.
func (l *Listener[T]) Synced() <-chan struct{} { return l.synced }
