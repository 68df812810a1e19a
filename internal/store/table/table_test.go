package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

// random makes random edits of a table and of a world.
type random struct {
	*rand.Rand
	*owner
	world   world
	version int // of the last thing
	failIn  int // the number of calls of an index's function until it fails; it does not fail if negative or 0
}

func (r *random) key() object.Key {
	return object.Key{Namespace: fmt.Sprint("ns", r.IntN(4)), Name: fmt.Sprint("n", r.IntN(40))}
}

func (r *random) thing(key object.Key) *thing {
	r.version++
	t := &thing{namespace: key.Namespace, name: key.Name, version: r.version}
	for range r.IntN(4) {
		t.tags = append(t.tags, fmt.Sprint("tag", r.IntN(12)))
	}
	return t
}

// tags is the function of an index. It can fail.
func (r *random) tags(t *thing) []string {
	if r.failIn--; r.failIn == 0 {
		if r.IntN(2) == 0 {
			runtime.Goexit()
		}
		panic("key function")
	}
	return t.tags
}

// step returns an edit of one thing or a namespace, and its effect on a world.
func (r *random) step() (edit func(*Edit[*thing]), effect func(world)) {
	key := r.key()
	switch n := r.IntN(20); {
	case n == 0:
		return r.replacement(key.Namespace)
	case n == 1:
		return r.replacement("")
	case n < 8:
		return func(e *Edit[*thing]) {
			if slot, _, ok := e.next.Find(key); ok {
				e.Remove(slot)
			}
		}, func(w world) { delete(w, key) }
	}
	t := r.thing(key)
	return func(e *Edit[*thing]) { put(e, t) }, func(w world) { w[key] = t }
}

// replacement returns a replacement of a namespace, or of all if namespace is empty, and its effect on a world. It
// keeps things whose names are even.
func (r *random) replacement(namespace string) (edit func(*Edit[*thing]), effect func(world)) {
	var items []*thing
	for range r.IntN(60) {
		key := r.key()
		if namespace != "" {
			key.Namespace = namespace
		}
		if have := r.world[key]; have != nil && r.IntN(2) == 0 {
			items = append(items, have)
		} else {
			items = append(items, r.thing(key))
		}
	}
	policy := keepSame
	even := func(name string) bool { return name[len(name)-1]%2 == 0 }
	policy.Keep = func(key object.Key, _ *thing) bool { return even(key.Name) }
	return func(e *Edit[*thing]) { e.Replace(namespace, items, policy) }, func(w world) {
		maps.DeleteFunc(w, func(key object.Key, _ *thing) bool {
			return (namespace == "" || key.Namespace == namespace) && !even(key.Name)
		})
		for _, t := range items {
			w[object.KeyOf(t)] = t
		}
	}
}

// returns reports whether do returns. It does not if it panics or ends its goroutine.
func returns(do func()) (returned bool) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer func() { _ = recover() }()
		do()
		returned = true
	}()
	<-ended
	return returned
}

// After any edits, a table and its indexes equal a map. An edit that a function of an index ends has no effect. Earlier
// versions do not change.
//
// Guarantees: C1, C3, C4, C5, C8
func TestTableFollowsAModel(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			r := &random{Rand: rand.New(rand.NewPCG(seed, 1)), owner: newOwner(), world: world{}}
			indexes := make([]*Index[*thing, string], 3)
			type kept struct {
				version Version[*thing]
				world   world
			}
			var old []kept
			for step := range 240 {
				if step%80 == 0 { // two indexes are late
					r.edit(func(e *Edit[*thing]) { indexes[step/80] = addIndex(e, r.tags) })
				}
				r.apply(t)
				if r.IntN(20) == 0 {
					old = append(old, kept{r.published, maps.Clone(r.world)})
				}
				if step%10 == 0 {
					r.check(t)
					for _, o := range append(old, kept{r.published, r.world}) {
						equal(t, &o.version, o.world, indexes)
					}
				}
			}
		})
	}
}

