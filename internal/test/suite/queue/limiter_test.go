package queue

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/typedinformer/informer"
)

// The ecosystem's limiters can be used, and ours return the same delays.
// Guarantees: Q5
func TestLimitersAsInClientGo(t *testing.T) {
	type limiter = informer.RateLimiter[string]
	synctest.Test(t, func(t *testing.T) {
		for name, pair := range map[string][2]limiter{
			"default": {informer.DefaultLimiter[string](), workqueue.DefaultTypedControllerRateLimiter[string]()},
			"exponential": {
				&informer.ExponentialLimiter[string]{Base: 3 * time.Millisecond, Max: time.Hour},
				workqueue.NewTypedItemExponentialFailureRateLimiter[string](3*time.Millisecond, time.Hour),
			},
			"base above max": {
				&informer.ExponentialLimiter[string]{Base: time.Hour, Max: time.Minute},
				workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Hour, time.Minute),
			},
			"bucket": {
				&informer.BucketLimiter[string]{Limiter: rate.NewLimiter(3, 5)},
				&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(3, 5)},
			},
			"max": {
				informer.MaxOfLimiter[string]{&informer.ExponentialLimiter[string]{}, &informer.BucketLimiter[string]{Limiter: rate.NewLimiter(100, 1)}},
				workqueue.NewTypedMaxOfRateLimiter[string](
					workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second),
					&workqueue.TypedBucketRateLimiter[string]{Limiter: rate.NewLimiter(100, 1)}),
			},
		} {
			ours, theirs := pair[0], pair[1]
			for i := range 500 {
				key := strconv.Itoa(i * i % 7)
				if i%50 == 0 {
					ours.Forget(key)
					theirs.Forget(key)
				}
				if a, b := ours.When(key), theirs.When(key); a != b {
					t.Fatalf("%s: try %d of %s waits %v, client-go's %v", name, i, key, a, b)
				}
				if a, b := ours.NumRequeues(key), theirs.NumRequeues(key); a != b {
					t.Fatalf("%s: %d requeues of %s, client-go %d", name, a, key, b)
				}
				if i%10 == 0 {
					<-time.After(time.Second)
				}
			}
		}
	})
}

// client-go's limiter returns a negative time at the 64th try.
// Guarantees: Q5
func TestExponentialLimiterDoesNotOverflow(t *testing.T) {
	limiter := &informer.ExponentialLimiter[string]{Base: 1, Max: math.MaxInt64}
	for last, i := time.Duration(0), 0; i < 200; i++ {
		wait := limiter.When("a")
		if wait < last || wait == last && wait != math.MaxInt64 {
			t.Fatalf("try %d waits %v, the one before %v", i, wait, last)
		}
		last = wait
	}
}

// A bucket without a Limiter delays nothing.
func TestBucketLimiterWithoutALimiter(t *testing.T) {
	var l informer.BucketLimiter[string]
	for range 1000 {
		if d := l.When("a"); d != 0 {
			t.Fatalf("a delay of %v", d)
		}
	}
}
