package leader

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/run"
)

// lead calls work, renews the lease until work has returned, and releases it. ended is false after a loss. Otherwise
// work has returned by itself, or ctx has ended, and err is the result of Run.
func (e *Elector) lead(ctx context.Context, c *claim, work func(context.Context) error) (ended bool, err error) {
	e.config.Logger.Info("leading")
	working, end := context.WithCancelCause(informer.WithGate(ctx, e.config.Recover))
	t := &tenure{e, working, end}
	t.begin()
	// The renewals outlive ctx while the work runs.
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	var tasks sync.WaitGroup
	tasks.Go(func() { t.keep(renewing, c) })
	tasks.Go(func() { t.watch(renewing) })
	tasks.Go(func() {
		<-working.Done()
		e.enter(Stopping)
	})
	var cause error
	func() {
		defer e.end()
		defer tasks.Wait() // even if work calls runtime.Goexit
		defer stop()
		defer func() { cause = t.returned() }()
		err = work(working)
	}()
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
func (t *tenure) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Terms++
	t.openLocked()
}

// end ends a term: the work has returned.
func (e *Elector) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term.Drained()
	e.paused = false
	e.status.StopBy = time.Time{}
}

// keep renews the lease until ctx ends or the lease is lost. It ends the context of the work when another replica has
// taken the lease.
func (t *tenure) keep(ctx context.Context, c *claim) {
	for run.Sleep(ctx, t.config.RetryPeriod) == nil {
		t.mu.Lock()
		draining, paused, sent := t.term.State() == lease.Draining, t.paused, t.term.Stamp()
		t.mu.Unlock()
		switch {
		case draining && paused:
			continue
		case draining:
			return
		}
		err := c.renew(ctx)
		if ctx.Err() != nil && err != nil {
			return // the work has returned
		}
		t.note(c, err)
		switch {
		case err == nil:
			t.renewed(sent) // if the lease is overdue, that does not count, and watch is about to find it lost
		case errors.Is(err, lease.ErrTaken):
			t.mu.Lock()
			t.loseLocked()
			t.mu.Unlock()
			return
		}
	}
}

// watch looks whether the lease has reached RenewDeadline, and calls Fatal when the work must have returned. It returns
// when ctx ends.
func (t *tenure) watch(ctx context.Context) {
	for {
		left := t.check()
		if left <= 0 {
			t.logBeforeTheEnd("the work has not returned in time, and the lease is about to end: ending the process")
			t.config.Fatal()
			return
		}
		if run.Sleep(ctx, min(left, lease.WatchPeriod)) != nil {
			return
		}
	}
}

// check ends the term if it has passed its deadline. It returns the time until the next check is due: zero or less if
// the work must have returned.
func (t *tenure) check() time.Duration {
	left, log := t.checkIn()
	log()
	return left
}

// checkIn is check without a log: it returns what logs the result.
func (t *tenure) checkIn() (left time.Duration, log func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.working.Err() != nil && t.config.Recover == nil {
		// If ctx of Run has ended, the context of the work has ended, too. Renewals go on: one of them may give the work
		// the time that it needs.
		t.term.Close()
	}
	log = t.lookLocked()
	t.drainLocked()
	left = lease.WatchPeriod
	if t.term.State() != lease.Vacant {
		left = t.term.Left()
	}
	if !t.status.StopBy.IsZero() {
		left = min(left, time.Until(t.status.StopBy))
	}
	return left, log
}

// logBeforeTheEnd logs, and waits for that only as long as the end of the process can wait.
func (t *tenure) logBeforeTheEnd(text string) {
	logged := make(chan struct{})
	go func() {
		defer close(logged)
		t.config.Logger.Error(text)
	}()
	select {
	case <-logged:
	case <-time.After(Margin / 10):
	}
}
