package informer

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/typedinformer/informer/internal/run"
)

// Guarantees: H3
func TestEveryChangeIsTold(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &recorder{Gate: make(chan struct{})}
		sub := inf.Subscribe(slow, SubscriptionConfig[*thing]{Delivery: DeliverEvery(0)})
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
		sub := inf.Subscribe(slow, SubscriptionConfig[*thing]{Delivery: DeliverEvery(2)})
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
		if len(inf.engine.Hub.All()) != 1 {
			t.Errorf("%d listeners", len(inf.engine.Hub.All()))
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
		sub := inf.Subscribe(slow, SubscriptionConfig[*thing]{Delivery: DeliverEvery(0)})
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
		sub := inf.Subscribe(slow, SubscriptionConfig[*thing]{Delivery: DeliverEveryBlocking(2)})
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
			sub := inf.Subscribe(slow, SubscriptionConfig[*thing]{Delivery: DeliverEveryBlocking(1)})
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

// Close returns even during a call. Done closes when that call has returned.
//
// Guarantees: H11
func TestCloseDoesNotWaitAndDoneDoes(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow, other := &recorder{Gate: make(chan struct{})}, &recorder{}
		sub := inf.Subscribe(slow)
		inf.Subscribe(other)
		inf.put(list(1, "a", "b", "c"))
		synctest.Wait() // the handler blocks on a
		sub.Close()
		sub.Close()
		synctest.Wait()
		if run.IsClosed(sub.Done()) || !errors.Is(sub.Err(), ErrClosed) || len(inf.engine.Hub.All()) != 1 {
			t.Errorf("during the call: done %v, %v, %d listeners", run.IsClosed(sub.Done()), sub.Err(), len(inf.engine.Hub.All()))
		}
		slow.Gate <- struct{}{}
		<-sub.Done()
		slow.Want(t, "add a @1 initial=true")
		other.Want(t, "add a @1 initial=true", "add b @1 initial=true", "add c @1 initial=true")
		if err := sub.WaitSynced(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("WaitSynced of a closed subscription: %v", err)
		}
		idle := inf.Subscribe(&recorder{})
		synctest.Wait()
		idle.Close()
		if !run.IsClosed(idle.Done()) {
			t.Error("no call was under way, but Done is open")
		}
	})
}

// A handler may close its own subscription, and two may close each other's.
//
// Guarantees: H11
func TestHandlersMayCloseSubscriptions(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		var subs [3]*Subscription
		var calls [3]int
		var inCall sync.WaitGroup
		inCall.Add(len(subs))
		for n := range subs {
			subs[n] = inf.Subscribe(HandlerFuncs[*thing]{AddFunc: func(*thing, bool) {
				calls[n]++
				inCall.Done()
				inCall.Wait()
				subs[0].Close()
				subs[1].Close()
				subs[2].Close()
			}})
		}
		inf.put(list(1, "a", "b"))
		for _, sub := range subs {
			<-sub.Done()
		}
		if calls != [3]int{1, 1, 1} || len(inf.engine.Hub.All()) != 0 {
			t.Errorf("calls %v, %d listeners", calls, len(inf.engine.Hub.All()))
		}
	})
}

// Close may be called with a lock held that the handler waits for.
//
// Guarantees: H11
func TestCloseWithTheHandlersLock(t *testing.T) {
	inf := startFed(t)
	defer inf.stop()
	var mu sync.Mutex
	entered := make(chan struct{})
	sub := inf.Subscribe(HandlerFuncs[*thing]{AddFunc: func(*thing, bool) {
		close(entered)
		mu.Lock()
		defer mu.Unlock()
	}})
	mu.Lock()
	inf.put(list(1, "a"))
	<-entered
	sub.Close()
	mu.Unlock()
	<-sub.Done()
}

// If the filter closes the subscription, the handler call after it is dropped.
//
// Guarantees: H11
func TestCloseInFilterDropsTheCallBehindIt(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		rec := &recorder{}
		passes := true
		var sub *Subscription
		sub = inf.Subscribe(rec, SubscriptionConfig[*thing]{Filter: func(o *thing) bool {
			if o.rv == "2" {
				sub.Close()
			}
			return passes
		}})
		inf.put(list(1, "a"))
		rec.Want(t, "add a @1 initial=true")
		passes = false
		inf.put(upsert(2, "a"))
		rec.Want(t)
		<-sub.Done()
	})
}

