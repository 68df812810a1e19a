package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Handler is told of the changes of an informer's objects, one after the other. For each key they form a chain: old is
// exactly what this handler was last given. A handler may take its time: nobody waits for it but its own backlog,
// in which changes of one key fold into one. It may read the store and the indexes, which have the change already,
// and may be ahead of it. It must not write to the objects.
type Handler[T Object] interface {
	// OnAdd tells of an object that is new to this handler. initial is set for the objects that were there when it
	// began: those of the informer's first list, and those in the store at a later subscription.
	OnAdd(obj T, initial bool)
	// OnUpdate tells that new took the place of old.
	OnUpdate(old, new T)
	// OnDelete tells that an object is gone. last is its state at the deletion if final is set; otherwise, when the
	// deletion itself was missed or when it left the subscription's filter, it is just the last one known.
	OnDelete(last T, final bool)
}

// HandlerFuncs is a [Handler] made of functions, of which any may be nil.
type HandlerFuncs[T Object] struct {
	Add    func(obj T, initial bool)
	Update func(old, new T)
	Delete func(last T, final bool)
}

// OnAdd calls Add.
func (h HandlerFuncs[T]) OnAdd(obj T, initial bool) {
	if h.Add != nil {
		h.Add(obj, initial)
	}
}

// OnUpdate calls Update.
func (h HandlerFuncs[T]) OnUpdate(old, new T) {
	if h.Update != nil {
		h.Update(old, new)
	}
}

// OnDelete calls Delete.
func (h HandlerFuncs[T]) OnDelete(last T, final bool) {
	if h.Delete != nil {
		h.Delete(last, final)
	}
}

// Delivery says what a handler that is behind is told.
type Delivery uint8

const (
	// Coalesce folds the changes of one key into one: from what the handler was last given to what is there now.
	Coalesce Delivery = iota
	// Every keeps each change that the informer saw. Those that it missed, while a watch was broken and the
	// collection had to be listed again, are folded all the same.
	Every
)

// SubscriptionConfig says how a handler is told. The zero value is right for most.
type SubscriptionConfig[T Object] struct {
	// Name names the handler in HandlerStatus. Empty means the type of the handler.
	Name string
	// Filter restricts the subscription to the objects for which it returns true: entering it is an addition, leaving
	// it a deletion. It is called by the handler's goroutine, once for each version that the handler could be given.
	// Nil means all.
	Filter func(T) bool
	// Delivery says what the handler is told when it is behind. Zero means Coalesce.
	Delivery Delivery
	// MaxBacklog is how many changes may wait with Every, besides one for each key, which is what a list can bring
	// at once. Zero means 1,024.
	MaxBacklog int
	// Block makes the informer, its store and its other handlers wait while more than MaxBacklog changes wait. It is
	// checked between batches, of 1,024 changes at most. Zero means that the subscription ends instead, with
	// [ErrBacklog].
	Block bool
	// Resync is how often the handler is given every object again, by OnUpdate with old and new the same. It begins
	// between one and 1.1 times Resync after it was synced or after the round before ended, never asks the server,
	// and yields to changes. Zero means never, which is right unless what the handler compares objects with changes
	// by itself.
	Resync time.Duration
	// OnPanic is called with the value of a panic of the handler or of Filter, by the function that recovered it, so
	// that debug.Stack shows where it came from. The call counts as returned, a filter as having returned false. Nil
	// means that the program crashes, as it does with any other panic.
	OnPanic func(value any)
}

const defaultMaxBacklog = 1024

// ErrBacklog indicates that a subscription ended because its handler was more than MaxBacklog changes behind.
var ErrBacklog = errors.New("the handler is too far behind")

// validate names the field that is wrong.
func (c *SubscriptionConfig[T]) validate() error {
	switch {
	case c.Delivery > Every:
		return fmt.Errorf("SubscriptionConfig.Delivery is %d", c.Delivery)
	case c.MaxBacklog < 0:
		return fmt.Errorf("SubscriptionConfig.MaxBacklog is %d", c.MaxBacklog)
	case c.Resync < 0:
		return fmt.Errorf("SubscriptionConfig.Resync is %v", c.Resync)
	case c.Delivery != Every && (c.MaxBacklog > 0 || c.Block):
		return errors.New("SubscriptionConfig.MaxBacklog and Block need Delivery to be Every")
	}
	return nil
}

// HandlerStatus tells how a subscription is doing.
type HandlerStatus struct {
	Name string
	// Backlog is how many keys have changes that the handler was not yet told of; with Every, how many changes.
	Backlog int
	// Busy is for how long it has been in the call that it is in. Zero means that it is in none.
	Busy time.Duration
	// Synced says whether it has returned from all of the initial additions.
	Synced bool
	// Blocking says whether the informer waits for it; see SubscriptionConfig.Block.
	Blocking bool
}

