package leader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/run"
)

// lead calls work, renews the lease until work has returned, and releases it. ended is false after a loss. Otherwise
// work has returned by itself, or ctx has ended, and err is the result of Run.
func (e *Elector) lead(ctx context.Context, c *claim, work func(context.Context) error) (ended bool, err error) {
	e.config.Logger.Info("leading")
	e.begin()
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The renewals outlive ctx while the work runs.
	renewing, returned := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	tasks.Go(func() { e.keep(renewing, c, end) })
	tasks.Go(func() { e.watch(renewing, working, end) })
	tasks.Go(func() {
		select {
		case <-working.Done():
		case <-renewing.Done():
		}
		e.enter(Stopping)
	})
	func() {
		defer e.end()
		defer tasks.Wait() // even if work calls runtime.Goexit
		defer returned()
		err = work(working)
	}()
	cause := context.Cause(working)
	e.config.Logger.Info("stopped leading", "cause", cause, "err", err)
	e.release(ctx, c)
	switch {
	case cause == nil:
		return true, err
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	}
	return false, nil
}

// begin begins a term.
func (e *Elector) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status.Terms++
	e.enterLocked(Leading)
}

// end ends a term: the work has returned.
func (e *Elector) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term.Drained()
	e.status.StopBy = time.Time{}
}

// keep renews the lease until ctx ends or the lease is lost. It calls end when another replica has taken the lease.
func (e *Elector) keep(ctx context.Context, c *claim, end context.CancelCauseFunc) {
	for run.Sleep(ctx, e.config.RetryPeriod) == nil && !e.lost() {
		sent := e.stamp()
		err := c.renew(ctx)
		if ctx.Err() != nil && err != nil {
			return // the work has returned
		}
		e.note(c, err)
		switch {
		case err == nil:
			e.renew(sent) // if the lease is overdue, that does not count, and watch is about to find it lost
		case errors.Is(err, lease.ErrTaken):
			e.mu.Lock()
			e.loseLocked(end)
			e.mu.Unlock()
			return
		}
	}
}

// watch calls end when the lease has reached RenewDeadline, and Fatal when the work must have returned. It returns when
// ctx ends.
func (e *Elector) watch(ctx, working context.Context, end context.CancelCauseFunc) {
	for {
		left := e.check(working, end)
		if left <= 0 {
			e.config.Logger.Error("the work has not returned in time, and the lease is about to end: ending the process")
			e.config.Fatal()
			return
		}
		if run.Sleep(ctx, min(left, lease.WatchPeriod)) != nil {
			return
		}
	}
}

// check calls end if the lease has passed its deadline. It returns the time until the next check is due: zero or less
// if the work must have returned.
func (e *Elector) check(working context.Context, end context.CancelCauseFunc) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if working.Err() != nil {
		// If ctx of Run has ended, the context of the work has ended, too. Renewals go on: one of them may give the work
		// the time that it needs.
		e.term.Close()
	}
	if e.term.Overdue() {
		e.loseLocked(end)
	}
	left := e.term.Left()
	if !e.status.StopBy.IsZero() {
		left = min(left, time.Until(e.status.StopBy))
	}
	return left
}
