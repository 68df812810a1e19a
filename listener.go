package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/typedinformer/informer/internal/run"
)

// hub connects a store with its listeners. Under its lock, it applies each batch to the store and to every backlog, and
// it adds each listener together with the objects of the store. A listener is in the hub exactly while it is open.
type hub[T Object] struct {
	resource string // the informer's
	store    *Store[T]
	epoch    time.Time                       // the base of all times: time.Since reads the clock faster than time.Now
	unsynced func(cause error) error         // returns an error that says what store lacks
	report   func(handler string, why error) // reports a subscription that ended by itself
	slow     func(SubscriptionStatus)        // reports a subscription whose handler is slow

	synced     chan struct{}  // closed when store has the whole collection
	stopped    chan struct{}  // closed when the hub accepts no more listeners
	why        error          // why stopped is closed
	delivering sync.WaitGroup // goroutines that deliver; only an open listener adds to it

	mu        sync.Mutex     // protects listeners and writes to store; taken before the locks of store and of a listener
	listeners []*listener[T] // copied on write
}

func newHub[T Object](resource Resource, store *Store[T]) *hub[T] {
	return &hub[T]{resource: resource.String(), store: store, epoch: time.Now(), synced: make(chan struct{}),
		stopped: make(chan struct{})}
}

func (h *hub[T]) now() time.Duration { return time.Since(h.epoch) }

// join opens l. Its backlog begins with an addition for each object in the store. If the hub has stopped or the
// configuration of l is wrong, l ends at once.
func (h *hub[T]) join(l *listener[T]) {
	err := l.wrong()
	h.mu.Lock()
	defer h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && run.IsClosed(h.stopped) {
		err = h.why
	}
	if err != nil {
		l.endLocked(fmt.Errorf("subscribe to %s: %w", h.resource, err))
		return
	}
	h.listeners = append(slices.Clip(h.listeners), l)
	snap := h.store.Snapshot()
	if snap.Len() > 0 {
		initial := make([]change[T], 0, snap.Len())
		for obj := range snap.All() {
			initial = append(initial, change[T]{key: KeyOf(obj), new: obj, added: true})
		}
		l.enqueueLocked(initial, true, h.now())
	}
	if run.IsClosed(h.synced) {
		l.loadLocked()
	}
}

// apply writes batch to the store, appends the resulting changes to changes, and adds these to every backlog. They are
// initial additions if initial is true.
func (h *hub[T]) apply(batch []Delta[T], changes []change[T], initial bool) ([]change[T], error) {
	h.mu.Lock()
	defer h.mu.Unlock() // even if the function of an index panics
	changes, err := h.store.apply(batch, changes)
	if err != nil || len(changes) == 0 {
		return changes, err
	}
	if len(h.listeners) == 0 {
		return changes, nil
	}
	now := h.now()
	for _, l := range h.listeners {
		if err := l.enqueue(changes, initial, now); err != nil {
			h.report(l.config.Name, err)
		}
	}
	return changes, nil
}

// load notes that the store has the whole collection, and notifies the listeners.
func (h *hub[T]) load() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.synced)
	for _, l := range h.listeners {
		l.load()
	}
}

// waitForRoom waits for the listeners that block the informer because their backlogs are full.
func (h *hub[T]) waitForRoom(ctx context.Context) {
	for _, l := range h.all() {
		l.waitForRoom(ctx)
	}
}

// full reports whether waitForRoom would wait.
func (h *hub[T]) full() bool { return slices.ContainsFunc(h.all(), (*listener[T]).full) }

// all returns the open listeners.
func (h *hub[T]) all() []*listener[T] {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listeners
}

// end ends l.
func (h *hub[T]) end(l *listener[T], why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(why)
}

