package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/internal/histogram"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
)

// Guarantees: H7, H8
func TestLateSubscription(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		early := &recorder{}
		earlySub := inf.Subscribe(early)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := earlySub.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitSynced before the list: %v", err)
		}
		inf.put(list(1, "a", "b"), upsert(2, "c"))
		early.Want(t, "add a @1 initial=true", "add b @1 initial=true", "add c @2 initial=false")
		late := &recorder{Gate: make(chan struct{})}
		lateSub := inf.Subscribe(late)
		inf.put(upsert(3, "c"), upsert(4, "d"), remove(5, "b"))
		synctest.Wait()
		late.Gate <- struct{}{}
		late.Want(t, "add a @1 initial=true")
		if lateSub.Status().Synced { // c remains; b was deleted
			t.Error("synced before the last call returned")
		}
		late.Gate <- struct{}{}
		late.Want(t, "add c @3 initial=true")
		close(late.Gate)
		if err := lateSub.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		late.Want(t, "add d @4 initial=false")
		early.Want(t, "update c @2->@3", "add d @4 initial=false", "delete b @5 final=true")
		if err := earlySub.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// HasSynced turns true when WaitSynced would return nil, of the informer and of each subscription, and stays so.
//
// Guarantees: H8
func TestHasSyncedTurnsTrueOnce(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		slow := &recorder{Gate: make(chan struct{})}
		sub := inf.Subscribe(slow)
		left := inf.Subscribe(&recorder{})
		check := func(when string, store, handler bool) {
			t.Helper()
			synctest.Wait()
			if inf.HasSynced() != store || sub.HasSynced() != handler {
				t.Errorf("%s: informer %v, subscription %v", when, inf.HasSynced(), sub.HasSynced())
			}
		}
		check("before the list", false, false)
		left.Close()
		inf.put(list(1, "a", "b"))
		check("in the first call", true, false)
		slow.Gate <- struct{}{}
		check("in the second call", true, false)
		slow.Gate <- struct{}{}
		check("after the calls", true, true)
		sub.Close()
		inf.stop()
		check("after the end", true, true)
		if left.HasSynced() {
			t.Error("a subscription that was closed before the list has synced")
		}
	})
}

// A handler that subscribes while objects are added sees each of them once.
// Guarantees: H7, L5
func TestSubscriptionsWhileChangesComeIn(t *testing.T) {
	inf := startFed(t)
	inf.put(list(1))
	const objects, subscriptions = 3000, 20
	var subs []*Subscription
	seen := make([]map[string]int, subscriptions)
	for i := range objects {
		inf.put(upsert(i+2, strconv.Itoa(i)))
		if i%(objects/subscriptions) == 0 {
			mine := map[string]int{}
			seen[len(subs)] = mine
			subs = append(subs, inf.Subscribe(HandlerFuncs[*thing]{
				AddFunc:    func(obj *thing, _ bool) { mine[obj.name]++ },
				UpdateFunc: func(_, obj *thing) { mine[obj.name] += 100 },
			}))
		}
	}
	if err := inf.waitUntil(t.Context(), func(s *Snapshot[*thing]) bool { return s.Len() == objects }); err != nil {
		t.Fatal(err)
	}
	inf.engine.Hub.Finish(t.Context())
	for i, sub := range subs {
		sub.Close()
		<-sub.Done()
		if len(seen[i]) != objects {
			t.Errorf("handler %d saw %d objects", i, len(seen[i]))
		}
		for name, n := range seen[i] {
			if n != 1 {
				t.Errorf("handler %d saw %s %d times", i, name, n)
			}
		}
	}
	inf.stop()
}

// Guarantees: H9
func TestBlockedHandlerHoldsUpNobody(t *testing.T) {
	defer testkit.Limit(2 * time.Minute)()
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		blocked, free := &recorder{Gate: make(chan struct{})}, &recorder{}
		blockedSub := inf.Subscribe(blocked)
		inf.Subscribe(free)
		inf.put(list(1, "a"))
		synctest.Wait()
		for i := range 5000 { // more than the FIFO holds
			inf.put(upsert(i+2, "a"))
			synctest.Wait()
		}
		if len(free.Told()) != 5001 || inf.Store().ResourceVersion() != "5001" {
			t.Errorf("the other handler got %d events, store at %s", len(free.Told()), inf.Store().ResourceVersion())
		}
		<-time.After(time.Minute)
		if s := blockedSub.Status(); s.Backlog != 1 || s.Busy != time.Minute {
			t.Errorf("status %+v", s)
		}
		close(blocked.Gate)
		blocked.Want(t, "add a @1 initial=true", "update a @1->@5001")
		inf.stop()
	})
}