// apply makes some random steps in one edit. In some cases a function of an index first ends an edit.
func (r *random) apply(t *testing.T) {
	t.Helper()
	var edits []func(*Edit[*thing])
	next := maps.Clone(r.world)
	for range r.IntN(6) {
		edit, effect := r.step()
		effect(next)
		edits = append(edits, edit)
	}
	all := func(e *Edit[*thing]) {
		for _, edit := range edits {
			edit(e)
		}
	}
	if r.IntN(4) == 0 {
		r.failIn = 1 + r.IntN(30)
		if returns(func() { r.edit(all) }) {
			r.failIn = 0
			r.world = next
			return
		}
		if r.failIn != 0 {
			t.Fatal("an edit ended although no function failed")
		}
	}
	r.edit(all)
	r.world = next
}

// equal fails the test unless v has the things of w, also in each index that v has.
func equal(t *testing.T, v *Version[*thing], w world, indexes []*Index[*thing, string]) {
	t.Helper()
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
	any := func(*thing) bool { return true }
	if got, want := v.List(), w.sorted(any); !slices.Equal(got, want) || v.Len() != len(want) {
		t.Fatalf("%d objects, want %d", len(got), len(want))
	}
	for key, want := range w {
		if _, got, ok := v.Find(key); !ok || got != want {
			t.Fatalf("Find(%v) = %v, %v", key, got, ok)
		}
	}
	if _, got, ok := v.Find(object.Key{Namespace: "ns1", Name: "none"}); ok || got != nil {
		t.Fatalf("Find of nothing: %v", got)
	}
	for i, x := range indexes[:v.Indexes()] {
		keys := []string{}
		if has := x.Keys(v, func(key string) bool { keys = append(keys, key); return true }); !has {
			t.Fatalf("a version with %d indexes does not have index %d", v.Indexes(), i)
		}
		slices.Sort(keys)
		if want := w.keys(); !slices.Equal(keys, want) {
			t.Fatalf("index %d has keys %q, want %q", i, keys, want)
		}
		for n := range 13 {
			tag := fmt.Sprint("tag", n)
			got, _ := lookup(x, v, tag)
			want := w.sorted(func(t *thing) bool { return slices.Contains(t.tags, tag) })
			if !slices.Equal(got, want) || x.AtMost(v, tag) < len(want) {
				t.Fatalf("index %d has %d objects by %s, at most %d, want %d", i, len(got), tag, x.AtMost(v, tag), len(want))
			}
		}
	}
	for i, x := range indexes[v.Indexes():] {
		if x == nil {
			continue
		}
		got, has := lookup(x, v, "tag1")
		if has = has || x.Keys(v, func(string) bool { return true }); has || len(got) > 0 || x.AtMost(v, "tag1") != 0 {
			t.Fatalf("a version has index %d, which came later", v.Indexes()+i)
		}
	}
}

// A table that adds and removes objects does not grow.
func TestSlotOfARemovedObjectIsUsedAgain(t *testing.T) {
	o := newOwner()
	o.put(&thing{name: "a"}, &thing{name: "b"}, &thing{name: "c"})
	for i := range 100 {
		name := fmt.Sprint("new", i)
		o.put(&thing{name: name})
		o.remove(object.Key{Name: name})
	}
	if o.table.next != 4 || len(o.table.free) != 1 {
		t.Errorf("%d slots, %d of them free, want 4 and 1", o.table.next, len(o.table.free))
	}
}

