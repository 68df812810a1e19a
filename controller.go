package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Controller takes keys from a [Queue] and reconciles them, each key by one worker at a time, and puts back those that
// failed or that ask for it. Set the exported fields before Run, and do not change them afterwards.
//
//	queue := informer.NewQueue[informer.Key](informer.QueueConfig[informer.Key]{})
//	ctl := &informer.Controller[informer.Key]{
//		Queue:     queue,
//		Sources:   []informer.Source{websites.Subscribe(informer.EnqueueObject[*Website](queue))},
//		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) { … },
//	}
//	err := ctl.Run(ctx)
type Controller[K comparable] struct {
	// Name names the controller in logs and errors. Empty means "controller".
	Name string
	// Queue is where the keys come from. It may be used by this controller only. The controller does not close it.
	Queue *Queue[K]
	// Reconcile brings the world of one key to where it should be. It may be called for a key of which nothing is
	// there any more. Its context ends with Timeout, and Grace after that of Run.
	Reconcile func(ctx context.Context, key K) (Result, error)
	// Sources are what the keys come from: the subscriptions of the handlers that add them. No key is reconciled before
	// all of them are synced, so that a reconciler never takes for gone what has not been read yet.
	Sources []Source
	// MaxConcurrentReconciles is how many keys are reconciled at a time. Zero means 1.
	MaxConcurrentReconciles int
	// Timeout is how long one call of Reconcile may take before its context ends. Zero means for ever.
	Timeout time.Duration
	// Grace is how long calls of Reconcile that are under way may go on after the context of Run has ended, before
	// theirs does. Zero means 30 s, negative not at all.
	Grace time.Duration
	// LimitRequeueAfter has the queue's limiter count Result.RequeueAfter too, and delays the key by its answer if that
	// is longer. Zero means that RequeueAfter is taken as it is, so that a short one goes round without a limit.
	LimitRequeueAfter bool
	// OnPanic is called with the value of a panic of Reconcile, by the function that recovered it, so that debug.Stack
	// shows where it came from; the key has failed then. Nil means that the program crashes.
	OnPanic func(key K, value any)
	// Logger is told of failures. Nil means slog.Default().
	Logger *slog.Logger

	mu     sync.Mutex // protects the fields below
	status ControllerStatus
	begun  chan struct{} // closed when Run was called; made by whoever needs it first
}

// Source is what a [Controller] waits for before it begins. A [Subscription] is one.
type Source interface {
	// WaitSynced returns nil once everything that was there at first has been handled.
	WaitSynced(ctx context.Context) error
}

// Result says when to reconcile a key again that was reconciled without an error. With an error only Priority counts:
// the key comes back when the queue's limiter says, and its failure count goes up.
type Result struct {
	// RequeueAfter is how long to wait. The failure count starts anew, unless Backoff is set. Zero means not again, until
	// the next event.
	RequeueAfter time.Duration
	// Backoff has the key come back when the queue's limiter says, but not before RequeueAfter, and its failure count go
	// up, as with an error: for what is not there yet, and is no failure.
	Backoff bool
	// Priority is that with which the key comes back. Zero means that with which it was handed out.
	Priority Priority
}

// TerminalError wraps an error of Reconcile that trying again will not help: the key is logged and counted, its failure
// count starts anew, and it does not come back until the next event.
func TerminalError(err error) error { return &terminalError{err} }

type terminalError struct{ error }

func (e *terminalError) Error() string { return "terminal: " + e.error.Error() }
func (e *terminalError) Unwrap() error { return e.error }

// panicError is the failure of a key whose Reconcile panicked.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic of Reconcile: %v", e.value) }

// ControllerStatus tells how a [Controller] is doing.
type ControllerStatus struct {
	Name string
	// Running says whether Run is under way.
	Running bool
	// Workers is how many keys are reconciled at a time, Active how many are just now.
	Workers, Active int
	// Succeeded counts the calls of Reconcile that returned nothing but nil; RequeuedAfter and BackedOff those that
	// asked to come back; Failed those that returned an error or panicked, of which Terminal are those with a terminal
	// one and Panicked those that panicked. How long they took is in QueueConfig.OnDone.
	Succeeded, RequeuedAfter, BackedOff, Failed, Terminal, Panicked uint64
	// Queue is the status of the queue.
	Queue QueueStatus
}

const defaultGrace = 30 * time.Second

