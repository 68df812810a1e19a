package leader

import (
	"context"
	"errors"
	"sync"
)

// watchPeriod is the longest time between two looks at the clocks. A timer alone would not do: if the system is suspended,
// it may fire late.
const watchPeriod = Margin / 4

// lead calls work, renews the lease until work has returned, and releases it. ended is false after a loss. Otherwise work
// has returned by itself, or ctx has ended, and err is the result of Run.
func (e *Elector) lead(ctx context.Context, l *lease, work func(context.Context) error) (ended bool, err error) {
	e.config.Logger.Info("leading")
	e.enter(Leading)
	working, end := context.WithCancelCause(ctx)
	defer end(nil)
	// The renewals outlive ctx while the work runs.
	renewing, returned := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	tasks.Go(func() { e.keep(renewing, l, working, end) })
	tasks.Go(func() { e.watch(renewing, end) })
	tasks.Go(func() {
		select {
		case <-working.Done():
		case <-renewing.Done():
		}
		e.enter(Stopping)
	})
	func() {
		defer tasks.Wait() // also if work calls runtime.Goexit
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

// keep renews the lease until ctx ends or the lease is lost. It calls end when another replica has taken the lease.
func (e *Elector) keep(ctx context.Context, l *lease, working context.Context, end context.CancelCauseFunc) {
	for sleep(ctx, e.config.RetryPeriod) && !errors.Is(context.Cause(working), ErrLost) {
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
			end(ErrLost)
			return
		}
	}
}

// watch calls end when the lease has reached RenewDeadline, and Fatal when the work must have returned. It returns when ctx
// ends.
func (e *Elector) watch(ctx context.Context, end context.CancelCauseFunc) {
	for {
		age := e.age()
		left := e.config.expiry() - age
		if left <= 0 {
			end(ErrLost)
			e.config.Logger.Error("the work has not returned in time, and the lease is about to end: ending the process", "age", age)
			e.config.Fatal()
			return
		}
		if soft := e.config.RenewDeadline - age; soft <= 0 {
			end(ErrLost)
		} else {
			left = soft
		}
		if !sleep(ctx, min(left, watchPeriod)) {
			return
		}
	}
}
