package informer

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/run"
)

// keyFailures are the ways in which an index's function can fail to return usable keys.
var keyFailures = map[string]func() []any{
	"panic":           func() []any { panic("key function") },
	"Goexit":          func() []any { runtime.Goexit(); return nil },
	"unhashable key":  func() []any { return []any{"fine", []string{"not comparable"}} },
	"unhashable part": func() []any { return []any{[2]any{1, func() {}}} },
}

// contents returns everything that a store and its index x contain.
func contents(s *Store[*thing], x *Index[*thing, any]) (all []*thing, keys map[any][]*thing, rv string) {
	keys = map[any][]*thing{}
	for key := range x.Keys() {
		keys[key] = x.List(key)
	}
	return s.List(), keys, s.ResourceVersion()
}

// A step that fails because the function of an index panics or ends the goroutine has no effect. The same step can be repeated
// later, and later steps have the same effects as in a store where nothing failed.
//
// Guarantees: C3, C4, C5, C6
func TestStepThatAKeyFunctionEndsHasNotHappened(t *testing.T) {
	named := func(rv int, names ...string) (things []*thing) {
		for _, name := range names {
			things = append(things, &thing{namespace: "ns", name: name, uid: name, rv: strconv.Itoa(rv), tags: []string{name, "rv" + strconv.Itoa(rv)}})
		}
		return things
	}
	type deltas = []Delta[*thing]
	upserts := func(rv int, names ...string) (batch deltas) {
		for _, obj := range named(rv, names...) {
			batch = append(batch, Delta[*thing]{Type: Upserted, Object: obj, ResourceVersion: obj.rv})
		}
		return batch
	}
	removes := func(rv int, names ...string) deltas {
		batch := upserts(rv, names...)
		for i := range batch {
			batch[i].Type = Removed
		}
		return batch
	}
	replaces := func(rv int, names ...string) deltas {
		return deltas{{Type: Replaced, Items: named(rv, names...), ResourceVersion: strconv.Itoa(rv)}}
	}
	begin := replaces(1, "a", "b", "c", "d")
	for name, steps := range map[string]struct {
		before []deltas
		fails  deltas // this step fails at the last call of the function
		calls  int    // the number of these calls
	}{
		"add":                        {[]deltas{begin}, upserts(2, "e"), 1},
		"add to a free slot":         {[]deltas{begin, removes(2, "b")}, upserts(3, "e"), 1},
		"add of what was removed":    {[]deltas{begin}, append(removes(2, "a"), upserts(3, "a")...), 1},
		"update":                     {[]deltas{begin}, upserts(2, "c"), 1},
		"update of an object twice":  {[]deltas{begin}, append(upserts(2, "c"), upserts(3, "c")...), 2},
		"batch":                      {[]deltas{begin, removes(2, "d")}, slices.Concat(removes(3, "a"), upserts(4, "e", "f", "c"), removes(5, "b"), upserts(6, "g")), 4},
		"replacement":                {[]deltas{begin}, replaces(2, "b", "c", "e"), 3},
		"replacement of nothing":     {nil, replaces(2, "b", "c", "e"), 3},
		"replacement of what was":    {[]deltas{begin, replaces(2)}, replaces(3, "b", "c", "e"), 3},
		"replacement, then an event": {[]deltas{begin}, append(replaces(2, "x", "y"), upserts(3, "z")...), 3},
		"many":                       {[]deltas{begin}, upserts(2, manyNames(700)...), 700},
		"first of many":              {nil, upserts(2, manyNames(700)...), 700},
	} {
		for how, fail := range keyFailures {
			t.Run(name+"/"+how, func(t *testing.T) {
				left := -1 // the number of calls until the function fails
				tags := func(t *thing) (keys []any) {
					if left--; left == 0 {
						return fail()
					}
					for _, tag := range t.tags {
						keys = append(keys, tag)
					}
					return keys
				}
				store, w := NewStore[*thing]()
				first := NewIndex(store, func(t *thing) []string { return t.tags }) // one index before x and one after it
				x := NewIndex(store, tags)
				NewIndex(store, func(t *thing) []int { return []int{len(t.tags), len(t.name)} })
				twin, wTwin := NewStore[*thing]()
				xTwin := NewIndex(twin, tags)
				for _, batch := range steps.before {
					w.Apply(batch...)
					wTwin.Apply(batch...)
				}
				equal := func(when string) {
					t.Helper()
					all, keys, rv := contents(store, x)
					wantAll, wantKeys, wantRV := contents(twin, xTwin)
					if !equalVersions(all, wantAll) || !maps.EqualFunc(keys, wantKeys, equalVersions) || rv != wantRV {
						t.Fatalf("%s: %d objects, %d keys, at %q; want %d, %d, %q", when, len(all), len(keys), rv, len(wantAll), len(wantKeys), wantRV)
					}
					for _, obj := range wantAll {
						if got, ok := store.Get(KeyOf(obj)); !ok || got.rv != obj.rv {
							t.Fatalf("%s: Get(%s) = %v, %v", when, obj.name, got, ok)
						}
						if !slices.Contains(first.List(obj.name), obj) {
							t.Fatalf("%s: the first index does not have %s", when, obj.name)
						}
					}
				}
				for range 3 { // repeated failures have the same effect as one
					left = steps.calls
					if attempt(func() { w.Apply(steps.fails...) }) {
						t.Fatal("the function did not fail")
					}
					equal("after a step that failed")
				}
				for i, batch := range []deltas{upserts(7, "c", "x1"), removes(8, "a"), steps.fails, removes(9, "x1", "c"), upserts(10, "x2", "x3", "a"), replaces(11, "a", "x3", "x4")} {
					if !attempt(func() { w.Apply(batch...) }) {
						t.Fatalf("step %d after the failure fails too", i)
					}
					wTwin.Apply(batch...)
					equal("step " + strconv.Itoa(i) + " after the failure")
					store.mu.Lock()
					err := store.checkLocked(store.Snapshot())
					store.mu.Unlock()
					if err != nil {
						t.Fatalf("step %d after the failure: %v", i, err)
					}
				}
			})
		}
	}
}

