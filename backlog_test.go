package informer

import (
	"context"
	"errors"
	"fmt"

	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// Guarantees: H3
func TestEveryChangeIsTold(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &recorder{Gate: make(chan struct{})}
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: DeliverEvery(0)})
		inf.put(list(1, "0", "a", "b"))
		inf.put(upsert(2, "a"), upsert(3, "a"), upsert(4, "c"), remove(5, "c"), upsert(6, "c"), remove(7, "b"))
		synctest.Wait()
		if s := sub.Status(); s.Backlog != 8 || s.Blocking {
			t.Errorf("status %+v", s)
		}
		close(slow.Gate)
		slow.Want(t, "add 0 @1 initial=true", "add a @1 initial=true", "add b @1 initial=true", "update a @1->@2", "update a @2->@3",
			"add c @4 initial=false", "delete c @5 final=true", "add c @6 initial=false", "delete b @7 final=true")
		if s := sub.Status(); s.Backlog != 0 || !s.Synced {
			t.Errorf("status %+v", s)
		}
	})
}

// A backlog over its limit ends its subscription and no other. The objects of an initial list do not count.
// Guarantees: H3, H9
func TestEveryEndsTheSubscriptionThatIsTooFarBehind(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow, other := &recorder{Gate: make(chan struct{})}, &recorder{}
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: DeliverEvery(2)})
		inf.Subscribe(other)
		inf.put(list(1, "0", "a", "b", "c", "d", "e"))
		synctest.Wait() // the handler blocks on the first object
		for rv := range 3 {
			inf.put(upsert(rv+2, "0"))
			synctest.Wait()
		}
		// The backlog has one free update, for a key without another entry, and two that count.
		if err := sub.Err(); err != nil {
			t.Errorf("ended with %v at its limit", err)
		}
		inf.put(upsert(5, "0"))
		synctest.Wait()
		if err := sub.Err(); !errors.Is(err, ErrBacklog) {
			t.Errorf("Err is %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := sub.WaitSynced(ctx); !errors.Is(err, ErrBacklog) {
			t.Errorf("WaitSynced: %v", err)
		}
		close(slow.Gate)
		slow.Want(t, "add 0 @1 initial=true")
		other.Want(t, "add 0 @1 initial=true", "add a @1 initial=true", "add b @1 initial=true", "add c @1 initial=true", "add d @1 initial=true", "add e @1 initial=true", "update 0 @1->@2", "update 0 @2->@3", "update 0 @3->@4", "update 0 @4->@5")
		if len(inf.engine.hub.All()) != 1 {
			t.Errorf("%d listeners", len(inf.engine.hub.All()))
		}
	})
}

// A limit that is not positive means the default one.
// Guarantees: H3
func TestDefaultBacklog(t *testing.T) {
	for _, maxBacklog := range []int{0, -1} {
		if d := DeliverEvery(maxBacklog); d != DeliverEvery(1024) {
			t.Errorf("DeliverEvery(%d) is %v", maxBacklog, d)
		}
		if d := DeliverEveryBlocking(maxBacklog); d != DeliverEveryBlocking(1024) {
			t.Errorf("DeliverEveryBlocking(%d) is %v", maxBacklog, d)
		}
	}
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &recorder{Gate: make(chan struct{})}
		defer close(slow.Gate)
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: DeliverEvery(0)})
		inf.put(list(1, "a"))
		synctest.Wait()        // the handler blocks
		const limit = 1024 + 1 // the first change of a key does not count
		for rv := range limit {
			inf.put(upsert(rv+2, "a"))
		}
		synctest.Wait()
		if err := sub.Err(); err != nil {
			t.Errorf("ended with %v at its limit", err)
		}
		inf.put(upsert(limit+2, "a"))
		synctest.Wait()
		if err := sub.Err(); err != ErrBacklog {
			t.Errorf("Err is %v", err)
		}
	})
}

