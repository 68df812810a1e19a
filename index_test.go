package informer

import (
	"errors"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/reflector"
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

// A step in which an index function panics or calls runtime.Goexit has no effect. The same step can be repeated later,
// and later steps have the same effects as in a store where nothing failed.
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
					err := store.core().Check()
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
			if err := store.core().Check(); err != nil {
				t.Error(err)
			}
		})
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
		f := fed{inf, followerOf(inf), t, nil}
		f.put(list(1, "a", "b"), upsert(2, "c"))
		if err := inf.WaitForResourceVersion(t.Context(), "2"); err != nil {
			t.Fatal(err)
		}
		before := inf.Store().Snapshot()
		synctest.Wait() // then the next two are one batch
		if err := mirrorOf(f.engine).Buffer.Queue(t.Context(), read(upsert(3, "d"))); err != nil {
			t.Fatal(err)
		}
		f.put(upsert(4, "bad"))
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
		inf.Subscribe(HandlerFuncs[*thing]{AddFunc: func(obj *thing, _ bool) { told = append(told, obj.name) }})
		batch := []reflector.Delta[*thing]{*read(upsert(1, "a")), *read(upsert(2, "b"))}
		if attempt(func() { mirrorOf(inf.engine).Write(batch, false) }) {
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

// LookupIn and KeysIn use the index's own function for a snapshot without the index: of another store, or from before the
// index.
//
// Guarantees: C1, C3
func TestIndexAnswersForASnapshotWithoutIt(t *testing.T) {
	store, writer := NewStore[*thing]()
	NewIndex(store, func(*thing) []string { return []string{"all"} })
	var things []*thing
	for i := range 100 {
		it := &thing{name: strconv.Itoa(1000 + i), tags: []string{strconv.Itoa(i % 3), strconv.Itoa(i % 3), "every"}}
		things = append(things, it)
		writer.Apply(Delta[*thing]{Type: Upserted, Object: it})
	}
	before := store.Snapshot()
	late := NewIndex(store, func(t *thing) []string { return t.tags })
	empty, _ := NewStore[*thing]()
	other := NewIndex(empty, func(t *thing) []string { return t.tags })
	writer.Apply(Delta[*thing]{Type: Replaced})
	for name, index := range map[string]*Index[*thing, string]{"late": late, "other": other} {
		var want []*thing
		for i := 1; i < len(things); i += 3 {
			want = append(want, things[i])
		}
		if got := slices.Collect(index.LookupIn(before, "1")); !slices.Equal(got, want) || index.CountIn(before, "1") != len(want) {
			t.Errorf("%s: %d objects, want %d", name, len(got), len(want))
		}
		for first := range index.LookupIn(before, "1") {
			if first != want[0] {
				t.Errorf("%s: the first object is %s", name, first.name)
			}
			break
		}
		if n := index.CountIn(before, "all"); n != 0 {
			t.Errorf("%s: %d objects have the key of another index", name, n)
		}
		if got := slices.Sorted(index.KeysIn(before)); !slices.Equal(got, []string{"0", "1", "2", "every"}) {
			t.Errorf("%s: keys %q", name, got)
		}
		for range index.KeysIn(before) {
			break
		}
		if n, m := index.Count("1"), len(slices.Collect(index.Keys())); n != 0 || m != 0 {
			t.Errorf("%s: %d objects and %d keys in the empty store", name, n, m)
		}
	}
}
