// Package queue tests Queue by its exported API.
package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
)

func newQueue() *informer.Queue[string] {
	return informer.NewQueue(informer.QueueConfig[string]{})
}

// take gets a key. The key must be ready: in a bubble nothing else could wake a waiting Get.
func take(t *testing.T, q *informer.Queue[string]) string {
	t.Helper()
	if q.Len() == 0 {
		t.Fatal("no key is ready")
	}
	key, err := q.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// expect takes these keys, in this order, and calls Done for each.
func expect(t *testing.T, q *informer.Queue[string], keys ...string) {
	t.Helper()
	for i, want := range keys {
		key := take(t, q)
		if key != want {
			t.Fatalf("key %d is %s instead of %s", i, key, want)
		}
		q.Done(key)
	}
}

// expectNone checks that no key is ready, also for a Get that waits.
func expectNone(t *testing.T, q *informer.Queue[string]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if key, err := q.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %q, %v", key, err)
	}
	if n := q.Len(); n != 0 {
		t.Fatalf("%d keys are ready", n)
	}
}

func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

// Guarantees: Q1
func TestKeyWaitsOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		for range 3 {
			q.Add("a")
			q.Add("b")
			q.AddAfter("a", time.Second)
			q.AddRateLimited("b")
			q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a", "b", "a")
		}
		if n := q.Len(); n != 2 {
			t.Errorf("%d keys", n)
		}
		expect(t, q, "a", "b")
		expectNone(t, q)
		<-time.After(time.Hour)
		expectNone(t, q)
	})
}

// Guarantees: Q1
func TestKeyInWorkIsGivenToNobodyElse(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
		take(t, q)
		var second string
		go func() { second, _ = q.Get(t.Context()) }()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
		q.Add("a")
		q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, "a")
		q.Add("a")
		synctest.Wait()
		if second != "" {
			t.Fatal("given to a second worker")
		}
		if got := q.Status().Depth; got.High != 1 || q.Len() != 1 {
			t.Errorf("depth %v: the key must have its highest priority", got)
		}
		q.Add("b")
		synctest.Wait()
		if second != "b" {
			t.Fatalf("the waiter has %q", second)
		}
		q.Done("a")
		q.Done("b")
		expect(t, q, "a")
		expectNone(t, q)
	})
}

// Guarantees: Q2
func TestGetEndsWithTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		cause := errors.New("leadership lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 8)
		for range cap(ended) {
			go func() { _, err := q.Get(ctx); ended <- err }()
		}
		synctest.Wait()
		cancel(cause)
		for range cap(ended) {
			if err := <-ended; err != cause {
				t.Error(err)
			}
		}
		q.Add("a")
		if key, err := q.Get(ctx); err != cause {
			t.Errorf("a cancelled worker got %q, %v", key, err)
		}
		expect(t, q, "a")
	})
}

// Guarantees: Q2
func TestFIFOWithinAPriority(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, p := range []informer.Priority{informer.LowPriority, informer.NormalPriority, informer.HighPriority} {
			q := newQueue()
			var keys []string
			for i := range 100 {
				keys = append(keys, strconv.Itoa(i))
			}
			q.AddWith(informer.AddOptions{Priority: p}, keys...)
			q.AddWith(informer.AddOptions{Priority: p}, "50", "0") // keep their places
			expect(t, q, keys...)
		}
	})
}

// Each added key wakes one of many waiters, however the earlier wake-ups were used.
// Guarantees: Q2
func TestNoWakeUpIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		const waiters = 16
		got := make(chan string, waiters)
		for range waiters {
			go func() {
				key, err := q.Get(t.Context())
				if err != nil {
					t.Error(err)
				}
				got <- key
			}()
		}
		synctest.Wait()
		q.Add("0") // one key first, then many
		synctest.Wait()
		if len(got) != 1 {
			t.Fatalf("%d waiters got one key", len(got))
		}
		for i := 1; i < waiters; i++ {
			q.Add(strconv.Itoa(i))
		}
		synctest.Wait()
		seen := map[string]bool{}
		for range len(got) {
			seen[<-got] = true
		}
		if len(seen) != waiters {
			t.Errorf("%d keys were handed out", len(seen))
		}
	})
}

// slowToWait is a context that delays a Get that found no key: it starts to wait only when may is closed.
type slowToWait struct {
	context.Context
	may chan struct{}
}

func (c slowToWait) Done() <-chan struct{} {
	<-c.may
	return c.Context.Done()
}

