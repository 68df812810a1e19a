package informer

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/typedinformer/informer/internal/fetch"
	"github.com/typedinformer/informer/internal/rollout"
	"github.com/typedinformer/informer/internal/run"
)

// Run lists and watches until ctx ends or the sink fails. It returns the cause of ctx or the error of the sink. No
// other failure ends it. Every goroutine that it started has ended when it returns. A later Run resumes where this one
// ended. Two calls of Run must not overlap.
//
// In profiles, its goroutines have the label "informer" with the resource.
func (r *Reflector[T]) Run(ctx context.Context) (err error) {
	pprof.Do(ctx, pprof.Labels("informer", r.resource.String()), func(ctx context.Context) { err = r.run(ctx) })
	return err
}

func (r *Reflector[T]) run(ctx context.Context) error {
	defer r.enter(ReflectorIdle, nil)
	r.update(func(s *ReflectorStatus) {
		if s.NoWatchSince.IsZero() {
			s.NoWatchSince = time.Now()
		}
	})
	for {
		part, end := r.begin(ctx)
		_, retryAt := r.retries.Failures(time.Now())
		err := run.Sleep(part, time.Until(retryAt)) // a change of the shard does not cut a backoff short
		if err == nil {
			err = r.loop(part)
		}
		end(nil)
		if open := r.state.Watch.Open; open != nil {
			r.close(open)
			r.state.Watch.Open = nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch why := context.Cause(part); {
		case why == rollout.ErrChanged:
		case errors.Is(why, fetch.ErrDiverged):
			if err := r.recover(ctx, why); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// begin adopts the latest shard, and returns a context that ends when the shard changes.
func (r *Reflector[T]) begin(ctx context.Context) (part context.Context, end context.CancelCauseFunc) {
	part, end, changed := r.reshard.Take(ctx)
	if changed {
		r.resharded()
	}
	return part, end
}

// resharded enters the state after the shard of the requests has changed. It keeps watching if listing the rest of the
// shard suffices. After a silent watch, a list of the whole shard also shows whether the server went back in time. If
// objects could not be decoded, it shows which of them are in the shard.
func (r *Reflector[T]) resharded() {
	caughtUp := !r.state.Watch.CatchUp.Pending()
	if !caughtUp {
		r.warm.caughtUp()
	}
	r.mu.Lock()
	silent := time.Since(r.status.ResourceVersionTime) >= fetch.MinWatchTimeout
	r.mu.Unlock()
	if r.state.Phase == fetch.Watching && caughtUp && !silent && r.out.undecoded.Set == nil &&
		r.restSuffices() {
		r.state.Why = fetch.ReasonShard
	} else if r.reshard.Settle(); r.state.Version != "" {
		r.state = r.state.Relist(r.state.Version, fetch.ReasonShard)
	}
	if r.out.listed {
		r.state.List.Told = false // the sink gets the change even if the resource is absent
	}
}

// restSuffices reports whether to list only the rest of the shard. If the server does not filter by shard, it sends
// everything, so one list of the whole shard, at its newest version, is better.
func (r *Reflector[T]) restSuffices() bool {
	ok, lacks := r.reshard.RestSuffices()
	return ok && (!lacks || r.decoder.Outside() == r.outside)
}

// relist makes the reflector list everything again and compare contents, for the reason why.
func (r *Reflector[T]) relist(why error) { r.reshard.End(fmt.Errorf("%w: %w", fetch.ErrDiverged, why)) }

// loop lists and watches until ctx ends or the sink fails.
func (r *Reflector[T]) loop(ctx context.Context) error {
	for {
		moves := r.moves()
		err := run.Apart(func() error { return r.step(ctx) }) // step calls callbacks
		if failed := r.flush(); failed != nil {               // flushes deltas from before a failure, too
			err = failed
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if sink := (errSink{}); errors.As(err, &sink) {
			return sink.error
		}
		if err = r.absence.Explain(ctx, err); ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case err != nil:
			if err := r.recover(ctx, err); err != nil {
				return err
			}
		case !moves: // a move does not show that the server has reached the version
			r.state = r.state.Succeeded()
		}
	}
}

// recover enters the state after err, and waits for the backoff. It returns an error if ctx ends or the sink fails.
func (r *Reflector[T]) recover(ctx context.Context, err error) error {
	now := time.Now()
	next, wait, note := r.state.Failed(err, now)
	r.update(func(s *ReflectorStatus) {
		s.LastError, s.LastErrorTime = err, now
		if next.Why == fetch.ReasonRestored {
			s.Restored++
		}
	})
	r.reportFailure(err)
	from := r.state
	r.state = next
	if from.Watch.CatchUp.Pending() && !next.Watch.CatchUp.Pending() {
		r.warm.list(fmt.Errorf("the watch cannot resume at resource version %s: %w", from.Version, err))
	}
	enters := ReflectorBackoff
	switch wait {
	case fetch.NoWait:
		r.log.Info(note, "why", err, "resourceVersion", from.List.Least)
		return nil
	case fetch.UntilServed:
		enters = ReflectorAbsent
		if r.warm.pending() { // the objects of a saved state are gone
			r.warm.list(err)
		}
		if err := r.absent(ctx); err != nil {
			return err
		}
	default:
		if note != "" {
			r.log.Warn(note, "why", err, "resourceVersion", from.Version)
		}
	}
	delay := r.retries.Failed(now, err)
	r.enter(enters, err, "retryAfter", delay, "resourceVersion", r.state.Version,
		"relist", r.state.Phase == fetch.Listing)
	return run.Sleep(ctx, delay)
}

// reportFailure calls Config.OnFailure.
func (r *Reflector[T]) reportFailure(err error) {
	if r.config.OnFailure == nil {
		return
	}
	_ = run.Apart(func() error { // OnFailure may call runtime.Goexit
		r.decoder.Call(func() { r.config.OnFailure(err) })
		return nil
	})
}
