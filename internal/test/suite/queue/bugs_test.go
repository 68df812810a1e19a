package queue

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
)

// The tests of this file are for bugs that other queues had.

// controller-runtime changed its tree while iterating over it (#3060).
func TestKeysMayBecomeReadyWhileOthersAreHandedOut(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		const keys = 1000
		var workers sync.WaitGroup
		var mu sync.Mutex
		seen := map[string]int{}
		for range 4 {
			workers.Go(func() {
				for {
					key, err := q.Get(t.Context())
					if err != nil {
						return
					}
					mu.Lock()
					seen[key]++
					if seen[key] == 1 {
						q.AddAfter(key, time.Millisecond)
					}
					mu.Unlock()
					q.Done(key)
				}
			})
		}
		for i := range keys {
			q.AddAfter(strconv.Itoa(i), time.Millisecond)
		}
		<-time.After(time.Second)
		q.Close()
		workers.Wait()
		for i := range keys {
			if n := seen[strconv.Itoa(i)]; n != 2 {
				t.Errorf("%d ran %d times", i, n)
			}
		}
	})
}

// The depth counted once, but subtracted twice, a delayed key that a second add made ready (#3066).
func TestDepthIsNeverNegative(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		check := func(want int) {
			t.Helper()
			if d := q.Status().Depth; d.High != 0 || d.Low != 0 || d.Normal != 0 && d.Normal != want {
				t.Errorf("depth %+v", d)
			}
		}
		q.AddAfter("a", time.Second)
		check(0)
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
		check(1) // NormalPriority, from AddAfter
		take(t, q)
		check(0)
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
		q.Add("a")
		check(1)
		q.Cancel("a")
		check(0)
		q.Done("a")
		check(0)
		q.AddAfter("a", time.Second)
		<-time.After(2 * time.Second)
		check(1)
		q.Close()
		check(0)
	})
}

// A failed key returned at the default priority instead of its own, low or high (#3157).
func TestRequeueKeepsThePriority(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, p := range []informer.Priority{informer.LowPriority, informer.HighPriority} {
			for name, requeue := range map[string]func(q *informer.Queue[string]){
				"AddRateLimited": func(q *informer.Queue[string]) { q.AddRateLimited("a") },
				"AddAfter":       func(q *informer.Queue[string]) { q.AddAfter("a", time.Second) },
			} {
				q := newQueue()
				q.AddWith(informer.AddOptions{Priority: p}, "a")
				for range 3 {
					take(t, q)
					requeue(q)
					q.Done("a")
					<-time.After(time.Minute)
					if n := q.Len(p); n != 1 {
						t.Errorf("%s at %v: %v", name, p, q.Status().Depth)
					}
				}
			}
		}
		// A change in between sets the priority.
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
		take(t, q)
		q.AddRateLimited("a")
		q.Add("a")
		q.Done("a")
		if n := q.Len(informer.NormalPriority); n != 1 {
			t.Errorf("%v", q.Status().Depth)
		}
	})
}

// Get after ShutDown blocked forever (#3239).
func TestGetDoesNotBlockAfterClose(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Add("a")
		q.Close()
		for range 2 {
			if key, err := q.Get(t.Context()); err != informer.ErrClosed {
				t.Errorf("%q, %v", key, err)
			}
		}
	})
}

// Keys added after ShutDown were stored (#3250).
func TestKeysAddedAfterCloseAreNotStored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		closed, drained := newQueue(), newQueue()
		closed.Close()
		if err := drained.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, q := range []*informer.Queue[string]{closed, drained} {
			q.Add("a")
			q.AddAfter("b", time.Second)
			q.AddRateLimited("c")
			<-time.After(time.Minute)
			if s := q.Status(); q.Len() != 0 || s.Delayed != 0 || s.Adds != 0 || s.Refused != 3 {
				t.Errorf("%+v", s)
			}
			if err := q.WaitProcessed(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// A delayed key with a high priority ran after ready ones with lower priorities (#3330).
func TestDelayedKeyOfAHighPriorityComesFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "low1", "low2")
		q.AddAfter("normal", time.Second)
		q.AddWith(informer.AddOptions{Priority: informer.HighPriority, After: 2 * time.Second}, "high")
		<-time.After(time.Minute)
		expect(t, q, "high", "normal", "low1", "low2")
	})
}

