package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/histogram"
	"github.com/typedinformer/informer/internal/queue/controller"
	"github.com/typedinformer/informer/internal/queue/ownwrites"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/status"
)

// Controller takes keys from a [Queue] and reconciles them, each key by one worker at a time. It adds a key again if
// its reconcile failed or the [Result] requests it. Set the exported fields first, then call Watch for each source,
// then Run.
//
//	ctl := &informer.Controller[informer.Key]{
//		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) { … },
//	}
//	ctl.Watch(informer.EnqueueObject(websites))
//	ctl.Watch(informer.EnqueueOwner(deployments, informer.Owner{GroupKind: websiteKind}))
//	err := ctl.Run(ctx)
type Controller[K comparable] struct {
	// Name names the controller in logs and errors. Empty means "controller".
	Name string
	// Queue holds the keys. No other controller may use it. The controller does not close it. Nil means a new queue with
	// the zero QueueConfig and the name of the controller.
	Queue *Queue[K]
	// Reconcile brings the actual state for one key to the desired state. It may be called for a key whose objects no
	// longer exist. Its context ends after Timeout, and Grace after the end of Run's context or the closing of its [Gate].
	Reconcile func(ctx context.Context, key K) (Result, error)
	// MaxConcurrentReconciles is the number of keys that are reconciled at a time. Zero means 1.
	MaxConcurrentReconciles int
	// Timeout is the time after which the context of a call of Reconcile ends. Zero means no limit.
	Timeout time.Duration
	// Grace is the time from the end of Run's context to the end of the context of the calls of Reconcile under way. Zero
	// means 20 s. Negative means that both end at once.
	//
	// If the cause of that end has a method StopBy() time.Time, the context of the calls ends early enough for Run to
	// return by then: a second before, or after three quarters of the time if that is less than 4 s. The causes of
	// packages leader and manager have that method: after a lost lease, the calls have 3 s by default.
	Grace time.Duration
	// LimitRequeueAfter makes the queue's limiter count Result.RequeueAfter too. The delay is then the limiter's if that
	// is longer. False means that the delay is RequeueAfter, however short, and no limit applies.
	LimitRequeueAfter bool
	// OwnWrites makes the controller wait until its stores have the writes of Reconcile for a key before it reconciles
	// that key again. The zero value does not wait.
	OwnWrites OwnWrites
	// SkipOwnWrites makes the controller ignore the events of its own writes: a key is not added for an event if writes
	// through a [TypedClient] in the latest call of Reconcile for that key lead from the old version of the object to the
	// new one. So a controller that writes a status runs once for a change, not twice. False means that each event adds
	// its keys.
	//
	// Reconcile must pass its context to the client. Only a write that the server accepts at one version of the object, or
	// that creates the object, proves that nobody else changed it before: Create, Update and UpdateStatus of an object
	// with a resourceVersion, and Patch and Apply if the body has metadata.resourceVersion, but not a JSON patch. The
	// events of all other writes add their keys, and so do deletions, resyncs, the event of a write whose answer was lost,
	// an event that comes more than a minute after its write, or after the next call for its key has begun, which may have
	// read a store without the write. What admission plugins change in a write counts as a part of it.
	//
	// It applies to [EnqueueObject], [EnqueueOwner], [Enqueue] and the sources made of them, not to [EnqueueBy] and
	// [EnqueueFrom]. Set it before Watch. A Reconcile that needs another call after its own write returns a Result that
	// says so.
	SkipOwnWrites bool
	// OnPanic receives the value of a panic of Reconcile. It runs in the deferred function that recovers the panic, so
	// debug.Stack shows the origin of the panic. The reconcile counts as failed. Nil means that the panic ends the
	// program.
	OnPanic func(key K, value any)
	// Tracer receives a span for each call of Reconcile. Nil means none.
	Tracer Tracer
	// Logger receives failures. Nil means slog.Default().
	Logger *slog.Logger

	mu     sync.Mutex // protects the fields below
	into   target[K]  // Queue, or a new one if Queue is nil; zero before its first use
	status status.Controller
	begun  chan struct{} // closed when Run has been called; nil before its first use
	gate   *Gate         // of the last Run; nil for none

	// These have locks of their own.
	sources  sources[K]
	calls    controller.Calls[K] // of Reconcile, after the first call of Own
	failures controller.Failures[K]
}

const defaultGrace = 20 * time.Second // less than the deadlines of package manager and of a pod