// Resync during Close never delivers a version that the handler has not received.
//
// Guarantees: H2, H11
func TestCloseBesideResyncKeepsTheChain(t *testing.T) {
	inf := startFed(t)
	names := []string{"a", "b", "c", "d"}
	inf.put(list(1, names...))
	var all, writer sync.WaitGroup
	enough := make(chan struct{})
	writer.Go(func() {
		for rv := 2; !run.IsClosed(enough); rv++ {
			inf.put(upsert(rv, names[rv%len(names)]))
		}
	})
	for range 4 {
		all.Go(func() {
			for range Rounds(40, 200) {
				c := &recorder{}
				sub := inf.Subscribe(c, SubscriptionConfig[*thing]{Resync: time.Nanosecond})
				if err := sub.WaitSynced(t.Context()); err != nil {
					t.Error(err)
				}
				sub.Close()
				<-sub.Done()
				if n := c.Broken(); n > 0 {
					t.Errorf("%d events do not follow from earlier ones", n)
				}
			}
		})
	}
	all.Wait()
	close(enough)
	writer.Wait()
	inf.stop()
}

// Run also waits for the handlers and resyncs of subscriptions that are closed at the same time.
//
// Guarantees: H11, L1
func TestNoCallAfterRunBesideClose(t *testing.T) {
	for range Rounds(20, 100) {
		inf := startFed(t)
		inf.put(list(1, "a", "b"))
		var returned atomic.Bool
		var all sync.WaitGroup
		for range 4 {
			sub := inf.Subscribe(HandlerFuncs[*thing]{UpdateFunc: func(_, _ *thing) {
				if returned.Load() {
					t.Error("a call after Run returned")
				}
			}}, SubscriptionConfig[*thing]{Resync: time.Nanosecond})
			if err := sub.WaitSynced(t.Context()); err != nil {
				t.Error(err)
			}
			all.Go(sub.Close)
		}
		inf.stop()
		returned.Store(true)
		all.Wait()
	}
}

// Guarantees: H11
func TestCloseInOnDeleteDropsTheAdditionBehindIt(t *testing.T) {
	filtered := 0
	for _, filter := range []func(*thing) bool{nil, func(*thing) bool { filtered++; return true }} {
		Bubble(t, func(t *testing.T) {
			inf := startFed(t)
			defer inf.stop()
			rec := &recorder{}
			var sub *Subscription
			sub = inf.Subscribe(HandlerFuncs[*thing]{
				AddFunc:    rec.OnAdd,
				DeleteFunc: func(last *thing, final bool) { rec.OnDelete(last, final); sub.Close() },
			}, SubscriptionConfig[*thing]{Filter: filter})
			inf.put(list(1, "a"))
			synctest.Wait()
			other := list(2, "a")
			other.Items[0].uid = "other"
			inf.put(other) // one entry: a deletion and an addition
			rec.Want(t, "add a @1 initial=true", "delete a @1 final=false")
		})
	}
	if filtered != 1 {
		t.Errorf("the filter was called %d times, want once before Close", filtered)
	}
}

// A subscription with several configurations ends at once, with an error that says so.
func TestSubscribeTakesOneConfiguration(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		rec := &recorder{}
		sub := inf.Subscribe(rec, SubscriptionConfig[*thing]{}, SubscriptionConfig[*thing]{})
		if err := sub.WaitSynced(t.Context()); err == nil || err != sub.Err() || !strings.Contains(err.Error(), "things: Subscribe got 2 configurations") {
			t.Errorf("the subscription ended with %v, %v", err, sub.Err())
		}
		inf.put(list(1, "a"))
		if err := inf.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		rec.Want(t)
	})
}

