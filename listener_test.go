package informer

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// fed is an informer whose reflector hears nothing: it learns what a test puts into its FIFO.
type fed struct {
	*Informer[*thing]
	t    *testing.T
	stop func()
}

// silence is a server that never answers.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func startFed(t *testing.T) fed {
	client, err := NewClient(&rest.Config{Host: "nowhere", Transport: silence{}})
	if err != nil {
		t.Fatal(err)
	}
	i := New(client, Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}},
		Config[*thing]{Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	return fed{i, t, func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	}}
}

func (f fed) put(deltas ...Delta[*thing]) {
	f.t.Helper()
	for _, d := range deltas {
		if err := f.fifo.Put(f.t.Context(), d); err != nil {
			f.t.Fatal(err)
		}
	}
}

// list makes a Replaced of things with these names.
func list(rv int, names ...string) Delta[*thing] {
	d := Delta[*thing]{Type: Replaced, ResourceVersion: strconv.Itoa(rv)}
	for _, name := range names {
		d.Items = append(d.Items, &thing{name: name, uid: name, rv: strconv.Itoa(rv)})
	}
	return d
}

func upsert(rv int, name string) Delta[*thing] {
	return Delta[*thing]{Type: Upserted, Object: &thing{name: name, uid: name, rv: strconv.Itoa(rv)}, ResourceVersion: strconv.Itoa(rv)}
}

func remove(rv int, name string) Delta[*thing] {
	d := upsert(rv, name)
	d.Type = Removed
	return d
}

// lines is a handler that notes what it is told, and may be slow.
type lines struct {
	gate chan struct{} // when not nil, each call waits for one token

	mu   sync.Mutex // protects told
	told []string
}

func (l *lines) note(line string) {
	if l.gate != nil {
		<-l.gate
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = append(l.told, line)
}

func (l *lines) OnAdd(obj *thing, initial bool) {
	if initial {
		l.note("initial " + obj.name + "@" + obj.rv)
	} else {
		l.note("add " + obj.name + "@" + obj.rv)
	}
}
func (l *lines) OnUpdate(old, new *thing) {
	l.note("update " + new.name + "@" + old.rv + "->" + new.rv)
}
func (l *lines) OnDelete(last *thing, final bool) {
	if final {
		l.note("delete " + last.name + "@" + last.rv)
	} else {
		l.note("missed delete " + last.name + "@" + last.rv)
	}
}

func (l *lines) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.told, want) {
		t.Errorf("told %q, want %q", l.told, want)
	}
	l.told = nil
}

func TestH2H3H4H5_SlowHandlerIsToldFoldedChanges(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &lines{gate: make(chan struct{})}
		sub := inf.Subscribe(slow)
		inf.put(list(1, "0", "a", "b", "c"))
		synctest.Wait() // in the call for the first
		if s := sub.Status(); s.Backlog != 3 || s.Synced {
			t.Errorf("status %+v", s)
		}
		inf.put(upsert(2, "a"), upsert(3, "a"))                    // still an initial addition
		inf.put(remove(4, "b"))                                    // never was
		inf.put(upsert(5, "d"), remove(6, "d"), upsert(7, "d"))    // came, went, came
		inf.put(upsert(8, "0"), upsert(9, "0"))                    // one update
		inf.put(upsert(10, "e"), remove(11, "e"))                  // nothing
		inf.put(remove(12, "c"), upsert(13, "c"), upsert(14, "c")) // never was, then is
		synctest.Wait()
		if s := sub.Status(); s.Backlog != 4 {
			t.Errorf("status %+v", s)
		}
		close(slow.gate)
		slow.want(t, "initial 0@1", "initial a@3", "add d@7", "update 0@1->9", "add c@14")
	})
}

func TestH5_DeletionBetweenIsTold(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow := &lines{gate: make(chan struct{}, 100)}
		inf.Subscribe(slow)
		inf.put(list(1, "0", "a"))
		slow.gate <- struct{}{}
		slow.gate <- struct{}{}
		slow.want(t, "initial 0@1", "initial a@1")
		inf.put(upsert(2, "0"))
		synctest.Wait()
		other := upsert(5, "a")
		other.Object.uid = "other"
		inf.put(upsert(3, "a"), remove(4, "a"), other, upsert(6, "0"))
		synctest.Wait()
		close(slow.gate)
		slow.want(t, "update 0@1->2", "delete a@4", "add a@5", "update 0@2->6")

		again := list(7, "0", "a")
		again.Items[1].uid = "a third"
		inf.put(again)
		slow.want(t, "update 0@6->7", "missed delete a@5", "add a@7")
		inf.put(list(8, "0"))
		slow.want(t, "update 0@7->8", "missed delete a@7")
	})
}

