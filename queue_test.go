package informer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"

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

func ExampleQueue() {
	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{})
	queue.AddWith(informer.AddOptions{Priority: informer.LowPriority}, informer.Key{Name: "from-the-initial-list"})
	queue.Add(informer.Key{Name: "changed"})
	queue.Add(informer.Key{Name: "changed"}) // waits only once

	ctx := context.Background()
	failed := false
	reconcile := func(key informer.Key) error {
		if key.Name == "changed" && !failed {
			failed = true
			return errors.New("conflict")
		}
		return nil
	}
	worker := func() {
		for {
			key, err := queue.Get(ctx)
			if err != nil {
				return
			}
			if err := reconcile(key); err != nil {
				fmt.Println(key.Name, "failed:", err)
				queue.AddRateLimited(key) // returns in 5 ms, 10 ms, …
			} else {
				fmt.Println(key.Name, "is done after", queue.NumRequeues(key), "retries")
				queue.Forget(key)
			}
			queue.Done(key)
			if queue.Status().Delayed+queue.Len() == 0 {
				return
			}
		}
	}
	worker()
	// Output:
	// changed failed: conflict
	// from-the-initial-list is done after 0 retries
	// changed is done after 1 retries
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
		if got := q.Status().Depth; got[informer.HighPriority] != 1 || q.Len() != 1 {
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
					<-time.After(time.Until(began.Add(time.Duration(s)*time.Second - time.Second/2)))
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
			at   time.Duration
			keys []string
		}{{time.Second - 1, nil}, {time.Second, []string{"a", "b"}}, {time.Second + 1, []string{"c"}}} {
			<-time.After(time.Until(began.Add(c.at)))
			synctest.Wait()
			if now := time.Since(began); now != c.at || q.Len() != len(c.keys) {
				t.Fatalf("step %d: %d keys are ready after %v, want %v after %v", i, q.Len(), now, c.keys, c.at)
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

// Guarantees: Q7
func TestDrainFinishesWhatIsThere(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Add("work")
		take(t, q)
		q.Add("work")  // again
		q.Add("ready") //
		q.AddAfter("delayed", time.Second)
		drained := make(chan error, 2)
		for range 2 { // both wait for the same drain
			go func() { drained <- q.Drain(t.Context()) }()
		}
		synctest.Wait()
		q.Add("late")
		q.AddAfter("late", time.Second)
		if s := q.Status(); s.State != informer.QueueDraining || s.Refused != 2 || s.Delayed != 0 || q.Len() != 2 {
			t.Errorf("%v %+v", s.State, s)
		}
		waiting := make(chan error, 4)
		expect(t, q, "ready")
		for range cap(waiting) { // they wait for the second run of "work"
			go func() {
				key, err := q.Get(t.Context())
				if err == nil {
					q.AddRateLimited(key) // refused: the queue drains
					q.Done(key)
					_, err = q.Get(t.Context())
				}
				waiting <- err
			}()
		}
		synctest.Wait()
		if len(drained)+len(waiting) != 0 {
			t.Error("drained with a key in work")
		}
		q.Done("work")
		for range cap(drained) {
			if err := <-drained; err != nil {
				t.Error(err)
			}
		}
		for range cap(waiting) {
			if err := <-waiting; err != informer.ErrClosed {
				t.Error(err)
			}
		}
		if s := q.Status(); s.State != informer.QueueClosed || s.Refused != 3 {
			t.Errorf("%v %+v", s.State, s)
		}
		if err := q.Drain(t.Context()); err != nil {
			t.Error("again:", err)
		}
		q.Close()
		if err := q.Drain(t.Context()); err != nil {
			t.Error("again after Close:", err)
		}
	})
}

// During a drain, a worker that holds a key and calls Get gets ErrClosed: nothing else would wake it.
// Guarantees: Q7
func TestDrainDoesNotHoldUpAWorkerOfSeveralKeys(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Add("a")
		take(t, q)
		drained := make(chan error, 1)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		if _, err := q.Get(t.Context()); err != informer.ErrClosed {
			t.Error(err)
		}
		synctest.Wait()
		if len(drained) != 0 {
			t.Error("drained with a key in work")
		}
		q.Done("a")
		if err := <-drained; err != nil {
			t.Error(err)
		}
	})
}

