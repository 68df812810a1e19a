package informer

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// After the same deltas, a store and its indexes equal a map. Earlier snapshots do not change.
// Guarantees: C1, C3, C4, C5, C8
func TestStoreAndIndexesFollowAModel(t *testing.T) {
	type tagKey struct {
		namespace, tag string
	}
	for seed := range uint64(Rounds(20, 60)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), world: world{}}
			store, w := NewStore[*thing]()
			failIn := 0 // the number of calls until byTag's function fails
			byTag := NewIndex(store, func(t *thing) []string {
				if failIn--; failIn == 0 {
					if g.IntN(2) == 0 {
						runtime.Goexit()
					}
					panic("key function")
				}
				return t.tags
			})
			var late *Index[*thing, tagKey]
			type kept struct {
				snap  *Snapshot[*thing]
				world world
			}
			var old []kept
			var changes []change[*thing]
			follower := world{}
			for step := range 300 {
				var batch []Delta[*thing]
				for range g.IntN(6) {
					batch = append(batch, g.delta())
				}
				before := store.Snapshot()
				if g.IntN(5) == 0 {
					invalid := slices.Insert(slices.Clone(batch), g.IntN(len(batch)+1), g.foreign())
					if err := w.Apply(invalid...); err == nil || store.Snapshot() != before {
						t.Fatalf("step %d: an object of another namespace: %v", step, err)
					}
				}
				if g.IntN(5) == 0 {
					failIn = 1 + g.IntN(1+g.IntN(20))
				}
				apply := func() {
					if step%2 == 0 {
						changes = mustApply(t, store, changes[:0], batch...)
						follow(t, follower, changes)
					} else {
						w.Apply(batch...)
						follower = maps.Clone(g.world)
					}
				}
				if returned := attempt(apply); !returned {
					if failIn != 0 || store.Snapshot() != before {
						t.Fatalf("step %d: an index's function failed, and the store changed", step)
					}
					apply()
				}
				failIn = 0
				if step == 100 {
					late = NewIndex(store, func(t *thing) []tagKey {
						var keys []tagKey
						for _, tag := range t.tags {
							keys = append(keys, tagKey{t.namespace, tag})
						}
						return keys
					})
				}
				if g.IntN(30) == 0 {
					old = append(old, kept{store.Snapshot(), maps.Clone(g.world)})
				}
				if step%10 != 0 {
					continue
				}
				old = append(old, kept{store.Snapshot(), g.world})
				for _, o := range old {
					if err := o.snap.core().Table().Check(); err != nil {
						t.Fatalf("step %d: %v", step, err)
					}
					if got, want := slices.Collect(o.snap.All()), o.world.sorted(); !equalVersions(got, want) {
						t.Fatalf("step %d: snapshot has %d objects, want %d", step, len(got), len(want))
					}
					keys := map[string]bool{}
					for tag := range 12 {
						tag := "tag" + strconv.Itoa(tag)
						want := o.world.tagged(tag)
						if got := slices.Collect(byTag.LookupIn(o.snap, tag)); !equalVersions(got, want) {
							t.Fatalf("step %d: %d objects by %s, want %d", step, len(got), tag, len(want))
						}
						if len(want) > 0 {
							keys[tag] = true
						}
						if late == nil {
							continue
						}
						inNS1 := slices.DeleteFunc(want, func(t *thing) bool { return t.namespace != "ns1" })
						if got := slices.Collect(late.LookupIn(o.snap, tagKey{"ns1", tag})); !equalVersions(got, inNS1) {
							t.Fatalf("step %d: late index has %d objects, want %d", step, len(got), len(inNS1))
						}
					}
					got := slices.Sorted(byTag.KeysIn(o.snap))
					if want := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, want) {
						t.Fatalf("step %d: keys %v, want %v", step, got, want)
					}
				}
				old = old[:len(old)-1]
				if err := store.core().Check(); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				for key, want := range g.world {
					if got, ok := store.Get(key); !ok || got.rv != want.rv {
						t.Fatalf("Get(%v) = %v, %v", key, got, ok)
					}
				}
				var ns2 []*thing
				for _, o := range g.world.sorted() {
					if o.namespace == "ns2" {
						ns2 = append(ns2, o)
					}
				}
				if got := slices.Collect(store.Namespace("ns2")); !equalVersions(got, ns2) {
					t.Fatalf("namespace has %d objects, want %d", len(got), len(ns2))
				}
				if store.Len() != len(g.world) || len(store.List()) != len(g.world) {
					t.Fatalf("Len = %d, want %d", store.Len(), len(g.world))
				}
			}
		})
	}
}

// The resource version of the store is the lowest of its sources.
// Guarantees: C7
func TestRVIsTheLowestOfSeveralNamespaces(t *testing.T) {
	store, w := NewStore[*thing]()
	w.Apply(Delta[*thing]{Type: Replaced, Namespace: "b", ResourceVersion: "20"})
	w.Apply(Delta[*thing]{Type: Replaced, Namespace: "a", ResourceVersion: "9"})
	if store.ResourceVersion() != "9" {
		t.Fatalf("RV = %s", store.ResourceVersion())
	}
	w.Apply(Delta[*thing]{Type: Bookmarked, Namespace: "a", ResourceVersion: "30"})
	if store.ResourceVersion() != "20" {
		t.Fatalf("RV = %s", store.ResourceVersion())
	}
}

// Readers see each step in the store, the index and the resource version, or in none of them. All objects of a step have its
// resource version, which is also their index key.
// Guarantees: C2, C6, C10, L5
func TestReadersSeeOneStep(t *testing.T) {
	store, w := NewStore[*thing]()
	byRV := NewIndex(store, func(t *thing) []string { return []string{t.rv} })
	const objects, steps = 200, 300
	world := func(rv string) Delta[*thing] {
		d := Delta[*thing]{Type: Replaced, ResourceVersion: rv}
		for i := range objects {
			d.Items = append(d.Items, &thing{namespace: "ns" + strconv.Itoa(i%3), name: strconv.Itoa(i), uid: "u", rv: rv})
		}
		return d
	}
	w.Apply(world("1"))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				snap := store.Snapshot()
				n := 0
				for o := range snap.All() {
					if o.rv != snap.ResourceVersion() {
						t.Errorf("object at %s in a snapshot at %s", o.rv, snap.ResourceVersion())
						return
					}
					n++
				}
				for range byRV.LookupIn(snap, snap.ResourceVersion()) {
					n++
				}
				if n != 2*objects {
					t.Errorf("%d objects in store and index, want %d", n, 2*objects)
					return
				}
			}
		})
	}
	for i := range steps {
		rv := strconv.Itoa(i + 2)
		if i%2 == 0 {
			w.Apply(world(rv))
			continue
		}
		var batch []Delta[*thing]
		for _, o := range world(rv).Items {
			batch = append(batch, Delta[*thing]{Type: Upserted, Object: o, ResourceVersion: rv})
		}
		w.Apply(batch...)
	}
	close(done)
	readers.Wait()
}
