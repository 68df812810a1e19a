package informer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// copier is a controller that copies the store. It fails often, and is stopped and restarted.
type copier[T Object] struct {
	users  *Users[T]
	name   string
	queue  *Queue[Key]
	ctl    *Controller[Key]
	filter func(T) bool       // nil for all
	stop   context.CancelFunc // nil while it is stopped
	ended  chan error         // of Controller.Run
	cancel context.CancelFunc
	waits  sync.WaitGroup // of WaitSynced

	mu      sync.Mutex // protects the fields below
	rand    *rand.Rand
	copied  map[Key]T
	busy    map[Key]bool // in work
	initial map[Key]bool // were added initially
	tried   map[Key]bool
}

func (u *Users[T]) addCopier() {
	c := &copier[T]{
		users:   u,
		name:    fmt.Sprintf("controller %d", len(u.copiers)),
		queue:   NewQueue(QueueConfig[Key]{}),
		rand:    rand.New(rand.NewPCG(u.Uint64(), 0)),
		copied:  map[Key]T{},
		busy:    map[Key]bool{},
		initial: map[Key]bool{},
		tried:   map[Key]bool{},
	}
	u.copiers = append(u.copiers, c)
	var config SubscriptionConfig[T]
	if u.IntN(3) == 0 {
		tag := "tag" + strconv.Itoa(u.IntN(3))
		c.filter = func(obj T) bool { return slices.Contains(u.Tags(obj), tag) }
		config.Filter = c.filter
		c.name += " of " + tag
	}
	if u.IntN(4) == 0 {
		config.Resync = time.Duration(1+u.IntN(20)) * time.Minute
	}
	c.ctl = &Controller[Key]{
		Name:                    c.name,
		Queue:                   c.queue,
		Reconcile:               c.reconcile,
		MaxConcurrentReconciles: 1 + u.IntN(4),
		LimitRequeueAfter:       u.IntN(2) == 0,
		OnPanic:                 func(Key, any) {},
		Logger:                  u.Informer.config.logger(),
	}
	keys := func(obj T) []Key { return []Key{KeyOf(obj)} }
	c.ctl.Watch(EnqueueBy(u.Informer, func(queue *Queue[Key]) Handler[T] {
		return copierHandler[T]{enqueuer[T, Key]{target[Key]{queue: queue}, keys, AllOf[T]()}, c}
	}, config))
	u.Step("start %s, %d at a time", c.name, c.ctl.MaxConcurrentReconciles)
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.waits.Go(func() {
		if c.ctl.WaitSynced(ctx) != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for key := range c.initial {
			if !c.tried[key] {
				u.Errorf("Q10: %s is synced, but %s was not reconciled", c.name, key)
			}
		}
	})
	c.toggle()
}

// copierHandler records the initial objects.
type copierHandler[T Object] struct {
	Handler[T]
	copier *copier[T]
}

func (h copierHandler[T]) OnAdd(obj T, initial bool) {
	h.Handler.OnAdd(obj, initial)
	if initial {
		h.copier.mu.Lock()
		defer h.copier.mu.Unlock()
		h.copier.initial[KeyOf(obj)] = true
	}
}

