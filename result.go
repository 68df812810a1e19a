package informer

import (
	"errors"
	"fmt"
	"time"

	"github.com/typedinformer/informer/status"
)

// Result says when to reconcile a key again. If Reconcile returns an error, only Priority counts: the queue's limiter
// sets the delay, and the failure count of the key increases.
type Result struct {
	// RequeueAfter is the delay until the next reconcile of the key. Zero means no reconcile until the next event. Unless
	// Backoff is set, the failure count is reset.
	RequeueAfter time.Duration
	// Backoff retries the key after the delay of the queue's limiter or RequeueAfter, whichever is longer. It increases
	// the failure count, as an error does. Use it to wait for something that does not exist yet, which is no failure.
	// False means no backoff.
	Backoff bool
	// Priority is the priority of the key in the queue. Zero means the priority with which it was handed out.
	Priority Priority
}

// panicError is the error of a call of Reconcile that panicked.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic of Reconcile: %v", e.value) }

// isFailure reports whether err is an error that a later call may not have: no panic, and no [TerminalError].
func isFailure(err error) bool {
	terminal, panicked := (*terminalError)(nil), (*panicError)(nil)
	return err != nil && !errors.As(err, &panicked) && !errors.As(err, &terminal)
}

// next returns how to add the key again, and what to count for a call that returned r and err.
func (r Result) next(err error) (again AddOptions, count func(*status.Controller)) {
	again.Priority = r.Priority
	terminal, panicked := (*terminalError)(nil), (*panicError)(nil)
	switch {
	case errors.As(err, &terminal):
		return again, func(s *status.Controller) { s.Failed++; s.Terminal++ }
	case errors.As(err, &panicked):
		again.RateLimited = true
		return again, func(s *status.Controller) { s.Failed++; s.Panicked++ }
	case err != nil:
		again.RateLimited = true
		return again, func(s *status.Controller) { s.Failed++ }
	case r.Backoff:
		again.RateLimited, again.After = true, r.RequeueAfter
		return again, func(s *status.Controller) { s.BackedOff++ }
	case r.RequeueAfter > 0:
		again.After = r.RequeueAfter
		return again, func(s *status.Controller) { s.RequeuedAfter++ }
	}
	return again, func(s *status.Controller) { s.Succeeded++ }
}