// Subscription is a handler's tie to an informer. Its methods are safe for concurrent use.
type Subscription struct{ listener subscriber }

// subscriber is a listener whose T Subscription does not know.
type subscriber interface {
	waitSynced(ctx context.Context) error
	done() <-chan struct{}
	err() error
	status() HandlerStatus
	close()
}

// WaitSynced waits until the handler has returned from the whole initial list, and returns nil then. It returns an
// error when ctx ends or the informer stops first, or when the subscription is closed.
func (s *Subscription) WaitSynced(ctx context.Context) error { return s.listener.waitSynced(ctx) }

// Done returns a channel that is closed when the subscription has ended; Err then says why.
func (s *Subscription) Done() <-chan struct{} { return s.listener.done() }

// Err returns nil while the subscription is open. Then it returns [ErrClosed] after Close, an error that wraps
// [ErrStopped] when the informer has stopped, [ErrBacklog], or what is wrong with the SubscriptionConfig.
func (s *Subscription) Err() error { return s.listener.err() }

// Status returns how the subscription is doing.
func (s *Subscription) Status() HandlerStatus { return s.listener.status() }

// Close ends the subscription. What the handler was not told of is dropped, and it is not called again after Close
// has returned: a call that is under way is waited for, except when Close is called by a handler, which would wait
// for itself. Closing again does nothing.
func (s *Subscription) Close() { s.listener.close() }

// pending is what a handler is to be told of one key: that old, if it was given any, is gone or was replaced by new.
type pending[T Object] struct {
	change[T]
	initial bool
	void    bool // it came and went unseen: there is nothing to tell
}

// fold takes in the change that follows.
func (p *pending[T]) fold(c *change[T]) {
	var none T
	p.new = c.new
	switch {
	case !c.deleted:
		p.added = p.added || c.added // an addition here follows a deletion that is still to be told
	case p.added && !p.deleted: // what is deleted was never given
		p.void = c.new == none
	case !p.deleted: // what was given is old, updated since
		p.deleted, p.last, p.final, p.added = true, c.last, c.final, c.added
	default: // what was given is gone already, and so is what came after it
		p.added = c.added
	}
}

// listener holds what one handler is still to be told, at most one entry a key, and tells it by a goroutine that
// lives only while there is something to tell.
type listener[T Object] struct {
	informer *Informer[T]
	config   SubscriptionConfig[T]
	handler  Handler[T]
	given    map[Key]T     // with a filter: what the handler has; of the goroutine that delivers
	invalid  error         // what is wrong with config
	start    func()        // run, bound once: it is what a notification of an idle handler would allocate
	wake     chan struct{} // told of news instead of a goroutine of its own; nil for a handler

	mu      sync.Mutex // protects the fields below
	queue   []pending[T]
	head    int            // queue[:head] is delivered
	first   uint64         // the number of queue[0], counted since the beginning
	byKey   map[Key]uint64 // the number of the key's last entry, the only one unless every change is kept
	running bool           // a goroutine delivers
	calling time.Time      // when the call that is under way began; zero when none is
	idle    chan struct{}  // closed when the call under way ends; nil when nobody waits
	initial int            // initial additions that the handler has not returned from
	loaded  bool           // all initial additions are in the queue, or were
	synced  chan struct{}  // closed when the handler has returned from them
	closed  chan struct{}  // closed when nothing is delivered any more
	ended   error          // why closed is closed
	room    chan struct{}  // closed when the backlog is within its limit again; nil when nobody waits
	resync  *time.Timer    // begins a round; nil without resync and before it is synced
	round   bool           // a round of resync is under way
	from    Key            // the round has come to here
}

func newListener[T Object](inf *Informer[T], h Handler[T], config SubscriptionConfig[T]) *listener[T] {
	if config.Name == "" {
		config.Name = fmt.Sprintf("%T", h)
	}
	l := &listener[T]{informer: inf, config: config, handler: h, synced: make(chan struct{}), closed: make(chan struct{})}
	l.invalid = config.validate()
	l.start = l.run
	if l.config.MaxBacklog == 0 {
		l.config.MaxBacklog = defaultMaxBacklog
	}
	if config.OnPanic != nil {
		l.handler = guarded[T]{h, config.OnPanic}
		if config.Filter != nil {
			l.config.Filter = guardedFilter(config.Filter, config.OnPanic)
		}
	}
	if config.Filter != nil {
		l.given = map[Key]T{}
	}
	return l
}

