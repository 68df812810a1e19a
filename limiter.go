package informer

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// RateLimiter says how long a key has to wait before it is tried again. It is client-go's
// workqueue.TypedRateLimiter by shape, so that one that is written for client-go can be used as it is. Its methods must
// be safe for concurrent use; a [Queue] calls them without holding its lock.
type RateLimiter[K comparable] interface {
	// When counts a try of key, and returns how long to wait before it.
	When(key K) time.Duration
	// Forget drops what is known of key: it succeeded, or is given up. The next try is the first again.
	Forget(key K)
	// NumRequeues returns how many tries of key were counted since it was last forgotten.
	NumRequeues(key K) int
}

// DefaultLimiter returns a new limiter as controllers of Kubernetes have it by default: the longer of 5 ms to 1,000 s,
// doubling with each try of the key, and what a bucket of 100 that is filled at 10 a second gives all keys together.
// After an outage that failed thousands of keys the bucket lets them back at 10 a second; for keys that should come back
// by their own count alone, use an ExponentialLimiter.
func DefaultLimiter[K comparable]() RateLimiter[K] {
	return MaxOfLimiter[K]{&ExponentialLimiter[K]{}, &BucketLimiter[K]{rate.NewLimiter(10, 100)}}
}

// ExponentialLimiter doubles the wait with each try of a key. It holds one counter for each key that was tried and not
// yet forgotten. The zero value is ready to use.
type ExponentialLimiter[K comparable] struct {
	// Base is the wait before the first try. Zero means 5 ms.
	Base time.Duration
	// Max is the longest wait. Zero means 1,000 s.
	Max time.Duration

	mu    sync.Mutex // protects tries
	tries map[K]int
}

// When returns Base after n tries doubled n times, or Max if that is shorter.
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
	if n >= 63 || base > longest>>n { // before it overflows
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

// When takes a token, and returns how long it takes until there is one.
func (l *BucketLimiter[K]) When(K) time.Duration {
	if l.Limiter == nil {
		return 0
	}
	return l.Limiter.Reserve().Delay()
}

// Forget does nothing: a token that was taken is taken.
func (l *BucketLimiter[K]) Forget(K) {}

// NumRequeues returns zero: a bucket knows no keys.
func (l *BucketLimiter[K]) NumRequeues(K) int { return 0 }

// MaxOfLimiter asks each of its limiters and goes by the largest answer.
type MaxOfLimiter[K comparable] []RateLimiter[K]

// When returns the longest wait.
func (m MaxOfLimiter[K]) When(key K) (wait time.Duration) {
	for _, l := range m {
		wait = max(wait, l.When(key))
	}
	return wait
}

// Forget makes each limiter forget the key.
func (m MaxOfLimiter[K]) Forget(key K) {
	for _, l := range m {
		l.Forget(key)
	}
}

// NumRequeues returns the largest number.
func (m MaxOfLimiter[K]) NumRequeues(key K) (n int) {
	for _, l := range m {
		n = max(n, l.NumRequeues(key))
	}
	return n
}
