package queue

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// Guarantees: Q4
func TestEarliestTimeWins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		began := time.Now()
		q := newQueue()
		q.AddAfter("a", time.Minute)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", time.Hour)
		q.AddAfter("b", 2*time.Second)
		for i, want := range []string{"a", "b"} {
			key, err := q.Get(t.Context())
			if took := time.Since(began); err != nil || key != want || took != time.Duration(i+1)*time.Second {
				t.Errorf("%s after %v", key, took)
			}
			q.Done(key)
		}
		<-time.After(2 * time.Hour)
		expectNone(t, q)
	})
}

// Guarantees: Q4
func TestAddForgetsTheTimer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddAfter("a", time.Minute)
		q.Add("a")
		if s := q.Status(); s.Delayed != 0 || q.Len() != 1 {
			t.Errorf("%+v", s)
		}
		expect(t, q, "a")
		q.AddAfter("a", time.Minute)
		q.AddAfter("a", -1)
		expect(t, q, "a")
		<-time.After(time.Hour)
		expectNone(t, q)
	})
}

// Guarantees: Q4
func TestCancelRemovesTheKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		if q.Cancel("unknown") {
			t.Error("an unknown key was cancelled")
		}
		q.Add("ready")
		q.AddAfter("delayed", time.Second)
		q.AddAfter("later", 2*time.Second)
		q.Add("b")
		if !q.Cancel("ready") || !q.Cancel("delayed") || q.Cancel("ready") || q.Cancel("delayed") {
			t.Error("Cancel returned the wrong result")
		}
		expect(t, q, "b")
		<-time.After(time.Minute)
		expect(t, q, "later")

		q.Add("work")
		take(t, q)
		if q.Cancel("work") {
			t.Error("work under way was cancelled")
		}
		q.Add("work")
		if !q.Cancel("work") {
			t.Error("the second run was not cancelled")
		}
		q.AddAfter("work", time.Second)
		if !q.Cancel("work") {
			t.Error("the delayed run was not cancelled")
		}
		q.Done("work")
		<-time.After(time.Minute)
		expectNone(t, q)
		if s := q.Status(); s.Delayed != 0 || s.InWork != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// Guarantees: Q4
func TestDelayedWhileInWorkKeepsItsTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		began := time.Now()
		q := newQueue()
		q.Add("a")
		take(t, q)
		q.AddAfter("a", time.Minute)
		q.Done("a")
		expectNone(t, q)
		key, _ := q.Get(t.Context())
		if took := time.Since(began); key != "a" || took != time.Minute {
			t.Errorf("%q after %v", key, took)
		}
		q.AddAfter("a", time.Minute) // due while in work
		<-time.After(2 * time.Minute)
		if n := q.Len(); n != 1 {
			t.Errorf("%d ready", n)
		}
		q.Done("a")
		expect(t, q, "a")
		expectNone(t, q)
	})
}

// Guarantees: Q4
func TestEqualTimesInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		var keys []string
		for i := range 200 {
			keys = append(keys, strconv.Itoa(i))
		}
		q.AddWith(informer.AddOptions{After: time.Second}, keys...)
		q.AddAfter("100", time.Second) // no sooner than before, so it keeps its place
		<-time.After(2 * time.Second)
		expect(t, q, keys...)
	})
}

// A key that replaces another one in the heap of delays may be earlier than its new parent. Here the heap's last key is
// earlier than the parent of the removed key.
// Guarantees: Q4
func TestKeysStayInOrderWhenADelayedKeyIsTakenOut(t *testing.T) {
	for name, takeOut := range map[string]func(q *informer.Queue[string]){
		"Cancel": func(q *informer.Queue[string]) { q.Cancel("h5") },
		"Add":    func(q *informer.Queue[string]) { q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "h5") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				q := newQueue()
				defer q.Close()
				// The keys are added in heap order: h0 is the root, h1 to h4 are its children, h5 to h8 are below h1,
				// h17 to h20 below h4. When h5 is removed, h20 takes its place below h1, and must move up past it.
				seconds := []int{1, 100, 3, 4, 2, 101, 102, 103, 104, 30, 31, 32, 33, 40, 41, 42, 43, 20, 21, 22, 23}
				for i, s := range seconds {
					q.AddAfter(fmt.Sprint("h", i), time.Duration(s)*time.Second)
				}
				takeOut(q)
				if name == "Add" {
					expect(t, q, "h5")
				}
				// Each key is ready half a second after its time, and not half a second before.
				began := time.Now()
				order := slices.Sorted(slices.Values(seconds))
				for _, s := range order {
					if s == 101 {
						continue
					}
					<-testkit.After(time.Until(began.Add(time.Duration(s)*time.Second - time.Second/2)))
					if n := q.Len(); n != 0 {
						t.Fatalf("%d keys are ready %v before the next one", n, time.Second/2)
					}
					<-time.After(time.Second)
					synctest.Wait()
					expect(t, q, fmt.Sprint("h", slices.Index(seconds, s)))
				}
			})
		})
	}
}