// Of several workers that wait during a drain, one gets the last key. The others get ErrClosed before that key is done.
// Guarantees: Q7
func TestLastKeyEndsTheOtherWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Add("a")
		take(t, q)
		q.Add("a") // again
		go q.Drain(t.Context())
		got := make(chan error, 3)
		for range cap(got) {
			go func() { _, err := q.Get(t.Context()); got <- err }()
		}
		synctest.Wait()
		q.Done("a")
		synctest.Wait()
		var told []error
		for range len(got) {
			told = append(told, <-got)
		}
		if !slices.Equal(told, []error{nil, informer.ErrClosed, informer.ErrClosed}) {
			t.Errorf("got %v", told)
		}
		q.Done("a")
	})
}

// Guarantees: Q7
func TestDrainEndsWithTheContext(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := informer.NewQueue(informer.QueueConfig[string]{Name: "pods"})
		q.AddWith(informer.AddOptions{}, "a", "b", "c")
		take(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := q.Drain(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "pods has 2 keys waiting and 1 in work") {
			t.Error(err)
		}
		q.Add("d")
		q.Done("a")
		expect(t, q, "b", "c") // the drain continues
		if err := q.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A drain does not wait for a cancelled key.
// Guarantees: Q7
func TestCancelEndsADrain(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Add("a")
		drained := make(chan error)
		go func() { drained <- q.Drain(t.Context()) }()
		synctest.Wait()
		q.Cancel("a")
		if err := <-drained; err != nil {
			t.Error(err)
		}
		if _, err := q.Get(t.Context()); err != informer.ErrClosed {
			t.Error(err)
		}
	})
}

// Guarantees: Q7
func TestCloseDropsEverything(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Add("work")
		take(t, q)
		q.Add("work") // Close drops this
		ended := make(chan error, 12)
		for range 4 {
			go func() { _, err := q.Get(t.Context()); ended <- err }()
			go func() { ended <- q.WaitProcessed(t.Context()) }()
		}
		synctest.Wait()
		q.AddWith(informer.AddOptions{After: time.Second}, "delayed1", "delayed2")
		for range 4 {
			go func() { ended <- q.Drain(t.Context()) }()
		}
		synctest.Wait()
		if len(ended) != 0 {
			t.Errorf("%d did not wait", len(ended))
		}
		q.Close()
		q.Close()
		for range cap(ended) {
			if err := <-ended; err != informer.ErrClosed {
				t.Error(err)
			}
		}
		if err := q.Drain(t.Context()); err != informer.ErrClosed {
			t.Error("Drain:", err)
		}
		if s := q.Status(); s.State != informer.QueueClosed || q.Len() != 0 || s.Delayed != 0 || s.InWork != 1 {
			t.Errorf("%v %+v", s.State, s)
		}
		q.Done("work") // is still allowed
		if s := q.Status(); s.InWork != 0 {
			t.Errorf("%+v", s)
		}
		if key, err := q.Get(t.Context()); err != informer.ErrClosed {
			t.Errorf("Get behind Close: %q, %v", key, err)
		}
	})
}

