// Package controller is the engine of a controller: workers that take keys and reconcile them, the calls under way, and
// the keys that fail. The queue of the keys is another engine; see package queue.
package controller

import (
	"context"
	"errors"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/run"
)

// Loop takes keys and works on them.
type Loop[K comparable] struct {
	// Workers is the number of keys that are worked on at a time.
	Workers int
	// Labels are those of the workers' goroutines in profiles.
	Labels pprof.LabelSet
	// Get waits for a key. Its error ends the loop.
	Get func(loop context.Context) (K, error)
	// Do works on a key. The context loop ends when the loop does, and calls a grace period later. An error of Do ends the
	// loop.
	Do func(loop, calls context.Context, key K) error
	// Grace returns the time for which calls under way may go on after cause has ended the loop.
	Grace func(cause error) time.Duration
	// Exited is the error of the loop if Get or Do ends its goroutine.
	Exited error
}

// Run works until ctx ends or Get or Do returns an error. It then waits for the calls of Do under way, and returns the
// error or the cause of ctx. Every goroutine that it started has ended then.
func (l Loop[K]) Run(ctx context.Context) error {
	loop, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	calls, cancel := context.WithCancelCause(pprof.WithLabels(context.WithoutCancel(ctx), l.Labels))
	var workers, grace sync.WaitGroup
	grace.Go(func() {
		<-loop.Done()
		if cause := context.Cause(loop); run.Sleep(calls, l.Grace(cause)) == nil {
			cancel(cause)
		}
	})
	for range l.Workers {
		workers.Go(func() {
			defer stop(l.Exited) // only the first cause counts
			pprof.SetGoroutineLabels(calls)
			for {
				key, err := l.Get(loop)
				if err == nil {
					err = l.Do(loop, calls, key)
				}
				if err != nil {
					stop(err)
					return
				}
			}
		})
	}
	workers.Wait()
	cancel(nil)
	grace.Wait()
	return context.Cause(loop)
}

// Grace returns the time for which calls may go on after cause: grace, or less if cause has a method StopBy that leaves
// less.
func Grace(grace time.Duration, cause error) time.Duration {
	var limit interface{ StopBy() time.Time }
	if !errors.As(cause, &limit) {
		return grace
	}
	left := max(time.Until(limit.StopBy()), 0)
	left -= min(left/4, time.Second) // for the calls to return, and for what stops after them
	return min(left, grace)
}

// Calls has the calls under way, so that those of some keys can be ended. The zero value has none, and begins to track
// them with Track. All methods are safe for concurrent use.
type Calls[K comparable] struct {
	mu sync.Mutex // held while the caller asks whether it owns a key; protects the field below
	// ends the context of each call; nil before Track
	cancels map[K]context.CancelCauseFunc
}

// Track makes Begin track calls from now on.
func (c *Calls[K]) Track() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancels == nil {
		c.cancels = map[K]context.CancelCauseFunc{}
	}
}

// Begin returns the context for a call, and a function to call when that has ended. The function is nil if calls are
// tracked and owns returns false. A call of End either sees the new call, or comes before that of owns.
func (c *Calls[K]) Begin(ctx context.Context, key K, owns func(K) bool) (context.Context, func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cancels == nil {
		return ctx, func() {}
	}
	if !owns(key) {
		return ctx, nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	c.cancels[key] = cancel
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.cancels, key)
	}
}

// End ends the contexts of the calls for keys for which match returns true, with cause.
func (c *Calls[K]) End(match func(key K) bool, cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, cancel := range c.cancels {
		if match(key) {
			cancel(cause)
		}
	}
}
