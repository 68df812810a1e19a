package fetch

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/source/budget"
)

const (
	leastBackoff  = 100 * time.Millisecond // full jitter alone would retry at once now and then
	minBackoff    = 800 * time.Millisecond // the upper limit of the first backoff
	maxBackoff    = 30 * time.Second
	healthyAfter  = 2 * time.Minute  // the time without a failure that resets the backoff
	maxRetryAfter = 10 * time.Minute // the limit of a server's Retry-After
	// minLargeBackoff is the first backoff after a collection that takes more memory than the informer may hold. The later
	// ones double, up to maxRetryAfter.
	minLargeBackoff = time.Minute
)

// Retries counts the consecutive failures of a source, and determines the wait after each. It is safe for concurrent
// use.
type Retries struct {
	mu      sync.Mutex // protects the fields below
	count   int        // consecutive failures, as of retryAt
	retryAt time.Time  // when the wait after the last failure ends
}

// Failed counts one more failure and returns how long to wait: exponential backoff with full jitter, at least
// leastBackoff, or the server's Retry-After.
func (r *Retries) Failed(now time.Time, err error) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.failuresLocked(now)
	delay := leastBackoff + rand.N(min(minBackoff<<min(before, 10), maxBackoff)-leastBackoff)
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		delay = min(time.Duration(seconds)*time.Second, maxRetryAfter)
		delay += rand.N(delay/10 + 1) // clients that the server rejected together should not retry together
	}
	if errors.Is(err, budget.ErrMaxMemory) { // each try reads a part of the collection
		delay = min(minLargeBackoff<<min(before, 10), maxRetryAfter)
		delay -= rand.N(delay / 10)
	}
	r.count, r.retryAt = before+1, now.Add(delay)
	return delay
}

// Reset forgets the failures so far, and that anything waits for them: a watch has worked since, or the client was
// updated.
func (r *Retries) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count, r.retryAt = 0, time.Time{}
}

// Failures returns the number of consecutive failures, and when the wait after the last one ends.
func (r *Retries) Failures(now time.Time) (n int, retryAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failuresLocked(now), r.retryAt
}

func (r *Retries) failuresLocked(now time.Time) int {
	if now.Sub(r.retryAt) > healthyAfter {
		return 0
	}
	return r.count
}