// With DeliverEveryBlocking, one batch may exceed the backlog's limit. Status shows the wait, which ends by itself.
// Guarantees: H3
func TestEveryBlocksTheInformer(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		slow := &recorder{Gate: make(chan struct{})}
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: DeliverEveryBlocking(2)})
		inf.put(list(1, "a"))
		const updates = 500
		go func() {
			for i := range updates {
				inf.put(upsert(i+2, "a"))
				inf.waitUntil(t.Context(), func(s *Snapshot[*thing]) bool { return s.ResourceVersion() == strconv.Itoa(i+2) }) // one batch each
			}
		}()
		synctest.Wait()
		if s := sub.Status(); !s.Blocking || s.Backlog != 4 {
			t.Errorf("status %+v", s)
		}
		if rv := inf.Store().ResourceVersion(); rv != "5" { // of four updates, the first is free, two are within the limit and one is over it
			t.Errorf("store at %s", rv)
		}
		close(slow.Gate)
		synctest.Wait()
		for i, line := range slow.Told()[1:] {
			if want := fmt.Sprintf("update a @%d->@%d", i+1, i+2); line != want {
				t.Fatalf("told %q, want %q", line, want)
			}
		}
		if s := sub.Status(); len(slow.Told()) != updates+1 || s.Blocking {
			t.Errorf("told %d times; status %+v", len(slow.Told()), s)
		}
		inf.stop()
	})
}

// A blocked informer can be stopped, and the blocking subscription closed.
// Guarantees: H3, L2
func TestBlockedInformerStops(t *testing.T) {
	for _, end := range []string{"stop", "close"} {
		Bubble(t, func(t *testing.T) {
			inf := startFed(t)
			slow := &recorder{Gate: make(chan struct{})}
			sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: DeliverEveryBlocking(1)})
			inf.put(list(1, "a"), upsert(2, "a"), upsert(3, "a"), upsert(4, "a"))
			synctest.Wait()
			if !sub.Status().Blocking {
				t.Error("not blocking")
			}
			if end == "close" {
				go sub.Close()
				synctest.Wait()
				inf.put(upsert(5, "a"))
				synctest.Wait()
				if rv := inf.Store().ResourceVersion(); rv != "5" {
					t.Errorf("store at %s", rv)
				}
			}
			close(slow.Gate)
			inf.stop()
		})
	}
}

// Guarantees: H2, H3, H4, H5
func TestSlowHandlerIsToldFoldedChanges(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &recorder{Gate: make(chan struct{})}
		sub := inf.Subscribe(slow)
		inf.put(list(1, "0", "a", "b", "c"))
		synctest.Wait() // the handler blocks on the first object
		if s := sub.Status(); s.Backlog != 3 || s.Synced {
			t.Errorf("status %+v", s)
		}
		inf.put(upsert(2, "a"), upsert(3, "a"))                    // still an initial addition
		inf.put(remove(4, "b"))                                    // the handler never saw it
		inf.put(upsert(5, "d"), remove(6, "d"), upsert(7, "d"))    // one addition
		inf.put(upsert(8, "0"), upsert(9, "0"))                    // one update
		inf.put(upsert(10, "e"), remove(11, "e"))                  // no entry
		inf.put(remove(12, "c"), upsert(13, "c"), upsert(14, "c")) // the handler sees one addition
		synctest.Wait()
		if s := sub.Status(); s.Backlog != 4 {
			t.Errorf("status %+v", s)
		}
		close(slow.Gate)
		slow.Want(t, "add 0 @1 initial=true", "add a @3 initial=true", "add d @7 initial=false", "update 0 @1->@9", "add c @14 initial=false")
	})
}

// Guarantees: H5
func TestDeletionBetweenIsTold(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &recorder{Gate: make(chan struct{}, 100)}
		inf.Subscribe(slow)
		inf.put(list(1, "0", "a"))
		slow.Gate <- struct{}{}
		slow.Gate <- struct{}{}
		slow.Want(t, "add 0 @1 initial=true", "add a @1 initial=true")
		inf.put(upsert(2, "0"))
		synctest.Wait()
		other := upsert(5, "a")
		other.Object.uid = "other"
		inf.put(upsert(3, "a"), remove(4, "a"), other, upsert(6, "0"))
		synctest.Wait()
		close(slow.Gate)
		slow.Want(t, "update 0 @1->@2", "delete a @4 final=true", "add a @5 initial=false", "update 0 @2->@6")

		again := list(7, "0", "a")
		again.Items[1].uid = "a third"
		inf.put(again)
		slow.Want(t, "update 0 @6->@7", "delete a @5 final=false", "add a @7 initial=false")
		inf.put(list(8, "0"))
		slow.Want(t, "update 0 @7->@8", "delete a @7 final=false")
	})
}
