package informer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestH3_EveryChangeIsTold(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &lines{gate: make(chan struct{})}
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: Every})
		inf.put(list(1, "0", "a", "b"))
		inf.put(upsert(2, "a"), upsert(3, "a"), upsert(4, "c"), remove(5, "c"), upsert(6, "c"), remove(7, "b"))
		synctest.Wait()
		if s := sub.Status(); s.Backlog != 8 || s.Blocking {
			t.Errorf("status %+v", s)
		}
		close(slow.gate)
		slow.want(t, "initial 0@1", "initial a@1", "initial b@1", "update a@1->2", "update a@2->3",
			"add c@4", "delete c@5", "add c@6", "delete b@7")
		if s := sub.Status(); s.Backlog != 0 || !s.Synced {
			t.Errorf("status %+v", s)
		}
	})
}

// A backlog over its limit ends the subscription, and harms nobody else. What a list brings at once does not count.
func TestH3H9_EveryEndsTheSubscriptionThatIsTooFarBehind(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow, other := &lines{gate: make(chan struct{})}, &lines{}
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: Every, MaxBacklog: 2})
		inf.Subscribe(other)
		inf.put(list(1, "0", "a", "b", "c", "d", "e"))
		synctest.Wait() // in the call for the first
		for rv := range 3 {
			inf.put(upsert(rv+2, "0"))
			synctest.Wait()
		}
		// There is one update of a key that nothing else waits of, and two more
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
		close(slow.gate)
		slow.want(t, "initial 0@1")
		other.want(t, "initial 0@1", "initial a@1", "initial b@1", "initial c@1", "initial d@1", "initial e@1", "update 0@1->2", "update 0@2->3", "update 0@3->4", "update 0@4->5")
		if len(inf.listeners) != 1 {
			t.Errorf("%d listeners", len(inf.listeners))
		}
	})
}

// A subscription that names no limit has one.
func TestH3_DefaultBacklog(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &lines{gate: make(chan struct{})}
		defer close(slow.gate)
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: Every})
		inf.put(list(1, "a"))
		synctest.Wait()        // in the call
		const limit = 1024 + 1 // one for the key
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

// With Block the backlog is bounded by what one batch can add, and the wait is seen in Status and ends by itself.
func TestH3_EveryBlocksTheInformer(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		slow := &lines{gate: make(chan struct{})}
		sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: Every, MaxBacklog: 2, Block: true})
		inf.put(list(1, "a"))
		const updates = 500
		go func() {
			for i := range updates {
				inf.put(upsert(i+2, "a"))
				inf.waitUntil(t.Context(), func(s *Snapshot[*thing]) bool { return s.RV() == strconv.Itoa(i+2) }) // one batch each
			}
		}()
		synctest.Wait()
		if s := sub.Status(); !s.Blocking || s.Backlog != 4 {
			t.Errorf("status %+v", s)
		}
		if rv := inf.Store().RV(); rv != "5" { // the list, and updates one of which is above the limit
			t.Errorf("store at %s", rv)
		}
		close(slow.gate)
		synctest.Wait()
		for i, line := range slow.told[1:] {
			if want := fmt.Sprintf("update a@%d->%d", i+1, i+2); line != want {
				t.Fatalf("told %q, want %q", line, want)
			}
		}
		if s := sub.Status(); len(slow.told) != updates+1 || s.Blocking {
			t.Errorf("told %d times; status %+v", len(slow.told), s)
		}
		inf.stop()
	})
}

// An informer that waits for a handler can be stopped, and the handler's subscription closed.
func TestH3L2_BlockedInformerStops(t *testing.T) {
	for _, end := range []string{"stop", "close"} {
		Bubble(t, func(t *testing.T) {
			inf := startFed(t)
			slow := &lines{gate: make(chan struct{})}
			sub := inf.SubscribeWith(slow, SubscriptionConfig[*thing]{Delivery: Every, MaxBacklog: 1, Block: true})
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
				if rv := inf.Store().RV(); rv != "5" {
					t.Errorf("store at %s", rv)
				}
			}
			close(slow.gate)
			inf.stop()
		})
	}
}

