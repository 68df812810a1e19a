package queue

import (
	"bytes"
	"context"
	"errors"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/status"
)

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
		if s := q.Status(); s.State != status.QueueDraining || s.Refused != 2 || s.Delayed != 0 || q.Len() != 2 {
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
		if s := q.Status(); s.State != status.QueueClosed || s.Refused != 3 {
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
		told := map[error]int{}
		for range len(got) {
			told[<-got]++
		}
		if told[nil] != 1 || told[informer.ErrClosed] != 2 {
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
		if s := q.Status(); s.State != status.QueueClosed || q.Len() != 0 || s.Delayed != 0 || s.InWork != 1 {
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

func expectClosed(t *testing.T, q *informer.Queue[string]) {
	t.Helper()
	if key, err := q.Get(t.Context()); !errors.Is(err, informer.ErrClosed) {
		t.Errorf("got %q, %v", key, err)
	}
}