// Keys that arrive before workers start to wait wake none of them. There is one token for all; each worker passes it on.
// Guarantees: Q2
func TestNoWakeUpIsLostOnTheWayToWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		var may []chan struct{}
		for range 3 {
			ctx := slowToWait{t.Context(), make(chan struct{})}
			may = append(may, ctx.may)
			go q.Get(ctx)
		}
		synctest.Wait()
		q.AddWith(informer.AddOptions{}, "a", "b", "c")
		for i := range may {
			close(may[i])
			synctest.Wait()
			if n := q.Len(); n != 2-i {
				t.Fatalf("%d keys are ready while a worker waits", n-2+i)
			}
		}
	})
}

// Guarantees: Q2
func TestCancelledWaiterPassesTheTokenOn(t *testing.T) {
	for range 300 {
		inBubble(t, func(t *testing.T) {
			q := newQueue()
			ctx, cancel := context.WithCancel(t.Context())
			for _, ctx := range []context.Context{ctx, t.Context()} { // they are woken in order of arrival
				go func() {
					if key, err := q.Get(ctx); err == nil {
						q.Done(key)
					}
				}()
				synctest.Wait()
			}
			q.Add("a")
			cancel()
			synctest.Wait()
			if n := q.Len(); n != 0 {
				t.Error("a key is ready while a worker waits")
			}
			q.Close()
		})
	}
}

// Guarantees: Q3
func TestHigherPrioritiesRunFirst(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "low1", "low2")
		q.AddWith(informer.AddOptions{Priority: -100}, "low3") // controller-runtime's LowPriority
		q.Add("normal1")
		q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, "high1")
		q.AddWith(informer.AddOptions{Priority: math.MaxInt}, "high2")
		q.Add("normal2")
		expect(t, q, "high1", "high2", "normal1", "normal2", "low1", "low2", "low3")
	})
}

// Guarantees: Q3
func TestWaitingKeyMovesUpAndNeverDown(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a", "b", "c")
		q.Add("b")
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "b")
		q.AddWith(informer.AddOptions{Priority: informer.HighPriority, After: time.Hour}, "c") // c stays ready
		expect(t, q, "c", "b", "a")
		expectNone(t, q)
	})
}

// A delayed key gets the highest priority of all calls, whichever call sets its time.
// Guarantees: Q3
func TestDelayedKeyMovesUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.HighPriority, After: time.Hour}, "high")
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority, After: time.Second}, "high")
		q.Add("normal")
		<-time.After(2 * time.Second)
		expect(t, q, "high", "normal")
	})
}

// Guarantees: Q3
func TestLowPriorityIsNotStarved(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const backlog = 50
		q := newQueue()
		for i := range backlog {
			q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "low"+strconv.Itoa(i))
		}
		gets, lows := 0, 0
		for lows < backlog {
			for i := range 2 { // keys arrive faster than they are taken
				q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, fmt.Sprint("high", gets, i))
			}
			q.Add(fmt.Sprint("normal", gets))
			key := take(t, q)
			q.Done(key)
			gets++
			if strings.HasPrefix(key, "low") {
				if want := "low" + strconv.Itoa(lows); key != want {
					t.Fatalf("%s instead of %s", key, want)
				}
				lows++
			}
			if gets > 16*(lows+1) {
				t.Fatalf("%d low keys in %d gets", lows, gets)
			}
		}
		if gets < 15*backlog {
			t.Errorf("%d low keys in %d gets: too many for a low priority", lows, gets)
		}
	})
}

// The bound also holds for the middle priority, and for a key that moves up and keeps its age.
// Guarantees: Q3
func TestOldestIsPassedOver15TimesAtMost(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "moved")
		for i := range 1000 {
			q.Add(fmt.Sprint("normal", i))
		}
		q.Add("moved") // after all of these
		for i := range 16 {
			q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, fmt.Sprint("high", i))
			key := take(t, q)
			q.Done(key)
			if (key == "moved") != (i == 15) {
				t.Fatalf("Get returned %s as number %d", key, i)
			}
		}
		for i := range 16 {
			q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, fmt.Sprint("high", 100+i))
			key := take(t, q)
			q.Done(key)
			if (key == "normal0") != (i == 15) {
				t.Fatalf("Get returned %s as number %d", key, i)
			}
		}
	})
}

// The queue counts for each oldest key separately how often it is passed over. The count of the key before it does not carry
// over.
// Guarantees: Q3
func TestEachOldestKeyIsPassedOverAsOften(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		add := func(p informer.Priority, prefix string, n int) (keys []string) {
			for i := range n {
				keys = append(keys, fmt.Sprint(prefix, i))
			}
			q.AddWith(informer.AddOptions{Priority: p}, keys...)
			return keys
		}
		add(informer.LowPriority, "low", 2)
		expect(t, q, append(add(informer.HighPriority, "high", 10), "low0")...) // low0 was passed over ten times
		more := add(informer.HighPriority, "more", 20)
		expect(t, q, slices.Insert(more, 15, "low1")...)
	})
}