// The timer fires at the very instant at which a key is due, and makes it ready. No second timer is needed.
// Guarantees: Q4
func TestDelayedKeyIsReadyAtTheInstantItIsDue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		defer q.Close()
		began := time.Now()
		q.AddAfter("a", time.Second)
		q.AddAfter("b", time.Second)
		q.AddAfter("c", time.Second+1)
		for i, c := range []struct {
			time time.Duration
			keys []string
		}{{time.Second - 1, nil}, {time.Second, []string{"a", "b"}}, {time.Second + 1, []string{"c"}}} {
			<-time.After(time.Until(began.Add(c.time)))
			synctest.Wait()
			if now := time.Since(began); now != c.time || q.Len() != len(c.keys) {
				t.Fatalf("step %d: %d keys are ready after %v, want %v after %v", i, q.Len(), now, c.keys, c.time)
			}
			expect(t, q, c.keys...)
		}
	})
}

// A delay beyond the largest time never ends. It does not overflow into the past.
// Guarantees: Q4
func TestForEver(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		<-time.After(time.Second)
		q.AddAfter("a", math.MaxInt64)
		q.AddAfter("b", time.Second)
		<-time.After(time.Minute)
		expect(t, q, "b")
		expectNone(t, q)
		q.Close()
	})
}

// Guarantees: Q5
func TestAddRateLimited(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for name, limiter := range map[string]informer.RateLimiter[string]{
			"default":   nil,
			"client-go": workqueue.DefaultTypedControllerRateLimiter[string](),
		} {
			q := informer.NewQueue(informer.QueueConfig[string]{RateLimiter: limiter})
			fail := func(want time.Duration) {
				t.Helper()
				began := time.Now()
				q.AddRateLimited("a")
				key, err := q.Get(t.Context())
				if took := time.Since(began); err != nil || took != want {
					t.Fatalf("%s: %q, %v after %v instead of %v", name, key, err, took, want)
				}
				q.Done(key)
			}
			for i := range 18 {
				fail(5 * time.Millisecond << i)
			}
			fail(1000 * time.Second)
			if n := q.NumRequeues("a"); n != 19 {
				t.Errorf("%d requeues", n)
			}
			q.Forget("a")
			if n := q.NumRequeues("a"); n != 0 {
				t.Errorf("%d requeues after Forget", n)
			}
			fail(5 * time.Millisecond)
			// All keys share a bucket: 100 at once, then 10 a second.
			q = informer.NewQueue(informer.QueueConfig[string]{RateLimiter: informer.DefaultLimiter[string]()})
			for i := range 130 {
				q.AddRateLimited(strconv.Itoa(i))
			}
			<-time.After(time.Second)
			if n := q.Len(); n < 109 || n > 111 {
				t.Errorf("%d ready after a second", n)
			}
			q.Close()
		}
	})
}

// Guarantees: Q6
func TestIntervalIsCountedByTheLimiter(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := informer.NewQueue(informer.QueueConfig[string]{RateLimiter: &informer.ExponentialLimiter[string]{Base: time.Second}})
		for _, want := range []int{5, 5, 5, 8, 16} { // seconds
			began := time.Now()
			q.AddWith(informer.AddOptions{After: 5 * time.Second, RateLimited: true}, "a")
			key, _ := q.Get(t.Context())
			if took := time.Since(began); took != time.Duration(want)*time.Second {
				t.Errorf("after %v instead of %d s", took, want)
			}
			q.Done(key)
		}
	})
}