func TestH10_PanicOfAHandlerIsSurvivedIfAsked(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		var panics []string
		other, told := &lines{}, &lines{}
		inf.Subscribe(other)
		sub := inf.SubscribeWith(HandlerFuncs[*thing]{
			Add: func(o *thing, initial bool) {
				told.OnAdd(o, initial)
				if o.name == "a" {
					panic("add " + o.name)
				}
			},
			Update: func(old, new *thing) { told.OnUpdate(old, new); panic(fmt.Errorf("update")) },
			Delete: func(last *thing, final bool) { told.OnDelete(last, final); panic(errors.New("delete")) },
		}, SubscriptionConfig[*thing]{
			Filter: func(o *thing) bool {
				if o.name == "f" {
					panic("filter")
				}
				return true
			},
			OnPanic: func(value any) {
				panics = append(panics, fmt.Sprint(value))
				if stack := string(debug.Stack()); !strings.Contains(stack, "TestH10_PanicOfAHandler") {
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
		told.want(t, "initial a@1", "initial b@1", "update b@1->2", "delete b@3", "missed delete a@1", "add a@4")
		other.want(t, "initial a@1", "initial b@1", "initial f@1", "update b@1->2", "delete b@3", "missed delete a@1", "add a@4")
		want := []string{"add a", "filter", "update", "delete", "delete", "add a"}
		if !slices.Equal(panics, want) {
			t.Errorf("panics %q", panics)
		}
	})
}

// By default the program crashes, and the stack shows the handler.
func TestH10_PanicOfAHandlerCrashesByDefault(t *testing.T) {
	if os.Getenv("INFORMER_TEST_PANIC") != "" {
		inf := startFed(t)
		inf.Subscribe(HandlerFuncs[*thing]{Add: func(*thing, bool) { panic("in the handler") }})
		inf.put(list(1, "a"))
		<-t.Context().Done()
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	cmd.Env = append(os.Environ(), "INFORMER_TEST_PANIC=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: in the handler") || !strings.Contains(string(out), "delivery_test.go:") {
		t.Errorf("%v: %s", err, out)
	}
}

// A handler that ends its goroutine, as t.FailNow does, ends its subscription and nothing else.
func TestH9_HandlerThatExits(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		other := &lines{}
		inf.Subscribe(other)
		sub := inf.Subscribe(HandlerFuncs[*thing]{Add: func(*thing, bool) { runtime.Goexit() }})
		inf.put(list(1, "a", "b"))
		synctest.Wait()
		if err := sub.WaitSynced(t.Context()); !errors.Is(err, errExited) {
			t.Errorf("WaitSynced: %v", err)
		}
		sub.Close()
		inf.put(upsert(2, "c"))
		other.want(t, "initial a@1", "initial b@1", "add c@2")
	})
}

func TestH13_Resync(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		never, told := &lines{}, &lines{}
		inf.Subscribe(never)
		sub := inf.SubscribeWith(told, SubscriptionConfig[*thing]{Resync: 10 * time.Minute})
		<-time.After(time.Hour)
		told.want(t) // not before it is synced
		inf.put(list(1, "a", "b"))
		told.want(t, "initial a@1", "initial b@1")
		<-time.After(10*time.Minute - time.Nanosecond)
		told.want(t)
		<-time.After(time.Minute + time.Nanosecond)
		told.want(t, "update a@1->1", "update b@1->1")
		inf.put(upsert(2, "a"), remove(3, "b"))
		told.want(t, "update a@1->2", "delete b@3")
		<-time.After(11 * time.Minute)
		told.want(t, "update a@2->2")
		sub.Close()
		<-time.After(time.Hour)
		told.want(t)
		never.want(t, "initial a@1", "initial b@1", "update a@1->2", "delete b@3")
	})
}