// Guarantees: H12
func TestFilter(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		allowed := map[string]bool{"2": true, "3": true, "6": true}
		rec := &recorder{}
		sub := inf.Subscribe(rec, SubscriptionConfig[*thing]{Filter: func(o *thing) bool { return allowed[o.rv] }})
		inf.put(list(1, "a", "b"))
		rec.Want(t)
		if err := sub.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		for i, want := range []string{2: "add a @2 initial=false", 3: "update a @2->@3", 4: "delete a @3 final=false", 5: "", 6: "add a @6 initial=false"} {
			if i < 2 {
				continue
			}
			inf.put(upsert(i, "a"))
			if want == "" {
				rec.Want(t)
			} else {
				rec.Want(t, want)
			}
		}
		inf.put(remove(7, "b"))
		rec.Want(t)
		allowed["6"] = false // the filter changes its answer; the handler still gets the deletion
		inf.put(remove(8, "a"))
		rec.Want(t, "delete a @8 final=true")
	})
}

func TestChangesYieldUntilLeftOrEnded(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		inf.put(list(1, "a"), upsert(2, "b"))
		synctest.Wait()
		var got []string
		for e := range inf.Changes(t.Context()) {
			got = append(got, e.Type.String()+" "+e.Object.name)
			if len(got) == 2 {
				break
			}
		}
		if !slices.Equal(got, []string{"Added a", "Added b"}) {
			t.Errorf("got %q", got)
		}
		if len(inf.engine.Hub.All()) != 0 {
			t.Error("the subscription outlives its loop")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var events []Event[*thing]
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for e := range inf.Changes(ctx) {
				events = append(events, e)
			}
		}()
		synctest.Wait()
		inf.put(upsert(3, "a"), remove(4, "b"))
		synctest.Wait()
		cancel()
		<-ended
		if len(events) != 4 || !events[0].Initial || events[2].Old.rv != "1" || !events[3].Final || events[3].Object.rv != "4" {
			t.Errorf("events %+v", events)
		}
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			for range inf.Changes(t.Context()) {
			}
		}()
		synctest.Wait()
		inf.stop()
		<-ended // the informer's end ends the loop
		for range inf.Changes(t.Context()) {
			t.Error("an event after the end")
		}
	})
}

// A change of uid makes two events. The informer ends between them.
func TestChangesEndBetweenTwoEventsOfOneChange(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		inf.put(list(1, "a"))
		synctest.Wait()
		var got []string
		for e := range inf.Changes(t.Context()) {
			got = append(got, e.Type.String())
			switch e.Type {
			case Added:
				again := list(2, "a")
				again.Items[0].uid = "other"
				inf.put(again)
				synctest.Wait()
			case Deleted:
				inf.stop()
			}
		}
		if !slices.Equal(got, []string{"Added", "Deleted"}) {
			t.Errorf("got %q", got)
		}
	})
}

// A stopped informer retains only its store.
func TestStoppedInformerTakesNoDeltas(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		inf.put(list(1, "a"))
		inf.stop()
		if err := mirrorOf(inf.engine).Buffer.Put(t.Context(), read(upsert(2, "a"))); err != ErrClosed || inf.Status().Queued != 0 {
			t.Errorf("%v; %d deltas are retained", err, inf.Status().Queued)
		}
	})
}