// enqueue notes changes in the order in which they happened, and has them delivered. It returns false when the
// subscription has ended.
func (l *listener[T]) enqueue(changes []change[T], initial bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil {
		return false
	}
	if l.byKey == nil {
		l.byKey = make(map[Key]uint64, len(changes))
	}
	for i := range changes {
		l.noteLocked(&changes[i], initial)
	}
	if l.overLocked() && !l.config.Block {
		l.endLocked(ErrBacklog)
		return false
	}
	if len(l.queue) > l.head {
		l.kickLocked()
	}
	return true
}

// overLocked says whether more changes wait than may: one for each key, and MaxBacklog.
func (l *listener[T]) overLocked() bool {
	return l.config.Delivery == Every && len(l.queue)-l.head-len(l.byKey) > l.config.MaxBacklog
}

// kickLocked sees to it that what is in the queue gets delivered.
func (l *listener[T]) kickLocked() {
	if l.running {
		return
	}
	if l.wake != nil {
		signal(l.wake)
		return
	}
	l.running = true
	l.informer.handlers.Add(1)
	go l.start()
}

func (l *listener[T]) noteLocked(c *change[T], initial bool) {
	if number, ok := l.byKey[c.key]; ok && l.config.Delivery == Coalesce {
		p := &l.queue[number-l.first]
		p.fold(c)
		if p.void {
			*p = pending[T]{initial: p.initial, void: true}
			delete(l.byKey, c.key)
		}
		return
	}
	if len(l.queue) == cap(l.queue) && len(l.byKey) < len(l.queue)/2 {
		l.compactLocked()
	}
	l.byKey[c.key] = l.first + uint64(len(l.queue))
	p := pending[T]{change: *c, initial: initial && c.added}
	if p.initial {
		l.initial++
	}
	l.queue = append(l.queue, p)
}

// compactLocked makes room by moving together what is still to be told.
func (l *listener[T]) compactLocked() {
	l.first += uint64(l.head)
	kept := l.queue[:0]
	for _, p := range l.queue[l.head:] {
		switch {
		case !p.void:
			l.byKey[p.key] = l.first + uint64(len(kept))
			kept = append(kept, p)
		case p.initial:
			l.initial--
		}
	}
	clear(l.queue[len(kept):])
	l.queue, l.head = kept, 0
	l.checkSyncedLocked()
}

// load notes that all initial additions have been enqueued.
func (l *listener[T]) load() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loaded = true
	l.checkSyncedLocked()
	if l.config.Resync > 0 && l.ended == nil && l.resync == nil {
		l.resync = time.AfterFunc(l.untilResync(), l.beginResync)
	}
}

func (l *listener[T]) checkSyncedLocked() {
	if l.loaded && l.initial == 0 && !isClosed(l.synced) {
		close(l.synced)
	}
}

// run delivers until there is nothing left to tell.
func (l *listener[T]) run() {
	defer l.informer.handlers.Done()
	returned := false
	defer func() {
		if !returned { // the handler called runtime.Goexit, as t.FailNow does
			l.end(errExited)
			l.next(nil)
		}
	}()
	for p, ok := l.next(nil); ok; p, ok = l.next(&p) {
		l.deliver(&p)
	}
	returned = true
}

var errExited = errors.New("the handler ended its goroutine")

// untilResync spreads the rounds of many handlers.
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

// continueResync puts the next object of the round into the queue if nothing else is there.
func (l *listener[T]) continueResync() {
	l.informer.mu.Lock() // what the store has, this handler was told or is about to be
	defer l.informer.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head < len(l.queue) || l.ended != nil {
		return
	}
	if l.byKey == nil {
		l.byKey = map[Key]uint64{}
	}
	for obj := range l.informer.store.Snapshot().From(l.from) {
		key := KeyOf(obj)
		l.from = Key{Namespace: key.Namespace, Name: key.Name + "\x00"}
		l.noteLocked(&change[T]{key: key, old: obj, new: obj}, false)
		return
	}
	l.round = false
	l.resync.Reset(l.untilResync())
}

