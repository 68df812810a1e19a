package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// thing is the smallest Object.
type thing struct {
	namespace, name, uid, rv string
	tags                     []string
}

func (t *thing) GetNamespace() string       { return t.namespace }
func (t *thing) GetName() string            { return t.name }
func (t *thing) GetUID() types.UID          { return types.UID(t.uid) }
func (t *thing) GetResourceVersion() string { return t.rv }

func compareThings(a, b *thing) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

// world is the model that a store is held against.
type world map[Key]*thing

func (w world) sorted() []*thing { return slices.SortedFunc(maps.Values(w), compareThings) }

func (w world) tagged(tag string) []*thing {
	var list []*thing
	for _, t := range w.sorted() {
		if slices.Contains(t.tags, tag) {
			list = append(list, t)
		}
	}
	return list
}

// generator makes random deltas and keeps the world that they lead to.
type generator struct {
	*rand.Rand
	world world
	rv    int
}

func (g *generator) thing(key Key) *thing {
	g.rv++
	t := &thing{namespace: key.Namespace, name: key.Name, uid: "1", rv: strconv.Itoa(g.rv)}
	if g.IntN(8) == 0 {
		t.uid = strconv.Itoa(g.rv)
	} else if old := g.world[key]; old != nil {
		t.uid = old.uid
	}
	for range g.IntN(4) {
		t.tags = append(t.tags, "tag"+strconv.Itoa(g.IntN(12)))
	}
	return t
}

func (g *generator) key() Key {
	return Key{Namespace: "ns" + strconv.Itoa(g.IntN(4)), Name: "n" + strconv.Itoa(g.IntN(60))}
}

func (g *generator) delta() Delta[*thing] {
	switch g.IntN(40) {
	case 0:
		return g.replacement("")
	case 1:
		return g.replacement("ns" + strconv.Itoa(g.IntN(4)))
	default:
		return g.event()
	}
}

// event is a delta of one object.
func (g *generator) event() Delta[*thing] {
	switch g.IntN(3) {
	case 0:
		key := g.key()
		last := g.thing(key)
		delete(g.world, key)
		return Delta[*thing]{Type: Removed, Object: last, ResourceVersion: last.rv}
	default:
		t := g.thing(g.key())
		g.world[KeyOf(t)] = t
		return Delta[*thing]{Type: Upserted, Object: t, ResourceVersion: t.rv}
	}
}

func (g *generator) replacement(namespace string) Delta[*thing] {
	d := Delta[*thing]{Type: Replaced, Namespace: namespace}
	for _, t := range g.world.sorted() {
		if namespace != "" && t.namespace != namespace {
			continue
		}
		key := KeyOf(t)
		switch g.IntN(6) {
		case 0:
			delete(g.world, key)
		case 1:
			g.world[key] = g.thing(key)
			d.Items = append(d.Items, g.world[key])
		case 2:
			d.Kept = append(d.Kept, key)
		default:
			same := *t // as a relist would find it: equal, but another object
			d.Items = append(d.Items, &same)
		}
	}
	for range g.IntN(5) {
		key := g.key()
		if namespace != "" {
			key.Namespace = namespace
		}
		if g.world[key] == nil {
			g.world[key] = g.thing(key)
			d.Items = append(d.Items, g.world[key])
		}
	}
	g.Shuffle(len(d.Items), func(i, j int) { d.Items[i], d.Items[j] = d.Items[j], d.Items[i] })
	g.rv++
	d.ResourceVersion = strconv.Itoa(g.rv)
	return d
}

// restored is a replacement by a server that went back in time: some versions are of another content.
func (g *generator) restored(namespace string) Delta[*thing] {
	d := g.replacement(namespace)
	d.Restored = true
	for i, t := range d.Items {
		if g.IntN(3) == 0 {
			other := *t
			other.tags = append(slices.Clone(t.tags), "restored"+strconv.Itoa(g.rv))
			d.Items[i], g.world[KeyOf(t)] = &other, &other
		}
	}
	return d
}

// equalVersions says whether both have the same versions of the same objects in the same order.
func equalVersions(a, b []*thing) bool {
	return slices.EqualFunc(a, b, func(a, b *thing) bool {
		return KeyOf(a) == KeyOf(b) && a.uid == b.uid && a.rv == b.rv
	})
}

