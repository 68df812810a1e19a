package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/object"
)

// book is what readers get of a thing. A thing of version 0 makes none.
type book struct {
	thing *thing
	copy  bool
}

func (b *book) GetNamespace() string       { return b.thing.namespace }
func (b *book) GetName() string            { return b.thing.name }
func (b *book) GetUID() types.UID          { return b.thing.GetUID() }
func (b *book) GetResourceVersion() string { return b.thing.GetResourceVersion() }

// binder is the Opener of books. Readers of a thing share one.
type binder struct{ books map[*thing]*book }

func (b binder) Open(t *thing) *book {
	if t.version == 0 {
		return nil
	}
	if b.books[t] == nil {
		b.books[t] = &book{thing: t}
	}
	return b.books[t]
}

func (b binder) Copy(t *thing, copy func(*book) *book) *book {
	if t.version == 0 {
		return nil
	}
	return copy(&book{thing: t})
}

func copyBook(b *book) *book { return &book{b.thing, true} }

func thingsOf(books []*book) (things []*thing) {
	for _, b := range books {
		things = append(things, b.thing)
	}
	return things
}

// collect returns what walk yields.
func collect[E any](walk func(yield func(E) bool)) (all []E) {
	walk(func(e E) bool { all = append(all, e); return true })
	return all
}

// An opened version, and one with copies, has the objects and the indexes of the table, at any later time, without the
// objects that cannot be made.
// Guarantees: C1, C3, C8, D3
func TestOpenedVersionHasWhatTheTableHas(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		o, open, w := newOwner(), binder{map[*thing]*book{}}, world{}
		x := NewIndex(func(b *book) []string { return tagsOf(b.thing) })
		added := random.IntN(60)
		type state struct {
			version Version[*thing]
			opened  Version[*book]
			world   world
			indexed bool
		}
		var states []*state
		for step := range 120 {
			if step == added {
				o.edit(func(e *Edit[*thing]) { e.AddIndex(OpenedIndex(x, open)) })
			}
			key := object.Key{Namespace: fmt.Sprint(random.IntN(3)), Name: fmt.Sprint(random.IntN(20))}
			if w[key] != nil && random.IntN(3) == 0 {
				o.remove(key)
				delete(w, key)
			} else {
				w[key] = &thing{namespace: key.Namespace, name: key.Name, version: random.IntN(4)}
				for range random.IntN(3) {
					w[key].tags = append(w[key].tags, fmt.Sprint(random.IntN(4)))
				}
				o.put(w[key])
			}
			o.check(t)
			if random.IntN(10) == 0 {
				s := &state{version: o.published, world: world{}, indexed: step >= added}
				for key, thing := range w {
					s.world[key] = thing
				}
				s.opened = Opened(&s.version, open)
				states = append(states, s)
			}
		}
		for _, s := range states {
			copies := s.opened.Copies(copyBook)
			for _, v := range []*Version[*book]{&s.opened, &copies} {
				checkOpened(t, v, s.world, x, s.indexed)
			}
		}
	}
}

func checkOpened(t *testing.T, v *Version[*book], w world, x *Index[*book, string], indexed bool) {
	t.Helper()
	all := w.sorted(func(t *thing) bool { return t.version > 0 })
	if got := thingsOf(v.List()); v.Len() != len(w) || !slices.Equal(got, all) {
		t.Fatalf("List returns %v, want %v; Len is %d", got, all, v.Len())
	}
	for name, walk := range map[string]func(Range, func(*book) bool){"Walk": v.Walk, "WalkShared": v.WalkShared} {
		inside := w.sorted(func(t *thing) bool { return t.version > 0 && t.namespace == "1" && t.name >= "2" })
		r := Range{From: object.Key{Namespace: "1", Name: "2"}, Within: true}
		if got := thingsOf(collect(func(yield func(*book) bool) { walk(r, yield) })); !slices.Equal(got, inside) {
			t.Fatalf("%s yields %v, want %v", name, got, inside)
		}
		n := 0
		walk(Range{}, func(*book) bool { n++; return n < 2 })
		if n > 2 {
			t.Fatalf("%s goes on after %d", name, n)
		}
	}
	for key, want := range w {
		slot, got, ok := v.Find(key)
		if want.version == 0 && (ok || got != nil) || want.version > 0 && (!ok || got.thing != want) || !v.Has(key) {
			t.Fatalf("Find(%v) returns %v, %v", key, got, ok)
		}
		if ok && v.Shared(slot).thing != want {
			t.Fatalf("slot %d of %v has %v", slot, key, v.Shared(slot))
		}
	}
	if _, got, ok := v.Find(object.Key{Name: "absent"}); ok || got != nil || v.Has(object.Key{Name: "absent"}) {
		t.Fatalf("found %v", got)
	}
	for _, tag := range []string{"0", "1", "2", "3"} {
		tagged := w.sorted(func(t *thing) bool { return t.version > 0 && slices.Contains(t.tags, tag) })
		var got []*book
		has := x.Lookup(v, tag, func(b *book) bool { got = append(got, b); return true })
		if has != indexed || indexed && (!slices.Equal(thingsOf(got), tagged) || x.AtMost(v, tag) < len(got)) {
			t.Fatalf("Lookup(%s) returns %v %v, want %v; at most %d", tag, thingsOf(got), has, tagged, x.AtMost(v, tag))
		}
	}
	var keys []string
	if has := x.Keys(v, func(key string) bool { keys = append(keys, key); return true }); has != indexed {
		t.Fatalf("Keys: %v", has)
	}
	readable := world{}
	for key, t := range w {
		if t.version > 0 {
			readable[key] = t
		}
	}
	if slices.Sort(keys); indexed && !slices.Equal(keys, readable.keys()) {
		t.Fatalf("Keys yields %q, want %q", keys, readable.keys())
	}
}