// Run waits until all sources are synced, and then reconciles until ctx ends or the queue does. Then it hands out no
// more keys, waits for the calls of Reconcile that are under way, whose context ends after Grace, and returns why it
// ended: the cause of ctx, or [ErrClosed]. Every goroutine that it started has ended by then. It can be run again
// afterwards, with the keys that the queue then has, but not twice at a time.
func (c *Controller[K]) Run(ctx context.Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	if !c.begin() {
		return fmt.Errorf("%s: %w", c.name(), ErrRunning)
	}
	defer c.update(func(s *ControllerStatus) { s.Running = false })
	if err := c.waitSources(ctx); err != nil {
		return err
	}
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	reconciles, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	var workers, grace sync.WaitGroup
	grace.Go(func() {
		<-work.Done()
		timer := time.NewTimer(c.grace())
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel(context.Cause(work))
		case <-reconciles.Done():
		}
	})
	for range c.workers() {
		workers.Go(func() {
			defer stop(errExitedReconcile) // of several causes the first counts
			for {
				key, err := c.Queue.Get(work)
				if err != nil {
					stop(err)
					return
				}
				c.reconcile(reconciles, key)
			}
		})
	}
	workers.Wait()
	cancel(nil)
	grace.Wait()
	return context.Cause(work)
}

// errExitedReconcile is why a controller ends whose Reconcile calls runtime.Goexit, as t.FailNow does.
var errExitedReconcile = errors.New("a call of Reconcile ended its goroutine")

// WaitSynced waits until all sources are synced and every key that came from them was reconciled once, with whatever
// result, and returns nil then. It returns an error that says what it waited for when ctx ends first.
func (c *Controller[K]) WaitSynced(ctx context.Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	select {
	case <-c.running():
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", c.name(), errNotRunning, context.Cause(ctx))
	}
	if err := c.waitSources(ctx); err != nil {
		return err
	}
	if err := c.Queue.WaitProcessed(ctx); err != nil {
		return fmt.Errorf("%s: not every key was reconciled: %w", c.name(), err)
	}
	return nil
}

var errNotRunning = errors.New("controller not started")

// Status returns how the controller is doing.
func (c *Controller[K]) Status() ControllerStatus {
	c.mu.Lock()
	s := c.status
	c.mu.Unlock()
	s.Name, s.Workers = c.name(), c.workers()
	if c.Queue != nil {
		s.Queue = c.Queue.Status()
	}
	return s
}

func (c *Controller[K]) update(change func(*ControllerStatus)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.status)
}

// validate names the field that is wrong.
func (c *Controller[K]) validate() error {
	switch {
	case c.Queue == nil:
		return fmt.Errorf("%s: Controller.Queue is nil", c.name())
	case c.Reconcile == nil:
		return fmt.Errorf("%s: Controller.Reconcile is nil", c.name())
	case c.MaxConcurrentReconciles < 0:
		return fmt.Errorf("%s: Controller.MaxConcurrentReconciles is %d", c.name(), c.MaxConcurrentReconciles)
	case c.Timeout < 0:
		return fmt.Errorf("%s: Controller.Timeout is %v", c.name(), c.Timeout)
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

// begin says whether Run may go on: it is not under way.
func (c *Controller[K]) begin() bool {
	begun := c.running()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.status.Running {
		return false
	}
	c.status.Running = true
	if !isClosed(begun) {
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

func (c *Controller[K]) waitSources(ctx context.Context) error {
	for _, s := range c.Sources {
		if err := s.WaitSynced(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
	}
	return nil
}

// reconcile reconciles key, and puts it back as the result says.
func (c *Controller[K]) reconcile(ctx context.Context, key K) {
	c.update(func(s *ControllerStatus) { s.Active++ })
	defer func() {
		c.update(func(s *ControllerStatus) { s.Active-- })
		c.Queue.Done(key)
	}()
	result, err := c.call(ctx, key)
	again := AddOptions{Priority: result.Priority}
	var count func(*ControllerStatus)
	switch terminal := (*terminalError)(nil); {
	case errors.As(err, &terminal):
		count = func(s *ControllerStatus) { s.Failed++; s.Terminal++ }
		c.logger().Error("reconcile failed for good", "key", key, "err", terminal.error)
	case err != nil:
		again.RateLimited = true
		count = func(s *ControllerStatus) { s.Failed++ }
		if panicked := (*panicError)(nil); errors.As(err, &panicked) {
			count = func(s *ControllerStatus) { s.Failed++; s.Panicked++ }
		}
		c.logger().Error("reconcile failed", "key", key, "err", err, "failures", c.Queue.Requeues(key)+1)
	case result.Backoff:
		again.RateLimited, again.After = true, result.RequeueAfter
		count = func(s *ControllerStatus) { s.BackedOff++ }
	case result.RequeueAfter > 0:
		again.After = result.RequeueAfter
		count = func(s *ControllerStatus) { s.RequeuedAfter++ }
	default:
		count = func(s *ControllerStatus) { s.Succeeded++ }
	}
	c.update(count)
	if !again.RateLimited {
		c.Queue.Forget(key)
		again.RateLimited = c.LimitRequeueAfter && again.After > 0
	}
	if again.RateLimited || again.After > 0 {
		c.Queue.AddWith(again, key)
	}
}

// call calls Reconcile.
func (c *Controller[K]) call(ctx context.Context, key K) (result Result, err error) {
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
	return c.Reconcile(ctx, key)
}
