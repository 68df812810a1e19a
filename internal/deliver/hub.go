package deliver

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
)

// View is the content of a store at one moment, ordered by namespace, then name.
type View[T object.Object] interface {
	Len() int
	All() iter.Seq[T]
	// From yields the objects at or after key.
	From(key object.Key) iter.Seq[T]
}

// Hub connects a store with its listeners. Under its lock, it applies each batch to the store and to every backlog, and
// it adds each listener together with the objects of the store. A listener is in the hub exactly while it is open.
type Hub[T object.Object] struct {
	// Set these before the first use. Resource names the collection, in errors and profiles.
	Resource string
	Log      *slog.Logger
	View     func() View[T]          // returns the present content of the store
	Unsynced func(cause error) error // returns an error that says what the store lacks

	synced     chan struct{}  // closed when the store has the whole collection
	stopped    chan struct{}  // closed when the hub accepts no more listeners
	epoch      time.Time      // the base of all times: time.Since reads the clock faster than time.Now
	cause      error          // why stopped is closed
	delivering sync.WaitGroup // goroutines that deliver or keep; only an open listener adds to it

	// turn is taken before mu by listeners that join, end or resync. A mutex serves its waiters in order, so without
	// turn, a write would wait for all of these listeners. With turn, a write waits for one.
	turn      sync.Mutex
	mu        sync.Mutex     // protects listeners and writes to the store; taken before the locks of store and listeners
	listeners []*Listener[T] // copied on write
}

// NewHub returns a hub without listeners.
func NewHub[T object.Object]() *Hub[T] {
	return &Hub[T]{epoch: time.Now(), synced: make(chan struct{}), stopped: make(chan struct{})}
}

// Synced returns a channel that Load closes.
func (h *Hub[T]) Synced() <-chan struct{} { return h.synced }

// Stopped returns a channel that Stop closes.
func (h *Hub[T]) Stopped() <-chan struct{} { return h.stopped }

func (h *Hub[T]) now() time.Duration { return time.Since(h.epoch) }

// Join opens l. Its backlog begins with an addition for each object in the store, or with what its keeper returns when
// the store has the whole collection. If the hub has stopped, or if invalid, the error of l's handler or config, is not
// nil, l ends at once.
func (h *Hub[T]) Join(l *Listener[T], invalid error) {
	h.enter()
	defer h.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	if invalid == nil && run.IsClosed(h.stopped) {
		invalid = h.cause
	}
	if invalid != nil {
		l.endLocked(fmt.Errorf("subscribe to %s: %w", h.Resource, invalid))
		return
	}
	h.listeners = append(slices.Clip(h.listeners), l)
	if l.keeping != nil {
		if run.IsClosed(h.synced) {
			l.startKeepingLocked()
		}
		return
	}
	if view := h.View(); view.Len() > 0 {
		initial := make([]Change[T], 0, view.Len())
		for obj := range view.All() {
			initial = append(initial, Change[T]{Key: object.KeyOf(obj), New: obj, Added: true})
		}
		_ = l.enqueueLocked(initial, true, h.now()) // initial objects do not count toward a limit
	}
	if run.IsClosed(h.synced) {
		l.loadLocked()
	}
}

// Apply calls write, which writes to the store and returns the changes, and adds these to every backlog. They are
// initial additions if initial is true. If write fails, Apply returns its results.
func (h *Hub[T]) Apply(write func() ([]Change[T], error), initial bool) ([]Change[T], error) {
	h.mu.Lock()
	defer h.mu.Unlock() // even if the function of an index panics
	changes, err := write()
	if err != nil || len(changes) == 0 || len(h.listeners) == 0 {
		return changes, err
	}
	now := h.now()
	for _, l := range h.listeners {
		if err := l.enqueue(changes, initial, now); err != nil {
			h.Report(l.config.Name, err)
		}
	}
	return changes, nil
}

// Report logs that a subscription ended by itself.
func (h *Hub[T]) Report(handler string, cause error) {
	h.Log.Error("a subscription has ended", "resource", h.Resource, "handler", handler, "why", cause)
}

// Load records that the store has the whole collection, and notifies the listeners.
func (h *Hub[T]) Load() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.synced)
	for _, l := range h.listeners {
		l.load()
	}
}

// WaitForRoom waits for the listeners that block the caller because their backlogs are full.
func (h *Hub[T]) WaitForRoom(ctx context.Context) {
	for _, l := range h.All() {
		l.waitForRoom(ctx)
	}
}

// Full reports whether WaitForRoom would wait.
func (h *Hub[T]) Full() bool { return slices.ContainsFunc(h.All(), (*Listener[T]).Full) }

// Finish waits until each handler has received its backlog, its listener has ended, or ctx ends. Nothing may be applied
// meanwhile.
func (h *Hub[T]) Finish(ctx context.Context) {
	for _, l := range h.All() {
		l.waitUntilIdle(ctx)
	}
}

// All returns the open listeners.
func (h *Hub[T]) All() []*Listener[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listeners
}

// end ends l.
func (h *Hub[T]) end(l *Listener[T], cause error) {
	h.enter()
	defer h.leave()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(cause)
}

// enter takes the lock of the hub for a listener that joins, ends or resyncs.
func (h *Hub[T]) enter() {
	h.turn.Lock()
	h.mu.Lock()
}

// leave releases the lock of enter.
func (h *Hub[T]) leave() {
	h.mu.Unlock()
	h.turn.Unlock()
}

// Stop ends all listeners and waits for the calls under way. A listener that joins later ends with cause.
func (h *Hub[T]) Stop(cause error) {
	h.mu.Lock()
	h.cause = cause
	close(h.stopped)
	listeners := h.listeners
	h.listeners = nil
	for _, l := range listeners {
		l.mu.Lock()
		l.endLocked(cause)
		l.mu.Unlock()
	}
	h.mu.Unlock()
	h.delivering.Wait()
}

// forgetLocked removes l from the hub.
func (h *Hub[T]) forgetLocked(l *Listener[T]) {
	h.listeners = slices.DeleteFunc(slices.Clone(h.listeners), func(other *Listener[T]) bool { return other == l })
}