// Guarantees: H10
func TestPanicOfAHandlerIsSurvivedIfAsked(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		var panics []string
		other, told := &recorder{}, &recorder{}
		inf.Subscribe(other)
		sub := inf.Subscribe(HandlerFuncs[*thing]{
			AddFunc: func(o *thing, initial bool) {
				told.OnAdd(o, initial)
				if o.name == "a" {
					panic("add " + o.name)
				}
			},
			UpdateFunc: func(old, new *thing) { told.OnUpdate(old, new); panic(fmt.Errorf("update")) },
			DeleteFunc: func(last *thing, final bool) { told.OnDelete(last, final); panic(errors.New("delete")) },
		}, SubscriptionConfig[*thing]{
			Filter: func(o *thing) bool {
				if o.name == "f" {
					panic("filter")
				}
				return true
			},
			OnPanic: func(value any) {
				panics = append(panics, fmt.Sprint(value))
				if stack := string(debug.Stack()); !strings.Contains(stack, "TestPanicOfAHandler") {
					t.Errorf("the stack does not show the handler: %s", stack)
				}
			},
		})
		inf.put(list(1, "a", "b", "f"))
		synctest.Wait()
		if err := sub.WaitSynced(t.Context()); err != nil {
			t.Errorf("WaitSynced after a panic: %v", err)
		}
		replaced := upsert(4, "a")
		replaced.Object.uid = "other"
		inf.put(upsert(2, "b"))
		synctest.Wait()
		inf.put(remove(3, "b"), replaced)
		told.Want(t, "add a @1 initial=true", "add b @1 initial=true", "update b @1->@2", "delete b @3 final=true", "delete a @1 final=false", "add a @4 initial=false")
		other.Want(t, "add a @1 initial=true", "add b @1 initial=true", "add f @1 initial=true", "update b @1->@2", "delete b @3 final=true", "delete a @1 final=false", "add a @4 initial=false")
		want := []string{"add a", "filter", "update", "delete", "delete", "add a"}
		if !slices.Equal(panics, want) {
			t.Errorf("panics %q", panics)
		}
	})
}

// By default the program crashes, and the stack shows the handler.
// Guarantees: H10
func TestPanicOfAHandlerCrashesByDefault(t *testing.T) {
	if os.Getenv("INFORMER_TEST_PANIC") != "" {
		inf := startFed(t)
		inf.Subscribe(HandlerFuncs[*thing]{AddFunc: func(*thing, bool) { panic("in the handler") }})
		inf.put(list(1, "a"))
		<-t.Context().Done()
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), "INFORMER_TEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: in the handler") || !strings.Contains(string(out), "listener_test.go:") {
		t.Errorf("%v: %s", err, out)
	}
}

// A handler that calls runtime.Goexit, as t.FailNow does, ends its subscription and nothing else.
// Guarantees: H9
func TestHandlerThatExits(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		other := &recorder{}
		inf.Subscribe(other)
		sub := inf.Subscribe(HandlerFuncs[*thing]{AddFunc: func(*thing, bool) { runtime.Goexit() }})
		inf.put(list(1, "a", "b"))
		synctest.Wait()
		if err := sub.WaitSynced(t.Context()); !strings.HasSuffix(fmt.Sprint(err), "the handler called runtime.Goexit") {
			t.Errorf("WaitSynced: %v", err)
		}
		if len(inf.engine.Hub.All()) != 1 {
			t.Errorf("the informer has %d listeners", len(inf.engine.Hub.All()))
		}
		<-sub.Done()
		sub.Close()
		inf.put(upsert(2, "c"))
		other.Want(t, "add a @1 initial=true", "add b @1 initial=true", "add c @2 initial=false")
	})
}

// Guarantees: H13
func TestResync(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		never, told := &recorder{}, &recorder{}
		inf.Subscribe(never)
		sub := inf.Subscribe(told, SubscriptionConfig[*thing]{Resync: 10 * time.Minute})
		<-time.After(time.Hour)
		told.Want(t) // no resync before the sync
		inf.put(list(1, "a", "b"))
		told.Want(t, "add a @1 initial=true", "add b @1 initial=true")
		<-time.After(10*time.Minute - time.Nanosecond)
		told.Want(t)
		<-time.After(time.Minute + time.Nanosecond)
		told.Want(t, "update a @1->@1", "update b @1->@1")
		inf.put(upsert(2, "a"), remove(3, "b"))
		told.Want(t, "update a @1->@2", "delete b @3 final=true")
		<-time.After(11 * time.Minute)
		told.Want(t, "update a @2->@2")
		sub.Close()
		<-time.After(time.Hour)
		told.Want(t)
		never.Want(t, "add a @1 initial=true", "add b @1 initial=true", "update a @1->@2", "delete b @3 final=true")
	})
}