// Watch subscribes the controller to source, whose events then add keys to the queue. The controller reconciles nothing
// until every source has synced, so it never mistakes an object that has not been read yet for a deleted one. It does
// not wait for a subscription that you create yourself.
//
// Call Watch before Run, or later for a source that appears later. A running controller then finishes the calls of
// Reconcile under way, and begins the next one when the new source has synced. A source that cannot sync, such as a
// resource that is not installed, blocks the controller; see Config.AbsentIsSynced. To stop watching a source, close
// the subscription that Watch returns. The controller then no longer waits for the source, either.
func (c *Controller[K]) Watch(source Source[K]) *Subscription {
	into := c.target()
	if source.subscribe == nil {
		c.logger().Error("the controller has a source that cannot sync", "err", errZeroSource)
		ended := &Subscription{deliver.Ended{Why: errZeroSource}}
		source.subscribe = func(target[K], time.Duration) *Subscription { return ended }
	}
	watched := c.sources.Add(ErrClosed)
	defer watched.Subscribed()
	subscription := source.subscribe(into, source.resync)
	watched.Subscription = subscription
	c.sources.watch(replay[K]{source, subscription})
	return subscription
}

// Run waits until all sources have synced, and then reconciles until ctx ends or the queue is closed. It then takes no
// more keys, and waits for the calls of Reconcile under way, whose context ends after Grace. It returns the cause of
// ctx, [ErrClosed], or the error of a source that ended before it synced. Every goroutine that it started has ended
// then. A later Run continues with the keys in the queue. If Run is already under way, it returns [ErrRunning]. If a
// field is wrong, Run logs and returns an error that names the field. If ctx has a [Gate], Run reconciles while that is
// open.
func (c *Controller[K]) Run(ctx context.Context) error {
	if err := c.validate(); err != nil {
		c.logger().Error("the controller does not run", "err", err)
		return err
	}
	gate := GateOf(ctx)
	if !c.begin(gate) {
		return fmt.Errorf("%s: %w", c.name(), ErrRunning)
	}
	defer c.update(func(s *status.Controller) { s.Running = false })
	defer c.OwnWrites.holds.End()
	slow := func(why error) { c.logger().Warn("the controller waits for its sources", "why", why) }
	if err := c.sources.WaitLong(ctx, slow); err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	queue := c.queue()
	loop := controller.Loop[K]{
		Workers: c.workers(),
		Labels:  pprof.Labels("controller", c.name()),
		Get: func(loop context.Context) (K, error) {
			queue.waitFor(loop, gate)
			return queue.Get(loop)
		},
		Do: func(loop, calls context.Context, key K) error {
			if !c.sources.Synced() { // Watch may have added one
				queue.putBack(key)
				return c.WaitSources(loop)
			}
			c.pass(calls, gate, queue, key)
			return nil
		},
		Grace:  c.graceAfter,
		Exited: errExitedReconcile,
	}
	return loop.Run(ctx)
}

// errExitedReconcile indicates that Reconcile or a function of QueueConfig called runtime.Goexit, as t.FailNow does. It
// ends the controller.
var errExitedReconcile = errors.New("a callback called runtime.Goexit: Reconcile, QueueConfig.OnGet or OnDone")

// WaitSynced waits until all sources have synced and every key that they have added was reconciled once, with whatever
// result, and then returns nil. If ctx ends first, it returns an error that names what is missing. If a field is wrong
// or a source ended before it synced, it returns that error at once, whether Run was called or not.
func (c *Controller[K]) WaitSynced(ctx context.Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	if err := c.sources.Failed(); err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	select {
	case <-c.running():
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", c.name(), errNotRunning, context.Cause(ctx))
	}
	if err := c.WaitSources(ctx); err != nil {
		return err
	}
	if err := c.queue().WaitProcessed(ctx); err != nil {
		return fmt.Errorf("%s: not every key was reconciled: %w", c.name(), err)
	}
	return nil
}

var errNotRunning = errors.New("controller not started")

// WaitSources waits until all sources have synced, whether Run was called or not, and then returns nil. It returns an
// error that names what is missing if ctx ends first, and the error of a source that ended before it synced.
func (c *Controller[K]) WaitSources(ctx context.Context) error {
	if err := c.sources.Wait(ctx); err != nil {
		return fmt.Errorf("%s: %w", c.name(), err)
	}
	return nil
}