func manyNames(n int) (names []string) {
	for i := range n {
		names = append(names, "many"+strconv.Itoa(i))
	}
	return names
}

// If the function fails during NewIndex, there is no new index. The store and its other indexes stay as they were.
//
// Guarantees: C3, C4
func TestNewIndexWhoseFunctionFailsHasNotBeenMade(t *testing.T) {
	for how, fail := range keyFailures {
		t.Run(how, func(t *testing.T) {
			store, w := NewStore[*thing]()
			before := NewIndex(store, func(t *thing) []string { return t.tags })
			put := func(rv int, names ...string) {
				for _, name := range names {
					w.Apply(Delta[*thing]{Type: Upserted, Object: &thing{name: name, rv: strconv.Itoa(rv), tags: []string{name, "all"}}})
				}
			}
			put(1, "a", "b", "c")
			calls := 0
			if attempt(func() {
				NewIndex(store, func(t *thing) []any {
					if calls++; calls == 3 {
						return fail()
					}
					return []any{t.name, "every"}
				})
			}) {
				t.Fatal("the function did not fail")
			}
			put(2, "b", "d")
			after := NewIndex(store, func(t *thing) []string { return []string{t.rv} })
			put(3, "a")
			w.Apply(Delta[*thing]{Type: Removed, Key: Key{Name: "c"}})
			if n, m := before.Count("all"), after.Count("2"); calls != 3 || n != 3 || m != 2 || after.Count("1") != 0 || len(before.List("c")) != 0 {
				t.Errorf("%d in the index before, %d in the one after it, %d calls", n, m, calls)
			}
			if err := store.checkLocked(store.Snapshot()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A lookup of NaN finds nothing, as in a Go map. The index removes the key together with its object.
//
// Guarantees: C3, C5
func TestKeyThatIsNotEqualToItselfIsFreedWithItsObject(t *testing.T) {
	store, w := NewStore[*thing]()
	x := NewIndex(store, func(t *thing) []float64 { return []float64{math.NaN(), float64(len(t.name)), math.NaN()} })
	keys := func() (n int) {
		for range x.Keys() {
			n++
		}
		return n
	}
	for rv := range 20 {
		w.Apply(Delta[*thing]{Type: Upserted, Object: &thing{name: "a", rv: strconv.Itoa(rv)}},
			Delta[*thing]{Type: Upserted, Object: &thing{name: "b", rv: strconv.Itoa(rv)}})
		if n := keys(); n != 5 || x.Count(1) != 2 || x.Count(math.NaN()) != 0 {
			t.Fatalf("%d keys, %d and %d objects", n, x.Count(1), x.Count(math.NaN()))
		}
		if err := store.checkLocked(store.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	w.Apply(Delta[*thing]{Type: Removed, Key: Key{Name: "a"}}, Delta[*thing]{Type: Replaced})
	if n := keys(); n != 0 {
		t.Errorf("%d keys but no objects", n)
	}
}

// colliding returns three keys that have the same hash in x.
func colliding(x *Index[*thing, string]) []string {
	seen := map[uint32][]string{}
	for i := 0; ; i++ {
		key := "key" + strconv.Itoa(i)
		hash := x.hash(key)
		if seen[hash] = append(seen[hash], key); len(seen[hash]) == 3 {
			return seen[hash]
		}
	}
}

// Ordinals distinguish the keys of one object whose hashes are equal, in any order, as keys are added and removed.
//
// Guarantees: C3, C5
func TestCollidingKeysOfOneObjectAreToldApart(t *testing.T) {
	store, w := NewStore[*thing]()
	x := NewIndex(store, func(t *thing) []string { return t.tags })
	plain, wPlain := NewStore[*thing]() // without an index: x builds a tree for each snapshot
	keys := colliding(x)
	a, b, c := keys[0], keys[1], keys[2]
	versions := [][]string{{a}, {a, b, c}, {c, a, b}, {b, c}, {c, b}, {c}, {a, a, b, a, c, c}, {"other", c, a}, {}, {b, a, c}}
	for rv, tags := range slices.Concat(versions, versions) {
		two := rv >= len(versions) // in the second round, another object has all keys
		if rv == len(versions) {
			beside := Delta[*thing]{Type: Upserted, Object: &thing{name: "beside", tags: []string{b, c, a}}}
			w.Apply(beside)
			wPlain.Apply(beside)
		}
		it := Delta[*thing]{Type: Upserted, Object: &thing{name: "it", rv: strconv.Itoa(rv + 1), tags: tags}}
		w.Apply(it)
		wPlain.Apply(it)
		for _, key := range keys {
			var want []string
			if two {
				want = append(want, "beside")
			}
			if slices.Contains(tags, key) {
				want = append(want, "it")
			}
			for _, snap := range []*Snapshot[*thing]{store.Snapshot(), plain.Snapshot()} {
				var got []string
				for obj := range x.LookupIn(snap, key) {
					got = append(got, obj.name)
				}
				if !slices.Equal(got, want) {
					t.Errorf("version %d with keys %q: %q finds %q, want %q", rv, tags, key, got, want)
				}
			}
		}
		if err := store.checkLocked(store.Snapshot()); err != nil {
			t.Fatalf("version %d with keys %q: %v", rv, tags, err)
		}
	}
}

// If the function of an index calls runtime.Goexit, as testing.T.Fatal does, the informer stops. Its store keeps its state
// from before that step, and its lock is free.
//
// Guarantees: C3, L1, L4
func TestKeyFunctionThatEndsItsGoroutineEndsTheInformer(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		client, err := NewClient(&rest.Config{Host: "nowhere", Transport: silence{}})
		if err != nil {
			t.Fatal(err)
		}
		inf := New(client, Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "things"}},
			Config[*thing]{Logger: slog.New(slog.DiscardHandler)})
		x := NewIndex(inf, func(t *thing) []string {
			if t.name == "bad" {
				runtime.Goexit()
			}
			return []string{"all"}
		})
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(t.Context()) }()
		f := fed{inf, t, nil}
		f.put(list(1, "a", "b"), upsert(2, "c"))
		if err := inf.WaitForResourceVersion(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		before := inf.Store().Snapshot()
		f.put(upsert(3, "d"), upsert(4, "bad"), upsert(5, "e"))
		if err := <-ended; !errors.Is(err, run.ErrGoroutineEnded) {
			t.Errorf("Run: %v", err)
		}
		if sub := inf.Subscribe(HandlerFuncs[*thing]{}); !errors.Is(sub.Err(), ErrStopped) {
			t.Errorf("Subscribe: %v", sub.Err())
		}
		late := NewIndex(inf, func(t *thing) []string { return []string{"late"} })
		if now := inf.Store().Snapshot(); x.Count("all") != 3 || late.Count("late") != 3 || now.ResourceVersion() != before.ResourceVersion() || !slices.Equal(now.List(), before.List()) {
			t.Errorf("%d objects at %s, before %d at %s", now.Len(), now.ResourceVersion(), before.Len(), before.ResourceVersion())
		}
	})
}

// If the function of an index panics during a batch, the informer's locks are free and its listeners are unchanged.
//
// Guarantees: C3, H2
func TestPanickingKeyFunctionLeavesTheInformerUsable(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		bad := true
		NewIndex(inf, func(t *thing) []string {
			if t.name == "b" && bad {
				panic("key function")
			}
			return nil
		})
		var told []string
		inf.Subscribe(HandlerFuncs[*thing]{Add: func(obj *thing, _ bool) { told = append(told, obj.name) }})
		batch := []Delta[*thing]{upsert(1, "a"), upsert(2, "b")}
		if attempt(func() { writeTo(inf.hub, inf.store, batch, nil, false) }) {
			t.Fatal("the function did not panic")
		}
		bad = false
		late := inf.Subscribe(HandlerFuncs[*thing]{})
		inf.put(list(3, "a", "b"))
		if err := late.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !slices.Equal(told, []string{"a", "b"}) {
			t.Errorf("received %v", told)
		}
	})
}

// The index calls its function once for each version of an object. A function that returns different keys each time corrupts
// nothing.
// Guarantees: C3
func TestIndexFunctionRunsOnceAVersionAndCannotCorrupt(t *testing.T) {
	store, w := NewStore[*thing]()
	calls := 0
	x := NewIndex(store, func(t *thing) []int { calls++; return []int{calls, calls, -calls} })
	a := &thing{name: "a", rv: "1"}
	w.Apply(Delta[*thing]{Type: Upserted, Object: a, ResourceVersion: "1"})
	if got := slices.Sorted(x.Keys()); !slices.Equal(got, []int{-1, 1}) || x.Count(1) != 1 {
		t.Fatalf("keys %v", got)
	}
	w.Apply(Delta[*thing]{Type: Upserted, Object: &thing{name: "a", rv: "2"}, ResourceVersion: "2"})
	if got := slices.Sorted(x.Keys()); !slices.Equal(got, []int{-2, 2}) || calls != 2 {
		t.Fatalf("keys %v after %d calls", got, calls)
	}
	w.Apply(Delta[*thing]{Type: Removed, Object: a, ResourceVersion: "3"})
	if got := slices.Collect(x.Keys()); len(got) != 0 || calls != 2 {
		t.Fatalf("keys %v after %d calls", got, calls)
	}
}

// With so many keys that some have equal hashes, each key still finds only its own object.
// Guarantees: C3
func TestKeysWithEqualHashesFindTheirOwnObjects(t *testing.T) {
	store, writer := NewStore[*thing]()
	index := NewIndex(store, func(t *thing) []string { return t.tags })
	const objects = 30_000 // about 25 pairs have equal hashes of 24 bits
	var items []*thing
	for i := range objects {
		items = append(items, &thing{name: fmt.Sprint("p", i), rv: "1", tags: []string{fmt.Sprint("own", i)}})
	}
	writer.Apply(Delta[*thing]{Type: Replaced, Items: items})
	for i := range objects {
		if found := index.List(fmt.Sprint("own", i)); len(found) != 1 || found[0].name != fmt.Sprint("p", i) {
			t.Fatalf("the key of p%d finds %d objects", i, len(found))
		}
	}
}

// LookupIn uses the index's own function, even for a snapshot of another store.
func TestIndexAnswersForASnapshotOfAnotherStore(t *testing.T) {
	store, _ := NewStore[*thing]()
	index := NewIndex(store, func(t *thing) []string { return t.tags })
	other, writer := NewStore[*thing]()
	NewIndex(other, func(*thing) []string { return []string{"all"} })
	writer.Apply(Delta[*thing]{Type: Upserted, Object: &thing{name: "a", rv: "1", tags: []string{"key0", "key1"}}})
	snap := other.Snapshot()
	if n, none := index.CountIn(snap, "key1"), index.CountIn(snap, "all"); n != 1 || none != 0 {
		t.Errorf("key1 finds %d objects, all finds %d", n, none)
	}
}