// Resync yields to changes, delivers the versions that the handler has, and respects the filter.
// Guarantees: H2, H13
func TestResyncYieldsToChanges(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &recorder{Gate: make(chan struct{}, 100)}
		inf.Subscribe(slow, SubscriptionConfig[*thing]{
			Resync: time.Minute,
			Filter: func(o *thing) bool { return o.name != "hidden" },
		})
		for range 4 {
			slow.Gate <- struct{}{}
		}
		inf.put(list(1, "a", "b", "c", "d", "hidden"))
		slow.Want(t, "add a @1 initial=true", "add b @1 initial=true", "add c @1 initial=true", "add d @1 initial=true")
		<-time.After(66 * time.Second) // the handler blocks on a
		inf.put(upsert(2, "d"), remove(3, "b"), upsert(4, "hidden"))
		synctest.Wait()
		for range 4 {
			slow.Gate <- struct{}{}
		}
		slow.Want(t, "update a @1->@1", "update d @1->@2", "delete b @3 final=true", "update c @1->@1")
		inf.put(upsert(5, "d"))
		synctest.Wait() // the handler blocks on the resync of d
		slow.Gate <- struct{}{}
		slow.Gate <- struct{}{}
		slow.Want(t, "update d @2->@2", "update d @2->@5")
	})
}

// The resync rounds of many handlers are spread over time.
// Guarantees: H13
func TestResyncIsSpread(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		began := time.Now()
		var rounds []time.Duration
		for range 100 {
			inf.Subscribe(HandlerFuncs[*thing]{UpdateFunc: func(_, _ *thing) { rounds = append(rounds, time.Since(began)) }},
				SubscriptionConfig[*thing]{Resync: time.Hour})
		}
		inf.put(list(1, "a"))
		<-time.After(66 * time.Minute)
		synctest.Wait()
		slices.Sort(rounds)
		if len(rounds) != 100 || rounds[0] < time.Hour || rounds[99]-rounds[0] < 3*time.Minute {
			t.Errorf("%d rounds: %v", len(rounds), rounds)
		}
	})
}

// All kinds of subscriptions run with resync and changes, for the race detector.
// Guarantees: L5
func TestResyncsAndChangesAtOnce(t *testing.T) {
	inf := startFed(t)
	inf.put(list(1, "a", "b", "c"))
	ctx, cancel := context.WithCancel(t.Context())
	for n := range 6 {
		chain := map[string]*thing{}
		config := SubscriptionConfig[*thing]{Resync: 50 * time.Microsecond}
		if n%2 == 1 {
			config.Delivery = DeliverEveryBlocking(0)
		}
		if n >= 4 {
			config.Filter = func(o *thing) bool { return o.name != "b" }
		}
		inf.Subscribe(HandlerFuncs[*thing]{
			AddFunc: func(o *thing, _ bool) {
				if chain[o.name] != nil {
					t.Errorf("added again: %s", o.name)
				}
				chain[o.name] = o
			},
			UpdateFunc: func(old, new *thing) {
				if chain[old.name] != old {
					t.Errorf("old is not the last version delivered of %s", old.name)
				}
				chain[new.name] = new
			},
			DeleteFunc: func(last *thing, _ bool) {
				if chain[last.name] == nil {
					t.Errorf("deleted, but never added: %s", last.name)
				}
				delete(chain, last.name)
			},
		}, config)
	}
	go func() {
		defer cancel()
		for rv := 2; rv < 6000; rv += 2 {
			name := string(rune('a' + rv%7))
			inf.put(upsert(rv, name))
			if rv%11 == 0 {
				inf.put(remove(rv+1, name))
			}
		}
	}()
	<-ctx.Done()
	if err := inf.waitUntil(t.Context(), func(s *Snapshot[*thing]) bool { return object.Reached(s.ResourceVersion(), strconv.Itoa(5998)) }); err != nil {
		t.Fatal(err)
	}
	inf.stop()
}