// Status returns the present status of the controller.
func (c *Controller[K]) Status() status.Controller {
	c.mu.Lock()
	s, queue, own, gate := c.status, c.into.queue, c.into.own, c.gate
	c.mu.Unlock()
	if queue == nil {
		queue = c.Queue
	}
	if queue != nil {
		s.Queue = queue.Status()
	}
	s.Name, s.Workers, s.Grace, s.OwnWrites = c.name(), c.workers(), c.Grace, c.OwnWrites.holds.Status()
	if own != nil {
		s.OwnWrites.Skipped = own.Dropped()
	}
	s.Running = s.Running && gate.Status().Open
	c.failures.AddTo(&s)
	return s
}

// errNotOwned is the cause of the context of a call of Reconcile whose key must be released.
var errNotOwned = errors.New("the key no longer belongs to this replica")

// Own makes the controller reconcile a key only while rule returns KeyOwned for it. Nil means that all keys are
// KeyOwned, as before the first call. Call Own before Run for the first time, and again when results of rule change:
// awaited keys then become ready or are dropped. Package shard calls Own.
//
// The queue calls rule immediately before it hands out a key, so no key is handed out after its result has changed. The
// queue refuses KeyForeign keys when they are added, drops those that became KeyForeign later when it is their turn,
// and resets their retry counts. The queue calls rule with its lock held: it must be fast, and must not call methods of
// the queue.
//
// This replica may have missed changes of a key while another one owned it, so call [Controller.Replay] while the key
// is KeyAwaited. Before another replica owns a key, call [Controller.WaitReleased] when the key is no longer KeyOwned.
func (c *Controller[K]) Own(rule func(key K) Ownership) {
	c.calls.Track()
	c.queue().own(rule)
}

// WaitReleased waits until no key for which match returns true is being reconciled. The keys must not be KeyOwned. When
// ctx ends, the contexts of those calls of Reconcile end, and WaitReleased goes on waiting.
func (c *Controller[K]) WaitReleased(ctx context.Context, match func(key K) bool) {
	defer c.failures.Drop(match)
	if c.queue().waitReleased(ctx, match) == nil {
		return
	}
	c.calls.End(match, errNotOwned)
	_ = c.queue().waitReleased(context.WithoutCancel(ctx), match)
}

// InWork returns the keys being reconciled for which match returns true, and when the work on each began. match is
// called with the lock of the queue held: it must be fast, and must not call methods of the queue.
func (c *Controller[K]) InWork(match func(key K) bool) map[K]time.Time {
	return c.queue().inWork(match)
}

// Replay adds the keys of all objects in the stores of the sources, with LowPriority, if match returns true for the
// key. It waits until the sources have synced. It returns an error that wraps the cause of ctx if that ends first, and
// the error of a source that cannot sync.
func (c *Controller[K]) Replay(ctx context.Context, match func(key K) bool) error {
	for _, r := range c.sources.watched() {
		keys, err := r.keys(ctx, match)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		c.queue().AddWith(AddOptions{Priority: LowPriority}, keys...)
	}
	return nil
}

func (c *Controller[K]) update(change func(*status.Controller)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.status)
}

// validate names the field that is wrong.
func (c *Controller[K]) validate() error {
	c.mu.Lock()
	used := c.into.queue
	c.mu.Unlock()
	switch {
	case c.Queue != nil && used != nil && used != c.Queue:
		return fmt.Errorf("%s: Controller.Queue was set after Watch, which uses another queue", c.name())
	case c.Reconcile == nil:
		return fmt.Errorf("%s: Controller.Reconcile is nil", c.name())
	case c.MaxConcurrentReconciles < 0:
		return fmt.Errorf("%s: Controller.MaxConcurrentReconciles is %d: it must not be negative", c.name(),
			c.MaxConcurrentReconciles)
	case c.Timeout < 0:
		return fmt.Errorf("%s: Controller.Timeout is %v: it must not be negative", c.name(), c.Timeout)
	case c.OwnWrites.Deadline < 0:
		return fmt.Errorf("%s: Controller.OwnWrites.Deadline is %v: it must not be negative", c.name(), c.OwnWrites.Deadline)
	}
	return nil
}

func (c *Controller[K]) name() string {
	if c.Name == "" {
		return "controller"
	}
	return c.Name
}

func (c *Controller[K]) workers() int { return max(c.MaxConcurrentReconciles, 1) }

// graceAfter returns how long the calls of Reconcile under way may go on after cause has ended the context of Run.
func (c *Controller[K]) graceAfter(cause error) time.Duration {
	grace := c.grace()
	left := controller.Grace(grace, cause)
	if left < grace {
		c.logger().Warn("calls of Reconcile have less time than Grace", "cause", cause, "time", left, "grace", grace)
	}
	return left
}

func (c *Controller[K]) grace() time.Duration {
	if c.Grace == 0 {
		return defaultGrace
	}
	return c.Grace
}

