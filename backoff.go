package informer

import (
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	minBackoff    = 800 * time.Millisecond
	maxBackoff    = 30 * time.Second
	healthyAfter  = 2 * time.Minute  // the time without a failure that resets the backoff
	maxRetryAfter = 10 * time.Minute // the limit of a server's Retry-After
)

// backoff counts the consecutive failures of a reflector, and determines the wait after each. It is safe for concurrent
// use.
type backoff struct {
	mu      sync.Mutex // protects the fields below
	count   int        // consecutive failures, as of retryAt
	retryAt time.Time  // when the wait after the last failure ends
}

// failed counts one more failure and returns how long to wait: exponential backoff with full jitter, or the server's
// Retry-After.
func (b *backoff) failed(now time.Time, err error) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.failuresLocked(now)
	delay := rand.N(min(minBackoff<<min(before, 10), maxBackoff))
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		delay = min(time.Duration(seconds)*time.Second, maxRetryAfter)
		delay += rand.N(delay/10 + 1) // clients that the server rejected together should not retry together
	}
	b.count, b.retryAt = before+1, now.Add(delay)
	return delay
}

// failures returns the number of consecutive failures, and when the wait after the last one ends.
func (b *backoff) failures(now time.Time) (n int, retryAt time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failuresLocked(now), b.retryAt
}

func (b *backoff) failuresLocked(now time.Time) int {
	if now.Sub(b.retryAt) > healthyAfter {
		return 0
	}
	return b.count
}