// Each call counts once, with the time that its change waited and the time that it took.
// Guarantees: O3
func TestSubscriptionCountsItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFed(t)
		defer f.stop()
		gates := make(chan time.Duration, 10)
		sub := f.Subscribe(HandlerFuncs[*thing]{
			AddFunc:    func(*thing, bool) { <-time.After(<-gates) },
			UpdateFunc: func(_, _ *thing) { <-time.After(<-gates) },
			DeleteFunc: func(*thing, bool) { <-time.After(<-gates) },
		}, SubscriptionConfig[*thing]{Name: "h"})
		want := func(when string, want status.Subscription) {
			t.Helper()
			want.Name, want.Synced = "h", true
			if got := sub.Status(); got != want {
				t.Errorf("%s:\n%+v, want\n%+v", when, got, want)
			}
		}
		var delays, calls status.Durations
		f.put(list(1))
		synctest.Wait()
		want("before the first change", status.Subscription{})
		f.put(upsert(2, "a"), upsert(3, "b"))
		histogram.Add(&delays, 0) // a is delivered at once
		<-time.After(time.Second)
		f.put(upsert(4, "b"), remove(5, "a")) // b folds, and is as old as its first change
		<-time.After(time.Second)
		want("in the first call", status.Subscription{Backlog: 2, Busy: 2 * time.Second, Oldest: 2 * time.Second, Delays: delays})
		gates <- time.Second
		<-time.After(time.Second)
		synctest.Wait()
		histogram.Add(&calls, 3*time.Second)
		histogram.Add(&delays, 3*time.Second)
		want("in the second call", status.Subscription{Backlog: 1, Oldest: 2 * time.Second, Delays: delays, Calls: calls})
		gates <- 0
		gates <- 4 * time.Second
		synctest.Wait()
		<-time.After(4 * time.Second)
		synctest.Wait()
		histogram.Add(&calls, 0)
		histogram.Add(&delays, 2*time.Second)
		histogram.Add(&calls, 4*time.Second)
		want("after all calls", status.Subscription{Delays: delays, Calls: calls})
		if calls.Max != 4*time.Second {
			t.Errorf("the slowest call took %v", calls.Max)
		}
		f.queued(upsert(6, "c"), remove(7, "c")) // in one batch: void
		synctest.Wait()
		want("after a void change", status.Subscription{Delays: delays, Calls: calls})
	})
}

// A long call causes a warning while it lasts. The next warning needs a call twice as long. A quick handler causes
// none, however busy it is.
// Guarantees: O2
func TestSlowHandlerGivesAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := startFed(t)
		defer f.stop()
		warnings := lockless{f: f}
		f.engine.Hub.Log = slog.New(slog.NewTextHandler(&warnings, nil))
		var takes atomic.Int64
		sub := f.Subscribe(HandlerFuncs[*thing]{
			AddFunc:    func(*thing, bool) { <-time.After(time.Duration(takes.Load())) },
			UpdateFunc: func(_, _ *thing) { <-time.After(time.Duration(takes.Load())) },
		}, SubscriptionConfig[*thing]{Name: "h"})
		f.put(list(1))
		want := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, line := range warnings.Take() {
				_, line, _ = strings.Cut(line, "handler=")
				line, _, _ = strings.Cut(line, " oldest=")
				got = append(got, line)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: warnings %q, want %q", when, got, want)
			}
		}
		version := 1
		change := func(d time.Duration, names ...string) {
			takes.Store(int64(d))
			for _, name := range names {
				version++
				f.put(upsert(version, name))
			}
		}
		for range 100 { // 100 s of work without a pause
			change(time.Second, "a", "b")
			<-time.After(time.Second)
		}
		<-time.After(time.Minute)
		want("calls of a second")
		change(time.Minute, "a")
		synctest.Wait()
		change(time.Minute, "b")
		<-time.After(10*time.Second - 1)
		want("before 10 s")
		<-time.After(1)
		want("after 10 s", "h call=10s backlog=1")
		<-time.After(10 * time.Second)
		want("after 20 s", "h call=20s backlog=1")
		<-time.After(20 * time.Second)
		want("after 40 s", "h call=40s backlog=1")
		<-time.After(time.Hour)
		want("a call that takes as long")
		change(3*time.Minute, "a")
		<-time.After(time.Hour)
		want("a call that takes twice as long", "h call=1m20s backlog=0", "h call=2m40s backlog=0")
		change(time.Hour, "a")
		synctest.Wait()
		sub.Close()
		<-sub.Done()
		want("a closed subscription")
	})
}

// lockless is a log that reads the status of an informer for each line, which takes its locks.
type lockless struct {
	testkit.Log
	f fed
}

func (l *lockless) Write(line []byte) (int, error) {
	l.f.Status()
	return l.Log.Write(line)
}
