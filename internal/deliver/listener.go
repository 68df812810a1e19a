package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// Listener delivers the changes of a hub to one handler. Its goroutine runs only while changes wait.
//
// A listener is open, then ended, then released:
//
//	join -> open --end--> ended --no call is under way--> released
//
// An ended listener begins no call. A released listener refers to no object, so keeping its Subscription costs little
// memory.
type Listener[T object.Object] struct {
	hub      atomic.Pointer[Hub[T]] // nil once released
	resource string                 // the hub's
	epoch    time.Time              // the hub's
	config   Config
	handler  Handler[T]    // nil once released
	filter   filter[T]     // zero for none, and once released
	start    func()        // run, with labels for profiles; creating it once saves an allocation at each start
	wake     chan struct{} // holds a token when an iteration may have something to yield; nil for a handler
	keeping  *keeping[T]   // nil for none

	mu      sync.Mutex // protects the fields below; taken after the lock of the hub
	backlog backlog[T]
	running bool // a goroutine delivers; true for an iteration until Pull returns
	calls   calls
	slow    slowness
	rounds  rounds
	synced  chan struct{} // closed when the handler has processed all of them
	closed  chan struct{} // closed when the listener has ended
	ended   error         // why the listener has ended; nil while it is open
	done    chan struct{} // closed when the listener is released
	waits   waits
}

// waits are closed when the backlog has changed; nil if nobody waits.
type waits struct {
	room chan struct{} // the backlog is no longer full
	idle chan struct{} // the handler has received the whole backlog
}

// filter selects the objects for a handler.
type filter[T object.Object] struct {
	passes func(T) bool
	given  map[object.Key]T // the objects that the handler has; only the delivering goroutine uses it
}

// Subscriber is a listener of objects of any type.
type Subscriber interface {
	HasSynced() bool
	WaitSynced(ctx context.Context) error
	End(why error)
	Released() <-chan struct{}
	Err() error
	Status() status.Subscription
}

// ErrBacklog indicates that a listener ended because its handler was too many changes behind.
var ErrBacklog = errors.New("the handler is too far behind")

var (
	errExited = errors.New("the handler called runtime.Goexit")
	errLeft   = errors.New("the iteration has ended")
)

// NewListener returns a listener that [Hub.Join] or [Listener.Pull] opens. handler receives the objects for which
// passes returns true. If passes is nil, it receives all.
func NewListener[T object.Object](h *Hub[T], handler Handler[T], passes func(T) bool, config Config) *Listener[T] {
	l := &Listener[T]{
		resource: h.Resource,
		epoch:    h.epoch,
		config:   config,
		handler:  handler,
		slow:     slowness{limit: slowCall},
		backlog:  backlog[T]{limit: config.Limit},
		synced:   make(chan struct{}),
		closed:   make(chan struct{}),
		done:     make(chan struct{}),
	}
	l.hub.Store(h)
	labels := pprof.WithLabels(context.Background(), pprof.Labels("informer", h.Resource, "handler", config.Name))
	l.start = func() {
		pprof.SetGoroutineLabels(labels)
		l.run()
	}
	if config.OnPanic != nil && handler != nil {
		l.handler = guarded[T]{handler, config.OnPanic}
		if passes != nil {
			passes = guardedFilter(passes, config.OnPanic)
		}
	}
	if passes != nil {
		l.filter = filter[T]{passes, map[object.Key]T{}}
	}
	return l
}

// Name returns the name of the handler.
func (l *Listener[T]) Name() string { return l.config.Name }

// HasSynced reports whether the handler has processed all initial additions.
func (l *Listener[T]) HasSynced() bool { return run.IsClosed(l.synced) }