func TestC1C3C4C5C8_StoreAndIndexesFollowAModel(t *testing.T) {
	type tagKey struct {
		namespace, tag string
	}
	for seed := range uint64(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), world: world{}}
			store, w := NewStore[*thing]()
			byTag := NewIndex(store, func(t *thing) []string { return t.tags })
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
				if step%2 == 0 {
					changes = store.apply(batch, changes[:0])
					follow(t, follower, changes)
				} else {
					w.Apply(batch...)
					follower = maps.Clone(g.world)
				}
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
					if err := checkTree(byName, o.snap.records); err != nil {
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
							t.Fatalf("step %d: late index has %d, want %d", step, len(got), len(inNS1))
						}
					}
					got := slices.Sorted(byTag.KeysIn(o.snap))
					if want := slices.Sorted(maps.Keys(keys)); !slices.Equal(got, want) {
						t.Fatalf("step %d: keys %v, want %v", step, got, want)
					}
				}
				old = old[:len(old)-1]
				if err := store.checkLocked(store.Snapshot()); err != nil {
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

// follow applies changes to w as a handler would, and checks that each goes on from the one before.
func follow(t *testing.T, w world, changes []change[*thing]) {
	t.Helper()
	for _, c := range changes {
		have := w[c.key]
		if (have == nil) != (c.old == nil) || have != nil && (have.uid != c.old.uid || have.rv != c.old.rv) {
			t.Fatalf("%v: change from %v, but had %v", c.key, c.old, have)
		}
		if c.deleted {
			if have == nil || c.last == nil {
				t.Fatalf("%v: deleted, but it was not there", c.key)
			}
			delete(w, c.key)
		}
		if c.added != (c.new != nil && w[c.key] == nil) {
			t.Fatalf("%v: added is %v", c.key, c.added)
		}
		if c.new != nil {
			if !c.added && c.new.uid != have.uid {
				t.Fatalf("%v: update to another uid", c.key)
			}
			w[c.key] = c.new
		}
	}
}

func TestH14_SameVersionIsNoChange(t *testing.T) {
	store, _ := NewStore[*thing]()
	first := &thing{name: "a", uid: "u", rv: "5"}
	store.apply([]Delta[*thing]{{Type: Upserted, Object: first, ResourceVersion: "5"}}, nil)
	again := *first
	if got := store.apply([]Delta[*thing]{{Type: Upserted, Object: &again, ResourceVersion: "5"}}, nil); len(got) != 0 {
		t.Fatalf("changes %v", got)
	}
	if got := store.apply([]Delta[*thing]{{Type: Replaced, Items: []*thing{&again}, ResourceVersion: "7"}}, nil); len(got) != 0 {
		t.Fatalf("changes %v", got)
	}
	if got, _ := store.Get(Key{Name: "a"}); got != first {
		t.Fatal("the stored object was replaced by an equal one")
	}
	if store.RV() != "7" {
		t.Fatalf("RV = %s", store.RV())
	}
}

func TestC7_ResourceVersionGoesBackByReplaceOnly(t *testing.T) {
	store, w := NewStore[*thing]()
	for _, step := range []struct {
		delta Delta[*thing]
		want  string
	}{
		{Delta[*thing]{Type: Replaced, ResourceVersion: "90"}, "90"},
		{Delta[*thing]{Type: Bookmarked, ResourceVersion: "100"}, "100"}, // longer, so higher
		{Delta[*thing]{Type: Bookmarked, ResourceVersion: "99"}, "100"},
		{Delta[*thing]{Type: Upserted, Object: &thing{name: "a"}, ResourceVersion: ""}, "100"},
		{Delta[*thing]{Type: Upserted, Object: &thing{name: "a", rv: "98"}, ResourceVersion: "98"}, "100"},
		{Delta[*thing]{Type: Replaced, ResourceVersion: "7"}, "7"},
	} {
		w.Apply(step.delta)
		if got := store.RV(); got != step.want {
			t.Errorf("after %v %s: RV = %s, want %s", step.delta.Type, step.delta.ResourceVersion, got, step.want)
		}
	}
}

func TestC7_RVIsTheLowestOfSeveralNamespaces(t *testing.T) {
	store, w := NewStore[*thing]()
	w.Apply(Delta[*thing]{Type: Replaced, Namespace: "b", ResourceVersion: "20"})
	w.Apply(Delta[*thing]{Type: Replaced, Namespace: "a", ResourceVersion: "9"})
	if store.RV() != "9" {
		t.Fatalf("RV = %s", store.RV())
	}
	w.Apply(Delta[*thing]{Type: Bookmarked, Namespace: "a", ResourceVersion: "30"})
	if store.RV() != "20" {
		t.Fatalf("RV = %s", store.RV())
	}
}

// Every version of an object has its index key in its name and in its resource version, so that a torn read shows.
func TestC2C6C10L5_ReadersSeeOneStep(t *testing.T) {
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
					if o.rv != snap.RV() {
						t.Errorf("object at %s in a snapshot at %s", o.rv, snap.RV())
						return
					}
					n++
				}
				for range byRV.LookupIn(snap, snap.RV()) {
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

func TestC3_IndexFunctionRunsOnceAVersionAndCannotCorrupt(t *testing.T) {
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

// Two index keys with one hash are told apart, within one object and between objects.
func TestC3_HashCollisions(t *testing.T) {
	var tr tree[string]
	a, b := &record{name: "a"}, &record{name: "b"}
	for gen, it := range []item[string]{
		newItem("x", 512, a), newItem("y", 513, a), newItem("x", 512, b), newItem("z", 256, b), newItem("w", 768, a),
	} {
		tr.set(uint64(gen), byHash, it)
	}
	if err := checkTree(byHash, tr); err != nil {
		t.Fatal(err)
	}
	var got []string
	tr.ascend(byHash, &place{hash: 512}, func(items []item[string]) bool {
		for _, it := range items {
			got = append(got, it.key+it.record.name)
		}
		return true
	})
	if want := []string{"xa", "ya", "xb", "wa"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestC9_WaitUntilWakesAtEachPublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, w := NewStore[*thing]()
		met := make(chan error)
		go func() {
			met <- store.waitUntil(t.Context(), nil, func(s *Snapshot[*thing]) bool { return s.RV() == "3" })
		}()
		for rv := range 3 {
			synctest.Wait()
			select {
			case err := <-met:
				t.Fatalf("returned at %d: %v", rv, err)
			default:
			}
			w.Apply(Delta[*thing]{Type: Bookmarked, ResourceVersion: strconv.Itoa(rv + 1)})
		}
		if err := <-met; err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		if err := store.waitUntil(ctx, nil, func(*Snapshot[*thing]) bool { return false }); err != why {
			t.Fatalf("err = %v", err)
		}
	})
}

// An object that is there is not waited for, even if nobody said how far the store is.
func TestC9_WaitForObjectThatIsThere(t *testing.T) {
	Bubble(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		d := upsert(5, "a")
		d.ResourceVersion = ""
		inf.put(d)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.WaitForObject(ctx, d.Object); err != nil {
			t.Error(err)
		}
		if err := inf.WaitForObject(ctx, upsert(6, "a").Object); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a newer version: %v", err)
		}
	})
}