// Guarantees: Q7
func TestCloseDropsTheRetryOfAKeyInWork(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.Add("work")
		take(t, q)
		q.AddAfter("work", time.Second)
		q.Close()
		if q.Cancel("work") {
			t.Error("the retry waits in a closed queue")
		}
		q.Done("work")
		expectClosed(t, q)
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

// A queue has no goroutine. Each queue of client-go keeps one for ten seconds.
// Guarantees: Q7, Q8
func TestNoGoroutines(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var queues []*informer.Queue[string]
		check := func(when string) {
			t.Helper()
			synctest.Wait()
			var all bytes.Buffer
			if err := pprof.Lookup("goroutine").WriteTo(&all, 2); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(all.String(), "informer.(*Queue[") {
				t.Errorf("%s: a goroutine is in a queue:\n%s", when, all.String())
			}
		}
		for i := range 100 {
			q := newQueue()
			queues = append(queues, q)
			q.Add("a")
			take(t, q)
			if i%2 == 0 {
				q.AddRateLimited("a")
			}
			q.Done("a")
		}
		check("while keys are delayed") // none for delayed keys either
		<-time.After(time.Second)
		check("when they became ready")
		for i, q := range queues {
			if i%2 == 0 {
				expect(t, q, "a")
			}
			q.AddAfter("b", time.Hour)
			if i%3 == 0 {
				q.Close()
			} else if err := q.Drain(t.Context()); err != nil {
				t.Error(err)
			}
		}
		check("after Drain and Close")
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

func expectClosed(t *testing.T, q *informer.Queue[string]) {
	t.Helper()
	if key, err := q.Get(t.Context()); !errors.Is(err, informer.ErrClosed) {
		t.Errorf("got %q, %v", key, err)
	}
}

// Guarantees: Q9
func TestMetrics(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var waited, worked []string
		note := func(to *[]string) func(informer.Priority, time.Duration) {
			return func(p informer.Priority, d time.Duration) { *to = append(*to, fmt.Sprint(p, " ", d)) }
		}
		q := informer.NewQueue(informer.QueueConfig[string]{Name: "pods", OnGet: note(&waited), OnDone: note(&worked)})
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "a")
		q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, "b")
		q.AddAfter("c", time.Minute)
		q.Add("a") // moves up; not a new add
		<-time.After(time.Second)
		take(t, q) // b, after 1 s
		<-time.After(time.Second)
		take(t, q) // a, after 2 s
		q.Add("b") // again: it waits from now on
		q.AddRateLimited("a")
		<-time.After(time.Second) // the retry falls due while a is in work
		s := q.Status()
		want := informer.QueueStatus{
			Name: "pods", State: informer.QueueOpen,
			Depth:   map[informer.Priority]int{informer.HighPriority: 0, informer.NormalPriority: 2, informer.LowPriority: 0},
			Delayed: 1, InWork: 2, Adds: 4, Retries: 2,
			LongestRunning: 2 * time.Second, LongestRunningKey: "b", Unfinished: 3 * time.Second,
			Waits: durations(time.Second, 2*time.Second), // the keys that are ready are in work, too
		}
		if fmt.Sprint(s) != fmt.Sprint(want) {
			t.Errorf("\n%v, want\n%v", s, want)
		}
		q.Done("b")
		q.Done("a")
		expect(t, q, "b", "a")
		<-time.After(time.Minute)
		expect(t, q, "c")
		if want := []string{"high 1s", "normal 2s", "normal 1s", "normal 995ms", "normal 3s"}; !slices.Equal(waited, want) {
			t.Errorf("waited %v", waited)
		}
		if want := []string{"high 2s", "normal 1s", "normal 0s", "normal 0s", "normal 0s"}; !slices.Equal(worked, want) {
			t.Errorf("worked %v", worked)
		}
		if s := q.Status(); s.LongestRunning != 0 || s.Unfinished != 0 || s.InWork != 0 || s.LongestReady != 0 {
			t.Errorf("%+v", s)
		}
		q.Add("d")
		<-time.After(time.Second)
		q.AddWith(informer.AddOptions{Priority: informer.HighPriority}, "e")
		<-time.After(time.Second)
		if s := q.Status(); s.LongestReady != 2*time.Second {
			t.Errorf("the oldest ready key: %v", s.LongestReady)
		}
		if got, want := q.Status().Waits, durations(time.Second, 2*time.Second, time.Second, 995*time.Millisecond, 3*time.Second); got != want {
			t.Errorf("waits %+v, want %+v", got, want)
		}
		if got, want := q.Status().Works, durations(2*time.Second, time.Second, 0, 0, 0); got != want {
			t.Errorf("works %+v, want %+v", got, want)
		}
	})
}

// A key that was added while in work is ready, but waits for Get only from its Done on. The histogram of waits counts from the Add, as in
// client-go.
// Guarantees: Q9
func TestLongestReadyCountsFromDone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		ready := func(want time.Duration) {
			t.Helper()
			if got := q.Status().LongestReady; got != want {
				t.Errorf("a key has been ready for %v, want %v", got, want)
			}
		}
		q.Add("a")
		<-time.After(time.Second)
		ready(time.Second)
		take(t, q)
		q.Add("a")
		<-time.After(time.Hour)
		ready(0) // Get would not return it
		q.Add("b")
		<-time.After(time.Second)
		q.Done("a")
		ready(time.Second) // b
		<-time.After(time.Second)
		expect(t, q, "b")
		ready(time.Second) // a
		<-time.After(time.Second)
		take(t, q)
		ready(0)
		if got, want := q.Status().Waits.Max, time.Hour+3*time.Second; got != want {
			t.Errorf("longest wait %v, want %v", got, want)
		}
	})
}