// A waiter got the key that was first when it began to wait, or another waiter's key.
func TestWaiterGetsTheFirstKey(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		got := make(chan string, 2)
		for range 2 {
			go func() {
				key, err := q.Get(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- key
			}()
		}
		synctest.Wait()
		q.AddAfter("b", 2*time.Second)
		q.AddAfter("a", time.Second)
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		if len(got) != 1 || <-got != "a" {
			t.Error("a must be the first ready key")
		}
		if key := <-got; key != "b" {
			t.Error(key)
		}
		if s := q.Status(); s.InWork != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// A key whose priority changed kept its old sequence number (#3408).
func TestKeyThatChangesItsPriorityGoesLast(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "old")
		q.AddWith(informer.AddOptions{}, "a", "b")
		q.Add("old")
		q.Add("c")
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
		expect(t, q, "a", "b", "old", "c")
	})
}

// Each priority in use became its own metric label (#3396).
func TestMetricLabelsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		labels := map[string]bool{}
		observe := func(p informer.Priority, _ time.Duration) { labels[p.String()] = true }
		q := informer.NewQueue(informer.QueueConfig[string]{OnGet: observe, OnDone: observe})
		for p := -1000; p < 1000; p++ {
			key := strconv.Itoa(p)
			q.AddWith(informer.AddOptions{Priority: informer.Priority(p)}, key)
			if d := q.Status().Depth; d.Sum() != 1 || p < 0 != (d.Low == 1) || p > 0 != (d.High == 1) {
				t.Fatalf("%d: %+v", p, d)
			}
			expect(t, q, key)
		}
		if len(labels) != 3 {
			t.Error(labels)
		}
	})
}

// Add waited for 10 ms while the queue scanned a million keys. Half of the calls may be slow, since the machine may be; with
// a scan of every key all of them would be. BenchmarkQueue and BenchmarkQueueAddAfter have a million keys.
func TestAddDoesNotWaitForManyKeys(t *testing.T) {
	q := informer.NewQueue(informer.QueueConfig[int]{})
	const many = 100_000
	for i := range many {
		q.Add(i)
		q.AddAfter(many+i, time.Hour)
	}
	took := make([]time.Duration, 0, 1001)
	for i := range cap(took) {
		began := time.Now()
		q.AddAfter(2*many+2*i, time.Minute-time.Duration(i)*time.Millisecond)
		q.Add(2*many + 2*i + 1)
		key, err := q.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.Done(key)
		took = append(took, time.Since(began))
	}
	q.Close()
	slices.Sort(took)
	t.Logf("median %v, longest %v", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > 200*time.Microsecond {
		t.Errorf("median %v", took[len(took)/2])
	}
}

// The queue handed a key, under its lock, to a waiter that had just left, and no one got keys any more (#3538).
func TestCloseWhileHandingOutDoesNotDeadlock(t *testing.T) {
	for round := range 300 {
		inBubble(t, func(t *testing.T) {
			q := newQueue()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var workers sync.WaitGroup
			for range 4 {
				workers.Go(func() {
					for {
						key, err := q.Get(ctx)
						if err != nil {
							return
						}
						q.AddAfter(key, time.Millisecond)
						q.Done(key)
					}
				})
			}
			for i := range 10 {
				workers.Go(func() { q.Add(strconv.Itoa(i)) })
			}
			var err error
			switch round % 3 {
			case 0:
				q.Close()
			case 1:
				err = q.Drain(t.Context())
			case 2:
				workers.Go(cancel)
				q.Close()
			}
			workers.Wait() // in a bubble a deadlock is a panic
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A delayed key that was made ready and finished early ran again at its time.
func TestDelayedKeyDoesNotRunAgainAfterItWasDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddAfter("a", time.Second)
		q.Add("a")
		expect(t, q, "a")
		q.Add("b")
		take(t, q)
		q.AddAfter("b", time.Second)
		q.Add("b") // a change comes before the retry
		q.Done("b")
		expect(t, q, "b")
		q.Add("c")
		q.AddAfter("c", time.Second) // c runs before that time
		expect(t, q, "c")
		<-time.After(time.Hour)
		expectNone(t, q)
		if s := q.Status(); s.Delayed != 0 {
			t.Errorf("%+v", s)
		}
	})
}