// toggle stops a running controller, and runs a stopped one.
func (c *copier[T]) toggle() {
	if c.stop != nil {
		c.users.Step("stop %s", c.name)
		c.stop()
		c.stop = nil
		if err := <-c.ended; !errors.Is(err, context.Canceled) && !errors.Is(err, ErrStopped) {
			c.users.Errorf("%s: %v", c.name, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.busy) > 0 {
			c.users.Errorf("L1: %s has ended with %d keys in work", c.name, len(c.busy))
		}
		return
	}
	c.users.Step("run %s", c.name)
	ctx, stop := context.WithCancel(context.Background())
	c.stop, c.ended = stop, make(chan error, 1)
	go func() { c.ended <- c.ctl.Run(ctx) }()
}

func (c *copier[T]) reconcile(_ context.Context, key Key) (Result, error) {
	c.mu.Lock()
	if c.busy[key] {
		c.users.Errorf("Q1: %s reconciles %s twice at once", c.name, key)
	}
	c.busy[key], c.tried[key] = true, true
	outcome, delay := c.rand.IntN(16), time.Duration(c.rand.IntN(2000))*time.Millisecond
	c.mu.Unlock()
	obj, ok := c.users.Informer.Store().Get(key)
	if outcome%2 == 0 {
		<-testkit.After(delay)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, key)
	switch outcome {
	case 0, 1:
		return Result{}, errors.New("conflict")
	case 2, 3:
		panic("reconcile")
	}
	if ok && (c.filter == nil || c.filter(obj)) {
		c.copied[key] = obj
	} else {
		delete(c.copied, key)
	}
	switch outcome {
	case 4:
		return Result{RequeueAfter: delay * 100}, nil
	case 5:
		return Result{Backoff: true, Priority: HighPriority}, nil
	}
	return Result{}, nil
}

// check compares the copy with the store.
func (c *copier[T]) check(snap *Snapshot[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := map[Key]T{}
	for obj := range snap.All() {
		if c.filter == nil || c.filter(obj) {
			want[KeyOf(obj)] = obj
		}
	}
	if !maps.EqualFunc(c.copied, want, object.Same) {
		c.users.Errorf("Q1: %s has %d copies of %d objects, some outdated: %+v", c.name, len(c.copied), len(want), c.ctl.Status())
	}
}

// end ends everything.
func (c *copier[T]) end() {
	if c.stop != nil {
		c.toggle()
	}
	c.queue.Close()
	c.cancel()
	c.waits.Wait()
}

// Follower is a handler that rebuilds the state from its events, and fails when they do not form a chain.
type Follower[T Object] struct {
	users  *Users[T]
	name   string
	filter func(T) bool
	delay  func() time.Duration // time per event; nil means none
	panics func() bool          // whether it panics after an event; nil means never
	limit  int                  // it closes itself after this many events; 0 means never
	resync bool                 // it receives resyncs
	every  bool                 // it receives every change
	blocks bool                 // the informer waits for it
	early  bool                 // it subscribed before the first change
	sub    atomic.Pointer[Subscription]
	busy   atomic.Bool
	closed atomic.Bool // no more events may arrive

	raised, recovered atomic.Int64 // panics

	mu      sync.Mutex // protects the fields below
	have    map[Key]T
	seen    map[string]bool // the versions that it received
	events  int
	initial int // initial additions
}

func (f *Follower[T]) errorf(format string, args ...any) {
	f.users.Errorf(f.name+": "+format, args...)
}

// told records an event, and calls change with what f had of key.
func (f *Follower[T]) told(event string, key Key, change func(have T, known bool)) {
	if f.closed.Load() {
		f.errorf("H11: got %s %s after it was closed", event, key)
	}
	if !f.busy.CompareAndSwap(false, true) {
		f.errorf("H1: got %s %s during another call", event, key)
	}
	f.mu.Lock()
	have, known := f.have[key]
	if f.users.verbose {
		f.users.Step("    %s gets: %s %s", f.name, event, key)
	}
	change(have, known)
	f.events++
	last := f.events == f.limit
	f.mu.Unlock()
	f.users.CheckVersions()
	if f.delay != nil {
		<-time.After(f.delay())
	}
	f.busy.Store(false)
	if sub := f.sub.Load(); last && sub != nil {
		sub.Close()
		f.closed.Store(true)
	}
	if f.panics != nil && f.panics() {
		f.panic("after " + event)
	}
}

func (f *Follower[T]) panic(value string) {
	f.raised.Add(1)
	panic(value)
}

// sound checks an object that f received.
func (f *Follower[T]) sound(event string, obj T) {
	f.seen[obj.GetResourceVersion()] = true
	if followed := f.users.Informer.resource.Namespaces; len(followed) > 0 && !slices.Contains(followed, obj.GetNamespace()) {
		f.errorf("R22: %s of %s, which is in another namespace", event, KeyOf(obj))
	}
	if f.filter != nil && !f.filter(obj) {
		f.errorf("H12: %s of %s, which its filter rejects", event, KeyOf(obj))
	}
	if have, ok := f.users.Informer.Store().Get(KeyOf(obj)); ok && f.newer(obj, have) {
		f.errorf("H1: %s of %s at %s, but the store is at %s", event, KeyOf(obj), obj.GetResourceVersion(), have.GetResourceVersion())
	}
}

// newer reports whether a is a later version of b, unless the server went back in time.
func (f *Follower[T]) newer(a, b T) bool {
	return !f.users.BackInTime.Load() && a.GetUID() == b.GetUID() && object.Older(b.GetResourceVersion(), a.GetResourceVersion())
}

func (f *Follower[T]) OnAdd(obj T, initial bool) {
	f.told("add", KeyOf(obj), func(_ T, known bool) {
		if known {
			f.errorf("H2: addition of %s, which it already has", KeyOf(obj))
		}
		if sub := f.sub.Load(); initial && sub != nil && sub.Status().Synced {
			f.errorf("H8: initial addition of %s after it was synced", KeyOf(obj))
		}
		if initial {
			f.initial++
		}
		f.sound("addition", obj)
		f.have[KeyOf(obj)] = obj
	})
}

func (f *Follower[T]) OnUpdate(old, new T) {
	f.told("update", KeyOf(new), func(have T, known bool) {
		switch {
		case !known:
			f.errorf("H2: update of %s, which it does not have", KeyOf(new))
		case !object.Same(have, old):
			f.errorf("H2: update of %s from %s, but it has %s", KeyOf(new), f.users.View(old), f.users.View(have))
		case old.GetUID() != new.GetUID():
			f.errorf("H5: update of %s to another uid", KeyOf(new))
		case object.Same(old, new) && f.resync:
		case !f.newer(new, old) && !f.users.BackInTime.Load():
			f.errorf("H14: update of %s from %s to %s", KeyOf(new), f.users.View(old), f.users.View(new))
		}
		f.sound("update", new)
		f.have[KeyOf(new)] = new
	})
}

func (f *Follower[T]) OnDelete(last T, final bool) {
	f.told("delete", KeyOf(last), func(have T, known bool) {
		switch {
		case !known:
			f.errorf("H2: deletion of %s, which it does not have", KeyOf(last))
		case have.GetUID() != last.GetUID():
			f.errorf("H5: deletion of %s with another uid", KeyOf(last))
		case f.newer(have, last):
			f.errorf("H6: deletion of %s with an old state", KeyOf(last))
		case final && object.Same(have, last):
			f.errorf("H6: final=true for %s, but the state is not newer", KeyOf(last))
		}
		delete(f.have, KeyOf(last))
	})
}

// checkPanics checks H10. The handler must not be running.
func (f *Follower[T]) checkPanics() {
	if raised, recovered := f.raised.Load(), f.recovered.Load(); raised != recovered {
		f.errorf("H10: it panicked %d times, OnPanic was called %d times", raised, recovered)
	}
}
