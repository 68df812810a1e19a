package informer

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// RateLimiter computes the delay before each retry of a key. It has the methods of client-go's
// workqueue.TypedRateLimiter, so a limiter written for client-go works without changes. Its methods must be safe for
// concurrent use; a [Queue] calls them without holding its lock.
type RateLimiter[K comparable] interface {
	// When counts a try of key, and returns the delay before it.
	When(key K) time.Duration
	// Forget resets the count of key, which has succeeded or is no longer retried. The next try counts as the first.
	Forget(key K)
	// NumRequeues returns the number of tries of key since the last Forget.
	NumRequeues(key K) int
}

// DefaultLimiter returns a new limiter with the defaults of Kubernetes controllers. The delay is the longer of two: an
// exponential backoff from 5 ms to 1,000 s for each key, and the delay of one token bucket for all keys, which holds
// 100 tokens and gets 10 per second. After an outage that failed thousands of keys, the bucket admits 10 of them per
// second. For a delay that depends on the tries of the key only, use an ExponentialLimiter.
func DefaultLimiter[K comparable]() RateLimiter[K] {
	return MaxOfLimiter[K]{&ExponentialLimiter[K]{}, &BucketLimiter[K]{rate.NewLimiter(10, 100)}}
}

// ExponentialLimiter doubles the delay with each try of a key. It holds one counter for each key that was tried and not
// yet forgotten. The zero value is ready to use. All methods are safe for concurrent use.
type ExponentialLimiter[K comparable] struct {
	// Base is the delay before the first try. Zero means 5 ms.
	Base time.Duration
	// Max is the longest delay. Zero means 1,000 s.
	Max time.Duration

	mu    sync.Mutex // protects tries
	tries map[K]int
}

// When counts a try of key. After n earlier tries it returns Base doubled n times, but at most Max.
func (l *ExponentialLimiter[K]) When(key K) time.Duration {
	base, longest := l.Base, l.Max
	if base <= 0 {
		base = 5 * time.Millisecond
	}
	if longest <= 0 {
		longest = 1000 * time.Second
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tries == nil {
		l.tries = map[K]int{}
	}
	n := l.tries[key]
	l.tries[key] = n + 1
	if n >= 63 || base > longest>>n { // base << n would exceed longest or overflow
		return longest
	}
	return base << n
}

// Forget drops the key's counter.
func (l *ExponentialLimiter[K]) Forget(key K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tries, key)
}

// NumRequeues returns the key's counter.
func (l *ExponentialLimiter[K]) NumRequeues(key K) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tries[key]
}

// BucketLimiter limits the tries of all keys together.
type BucketLimiter[K comparable] struct {
	// Limiter is the bucket. Nil means that there is no limit.
	Limiter *rate.Limiter
}

// When reserves a token, and returns the time until it is available.
func (l *BucketLimiter[K]) When(K) time.Duration {
	if l.Limiter == nil {
		return 0
	}
	return l.Limiter.Reserve().Delay()
}

// Forget does nothing: a bucket does not take tokens back.
func (l *BucketLimiter[K]) Forget(K) {}

// NumRequeues returns zero: a bucket does not count tries by key.
func (l *BucketLimiter[K]) NumRequeues(K) int { return 0 }

// MaxOfLimiter returns the largest result of its limiters.
type MaxOfLimiter[K comparable] []RateLimiter[K]

// When counts a try of key with each limiter, and returns the longest delay.
func (m MaxOfLimiter[K]) When(key K) (wait time.Duration) {
	for _, l := range m {
		wait = max(wait, l.When(key))
	}
	return wait
}

// Forget calls Forget of each limiter.
func (m MaxOfLimiter[K]) Forget(key K) {
	for _, l := range m {
		l.Forget(key)
	}
}

// NumRequeues returns the largest number of the limiters.
func (m MaxOfLimiter[K]) NumRequeues(key K) (n int) {
	for _, l := range m {
		n = max(n, l.NumRequeues(key))
	}
	return n
}