// An ended subscription retains nothing, even if the user keeps it.
//
// Guarantees: H11
func TestEndedSubscriptionRetainsNothing(t *testing.T) {
	for _, way := range []string{"close", "close during a call", "backlog", "exit", "stop", "wrong config"} {
		t.Run(way, func(t *testing.T) {
			sub, refs := endedSubscription(t, way)
			for what, alive := range refs {
				for gc := 0; alive(); gc++ {
					if gc == 20 {
						t.Errorf("the subscription retains %s", what)
						break
					}
					runtime.GC()
				}
			}
			runtime.KeepAlive(sub)
		})
	}
}

// weighty is a handler whose release can be observed.
type weighty struct {
	recorder
	exit bool
}

func (w *weighty) OnUpdate(old, new *thing) {
	w.recorder.OnUpdate(old, new)
	if w.exit {
		runtime.Goexit()
	}
}

// endedSubscription returns a subscription that has ended, and functions that report whether it retains things. Nothing
// else refers to these things.
func endedSubscription(t *testing.T, way string) (*Subscription, map[string]func() bool) {
	inf := startFed(t)
	h := &weighty{exit: way == "exit"}
	config := SubscriptionConfig[*thing]{
		Filter:  func(*thing) bool { return h != nil },
		OnPanic: func(any) { t.Log(h) },
		Resync:  time.Hour,
	}
	blocks := way == "close during a call" || way == "backlog"
	if way == "backlog" {
		config.Delivery = DeliverEvery(1)
	}
	if way == "wrong config" {
		config.Resync = -1
	}
	sub := inf.Subscribe(h, config)
	given := list(1, "a", "b")
	inf.put(given)
	if way != "wrong config" {
		if err := sub.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if blocks {
		h.Gate = make(chan struct{})
	}
	inf.put(upsert(2, "b"))
	switch way {
	case "close":
		sub.Close()
	case "close during a call":
		for sub.Status().Busy == 0 {
			runtime.Gosched()
		}
		sub.Close()
	case "backlog":
		for rv := 3; sub.Err() == nil; rv++ {
			inf.put(upsert(rv, "b"))
		}
	}
	if blocks {
		close(h.Gate)
	}
	if way != "stop" {
		<-sub.Done()
	}
	refs := map[string]func() bool{}
	if way == "close" { // the informer continues without the object
		inf.put(remove(10, "a"), upsert(11, "b"))
		if err := inf.WaitForResourceVersion(t.Context(), "11"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			object := weak.Make(given.Items[0])
			given.Items = nil
			for range 5 {
				runtime.GC()
			}
			if object.Value() != nil {
				t.Error("a closed subscription retains an object that passed its filter")
			}
			inf.stop()
		}()
	} else {
		inf.stop()
	}
	<-sub.Done()
	object, handler, informer := weak.Make(given.Items[0]), weak.Make(h), weak.Make(inf.Informer)
	refs["an object"] = func() bool { return object.Value() != nil }
	refs["the handler"] = func() bool { return handler.Value() != nil }
	refs["the informer"] = func() bool { return informer.Value() != nil }
	return sub, refs
}

// Guarantees: L4
func TestSubscriptionThatCannotBe(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		sub := inf.Subscribe(&recorder{}, SubscriptionConfig[*thing]{Resync: -1})
		<-sub.Done()
		if err := sub.Err(); err == nil || !strings.Contains(err.Error(), "SubscriptionConfig.Resync") {
			t.Errorf("Resync: %v", err)
		}
		if err := sub.WaitSynced(t.Context()); err == nil {
			t.Error("Resync: WaitSynced returned nil")
		}
		sub.Close()
		for _, config := range []SubscriptionConfig[*thing]{{}, {OnPanic: func(any) {}}} {
			if err := inf.Subscribe(nil, config).Err(); err == nil || !strings.Contains(err.Error(), "the handler is nil") {
				t.Errorf("without a handler: %v", err)
			}
		}
		open := inf.Subscribe(&recorder{})
		if err := open.Err(); err != nil {
			t.Errorf("an open subscription has ended: %v", err)
		}
		closed := inf.Subscribe(&recorder{})
		closed.Close()
		if err := closed.Err(); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		inf.stop()
		if err := open.Err(); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
		if err := inf.Subscribe(&recorder{}).Err(); !errors.Is(err, ErrStopped) {
			t.Errorf("subscribed after the end: %v", err)
		}
	})
}