// A handler that is given folded changes at random moments rebuilds the world from them, link by link.
func TestH1H2_FoldedChangesChain(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 2)), world: world{}}
		store, _ := NewStore[*thing]()
		l := newListener(&Informer[*thing]{}, Handler[*thing](HandlerFuncs[*thing]{}), SubscriptionConfig[*thing]{})
		l.wake = make(chan struct{}, 1) // deliver by hand
		follower := world{}
		var done *pending[*thing]
		deliver := func() bool {
			p, ok := l.next(done)
			done = nil
			if ok {
				follow(t, follower, []change[*thing]{p.change})
				done = &p
			}
			return ok
		}
		first := true
		for range 400 {
			changes := store.apply([]Delta[*thing]{g.delta()}, nil)
			l.enqueue(changes, first)
			first = false
			if entries := len(l.byKey); entries > 240 {
				t.Fatalf("seed %d: %d entries for 240 keys", seed, entries)
			}
			if len(l.queue) > 1024 {
				t.Fatalf("seed %d: a queue of %d for %d keys", seed, len(l.queue), len(l.byKey))
			}
			for range g.IntN(3) {
				deliver()
			}
			if g.IntN(50) == 0 {
				for deliver() {
				}
				if !maps.EqualFunc(follower, g.world, func(a, b *thing) bool { return a.rv == b.rv && a.uid == b.uid }) {
					t.Fatalf("seed %d: follower has %d, world has %d", seed, len(follower), len(g.world))
				}
			}
		}
		if l.initial != 0 && len(l.byKey) == 0 {
			t.Fatalf("seed %d: %d initial additions left of none", seed, l.initial)
		}
	}
}

// Keys that come and go unread leave no trace, however many.
func TestH3H4_BacklogIsBounded(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		slow := &lines{gate: make(chan struct{})}
		inf.Subscribe(slow)
		inf.put(list(1, "0"))
		synctest.Wait()
		for i := range 20_000 {
			name := "key" + strconv.Itoa(i)
			inf.put(upsert(2*i+2, name), remove(2*i+3, name))
		}
		synctest.Wait()
		if n := cap(inf.listeners[0].queue); n > 2048 {
			t.Errorf("queue of %d", n)
		}
		close(slow.gate)
		slow.want(t, "initial 0@1")
		inf.stop()
	})
}

func TestH7H8_LateSubscription(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		early := &lines{}
		earlySub := inf.Subscribe(early)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := earlySub.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitSynced before the list: %v", err)
		}
		inf.put(list(1, "a", "b"), upsert(2, "c"))
		early.want(t, "initial a@1", "initial b@1", "add c@2")
		late := &lines{gate: make(chan struct{})}
		lateSub := inf.Subscribe(late)
		inf.put(upsert(3, "c"), upsert(4, "d"), remove(5, "b"))
		synctest.Wait()
		late.gate <- struct{}{}
		late.want(t, "initial a@1")
		if lateSub.Status().Synced { // c is left; b has gone
			t.Error("synced before it has returned from all")
		}
		late.gate <- struct{}{}
		late.want(t, "initial c@3")
		close(late.gate)
		if err := lateSub.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		late.want(t, "add d@4")
		early.want(t, "update c@2->3", "add d@4", "delete b@5")
		if err := earlySub.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A handler that subscribes while objects stream in has seen each of them once.
func TestH7L5_SubscriptionsWhileChangesComeIn(t *testing.T) {
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
				Add:    func(obj *thing, _ bool) { mine[obj.name]++ },
				Update: func(_, obj *thing) { mine[obj.name] += 100 },
			}))
		}
	}
	if err := inf.waitUntil(t.Context(), func(s *Snapshot[*thing]) bool { return s.Len() == objects }); err != nil {
		t.Fatal(err)
	}
	for i, sub := range subs {
		for sub.Status().Backlog > 0 {
			runtime.Gosched()
		}
		sub.Close()
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

func TestH9_BlockedHandlerHoldsUpNobody(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		blocked, free := &lines{gate: make(chan struct{})}, &lines{}
		blockedSub := inf.Subscribe(blocked)
		inf.Subscribe(free)
		inf.put(list(1, "a"))
		synctest.Wait()
		for i := range 5000 { // more than the FIFO holds
			inf.put(upsert(i+2, "a"))
			synctest.Wait()
		}
		if len(free.told) != 5001 || inf.Store().RV() != "5001" {
			t.Errorf("the other was told %d times, store at %s", len(free.told), inf.Store().RV())
		}
		<-time.After(time.Minute)
		if s := blockedSub.Status(); s.Backlog != 1 || s.Busy != time.Minute {
			t.Errorf("status %+v", s)
		}
		close(blocked.gate)
		blocked.want(t, "initial a@1", "update a@1->5001")
		inf.stop()
	})
}