// Walk yields the objects of a range in order, and stops when yield returns false.
//
// Guarantees: C8
func TestWalkYieldsARange(t *testing.T) {
	o, w := newOwner(), world{}
	for i := range 500 { // many leaves of the tree
		for _, namespace := range []string{"", "a", "b", "b0"} {
			it := &thing{namespace: namespace, name: fmt.Sprintf("%03d", i)}
			w[object.KeyOf(it)] = it
			o.put(it)
		}
	}
	for _, r := range []Range{
		{},
		{From: object.Key{Namespace: "a", Name: "250"}},
		{From: object.Key{Namespace: "a", Name: "2505"}}, // no object has that key
		{From: object.Key{Namespace: "b0", Name: "499"}},
		{From: object.Key{Namespace: "c"}},
		{Within: true}, // the empty namespace
		{From: object.Key{Namespace: "a"}, Within: true},
		{From: object.Key{Namespace: "b"}, Within: true}, // "b0" begins like it
		{From: object.Key{Namespace: "b0", Name: "100"}, Within: true},
		{From: object.Key{Namespace: "b1"}, Within: true},
	} {
		want := w.sorted(func(t *thing) bool {
			return CompareKeys(object.KeyOf(t), r.From) >= 0 && (!r.Within || t.namespace == r.From.Namespace)
		})
		if got := walk(&o.published, r); !slices.Equal(got, want) {
			t.Errorf("%+v: %d objects, want %d", r, len(got), len(want))
		}
		for _, most := range []int{1, 31, 33, 400} {
			n := 0
			if o.published.Walk(r, func(*thing) bool { n++; return n < most }); n != min(most, len(want)) {
				t.Errorf("%+v: yield was called %d times, want %d", r, n, min(most, len(want)))
			}
		}
	}
	empty := Version[*thing]{}
	if n := len(walk(&empty, Range{})); n != 0 || empty.Len() != 0 || len(empty.List()) != 0 {
		t.Errorf("the zero version has %d objects", n)
	}
}

// Replace calls Changed once for each change, in the order of the keys. It does not change the caller's slice.
//
// Guarantees: C6
func TestReplaceReportsItsChanges(t *testing.T) {
	newThings := func(version int, names ...string) (things []*thing) {
		for _, name := range names {
			things = append(things, &thing{namespace: "a", name: name, version: version})
		}
		return things
	}
	other := &thing{namespace: "b", name: "other"}
	for name, test := range map[string]struct {
		before, items []*thing
		namespace     string
		want          []string
	}{
		"fill":              {nil, newThings(1, "y", "x"), "", []string{"x 0->1", "y 0->1"}},
		"fill a namespace":  {nil, newThings(1, "y", "x"), "a", []string{"x 0->1", "y 0->1"}},
		"fill, last counts": {nil, append(newThings(1, "x", "y"), newThings(2, "x")...), "", []string{"x 0->2", "y 0->1"}},
		"last counts": {newThings(1, "x"), slices.Concat(newThings(2, "x", "y"), newThings(3, "y"), newThings(4, "x")), "",
			[]string{"x 1->4", "y 0->3"}},
		"no change": {newThings(1, "x", "y"), newThings(1, "x", "y"), "", nil},
		"all": {append(newThings(1, "p", "x", "y", "keep"), other), append(newThings(2, "z", "x"), newThings(1, "y")...), "",
			[]string{"p 1->0", "x 1->2", "z 0->2", "other 0->0"}},
		"one namespace": {append(newThings(1, "x", "y", "keep"), other), newThings(2, "w", "x"), "a",
			[]string{"w 0->2", "x 1->2", "y 1->0"}},
		"nothing left": {newThings(1, "x", "y"), nil, "a", []string{"x 1->0", "y 1->0"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwner()
			x := (*Index[*thing, string])(nil)
			o.edit(func(e *Edit[*thing]) {
				x = addIndex(e, func(t *thing) []string { return []string{fmt.Sprint(t.version)} })
			})
			o.put(test.before...)
			items := slices.Clone(test.items)
			policy := keepSame
			policy.Keep = func(key object.Key, old *thing) bool { return key.Name == "keep" && old.name == "keep" }
			var got []string
			version := func(t *thing) int {
				if t == nil {
					return 0
				}
				return t.version
			}
			policy.Changed = func(key object.Key, old, new *thing) {
				got = append(got, fmt.Sprintf("%s %d->%d", key.Name, version(old), version(new)))
			}
			o.edit(func(e *Edit[*thing]) { e.Replace(test.namespace, items, policy) })
			if !slices.Equal(got, test.want) {
				t.Errorf("changes %q, want %q", got, test.want)
			}
			if !slices.Equal(items, test.items) {
				t.Error("Replace changed the caller's slice")
			}
			o.check(t)
			for _, obj := range o.published.List() {
				if found, _ := lookup(x, &o.published, fmt.Sprint(obj.version)); !slices.Contains(found, obj) {
					t.Errorf("the index does not find %s", obj.name)
				}
			}
		})
	}
}