func (c *Controller[K]) logger() *slog.Logger {
	l := c.Logger
	if l == nil {
		l = slog.Default()
	}
	return l.With("controller", c.name())
}

// begin marks the controller as running, with gate. It returns false if it is running already.
func (c *Controller[K]) begin(gate *Gate) bool {
	begun := c.running()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.Running {
		return false
	}
	c.status.Running, c.gate = true, gate
	if !run.IsClosed(begun) {
		close(begun)
	}
	return true
}

// running returns a channel that is closed when Run has been called.
func (c *Controller[K]) running() chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.begun == nil {
		c.begun = make(chan struct{})
	}
	return c.begun
}

// queue returns Queue, or a new queue if Queue is nil.
func (c *Controller[K]) queue() *Queue[K] { return c.target().queue }

// target returns where the sources add keys.
func (c *Controller[K]) target() target[K] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.into.queue == nil {
		c.into.queue = c.Queue
	}
	if c.into.queue == nil {
		c.into.queue = NewQueue(QueueConfig[K]{Name: c.name()})
	}
	if c.SkipOwnWrites && c.into.own == nil {
		c.into.own = new(ownwrites.Ledger[K])
	}
	return c.into
}

// pass reconciles key with a pass of gate. If gate has closed since the key was handed out, it puts the key back.
func (c *Controller[K]) pass(calls context.Context, gate *Gate, queue *Queue[K], key K) {
	if gate == nil {
		c.reconcile(calls, nil, queue, key)
		return
	}
	pass, err := controller.Enter(calls, gate.enter,
		func(cause error) time.Duration { return controller.Grace(c.grace(), cause) })
	if err != nil {
		queue.putBack(key)
		return
	}
	defer pass.Leave()
	c.reconcile(pass.Context, pass, queue, key)
}

// reconcile reconciles key, and adds it again if the result requests it, or if the gate of pass has closed.
func (c *Controller[K]) reconcile(ctx context.Context, pass *controller.Pass, queue *Queue[K], key K) {
	ctx, ended := c.calls.Begin(ctx, key, queue.owns)
	if ended == nil { // no longer owned since Get, and WaitReleased may have checked the calls already
		queue.putBack(key)
		return
	}
	c.update(func(s *status.Controller) { s.Active++ })
	ctx, writes := c.OwnWrites.note(ctx)
	var own *ownwrites.Call[K] // nil without SkipOwnWrites
	if ledger := c.target().own; ledger != nil {
		ctx, own = ledger.Begin(ctx, key)
	}
	done := queue.Done
	defer func() {
		ended()
		own.End()
		if writes != nil {
			hold(&c.OwnWrites, queue, key, writes, c.sources.watched(), c.logger())
		}
		c.update(func(s *status.Controller) { s.Active-- })
		done(key)
	}()
	began := time.Now()
	result, err := c.call(ctx, key)
	if pass.Closed() && isFailure(err) {
		c.logger().Debug("reconcile interrupted: the gate has closed", "key", key, "err", err)
		done = queue.putBack
		return
	}
	took := time.Since(began)
	again, count := result.next(err)
	switch {
	case err != nil && again.RateLimited:
		c.logger().Error("reconcile failed", "key", key, "err", err, "failures", queue.NumRequeues(key)+1)
	case err != nil:
		c.logger().Error("reconcile failed for good", "key", key, "err", err)
	}
	c.update(func(s *status.Controller) { count(s); histogram.Add(&s.Reconciles, took) })
	c.failures.Note(key, err, began.Add(took))
	if !again.RateLimited {
		queue.Forget(key)
		again.RateLimited = c.LimitRequeueAfter && again.After > 0
	}
	if again.RateLimited || again.After > 0 {
		queue.AddWith(again, key)
	}
}

// call calls Reconcile.
func (c *Controller[K]) call(ctx context.Context, key K) (result Result, err error) {
	returned := false
	if c.Tracer != nil {
		var ended func(error)
		ctx, ended = c.Tracer.Reconcile(ctx, c.name(), key)
		defer func() {
			if !returned && err == nil { // it panics, or ends its goroutine
				ended(errExitedReconcile)
				return
			}
			ended(err)
		}()
	}
	if c.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	if c.OnPanic != nil {
		defer func() {
			if value := recover(); value != nil {
				c.OnPanic(key, value)
				result, err = Result{}, &panicError{value}
			}
		}()
	}
	result, err = c.Reconcile(ctx, key)
	returned = true
	return result, err
}