// stop ends all listeners and waits for the calls under way.
func (h *hub[T]) stop(why error) {
	h.mu.Lock()
	h.why = why
	close(h.stopped)
	listeners := h.listeners
	h.listeners = nil
	for _, l := range listeners {
		l.mu.Lock()
		l.endLocked(why)
		l.mu.Unlock()
	}
	h.mu.Unlock()
	h.delivering.Wait()
}

// forgetLocked removes l from the hub.
func (h *hub[T]) forgetLocked(l *listener[T]) {
	h.listeners = slices.DeleteFunc(slices.Clone(h.listeners), func(other *listener[T]) bool { return other == l })
}

// listener delivers the changes of a hub to one handler. Its goroutine lives only while there is something to deliver.
//
// A listener is open, then ended, then released:
//
//	join -> open --end--> ended --no call is under way--> released
//
// An ended listener begins no call. A released listener refers to no object, so keeping its Subscription costs little
// memory.
type listener[T Object] struct {
	hub      atomic.Pointer[hub[T]] // nil once released
	resource string                 // the hub's
	epoch    time.Time              // the hub's
	config   SubscriptionConfig[T]
	handler  Handler[T]      // nil once released
	given    map[Key]T       // with a filter: the objects that the handler has; only the delivering goroutine uses it
	labels   context.Context // for profiles: names the handler
	start    func()          // the method value run; creating it once saves an allocation each time that run starts
	wake     chan struct{}   // holds a token when an iteration may have something to yield; nil for a handler

	mu      sync.Mutex // protects the fields below; taken after the lock of the hub
	backlog backlog[T]
	running bool          // a goroutine delivers; always true for an iteration
	calling bool          // a call is under way
	began   time.Duration // when the current call, or the last one, began
	delays  Durations     // from the change to its call
	calls   Durations     // the durations of calls
	slow    *time.Timer   // calls checkSlow; nil before the first delivery
	checks  bool          // slow is running
	slowAt  time.Duration // warn of a call that takes as long
	loaded  bool          // the backlog has received all initial additions
	synced  chan struct{} // closed when the handler has processed all of them
	closed  chan struct{} // closed when the listener has ended
	ended   error         // why the listener has ended; nil while it is open
	done    chan struct{} // closed when the listener is released
	room    chan struct{} // closed when the backlog is no longer full; nil if nobody waits
	resync  *time.Timer   // begins a round of resync; nil without resync and before the listener is loaded
	round   bool          // a round is under way
	from    Key           // where the round continues
}

const (
	defaultMaxBacklog = 1024
	// slowCall is the duration of a call of a handler that is worth a warning. The next one comes after a call that takes
	// twice as long as the call before, so a handler that is always slow does not fill the log.
	slowCall = 10 * time.Second
)

var errExited = errors.New("the handler ended its goroutine")

func newListener[T Object](h *hub[T], handler Handler[T], config SubscriptionConfig[T]) *listener[T] {
	if config.Name == "" {
		config.Name = fmt.Sprintf("%T", handler)
	}
	l := &listener[T]{
		resource: h.resource,
		epoch:    h.epoch,
		config:   config,
		handler:  handler,
		slowAt:   slowCall,
		backlog:  backlog[T]{every: config.Delivery == DeliverEvery, limit: config.MaxBacklog},
		synced:   make(chan struct{}),
		closed:   make(chan struct{}),
		done:     make(chan struct{}),
	}
	l.hub.Store(h)
	l.start = l.run
	l.labels = pprof.WithLabels(context.Background(), pprof.Labels("informer", h.resource, "handler", config.Name))
	if config.MaxBacklog == 0 {
		l.backlog.limit = defaultMaxBacklog
	}
	if config.OnPanic != nil && handler != nil {
		l.handler = guarded[T]{handler, config.OnPanic}
		if config.Filter != nil {
			l.config.Filter = guardedFilter(config.Filter, config.OnPanic)
		}
	}
	if config.Filter != nil {
		l.given = map[Key]T{}
	}
	return l
}