// What the tag assert would panic with, for each way in which a store can be spoiled.
func TestAssert_NamesWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(s *Store[*thing], snap *Snapshot[*thing], x *keyTree[*thing, string]){
		"": func(*Store[*thing], *Snapshot[*thing], *keyTree[*thing, string]) {},
		"records: node counts": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.records.root.kids[0].count--
		},
		"records: separator": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.records.root.seps[1] = snap.records.root.seps[0]
		},
		"records: leaves at depths": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			root := snap.records.root
			root.kids[1] = newInner(root.gen, []*node[struct{}]{root.kids[1]})
		},
		"stands before": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			slices.Reverse(snap.records.root.kids[0].items[1:])
		},
		"which holds another": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.versions.root[0].chapters[0].pages[0].objects[3] = snap.versions.get(4)
		},
		"is filed with slot": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.records.root.kids[0].items[3].slot++
		},
		"is filed with another hash": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.records.root.kids[0].items[3].hash++
		},
		"never given out":    func(s *Store[*thing], _ *Snapshot[*thing], _ *keyTree[*thing, string]) { s.next = 60 },
		"are in use or free": func(s *Store[*thing], _ *Snapshot[*thing], _ *keyTree[*thing, string]) { s.free = nil },
		"is in use, or free twice": func(s *Store[*thing], _ *Snapshot[*thing], _ *keyTree[*thing, string]) {
			s.free[0] = 7
		},
		"holds an object": func(s *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.versions.set(s.gen, s.free[0], &thing{name: "ghost"})
		},
		"so has another": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			it := &snap.records.root.kids[0].items[3]
			it.slot = snap.records.root.kids[0].items[2].slot
			it.record.slot = it.slot
		},
		"not sorted": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.sources = []source{{"b", "1"}, {"a", "1"}}
		},
		"index 0: 3 items": func(_ *Store[*thing], _ *Snapshot[*thing], x *keyTree[*thing, string]) {
			x.tree.set(0, byHash, newItem("ghost", x.index.hash("ghost"), &record{name: "ghost"}))
		},
		"index 0: record /n00 is not filed": func(s *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.record(Key{Name: "n00"}).hashes[1]++
		},
		"leads to a record of the past": func(_ *Store[*thing], _ *Snapshot[*thing], x *keyTree[*thing, string]) {
			again := *x.tree.root.items[0].record
			x.tree.root.items[0].record = &again
		},
		"index 0: key other of /n00 is filed with another hash": func(_ *Store[*thing], _ *Snapshot[*thing], x *keyTree[*thing, string]) {
			x.tree.root.items[0].key = "other"
		},
		"has hashes of more than 1": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			r := snap.record(Key{Name: "n05"})
			r.hashes = append(r.hashes, 0)
		},
		"has no hashes of this index": func(_ *Store[*thing], snap *Snapshot[*thing], _ *keyTree[*thing, string]) {
			snap.record(Key{Name: "n05"}).hashes = nil
		},
	} {
		t.Run(want, func(t *testing.T) {
			store, w := NewStore[*thing]()
			NewIndex(store, func(t *thing) []string { return t.tags })
			var things []*thing
			for i := range 64 {
				things = append(things, &thing{name: fmt.Sprintf("n%02d", i), rv: "1"})
			}
			things[0].tags = []string{"a", "b"}
			w.Apply(Delta[*thing]{Type: Replaced, Items: things})
			w.Apply(Delta[*thing]{Type: Removed, Object: things[60]})
			snap := store.Snapshot()
			spoil(store, snap, snap.indexes[0].(*keyTree[*thing, string]))
			switch err := store.checkLocked(snap); {
			case err == nil && want != "":
				t.Error("it was not noticed")
			case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
				t.Errorf("err = %v", err)
			}
		})
	}
}