// The queue keeps entries of finished keys to reuse their memory. A key that returns is still itself.
// Guarantees: Q1
func TestKeysComeBackAsThemselves(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const many = 10_000 // more than the queue keeps
		q := newQueue()
		work := func(key string) {
			q.Add(key)
			if got := take(t, q); got != key {
				t.Fatalf("added %s, got %s", key, got)
			}
			q.Done(key)
		}
		for range many { // keeps a single entry
			work("again")
		}
		for range 2 {
			for i := range many {
				work(strconv.Itoa(i))
			}
		}
		for i := range many { // some entries are kept
			q.Add(strconv.Itoa(i))
		}
		for i := range many {
			if got := take(t, q); got != strconv.Itoa(i) {
				t.Fatalf("got %s, want %d", got, i)
			}
		}
		if s := q.Status(); s.InWork != many || q.Len() != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// If OnGet panics or ends the goroutine, Get does not return and takes no key. The key waits again with the same priority
// and generation.
// Guarantees: Q1, L4
func TestKeyIsNotLostWhenOnGetDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){"panic": func() { panic("oh") }, "Goexit": runtime.Goexit} {
		for _, meanwhile := range []string{"nothing", "Add", "Add at a higher priority", "AddAfter", "AddAfter at a higher priority", "Close", "Drain"} {
			t.Run(name+", meanwhile "+meanwhile, func(t *testing.T) {
				inBubble(t, func(t *testing.T) {
					var q *informer.Queue[string]
					gets := 0
					drained := make(chan error, 1)
					q = informer.NewQueue(informer.QueueConfig[string]{OnGet: func(informer.Priority, time.Duration) {
						if gets++; gets > 1 {
							return
						}
						switch meanwhile {
						case "Add":
							q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
						case "Add at a higher priority":
							q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, "a")
						case "AddAfter":
							q.AddAfter("a", time.Hour)
						case "AddAfter at a higher priority":
							q.AddWith(informer.AddOptions{Priority: informer.HighPriority, After: time.Hour}, "a")
						case "Close":
							q.Close()
						case "Drain":
							go func() { drained <- q.Drain(t.Context()) }()
							synctest.Wait()
						}
						leave()
					}})
					q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
					processed := make(chan error, 1)
					go func() { processed <- q.WaitProcessed(t.Context()) }()
					synctest.Wait()
					left := make(chan struct{})
					go func() {
						defer close(left)
						defer func() { recover() }()
						q.Get(t.Context())
						t.Error("Get returned")
					}()
					<-left
					synctest.Wait()
					if s := q.Status(); s.InWork != 0 || s.Delayed != 0 {
						t.Errorf("status %+v", s)
					}
					if meanwhile == "Close" {
						expectClosed(t, q)
						return
					}
					priority := informer.LowPriority
					if strings.HasSuffix(meanwhile, "higher priority") {
						priority = informer.HighPriority
					}
					if q.Len() != 1 || q.Len(priority) != 1 || len(processed) > 0 {
						t.Fatalf("depth %v, processed %d", q.Status().Depth, len(processed))
					}
					if key := take(t, q); key != "a" {
						t.Errorf("key %q", key)
					}
					synctest.Wait()
					if len(processed) > 0 {
						t.Error("WaitProcessed did not wait for the key")
					}
					q.Done("a")
					if err := <-processed; err != nil {
						t.Error(err)
					}
					if err := q.WaitProcessed(t.Context()); err != nil { // no generation has keys left
						t.Error(err)
					}
					if meanwhile == "Drain" {
						if err := <-drained; err != nil {
							t.Error(err)
						}
						expectClosed(t, q)
						return
					}
					expectNone(t, q)
				})
			})
		}
	}
}

// Guarantees: L4
func TestDoneOfAKeyNotInWork(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Done("unknown")
		q.Add("a")
		q.Done("a") // still waits
		q.AddAfter("b", time.Second)
		q.Done("b")
		expect(t, q, "a")
		q.Done("a")
		q.Add("a")
		q.Done("a")
		expect(t, q, "a")
		<-time.After(time.Minute)
		expect(t, q, "b")
		expectNone(t, q)
		if s := q.Status(); s.InWork != 0 || s.Adds != 3 {
			t.Errorf("%+v", s)
		}
	})
}