func (l *listener[T]) hasSynced() bool { return run.IsClosed(l.synced) }

func (l *listener[T]) waitSynced(ctx context.Context) error {
	if l.hasSynced() {
		return nil
	}
	select {
	case <-l.synced:
		return nil
	case <-l.closed:
		return fmt.Errorf("handler %s of %s is not synced: %w", l.config.Name, l.resource, l.err())
	case <-ctx.Done():
		if h := l.hub.Load(); h != nil && !run.IsClosed(h.synced) {
			return h.unsynced(context.Cause(ctx))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("handler %s of %s has %d initial objects left: %w", l.config.Name, l.resource, l.backlog.initial,
			context.Cause(ctx))
	}
}

// wrong returns an error if what newListener was given makes no listener. It must be called before join.
func (l *listener[T]) wrong() error {
	if l.handler == nil {
		return errors.New("the handler is nil")
	}
	return l.config.validate()
}

// changes opens the listener and yields its changes, in the goroutine that iterates.
func (l *listener[T]) changes(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		h := l.hub.Load()
		var events eventBuffer[T]
		l.handler = &events
		l.wake = make(chan struct{}, 1)
		l.running = true
		h.join(l)
		defer h.end(l, ErrClosed)
		var p pending[T]
		for {
			if !l.next(&p) {
				select {
				case <-l.wake:
				case <-l.closed:
					return
				case <-ctx.Done():
					return
				}
				continue
			}
			l.deliver(&p)
			for _, e := range events {
				if ctx.Err() != nil || !l.open() || !yield(e) {
					return
				}
			}
			clear(events)
			events = events[:0]
		}
	}
}

func (l *listener[T]) end(why error) {
	if h := l.hub.Load(); h != nil {
		h.end(l, why)
	}
}

func (l *listener[T]) released() <-chan struct{} { return l.done }

func (l *listener[T]) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

func (l *listener[T]) status() SubscriptionStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.statusLocked(time.Since(l.epoch))
}

func (l *listener[T]) statusLocked(now time.Duration) SubscriptionStatus {
	s := SubscriptionStatus{
		Name:     l.config.Name,
		Backlog:  l.backlog.len(),
		Synced:   run.IsClosed(l.synced),
		Blocking: l.room != nil,
		Delays:   l.delays,
		Calls:    l.calls,
	}
	if l.calling {
		s.Busy = now - l.began
	}
	if first := l.backlog.oldest(); first != nil {
		s.Oldest = now - first.at
	}
	return s
}

// open reports whether a call of the handler may begin.
func (l *listener[T]) open() bool { return !run.IsClosed(l.closed) }

// enqueue adds changes to the backlog, in the order in which they happened, and starts their delivery. The listener
// must be open, and the caller must hold the lock of the hub. If this ends the subscription, enqueue returns the
// reason.
func (l *listener[T]) enqueue(changes []change[T], initial bool, now time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.enqueueLocked(changes, initial, now)
}

func (l *listener[T]) enqueueLocked(changes []change[T], initial bool, now time.Duration) error {
	for i := range changes {
		l.backlog.add(&changes[i], initial, now, len(changes)-i-1)
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

// load notes that the backlog has received all initial additions.
func (l *listener[T]) load() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loadLocked()
}

func (l *listener[T]) loadLocked() {
	l.loaded = true
	l.checkSyncedLocked()
	if l.config.Resync > 0 && l.resync == nil {
		l.resync = time.AfterFunc(l.untilResync(), l.beginResync)
	}
}

func (l *listener[T]) checkSyncedLocked() {
	if l.loaded && l.backlog.initial == 0 && !run.IsClosed(l.synced) {
		close(l.synced)
	}
}

// full reports whether the informer has to wait for room in the backlog.
func (l *listener[T]) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fullLocked()
}

func (l *listener[T]) fullLocked() bool { return l.ended == nil && l.backlog.full() }