func TestH11_Close(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		slow, other := &lines{gate: make(chan struct{})}, &lines{}
		sub := inf.Subscribe(slow)
		inf.Subscribe(other)
		inf.put(list(1, "a", "b", "c"))
		synctest.Wait()
		closed := make(chan struct{})
		go func() { sub.Close(); sub.Close(); close(closed) }()
		synctest.Wait()
		if isClosed(closed) {
			t.Error("Close did not wait for the call under way")
		}
		slow.gate <- struct{}{}
		<-closed
		slow.want(t, "initial a@1")
		other.want(t, "initial a@1", "initial b@1", "initial c@1")
		if err := sub.WaitSynced(t.Context()); err == nil {
			t.Error("WaitSynced of a closed subscription returned nil")
		}

		var self *Subscription
		calls := 0
		ready := make(chan struct{})
		self = inf.Subscribe(HandlerFuncs[*thing]{Add: func(*thing, bool) { <-ready; calls++; self.Close() }})
		close(ready)
		synctest.Wait()
		if calls != 1 || len(inf.listeners) != 1 {
			t.Errorf("%d calls, %d listeners", calls, len(inf.listeners))
		}
	})
}

func TestH11_CloseInOnDeleteDropsTheAdditionBehindIt(t *testing.T) {
	for _, filter := range []func(*thing) bool{nil, func(*thing) bool { return true }} {
		Bubble(t, func(t *testing.T) {
			inf := startFed(t)
			defer inf.stop()
			rec := &lines{}
			var sub *Subscription
			sub = inf.SubscribeWith(HandlerFuncs[*thing]{
				Add:    rec.OnAdd,
				Delete: func(last *thing, final bool) { rec.OnDelete(last, final); sub.Close() },
			}, SubscriptionConfig[*thing]{Filter: filter})
			inf.put(list(1, "a"))
			synctest.Wait()
			other := list(2, "a")
			other.Items[0].uid = "other"
			inf.put(other) // one entry: a is gone, and another is there
			rec.want(t, "initial a@1", "missed delete a@1")
		})
	}
}

func TestH12_Filter(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		allowed := map[string]bool{"2": true, "3": true, "6": true}
		rec := &lines{}
		sub := inf.SubscribeWith(rec, SubscriptionConfig[*thing]{Filter: func(o *thing) bool { return allowed[o.rv] }})
		inf.put(list(1, "a", "b"))
		rec.want(t)
		if err := sub.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
		for i, want := range []string{2: "add a@2", 3: "update a@2->3", 4: "missed delete a@3", 5: "", 6: "add a@6"} {
			if i < 2 {
				continue
			}
			inf.put(upsert(i, "a"))
			if want == "" {
				rec.want(t)
			} else {
				rec.want(t, want)
			}
		}
		inf.put(remove(7, "b"))
		rec.want(t)
		allowed["6"] = false // it changes its mind: what was given is still taken back
		inf.put(remove(8, "a"))
		rec.want(t, "delete a@8")
	})
}

func TestChanges_YieldsUntilLeftOrEnded(t *testing.T) {
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
		if len(inf.listeners) != 0 {
			t.Error("the subscription of a loop that was left is still there")
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
		<-ended // by the informer's end
		for range inf.Changes(t.Context()) {
			t.Error("an event after the end")
		}
	})
}

func TestNotify_AllocatesNothingInTheSteadyState(t *testing.T) {
	l := newListener(&Informer[*thing]{}, Handler[*thing](HandlerFuncs[*thing]{}), SubscriptionConfig[*thing]{})
	l.wake = make(chan struct{}, 1)
	old, new := &thing{name: "a", rv: "1"}, &thing{name: "a", rv: "2"}
	changes := []change[*thing]{{key: Key{Name: "a"}, old: old, new: new}}
	var done pending[*thing]
	allocs := testing.AllocsPerRun(1000, func() {
		l.enqueue(changes, false)
		p, _ := l.next(nil)
		l.deliver(&p)
		done = p
		l.next(&done)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