// WaitSynced waits until HasSynced. It returns an error if ctx ends or the listener ends first.
func (l *Listener[T]) WaitSynced(ctx context.Context) error {
	if l.HasSynced() {
		return nil
	}
	select {
	case <-l.synced:
		return nil
	case <-l.closed:
		return fmt.Errorf("handler %s of %s is not synced: %w", l.config.Name, l.resource, l.Err())
	case <-ctx.Done():
		if h := l.hub.Load(); h != nil && !run.IsClosed(h.synced) {
			return h.Unsynced(context.Cause(ctx))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("handler %s of %s has %d initial objects left: %w", l.config.Name, l.resource, l.backlog.initial,
			context.Cause(ctx))
	}
}

// Pull opens the listener and delivers in the goroutine of the caller. It calls drain after each change, and returns
// when drain returns false, ctx ends or the listener ends.
func (l *Listener[T]) Pull(ctx context.Context, drain func() bool) {
	h := l.hub.Load()
	l.wake = make(chan struct{}, 1)
	l.running = true
	h.Join(l, nil)
	defer l.leave(h)
	var p pending[T]
	for {
		if l.next(&p) {
			if l.deliver(&p); !drain() {
				return
			}
			continue
		}
		select {
		case <-l.wake:
		case <-l.closed:
			return
		case <-ctx.Done():
			return
		}
	}
}

// leave ends the listener of an iteration, whose last call has returned, and releases it.
func (l *Listener[T]) leave(h *Hub[T]) {
	h.end(l, errLeft)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = false
	l.releaseLocked()
}

// End ends the listener with cause: from now on, no call of the handler begins.
func (l *Listener[T]) End(cause error) {
	if h := l.hub.Load(); h != nil {
		h.end(l, cause)
	}
}

// Released returns a channel that is closed when the listener has ended and no call is under way.
func (l *Listener[T]) Released() <-chan struct{} { return l.done }

// Err returns why the listener has ended, and nil while it is open.
func (l *Listener[T]) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

// Status is the present status.
func (l *Listener[T]) Status() status.Subscription {
	l.mu.Lock()
	s := l.statusLocked(time.Since(l.epoch))
	l.mu.Unlock()
	if l.keeping != nil {
		kept := l.keeping.Status()
		s.Durable = &kept
	}
	return s
}

func (l *Listener[T]) statusLocked(now time.Duration) status.Subscription {
	s := status.Subscription{
		Name:     l.config.Name,
		Backlog:  l.backlog.len(),
		Synced:   run.IsClosed(l.synced),
		Blocking: l.waits.room != nil && l.ended == nil,
	}
	if took := l.calls.took; took != nil {
		s.Delays, s.Calls = took.delays, took.times
	}
	s.Busy = l.calls.busy(now)
	if first := l.backlog.oldest(); first != nil {
		s.Oldest = now - first.arrival
	}
	if l.calls.awaits { // the change waits as those of the backlog do
		s.Backlog++
		s.Oldest = now - l.calls.changed
	}
	return s
}

// Open reports whether a call of the handler may begin.
func (l *Listener[T]) Open() bool { return !run.IsClosed(l.closed) }

// enqueue adds changes to the backlog, in the order in which they happened, and starts their delivery. The listener
// must be open, and the caller must hold the lock of the hub. If this ends the subscription, enqueue returns the
// reason.
func (l *Listener[T]) enqueue(changes []Change[T], initial bool, now time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enqueueLocked(changes, initial, now)
}

func (l *Listener[T]) enqueueLocked(changes []Change[T], initial bool, now time.Duration) error {
	if l.waitsForKeeperLocked() {
		return nil
	}
	for i := range changes {
		l.backlog.add(&changes[i], initial && (changes[i].Added || l.keeping != nil), now, len(changes)-i-1)
	}
	if l.backlog.full() && !l.config.Block {
		l.endLocked(ErrBacklog)
		return ErrBacklog
	}
	l.checkSyncedLocked() // the backlog may have dropped void initial additions
	if !l.backlog.empty() {
		l.kickLocked()
	}
	return nil
}

// load records that the backlog has received all initial additions.
func (l *Listener[T]) load() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keeping != nil {
		l.startKeepingLocked()
		return
	}
	l.loadLocked()
}

func (l *Listener[T]) loadLocked() {
	l.backlog.loaded = true
	l.checkSyncedLocked()
	if l.config.Resync > 0 && l.rounds.timer == nil {
		l.rounds.timer = time.AfterFunc(l.untilResync(), l.beginResync)
	}
}

func (l *Listener[T]) checkSyncedLocked() {
	if l.backlog.loaded && l.backlog.initial == 0 && !run.IsClosed(l.synced) {
		close(l.synced)
	}
}

// Full reports whether more changes wait than the limit allows.
func (l *Listener[T]) Full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fullLocked()
}

func (l *Listener[T]) fullLocked() bool { return l.ended == nil && l.backlog.full() }

// waitForRoom waits while the backlog is full.
func (l *Listener[T]) waitForRoom(ctx context.Context) {
	l.mu.Lock()
	if !l.fullLocked() {
		l.mu.Unlock()
		return
	}
	if l.waits.room == nil {
		l.waits.room = make(chan struct{})
	}
	room := l.waits.room
	l.mu.Unlock()
	l.waitFor(ctx, room)
}

// waitUntilIdle waits until the handler has received the whole backlog. Nothing may be added to it meanwhile.
func (l *Listener[T]) waitUntilIdle(ctx context.Context) {
	l.mu.Lock()
	if k := l.keeping; k != nil && k.started && !run.IsClosed(k.compared) {
		l.mu.Unlock()
		l.waitFor(ctx, k.compared)
		l.mu.Lock()
	}
	if l.backlog.empty() && !l.calls.underWay {
		l.mu.Unlock()
		return
	}
	if l.waits.idle == nil {
		l.waits.idle = make(chan struct{})
	}
	idle := l.waits.idle
	l.mu.Unlock()
	l.waitFor(ctx, idle)
}

// waitFor waits for one of the channels of waits, or for the end of the listener.
func (l *Listener[T]) waitFor(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-changed:
	case <-l.closed:
	case <-ctx.Done():
	}
}

// kickLocked starts or wakes the delivery of the backlog.
func (l *Listener[T]) kickLocked() {
	if l.wake != nil {
		run.Signal(l.wake)
		return
	}
	if l.running {
		return
	}
	l.running = true
	l.hub.Load().delivering.Add(1)
	go l.start()
	if !l.slow.checks {
		l.checkSlowLocked(l.slow.limit)
	}
}

// endLocked ends the listener, removes it from the hub and drops the backlog. The caller must also hold the lock of the
// hub.
func (l *Listener[T]) endLocked(cause error) {
	if l.ended != nil {
		return
	}
	l.hub.Load().forgetLocked(l)
	l.ended = cause
	close(l.closed)
	l.backlog.drop()
	l.rounds.stop()
	l.slow.stop()
	if !l.running {
		l.releaseLocked()
	}
}

// releaseLocked drops the references to objects and callbacks. If a keeper has to save first, it calls releaseLocked
// again.
func (l *Listener[T]) releaseLocked() {
	if k := l.keeping; k != nil && !k.started {
		k.Close() // it has nothing to save
	} else if k != nil && !k.closed {
		close(k.quiet)
		return
	}
	l.hub.Store(nil)
	l.handler, l.rounds.timer, l.slow.timer = nil, nil, nil
	l.filter, l.config.OnPanic = filter[T]{}, nil
	close(l.done)
}
