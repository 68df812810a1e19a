// Package run has the small parts with which goroutines wait for each other, and a [Pipeline], which shares work among
// workers and keeps its order.
package run

import (
	"context"
	"time"
)

// Sleep waits for d. If ctx ends first, it returns the cause of ctx. It returns nil at once if d is not above zero.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Signal puts a token into a channel that holds one, unless it has one already.
func Signal(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// IsClosed reports whether a channel that nothing is sent on is closed.
func IsClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
