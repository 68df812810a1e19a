// Package run has the small parts with which goroutines wait for each other, and a [Pipeline], which shares work among
// workers and keeps its order.
package run

import (
	"context"
	"sync"
	"time"
)

// Sleep waits for d, or until ctx ends. It returns nil if ctx is alive at the end, and the cause of ctx otherwise. It
// returns at once if d is not above zero.
func Sleep(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// Signal puts a token into a channel that holds one, unless it has one already.
func Signal(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// Broadcast wakes goroutines that wait for the next of many events. The zero value is ready to use. All methods are
// safe for concurrent use.
type Broadcast struct {
	mu   sync.Mutex    // protects next
	next chan struct{} // closed by the next Send; nil if nothing waits
}

// Next returns a channel that the next Send closes. Take it before you look at what Send announces, to miss nothing.
func (b *Broadcast) Next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// Send wakes everyone who waits.
func (b *Broadcast) Send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
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

// Limit limits the number of goroutines between Enter and Leave. Nil means no limit.
type Limit chan struct{}

// NewLimit returns a limit of n goroutines.
func NewLimit(n int) Limit { return make(Limit, n) }

// Enter waits until fewer goroutines than the limit are between Enter and Leave.
func (l Limit) Enter() {
	if l != nil {
		l <- struct{}{}
	}
}

// Leave lets another goroutine enter.
func (l Limit) Leave() {
	if l != nil {
		<-l
	}
}

// Until returns a context that ends like ctx, or with cause when stopped is closed. The caller must call end, which
// waits for the goroutine that watches stopped.
func Until(ctx context.Context, stopped <-chan struct{}, cause error) (_ context.Context, end func()) {
	if IsClosed(stopped) {
		ended, cancel := context.WithCancelCause(ctx)
		cancel(cause)
		return ended, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-stopped:
			cancel(cause)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}
