package leader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/run"
)

// watchPeriod is the longest time between two looks at the clocks. A timer alone is not enough: if the system is
// suspended, it may fire late.
const watchPeriod = Margin / 4

// lead calls work, renews the lease until work has returned, and releases it. ended is false after a loss. Otherwise
// work has returned by itself, or ctx has ended, and err is the result of Run.
func (e *Elector) lead(ctx context.Context, l *lease, work func(context.Context) error) (ended bool, err error) {
	e.config.Logger.Info("leading")
	e.begin()
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The renewals outlive ctx while the work runs.
	renewing, returned := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	tasks.Go(func() { e.keep(renewing, l, end) })
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
	e.release(ctx, l)
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
	e.status.StopBy = time.Time{}
}

// keep renews the lease until ctx ends or the lease is lost. It calls end when another replica has taken the lease.
func (e *Elector) keep(ctx context.Context, l *lease, end context.CancelCauseFunc) {
	for run.Sleep(ctx, e.config.RetryPeriod) == nil && !e.lost() {
		sent := e.now()
		err := l.renew(ctx)
		if ctx.Err() != nil && err != nil {
			return // the work has returned
		}
		e.note(l, err)
		switch {
		case err == nil:
			e.renew(sent)
		case errors.Is(err, errTaken):
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
			e.config.Logger.Error("the work has not returned in time, and the lease is about to end: ending the process", "age",
				e.age())
			e.config.Fatal()
			return
		}
		if run.Sleep(ctx, min(left, watchPeriod)) != nil {
			return
		}
	}
}

// check calls end if the lease has reached RenewDeadline. It returns the time until the next check is due: zero or less
// if the work must have returned.
func (e *Elector) check(working context.Context, end context.CancelCauseFunc) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	age := e.ageLocked()
	left := e.config.expiry() - age
	switch {
	case !e.status.StopBy.IsZero():
		return min(left, time.Until(e.status.StopBy))
	case age < e.config.RenewDeadline:
		return e.config.RenewDeadline - age
	case working.Err() == nil || left <= 0:
		e.loseLocked(end)
	}
	// If ctx of Run has ended, the context of the work has ended, too. Renewals go on: one of them may give the work
	// the time that it needs.
	return left
}