// waitForRoom waits while the backlog is full.
func (l *listener[T]) waitForRoom(ctx context.Context) {
	l.mu.Lock()
	if !l.fullLocked() {
		l.mu.Unlock()
		return
	}
	if l.room == nil {
		l.room = make(chan struct{})
	}
	room := l.room
	l.mu.Unlock()
	select {
	case <-room:
	case <-l.closed:
	case <-ctx.Done():
	}
}

// kickLocked makes sure that a goroutine delivers the backlog.
func (l *listener[T]) kickLocked() {
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
	if !l.checks {
		l.checkSlowLocked(l.slowAt)
	}
}

// checkSlowLocked calls checkSlow after d.
func (l *listener[T]) checkSlowLocked(d time.Duration) {
	l.checks = true
	if l.slow == nil {
		l.slow = time.AfterFunc(d, l.checkSlow)
	} else {
		l.slow.Reset(d)
	}
}

// checkSlow warns if a call of the handler takes long. While the handler has nothing to do, no timer runs.
func (l *listener[T]) checkSlow() {
	h := l.hub.Load()
	l.mu.Lock()
	if l.checks = false; h == nil || l.ended != nil || !l.running {
		l.mu.Unlock()
		return
	}
	s := l.statusLocked(time.Since(l.epoch))
	isSlow := s.Busy >= l.slowAt
	if isSlow {
		l.slowAt = 2 * s.Busy
	}
	l.checkSlowLocked(l.slowAt - s.Busy)
	h.delivering.Add(1) // stop waits for the report
	defer h.delivering.Done()
	l.mu.Unlock()
	if isSlow {
		h.slow(s)
	}
}

// run delivers until the backlog is empty.
func (l *listener[T]) run() {
	h := l.hub.Load()
	defer h.delivering.Done()
	pprof.SetGoroutineLabels(l.labels)
	var p pending[T]
	returned := false
	defer func() {
		if !returned { // the handler called runtime.Goexit, as t.FailNow does
			h.report(l.config.Name, errExited)
			h.end(l, errExited)
			p = pending[T]{}
			l.next(&p)
		}
	}()
	for l.next(&p) {
		l.deliver(&p)
	}
	returned = true
}

// next replaces *p, whose delivery has ended, with the next entry to deliver. It returns false if there is none.
func (l *listener[T]) next(p *pending[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Since(l.epoch)
	if l.calling {
		l.calling = false
		l.calls.add(now - l.began)
	}
	if p.initial {
		l.backlog.initial--
	}
	for l.round && l.backlog.empty() && l.ended == nil {
		l.mu.Unlock()
		l.continueResync()
		l.mu.Lock()
	}
	more := l.backlog.take(p)
	l.checkSyncedLocked()
	if !more {
		l.running = l.wake != nil
		if l.ended != nil && !l.running {
			l.releaseLocked()
		}
		return false
	}
	if l.room != nil && !l.backlog.full() {
		close(l.room)
		l.room = nil
	}
	l.calling, l.began = true, now
	l.delays.add(now - p.at)
	return true
}

// deliver calls the handler at most twice. The listener may end before either call.
func (l *listener[T]) deliver(p *pending[T]) {
	var none T
	if l.config.Filter != nil {
		l.deliverFiltered(p)
		return
	}
	if p.deleted && l.open() {
		l.handler.OnDelete(p.last, p.final)
	}
	switch {
	case p.new == none || !l.open():
	case p.added:
		l.handler.OnAdd(p.new, p.initial)
	default:
		l.update(p.old, p.new)
	}
}

// deliverFiltered is deliver with a filter. It compares with the objects in given, since the result of a filter can
// change.
func (l *listener[T]) deliverFiltered(p *pending[T]) {
	var none T
	old, has := l.given[p.key]
	if has && p.deleted && l.open() {
		delete(l.given, p.key)
		has = false
		l.handler.OnDelete(p.last, p.final)
	}
	if p.new == none || !l.open() {
		return
	}
	passes := l.config.Filter(p.new)
	switch {
	case !l.open():
	case passes && has:
		l.given[p.key] = p.new
		l.update(old, p.new)
	case passes:
		l.given[p.key] = p.new
		l.handler.OnAdd(p.new, p.initial)
	case has:
		delete(l.given, p.key)
		l.handler.OnDelete(old, false)
	}
}

func (l *listener[T]) update(old, new T) {
	if l.config.NewOnly {
		var none T
		old = none
	}
	l.handler.OnUpdate(old, new)
}

// untilResync returns how long to wait before a round. It spreads the rounds of many handlers.
func (l *listener[T]) untilResync() time.Duration {
	return l.config.Resync + rand.N(l.config.Resync/10+1)
}

func (l *listener[T]) beginResync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.round, l.from = true, Key{}
		l.kickLocked()
	}
}

