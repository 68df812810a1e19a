package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

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
		want := status.Queue{
			Name: "pods", State: status.QueueOpen,
			Depth:   status.QueueDepth{Normal: 2},
			Delayed: 1, InWork: 2, Adds: 4, Retries: 2,
			LongestRunning: 2 * time.Second, LongestRunningKey: "b", Unfinished: 3 * time.Second,
			Waits: world.Durations(time.Second, 2*time.Second), // the keys that are ready are in work, too
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
		if got, want := q.Status().Waits, world.Durations(time.Second, 2*time.Second, time.Second, 995*time.Millisecond, 3*time.Second); got != want {
			t.Errorf("waits %+v, want %+v", got, want)
		}
		if got, want := q.Status().Works, world.Durations(2*time.Second, time.Second, 0, 0, 0); got != want {
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
