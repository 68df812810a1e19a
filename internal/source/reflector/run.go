package reflector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/reshard"
	"github.com/typedinformer/informer/status"
)

// Run lists and watches until ctx ends, the sink fails or Config.PollEvery forbids to go on; see informer.Reflector.
func (l *Loop[T]) Run(ctx context.Context) error {
	ended := make(chan error, 1)
	l.Start(ctx, func(err error) { ended <- err })
	return <-ended
}

// Start is Run on a goroutine of its own, which it does not wait for. It calls done with the error of Run.
func (l *Loop[T]) Start(ctx context.Context, done func(error)) {
	l.update(func(r *record) {
		if r.noWatchSince.IsZero() {
			r.noWatchSince = time.Now()
		}
	})
	run.Resume(func(again bool) error {
		if again && l.failed == nil { // the sink or the logger has ended the goroutine, not a step
			return run.ErrGoroutineEnded
		}
		return l.follow(ctx)
	}, func(err error) {
		defer done(err)
		l.Progress.List.Close()
		l.enter(status.ReflectorIdle, nil)
	})
}

// follow lists and watches one shard after the other.
func (l *Loop[T]) follow(ctx context.Context) error {
	for {
		part, end := l.begin(ctx)
		_, retryAt := l.retries.Failures(time.Now())
		err := l.pause(part, time.Until(retryAt)) // a change of the shard does not cut a backoff short
		if err == nil {
			err = l.repeat(part)
		}
		end(nil)
		if open := l.state.Watch.Open; open != nil {
			l.close(open)
			l.state.Watch.Open = nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch why := context.Cause(part); {
		case why == reshard.ErrChanged:
		case errors.Is(why, fetch.ErrDiverged):
			if err := l.recover(ctx, why); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// begin adopts the latest shard, and returns a context that ends when the shard changes.
func (l *Loop[T]) begin(ctx context.Context) (part context.Context, end context.CancelCauseFunc) {
	part, end, changed := l.Shard.Take(ctx)
	if changed {
		l.resharded()
	}
	return part, end
}

// resharded enters the state after the shard of the requests has changed. It keeps watching if listing the rest of the
// shard suffices. After a silent watch, a list of the whole shard also shows whether the server went back in time. If
// objects could not be decoded, it shows which of them are in the shard.
func (l *Loop[T]) resharded() {
	caughtUp := !l.state.Watch.CatchUp.Pending()
	if !caughtUp {
		l.warm.caughtUp()
	}
	l.mu.Lock()
	silent := time.Since(l.record.resourceVersionTime) >= fetch.MinWatchTimeout
	l.mu.Unlock()
	if l.state.Phase == fetch.Watching && caughtUp && !silent && l.Sink.Stale() == 0 && l.restSuffices() {
		l.state.Why = status.ReasonShard
	} else if l.Shard.Settle(); l.state.Version != "" || l.state.Phase == fetch.Polling {
		l.state = l.state.Relist(l.state.Version, status.ReasonShard)
	}
	if l.listed {
		l.state.List.Told = false // the sink gets the change even if the resource is absent
	}
}

// restSuffices reports whether to list only the rest of the shard. If the server does not filter by shard, it sends
// everything, so one list of the whole shard, at its newest version, is better.
func (l *Loop[T]) restSuffices() bool {
	ok, lacks := l.Shard.RestSuffices()
	return ok && (!lacks || l.Decoder.Outside() == l.outside)
}

// Relist makes the loop list everything again and compare contents, for the reason why. Any goroutine may call it.
func (l *Loop[T]) Relist(why error) { l.Shard.End(fmt.Errorf("%w: %w", fetch.ErrDiverged, why)) }

// repeat lists and watches until ctx ends, the sink fails or Config.PollEvery forbids to go on.
func (l *Loop[T]) repeat(ctx context.Context) error {
	for {
		moves := l.moves()
		err := l.failed
		if err == nil {
			l.updated = l.Source.Updated()
			l.failed = run.ErrGoroutineEnded // unless step returns; it calls callbacks
			err = l.step(ctx)
		}
		l.failed = nil
		if err = l.conclude(ctx, moves, err); err != nil {
			return err
		}
	}
}

// conclude enters the state after a step that returned err; moves says that it was a move. It returns an error if ctx
// ends, the sink fails or Config.PollEvery forbids to go on. It is apart from repeat because a watch that waits should
// have a small stack.
func (l *Loop[T]) conclude(ctx context.Context, moves bool, err error) error {
	if failed := l.flush(); failed != nil { // flushes deltas from before a failure, too
		err = failed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if sink := (errSink{}); errors.As(err, &sink) {
		return sink.error
	}
	if err = l.Absence.Explain(ctx, err); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	switch {
	case errors.Is(err, fetch.ErrUpdated):
		l.state = l.state.Updated()
		l.retries.Reset()
		l.Log.Info("the client was updated: going on from where the reflector was",
			"resourceVersion", l.state.Version)
	case err != nil:
		return l.recover(ctx, err)
	case !moves: // a move does not show that the server has reached the version
		l.state = l.state.Succeeded()
	}
	return nil
}

// recover enters the state after err, and waits for the backoff. It returns an error if ctx ends, the sink fails or
// Config.PollEvery forbids to go on.
func (l *Loop[T]) recover(ctx context.Context, err error) error {
	now := time.Now()
	next, wait, note := l.state.Failed(err, now)
	l.update(func(r *record) {
		r.lastError, r.lastErrorTime = err, now
		if next.Why == status.ReasonRestored {
			r.restored++
		}
	})
	l.reportFailure(err)
	if l.PollEvery < 0 && errors.Is(err, fetch.ErrNoWatch) {
		return err
	}
	from := l.state
	l.state = next
	if from.Watch.CatchUp.Pending() && !next.Watch.CatchUp.Pending() {
		l.warm.list(fmt.Errorf("the watch cannot resume at resource version %s: %w", from.Version, err))
	}
	enters := status.ReflectorBackoff
	switch wait {
	case fetch.NoWait:
		l.Log.Info(note, "why", err, "resourceVersion", from.Version)
		return nil
	case fetch.UntilServed:
		enters = status.ReflectorAbsent
		if l.warm.pending() { // the objects of a saved state are gone
			l.warm.list(err)
		}
		if err := l.absent(ctx); err != nil {
			return err
		}
	default:
		if note != "" {
			l.Log.Warn(note, "why", err, "resourceVersion", from.Version)
		}
	}
	if limit := l.Source.Traffic().CutAfter; limit != l.cutAfter {
		if l.cutAfter = limit; limit > 0 {
			l.Log.Info("something between client and server cuts watches: the server is asked to end the next ones before",
				"after", limit)
		}
	}
	// Lists cost the server more than watches. If each watch after a list works, and then needs the next list, the waits
	// grow.
	if l.Source.Worked() && next.Phase == fetch.Watching {
		l.retries.Reset()
	}
	delay := l.retries.Failed(now, err)
	l.enter(enters, err, "retryAfter", delay, "resourceVersion", l.state.Version,
		"relist", l.state.Phase == fetch.Listing)
	if l.Waiting != nil {
		l.Waiting()
	}
	return l.pause(ctx, delay)
}

// pause waits for d after a failure. An update of the client since the failed request began ends the wait, since its
// credentials or its address may have been the reason.
func (l *Loop[T]) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 || l.updated == nil {
		return run.Sleep(ctx, d)
	}
	waiting, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(l.updated, end)()
	if err := run.Sleep(waiting, d); err == nil || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.retries.Reset()
	return nil
}

// reportFailure calls OnFailure.
func (l *Loop[T]) reportFailure(err error) {
	if l.OnFailure == nil {
		return
	}
	_ = run.Apart(func() error { // OnFailure may call runtime.Goexit
		l.Decoder.Call(func() { l.OnFailure(err) })
		return nil
	})
}