// continueResync adds the next object of the round to the backlog if that is empty.
func (l *listener[T]) continueResync() {
	h := l.hub.Load()
	h.mu.Lock() // under this lock, every change in the store has been added to the backlog
	defer h.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.backlog.empty() || l.ended != nil {
		return
	}
	for obj := range h.store.Snapshot().From(l.from) {
		key := KeyOf(obj)
		l.from = Key{Namespace: key.Namespace, Name: key.Name + "\x00"}
		l.backlog.add(&change[T]{key: key, old: obj, new: obj}, false, h.now(), 0)
		return
	}
	l.round = false
	l.resync.Reset(l.untilResync())
}

// endLocked ends the listener: it removes it from the hub and drops the backlog. The caller holds the lock of the hub,
// too.
func (l *listener[T]) endLocked(why error) {
	if l.ended != nil {
		return
	}
	l.hub.Load().forgetLocked(l)
	l.ended = why
	close(l.closed)
	l.backlog.drop()
	if l.resync != nil {
		l.resync.Stop()
	}
	if l.slow != nil {
		l.slow.Stop()
	}
	if !l.running {
		l.releaseLocked()
	}
}

// releaseLocked drops the references to objects and to functions of the user.
func (l *listener[T]) releaseLocked() {
	l.hub.Store(nil)
	l.handler, l.given, l.resync, l.slow = nil, nil, nil, nil
	l.config.Filter, l.config.OnPanic = nil, nil
	close(l.done)
}

// guarded is a Handler that recovers panics and passes their values to onPanic.
type guarded[T Object] struct {
	handler Handler[T]
	onPanic func(value any)
}

func (g guarded[T]) recover() {
	if value := recover(); value != nil {
		g.onPanic(value)
	}
}

func (g guarded[T]) OnAdd(obj T, initial bool) {
	defer g.recover()
	g.handler.OnAdd(obj, initial)
}

func (g guarded[T]) OnUpdate(old, new T) {
	defer g.recover()
	g.handler.OnUpdate(old, new)
}

func (g guarded[T]) OnDelete(last T, final bool) {
	defer g.recover()
	g.handler.OnDelete(last, final)
}

func guardedFilter[T Object](filter func(T) bool, onPanic func(value any)) func(T) bool {
	return func(obj T) bool {
		defer guarded[T]{onPanic: onPanic}.recover()
		return filter(obj)
	}
}

// eventBuffer is a Handler that collects events: at most two for each pending.
type eventBuffer[T Object] []Event[T]

func (b *eventBuffer[T]) OnAdd(obj T, initial bool) {
	*b = append(*b, Event[T]{Type: Added, Object: obj, Initial: initial})
}

func (b *eventBuffer[T]) OnUpdate(old, new T) {
	*b = append(*b, Event[T]{Type: Updated, Object: new, Old: old})
}

func (b *eventBuffer[T]) OnDelete(last T, final bool) {
	*b = append(*b, Event[T]{Type: Deleted, Object: last, Final: final})
}