// next returns what to deliver next, once done, which may be nil, has been delivered.
func (l *listener[T]) next(done *pending[T]) (pending[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calling = time.Time{}
	if l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	if done != nil && done.initial {
		l.initial--
		l.checkSyncedLocked()
	}
	for l.round && l.head == len(l.queue) && l.ended == nil {
		l.mu.Unlock()
		l.continueResync()
		l.mu.Lock()
	}
	for l.head < len(l.queue) && l.ended == nil {
		p := l.queue[l.head]
		l.queue[l.head] = pending[T]{}
		number := l.first + uint64(l.head)
		l.head++
		if p.void {
			if p.initial {
				l.initial--
				l.checkSyncedLocked()
			}
			continue
		}
		if l.config.Delivery == Coalesce || l.byKey[p.key] == number {
			delete(l.byKey, p.key)
		}
		if l.room != nil && !l.overLocked() {
			close(l.room)
			l.room = nil
		}
		l.calling = time.Now()
		return p, true
	}
	l.first += uint64(l.head)
	l.queue, l.head = l.queue[:0], 0
	if cap(l.queue) > maxIdleQueue { // an idle handler should cost next to nothing
		l.queue, l.byKey = nil, nil
	}
	l.running = false
	return pending[T]{}, false
}

// maxIdleQueue is how many entries a listener keeps room for while it has none.
const maxIdleQueue = 16

// waitForRoom waits while the backlog is over its limit and the informer is to wait for that.
func (l *listener[T]) waitForRoom(ctx context.Context) {
	l.mu.Lock()
	if l.ended != nil || !l.overLocked() {
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

// deliver tells the handler.
func (l *listener[T]) deliver(p *pending[T]) {
	var none T
	if l.config.Filter != nil {
		l.deliverFiltered(p)
		return
	}
	if p.deleted {
		l.handler.OnDelete(p.last, p.final)
	}
	switch {
	case p.new == none || p.deleted && isClosed(l.closed): // by the handler
	case p.added:
		l.handler.OnAdd(p.new, p.initial)
	default:
		l.handler.OnUpdate(p.old, p.new)
	}
}

// deliverFiltered goes by what the handler was really given: a filter may change its mind.
func (l *listener[T]) deliverFiltered(p *pending[T]) {
	var none T
	old, has := l.given[p.key]
	if has && p.deleted {
		delete(l.given, p.key)
		has = false
		l.handler.OnDelete(p.last, p.final)
	}
	if p.new == none || p.deleted && isClosed(l.closed) {
		return
	}
	passes := l.config.Filter(p.new)
	switch {
	case passes && has:
		l.given[p.key] = p.new
		l.handler.OnUpdate(old, p.new)
	case passes:
		l.given[p.key] = p.new
		l.handler.OnAdd(p.new, p.initial)
	case has:
		delete(l.given, p.key)
		l.handler.OnDelete(old, false)
	}
}

func (l *listener[T]) waitSynced(ctx context.Context) error {
	select {
	case <-l.synced:
		return nil
	default:
	}
	select {
	case <-l.synced:
		return nil
	case <-l.closed:
		return fmt.Errorf("handler %s of %s is not synced: %w", l.config.Name, l.informer.resource, l.err())
	case <-ctx.Done():
		if !isClosed(l.informer.synced) {
			return l.informer.unsynced(context.Cause(ctx))
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		return fmt.Errorf("handler %s of %s has %d initial objects left: %w", l.config.Name, l.informer.resource, l.initial, context.Cause(ctx))
	}
}

func (l *listener[T]) done() <-chan struct{} { return l.closed }

func (l *listener[T]) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

func (l *listener[T]) status() HandlerStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := HandlerStatus{Name: l.config.Name, Backlog: len(l.byKey), Synced: isClosed(l.synced), Blocking: l.room != nil}
	if l.config.Delivery == Every {
		s.Backlog = len(l.queue) - l.head
	}
	if !l.calling.IsZero() {
		s.Busy = time.Since(l.calling)
	}
	return s
}

func (l *listener[T]) close() {
	l.informer.forget(l)
	l.end(ErrClosed)
	l.mu.Lock()
	if l.calling.IsZero() || calledByHandler() {
		l.mu.Unlock()
		return
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	<-idle
}

// end drops what is pending and lets nothing more in.
func (l *listener[T]) end(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(why)
}

func (l *listener[T]) endLocked(why error) {
	if l.ended != nil {
		return
	}
	l.ended = why
	close(l.closed)
	l.queue, l.byKey, l.head, l.first = nil, nil, 0, 0
	if l.resync != nil {
		l.resync.Stop()
	}
}

// calledByHandler says whether a listener's delivery is on the stack.
func calledByHandler() bool {
	pcs := make([]uintptr, 64)
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs)
		frames := runtime.CallersFrames(pcs[:n])
		for {
			frame, more := frames.Next()
			if strings.HasSuffix(frame.Function, "informer.(*listener[...]).deliver") {
				return true
			}
			if !more {
				break
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}

// changes yields what l is told, in the goroutine that iterates.
func (l *listener[T]) changes(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		var events eventBuffer[T]
		l.handler = &events
		l.wake = make(chan struct{}, 1)
		l.informer.subscribe(l)
		defer func() {
			l.informer.forget(l)
			l.end(ErrClosed)
		}()
		var done *pending[T]
		for {
			p, ok := l.next(done)
			done = nil
			if !ok {
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
			done = &p
			for _, e := range events {
				if ctx.Err() != nil || !yield(e) {
					return
				}
			}
			clear(events)
			events = events[:0]
		}
	}
}

// guarded is a Handler whose panics are told to onPanic.
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

// eventBuffer is a Handler that collects: a pending makes two events at most.
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

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