// Resync does not come before a change, gives what the handler has, and only what passes its filter.
func TestH2H13_ResyncYieldsToChanges(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &lines{gate: make(chan struct{}, 100)}
		inf.SubscribeWith(slow, SubscriptionConfig[*thing]{
			Resync: time.Minute,
			Filter: func(o *thing) bool { return o.name != "hidden" },
		})
		for range 4 {
			slow.gate <- struct{}{}
		}
		inf.put(list(1, "a", "b", "c", "d", "hidden"))
		slow.want(t, "initial a@1", "initial b@1", "initial c@1", "initial d@1")
		<-time.After(66 * time.Second) // in the call for a
		inf.put(upsert(2, "d"), remove(3, "b"), upsert(4, "hidden"))
		synctest.Wait()
		for range 4 {
			slow.gate <- struct{}{}
		}
		slow.want(t, "update a@1->1", "update d@1->2", "delete b@3", "update c@1->1")
		inf.put(upsert(5, "d"))
		synctest.Wait() // the resync of d is in the call
		slow.gate <- struct{}{}
		slow.gate <- struct{}{}
		slow.want(t, "update d@2->2", "update d@2->5")
	})
}

// Rounds of many handlers do not come all at once.
func TestH13_ResyncIsSpread(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		began := time.Now()
		var rounds []time.Duration
		for range 100 {
			inf.SubscribeWith(HandlerFuncs[*thing]{Update: func(_, _ *thing) { rounds = append(rounds, time.Since(began)) }},
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

func TestL4_SubscriptionThatCannotBe(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		for name, config := range map[string]SubscriptionConfig[*thing]{
			"Delivery":   {Delivery: 7},
			"MaxBacklog": {Delivery: Every, MaxBacklog: -1},
			"Resync":     {Resync: -1},
			"Block":      {Block: true},
		} {
			sub := inf.SubscribeWith(&lines{}, config)
			<-sub.Done()
			if err := sub.Err(); err == nil || !strings.Contains(err.Error(), "SubscriptionConfig."+name) && !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			}
			if err := sub.WaitSynced(t.Context()); err == nil {
				t.Errorf("%s: WaitSynced returned nil", name)
			}
			sub.Close()
		}
		open := inf.Subscribe(&lines{})
		if err := open.Err(); err != nil {
			t.Errorf("an open subscription has ended: %v", err)
		}
		closed := inf.Subscribe(&lines{})
		closed.Close()
		if err := closed.Err(); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		inf.stop()
		if err := open.Err(); !errors.Is(err, ErrStopped) {
			t.Errorf("after the end: %v", err)
		}
		if err := inf.Subscribe(&lines{}).Err(); !errors.Is(err, ErrStopped) {
			t.Errorf("subscribed after the end: %v", err)
		}
	})
}

// Every kind of subscription at once, with resync and changes, under the race detector.
func TestL5_ResyncsAndChangesAtOnce(t *testing.T) {
	inf := startFed(t)
	inf.put(list(1, "a", "b", "c"))
	ctx, cancel := context.WithCancel(t.Context())
	for n := range 6 {
		chain := map[string]*thing{}
		config := SubscriptionConfig[*thing]{Resync: 50 * time.Microsecond, Delivery: Delivery(n % 2), Block: n%2 == 1}
		if n >= 4 {
			config.Filter = func(o *thing) bool { return o.name != "b" }
		}
		inf.SubscribeWith(HandlerFuncs[*thing]{
			Add: func(o *thing, _ bool) {
				if chain[o.name] != nil {
					t.Errorf("added again: %s", o.name)
				}
				chain[o.name] = o
			},
			Update: func(old, new *thing) {
				if chain[old.name] != old {
					t.Errorf("old is not what was given last of %s", old.name)
				}
				chain[new.name] = new
			},
			Delete: func(last *thing, _ bool) {
				if chain[last.name] == nil {
					t.Errorf("deleted, but never given: %s", last.name)
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
	if err := inf.waitUntil(t.Context(), func(s *Snapshot[*thing]) bool { return reached(s.RV(), strconv.Itoa(5998)) }); err != nil {
		t.Fatal(err)
	}
	inf.stop()
}