// An edit after one that was never ended begins with the published version.
//
// Guarantees: C3
func TestEditThatNeverEndsHasNoEffect(t *testing.T) {
	o := newOwner()
	o.edit(func(e *Edit[*thing]) { addIndex(e, tagsOf) })
	o.put(&thing{name: "a", tags: []string{"t"}}, &thing{name: "b"}, &thing{name: "c"})
	o.remove(object.Key{Name: "b"})
	before, edits := o.published, o.table.Edits()
	for range 3 {
		next := o.published
		e := o.table.Begin(&next)
		for i := range 100 { // enough to build the hints again
			e.Add(object.Key{Name: fmt.Sprint("x", i)}, &thing{name: fmt.Sprint("x", i), tags: []string{"t", "u"}})
		}
		slot, _, _ := next.Find(object.Key{Name: "a"})
		e.Update(slot, &thing{name: "a", tags: []string{"u"}})
		slot, _, _ = next.Find(object.Key{Name: "c"})
		e.Remove(slot)
	}
	if got := o.published.List(); !slices.Equal(got, before.List()) || len(got) != 2 {
		t.Errorf("%d objects", len(got))
	}
	o.put(&thing{name: "d", tags: []string{"t"}})
	o.check(t)
	if n := o.published.Len(); n != 3 || o.table.next != 3 {
		t.Errorf("%d objects in %d slots, want 3 in 3", n, o.table.next)
	}
	if n := o.table.Edits() - edits; n != 4 {
		t.Errorf("%d edits began, want 4", n)
	}
}

// Readers of any version run beside the writer. All objects of a version have the same number, which is also their key.
//
// Guarantees: C2, C6
func TestReadersSeeOneVersion(t *testing.T) {
	const objects, edits = 200, 200
	o := newOwner()
	var x *Index[*thing, string]
	o.edit(func(e *Edit[*thing]) { x = addIndex(e, tagsOf) })
	things := func(version int) (all []*thing) {
		for i := range objects {
			key := object.Key{Namespace: fmt.Sprint(i % 3), Name: fmt.Sprint(i)}
			all = append(all, &thing{key.Namespace, key.Name, version, []string{fmt.Sprint(version)}})
		}
		return all
	}
	var published atomic.Pointer[Version[*thing]]
	o.replace(things(0)...)
	publish := func() { v := o.published; published.Store(&v) }
	publish()
	var ended atomic.Bool
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			for !ended.Load() {
				v := published.Load()
				all := v.List()
				found, _ := lookup(x, v, fmt.Sprint(all[0].version))
				_, got, _ := v.Find(object.KeyOf(all[objects/2]))
				if len(all) != objects || !slices.Equal(all, found) || got != all[objects/2] {
					t.Errorf("%d objects, %d of them in the index, and %v", len(all), len(found), got)
					return
				}
			}
		})
	}
	for version := range edits {
		if version%2 == 0 {
			o.replace(things(version + 1)...)
		} else {
			o.put(things(version + 1)...)
		}
		publish()
	}
	ended.Store(true)
	readers.Wait()
}

// valueThing is an object that is no pointer. It has a slice, so == is not defined for it.
type valueThing struct{ thing }

func (v valueThing) GetNamespace() string       { return v.namespace }
func (v valueThing) GetName() string            { return v.name }
func (v valueThing) GetUID() types.UID          { return "" }
func (v valueThing) GetResourceVersion() string { return "" }

// A type whose values cannot be compared is refused before the first edit, which would compare them.
func TestEmptyRefusesATypeWithoutEquality(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, "table.valueThing cannot be compared") {
			t.Errorf("panic %s", got)
		}
	}()
	Empty[valueThing]()
}