// A status names the key that has been in work for longest. However long its text is, the status has 512 bytes of it.
// Guarantees: O5
func TestStatusNamesTheLongestCall(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		long := strings.Repeat("ü", 1000)
		for _, key := range []string{"a", "b", long} {
			q.Add(key)
			take(t, q)
			<-time.After(time.Second)
		}
		for _, want := range []string{"a", "b", long[:512], ""} {
			if got := q.Status(); got.LongestRunningKey != want {
				t.Errorf("key %q has been in work for longest, want %q", got.LongestRunningKey, want)
			}
			q.Done(map[bool]string{true: long, false: want}[len(want) == 512])
		}
	})
}

// Guarantees: Q10
func TestWaitProcessed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		var ended atomic.Int32
		wait := func() {
			go func() {
				if err := q.WaitProcessed(t.Context()); err != nil {
					t.Error(err)
				}
				ended.Add(1)
			}()
			synctest.Wait()
		}
		check := func(want int32) {
			t.Helper()
			synctest.Wait()
			if n := ended.Load(); n != want {
				t.Fatalf("%d ended instead of %d", n, want)
			}
		}
		wait() // nothing to wait for
		check(1)
		q.AddWith(informer.AddOptions{Priority: informer.LowPriority}, "low1", "low2")
		q.AddAfter("delayed", time.Hour) // not due before the wait ends
		wait()
		check(1)
		q.Add("live") // runs first, but the first wait does not cover it
		wait()        // this wait covers it
		if key := take(t, q); key != "live" {
			t.Fatal(key)
		}
		take(t, q)
		take(t, q)
		q.Add("low1") // again: no wait covers this run
		q.Done("low1")
		check(1)
		q.AddRateLimited("low2") // it failed, but was processed once
		q.Done("low2")
		check(2)
		q.Done("live")
		check(3)
		wait() // covers the second run of low1
		q.Cancel("low1")
		check(4)
		q.Add("again")
		take(t, q)
		q.Add("again")
		wait() // covers the run under way and the next
		q.Done("again")
		check(4)
		expect(t, q, "again")
		check(5)
	})
}

// Keys may be done in another order than they were added. They delay only the waits that cover them.
// Guarantees: Q10
func TestKeysDoneInAnyOrder(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		var ended [3]atomic.Bool
		for i := range ended {
			q.Add(strconv.Itoa(i))
			go func() {
				if err := q.WaitProcessed(t.Context()); err != nil {
					t.Error(err)
				}
				ended[i].Store(true)
			}()
			synctest.Wait()
		}
		for range ended {
			take(t, q)
		}
		check := func(want ...bool) {
			t.Helper()
			synctest.Wait()
			for i := range ended {
				if ended[i].Load() != want[i] {
					t.Errorf("number %d: %v", i, !want[i])
				}
			}
		}
		q.Done("1")
		check(false, false, false)
		q.Done("0")
		check(true, true, false)
		q.Done("2")
		check(true, true, true)
	})
}

// Guarantees: Q10
func TestWaitProcessedSaysWhatIsLeft(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		q := newQueue()
		q.AddWith(informer.AddOptions{}, "a", "b", "c")
		take(t, q)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := q.WaitProcessed(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "2 keys waiting and 1 in work") {
			t.Error(err)
		}
		// No caller waits for that marker now, and it does not delay the next one.
		q.Done("a")
		expect(t, q, "b", "c")
		if err := q.WaitProcessed(t.Context()); err != nil {
			t.Error(err)
		}
	})
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

// The tests below are for bugs that other queues had.

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
			for p, n := range q.Status().Depth {
				if (p != informer.NormalPriority || n != want) && n != 0 {
					t.Errorf("depth at %v is %d", p, n)
				}
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
			if got := slices.Sorted(maps.Keys(q.Status().Depth)); !slices.Equal(got, []informer.Priority{-1, 0, 1}) {
				t.Fatal(got)
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