// Each read of a version with copies makes an object that nobody else has. Functions get the shared ones.
func TestEachReadOfCopiesMakesAnother(t *testing.T) {
	o := newOwner()
	a := &thing{name: "a", version: 1, tags: []string{"x"}}
	o.put(a)
	x := NewIndex(func(b *book) []string {
		if b.copy {
			t.Error("an index files a copy")
		}
		return tagsOf(b.thing)
	})
	open := binder{map[*thing]*book{}}
	o.edit(func(e *Edit[*thing]) { e.AddIndex(OpenedIndex(x, open)) })
	opened := Opened(&o.published, open)
	v := opened.Copies(copyBook)
	slot, found, _ := v.Find(object.KeyOf(a))
	var looked []*book
	x.Lookup(&v, "x", func(b *book) bool { looked = append(looked, b); return true })
	reads := slices.Concat(v.List(), looked, []*book{found, v.Give(v.Shared(slot))},
		collect(func(yield func(*book) bool) { v.WalkSome(Range{}, func(uint32) bool { return true }, yield) }))
	if len(reads) != 5 {
		t.Fatalf("%d reads", len(reads))
	}
	for i, b := range reads {
		if !b.copy || b.thing != a || slices.Contains(reads[:i], b) {
			t.Errorf("read %d returns %+v", i, b)
		}
	}
	shared := slices.Concat(opened.List(), []*book{opened.Shared(slot), opened.Give(v.Shared(slot)), v.Shared(slot)},
		collect(func(yield func(*book) bool) { v.WalkShared(Range{}, yield) }))
	for i, b := range shared {
		if b != shared[0] || b.copy {
			t.Errorf("shared read %d returns %+v", i, b)
		}
	}

	own := newOwner()
	own.put(a)
	copies := own.published.Copies(func(a *thing) *thing { b := *a; return &b })
	if list := copies.List(); len(list) != 1 || list[0] == a || list[0].name != "a" || copies.Shared(0) != a {
		t.Errorf("copies of a table's own objects are %v", list)
	}
}

// Nothing makes the objects that WalkSome leaves out.
func TestObjectsThatAreNotWantedAreNotMade(t *testing.T) {
	o, open := newOwner(), binder{map[*thing]*book{}}
	o.put(&thing{name: "a", version: 1}, &thing{name: "b", version: 1}, &thing{name: "c", version: 1})
	v := Opened(&o.published, open)
	b, _, _ := o.published.Find(object.Key{Name: "b"})
	v.WalkSome(Range{}, func(slot uint32) bool { return slot == b }, func(*book) bool { return true })
	if len(open.books) != 1 {
		t.Errorf("%d objects are made, want 1", len(open.books))
	}
}

// If the function of an opened index panics, the table stays as it was.
// Guarantees: C3
func TestPanicInAnOpenedIndex(t *testing.T) {
	o, open := newOwner(), binder{map[*thing]*book{}}
	fails := false
	x := NewIndex(func(b *book) []string {
		if fails {
			panic("no keys")
		}
		return tagsOf(b.thing)
	})
	o.put(&thing{name: "a", version: 1, tags: []string{"x"}})
	o.edit(func(e *Edit[*thing]) { e.AddIndex(OpenedIndex(x, open)) })
	fails = true
	func() {
		defer func() { _ = recover() }()
		o.put(&thing{name: "a", version: 2, tags: []string{"y"}}, &thing{name: "b", version: 1})
	}()
	fails = false
	o.put(&thing{name: "c", version: 1, tags: []string{"x"}})
	o.check(t)
	v := Opened(&o.published, open)
	var names []string
	x.Lookup(&v, "x", func(b *book) bool { names = append(names, b.thing.name); return true })
	if !slices.Equal(names, []string{"a", "c"}) || x.AtMost(&v, "y") != 0 {
		t.Errorf("x has %q, y at most %d", names, x.AtMost(&v, "y"))
	}
}
