package table

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// entry is an entry of an ordered index.
type entry struct {
	key string
	obj *thing
}

func (e entry) String() string {
	return fmt.Sprintf("%s=%s/%s@%d", e.key, e.obj.namespace, e.obj.name, e.obj.version)
}

// byLetter orders tags by their first letters only, so different tags can be one key. A tag without letters is last.
func byLetter(a, b string) int { return cmp.Compare(letter(a), letter(b)) }

func letter(tag string) string {
	if tag == "" {
		return "~"
	}
	return strings.ToLower(tag[:1])
}

// entries returns what an index of tags has of w.
func (w world) entries(compare func(a, b string) int) (all []entry) {
	for _, t := range w {
		var keys []string
		for _, tag := range t.tags {
			if !slices.ContainsFunc(keys, func(have string) bool { return compare(have, tag) == 0 }) {
				keys = append(keys, tag)
				all = append(all, entry{tag, t})
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(compare(a.key, b.key), CompareKeys(object.KeyOf(a.obj), object.KeyOf(b.obj)))
	})
	return all
}

// read returns the entries of s.
func read(s Span[*thing, string], last bool) (all []entry) {
	s.Walk(last, func(key string, t *thing) bool { all = append(all, entry{key, t}); return true })
	return all
}

// checkSpan fails the test unless all reads of an index in v agree with want.
func checkSpan(t *testing.T, when string, x *Ordered[*thing, string], v *Version[*thing], want []entry) {
	t.Helper()
	all := x.Span(v)
	backward := slices.Clone(want)
	slices.Reverse(backward)
	if got := read(all, false); !slices.Equal(got, want) || all.Len() != len(want) {
		t.Fatalf("%s: got %v, want %v; Len is %d", when, got, want, all.Len())
	}
	if got := read(all, true); !slices.Equal(got, backward) {
		t.Fatalf("%s: backward: got %v, want %v", when, got, backward)
	}
	for _, key := range []string{"", "a", "b", "B2", "k", "zz", "0"} {
		below, _ := slices.BinarySearchFunc(want, key, func(e entry, key string) int { return x.compare(e.key, key) })
		upTo := below
		for upTo < len(want) && x.compare(want[upTo].key, key) == 0 {
			upTo++
		}
		if gotBelow, gotUpTo := all.Below(key), all.UpTo(key); gotBelow != below || gotUpTo != upTo {
			t.Fatalf("%s: %q has entries %d to %d, want %d to %d", when, key, gotBelow, gotUpTo, below, upTo)
		}
		part := all.From(below).To(upTo)
		if got := read(part, false); !slices.Equal(got, want[below:upTo]) || part.Len() != upTo-below {
			t.Fatalf("%s: %q has %v, want %v", when, key, got, want[below:upTo])
		}
	}
	for i, e := range want {
		if first, behind := all.Around(e.key, object.KeyOf(e.obj)); first != i || behind != i+1 {
			t.Fatalf("%s: %v is around %d, %d, want %d, %d", when, e, first, behind, i, i+1)
		}
		if first, behind := all.Around(e.key, object.Key{Namespace: e.obj.namespace, Name: e.obj.name + "\x00"}); first != i+1 || behind != i+1 {
			t.Fatalf("%s: what follows %v is around %d, %d, want %d", when, e, first, behind, i+1)
		}
		if i%9 > 1 { // the reads below take time
			continue
		}
		if got := read(all.Skip(i, false).To(i+3), false); !slices.Equal(got, want[i:min(i+3, len(want))]) {
			t.Fatalf("%s: three entries from %d: %v", when, i, got)
		}
		if got := read(all.Skip(i, true), true); !slices.Equal(got, backward[i:]) {
			t.Fatalf("%s: backward from %d: %v, want %v", when, i, got, backward[i:])
		}
		stops := 0
		all.Walk(i%2 == 0, func(string, *thing) bool { stops++; return stops <= i })
		if stops != i+1 {
			t.Fatalf("%s: Walk goes on to %d after yield returned false at %d", when, stops, i+1)
		}
	}
	checkKeys(t, when, all, want)
}

// checkKeys fails the test unless Keys counts the keys of want.
func checkKeys(t *testing.T, when string, s Span[*thing, string], want []entry) {
	t.Helper()
	for _, last := range []bool{false, true} {
		left := slices.Clone(want)
		if last {
			slices.Reverse(left)
		}
		s.Keys(last, func(key string, n int) bool {
			if n < 1 || n > len(left) || left[0].key != key || s.compare(left[n-1].key, key) != 0 {
				t.Fatalf("%s: Keys yields %q %d times at %v", when, key, n, left)
			}
			left = left[n:]
			return true
		})
		if len(left) > 0 {
			t.Fatalf("%s: Keys leaves out %v", when, left)
		}
		n := 0
		if s.Keys(last, func(string, int) bool { n++; return false }); n != min(1, len(want)) {
			t.Fatalf("%s: Keys yields %d keys after yield returned false", when, n)
		}
	}
}

// ordered returns the owner of a table with an ordered index of tags, and another one before it.
func ordered(compare func(a, b string) int) (o *owner, x *Ordered[*thing, string]) {
	o, x = newOwner(), NewOrdered(tagsOf, compare)
	o.edit(func(e *Edit[*thing]) {
		addIndex(e, tagsOf)
		e.AddIndex(x)
	})
	return o, x
}

// An ordered index follows each kind of edit. Versions from before it do not change.
//
// Guarantees: I1, I2
func TestOrderedIndexFollowsEachKindOfEdit(t *testing.T) {
	newThing := func(name string, version int, tags ...string) *thing {
		return &thing{namespace: "ns", name: name, version: version, tags: tags}
	}
	begin := []*thing{newThing("a", 1, "k"), newThing("b", 1, "k"), newThing("c", 1, "z", "a"), newThing("d", 1)}
	remove := func(e *Edit[*thing], name string) {
		slot, _, _ := e.next.Find(object.Key{Namespace: "ns", Name: name})
		e.Remove(slot)
	}
	for name, test := range map[string]struct {
		edit func(e *Edit[*thing])
		want string
	}{
		"nothing":          {func(*Edit[*thing]) {}, "a=ns/c@1 k=ns/a@1 k=ns/b@1 z=ns/c@1"},
		"update, same key": {func(e *Edit[*thing]) { put(e, newThing("a", 2, "k")) }, "a=ns/c@1 k=ns/a@2 k=ns/b@1 z=ns/c@1"},
		"update, another key": {func(e *Edit[*thing]) { put(e, newThing("a", 2, "l")) },
			"a=ns/c@1 k=ns/b@1 l=ns/a@2 z=ns/c@1"},
		"update, equal key": {func(e *Edit[*thing]) { put(e, newThing("a", 2, "Kk")) },
			"a=ns/c@1 Kk=ns/a@2 k=ns/b@1 z=ns/c@1"},
		"update twice": {func(e *Edit[*thing]) { put(e, newThing("a", 2, "z")); put(e, newThing("a", 3, "k")) },
			"a=ns/c@1 k=ns/a@3 k=ns/b@1 z=ns/c@1"},
		"other order of keys":   {func(e *Edit[*thing]) { put(e, newThing("c", 2, "a", "z")) }, "a=ns/c@2 k=ns/a@1 k=ns/b@1 z=ns/c@2"},
		"one key of two":        {func(e *Edit[*thing]) { put(e, newThing("c", 2, "z")) }, "k=ns/a@1 k=ns/b@1 z=ns/c@2"},
		"equal keys count once": {func(e *Edit[*thing]) { put(e, newThing("c", 2, "z", "zz", "Z")) }, "k=ns/a@1 k=ns/b@1 z=ns/c@2"},
		"no key any more":       {func(e *Edit[*thing]) { put(e, newThing("c", 2)) }, "k=ns/a@1 k=ns/b@1"},
		"first key":             {func(e *Edit[*thing]) { put(e, newThing("d", 2, "k")) }, "a=ns/c@1 k=ns/a@1 k=ns/b@1 k=ns/d@2 z=ns/c@1"},
		"add":                   {func(e *Edit[*thing]) { put(e, newThing("aa", 1, "k")) }, "a=ns/c@1 k=ns/a@1 k=ns/aa@1 k=ns/b@1 z=ns/c@1"},
		"delete":                {func(e *Edit[*thing]) { remove(e, "a"); remove(e, "c") }, "k=ns/b@1"},
		"delete, then another": {func(e *Edit[*thing]) { remove(e, "c"); put(e, newThing("x", 1, "m")) },
			"k=ns/a@1 k=ns/b@1 m=ns/x@1"}, // in the same slot
		"recreate": {func(e *Edit[*thing]) { remove(e, "a"); put(e, newThing("a", 2, "k")) },
			"a=ns/c@1 k=ns/a@2 k=ns/b@1 z=ns/c@1"},
		"recreate in other slots": {func(e *Edit[*thing]) {
			remove(e, "a")
			remove(e, "c")
			put(e, newThing("a", 2, "k"))
			put(e, newThing("c", 2, "a", "z"))
		}, "a=ns/c@2 k=ns/a@2 k=ns/b@1 z=ns/c@2"},
		"relist": {func(e *Edit[*thing]) {
			e.Replace("", []*thing{newThing("d", 1), newThing("c", 2, "a"), newThing("b", 1, "k"), newThing("e", 1, "a", "k")}, keepSame)
		}, "a=ns/c@2 a=ns/e@1 k=ns/b@1 k=ns/e@1"},
		"relist of nothing": {func(e *Edit[*thing]) { e.Replace("", nil, keepSame) }, ""},
		"relist after nothing": {func(e *Edit[*thing]) { // numbers the slots again
			e.Replace("", nil, keepSame)
			e.Replace("", []*thing{newThing("c", 3, "k"), newThing("a", 3, "z")}, keepSame)
		}, "k=ns/c@3 z=ns/a@3"},
	} {
		t.Run(name, func(t *testing.T) {
			o, x := ordered(byLetter)
			o.put(begin...)
			w := world{}
			for _, it := range begin {
				w[object.KeyOf(it)] = it
			}
			before := o.published
			o.edit(test.edit)
			got := fmt.Sprint(read(x.Span(&o.published), false))
			if want := "[" + test.want + "]"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			o.check(t)
			checkSpan(t, "before", x, &before, w.entries(byLetter))
			now := world{}
			for _, it := range o.published.List() {
				now[object.KeyOf(it)] = it
			}
			checkSpan(t, "after", x, &o.published, now.entries(byLetter))
			o.replace(begin[2:]...)
			o.check(t)
			if got := fmt.Sprint(read(x.Span(&o.published), false)); got[:3] != "[a=" || x.Span(&o.published).Len() != 2 {
				t.Errorf("after a relist: %s", got)
			}
		})
	}
}

// After any edits, also ones that the function or the comparison ends, an ordered index equals a sorted slice. Earlier
// versions do not change.
//
// Guarantees: C3, I1, I2
func TestOrderedIndexEqualsASortedSlice(t *testing.T) {
	for seed := range uint64(12) {
		for name, compare := range map[string]func(a, b string) int{"all": cmp.Compare[string], "letter": byLetter} {
			t.Run(fmt.Sprintf("compare=%s,seed=%d", name, seed), func(t *testing.T) {
				t.Parallel()
				r := &random{Rand: rand.New(rand.NewPCG(seed, 2)), owner: newOwner(), world: world{}}
				indexes := []*Ordered[*thing, string]{nil, nil}
				type kept struct {
					version Version[*thing]
					world   world
				}
				var old []kept
				for step := range 160 {
					if step%80 == 0 { // the second index is late
						x := NewOrdered(r.tags, func(a, b string) int {
							if r.failIn > 0 && r.IntN(200) == 0 {
								r.failIn = 0
								panic("comparison")
							}
							return compare(a, b)
						})
						r.edit(func(e *Edit[*thing]) { e.AddIndex(x) })
						indexes[step/80] = x
					}
					r.apply(t)
					if r.IntN(20) == 0 {
						old = append(old, kept{r.published, maps.Clone(r.world)})
					}
					if step%10 == 0 {
						r.check(t)
						for i, x := range indexes {
							for _, o := range append(old, kept{r.published, r.world}) {
								if x != nil {
									checkSpan(t, fmt.Sprint("step ", step, ", index ", i), x, &o.version, o.world.entries(compare))
								}
							}
						}
					}
				}
			})
		}
	}
}

// An opened version has the entries of the table, without objects that cannot be made, and with copies if it has copies.
//
// Guarantees: I6
func TestOpenedVersionHasTheOrderOfTheTable(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 3))
		o, open, w := newOwner(), binder{map[*thing]*book{}}, world{}
		x := NewOrdered(func(b *book) []string { return tagsOf(b.thing) }, cmp.Compare[string])
		late := NewOrdered(func(b *book) []string { return tagsOf(b.thing) }, cmp.Compare[string])
		o.edit(func(e *Edit[*thing]) { e.AddIndex(OpenedIndex(x, open)) })
		for range 200 {
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
		}
		readable := maps.Clone(w)
		maps.DeleteFunc(readable, func(_ object.Key, t *thing) bool { return t.version == 0 })
		want := readable.entries(cmp.Compare[string])
		opened := Opened(&o.published, open)
		copies := opened.Copies(copyBook)
		for name, v := range map[string]*Version[*book]{"opened": &opened, "copies": &copies} {
			for _, x := range []*Ordered[*book, string]{x, late} { // the version does not have late
				var got []entry
				s := x.Span(v)
				s.Walk(false, func(key string, b *book) bool {
					if b.copy != (v == &copies) {
						t.Fatalf("%s: %v is a copy: %v", name, b.thing, b.copy)
					}
					got = append(got, entry{key, b.thing})
					return true
				})
				if !slices.Equal(got, want) || s.Len() != len(want) {
					t.Fatalf("%s: got %v, want %v", name, got, want)
				}
			}
		}
	}
}

// An object that can no longer be made is left out, but counted. The others stay where they were.
//
// Guarantees: I6
func TestEntryWhoseObjectCannotBeMadeIsLeftOut(t *testing.T) {
	o, open := newOwner(), binder{map[*thing]*book{}}
	x := NewOrdered(func(b *book) []string { return tagsOf(b.thing) }, cmp.Compare[string])
	o.edit(func(e *Edit[*thing]) { e.AddIndex(OpenedIndex(x, open)) })
	b := &thing{name: "b", version: 1, tags: []string{"y"}}
	o.put(&thing{name: "a", version: 1, tags: []string{"z"}}, b, &thing{name: "c", version: 1, tags: []string{"x"}})
	b.version = 0
	v := Opened(&o.published, open)
	for _, last := range []bool{false, true} {
		var names []string
		x.Span(&v).Walk(last, func(_ string, b *book) bool { names = append(names, b.thing.name); return true })
		want := []string{"c", "a"}
		if last {
			slices.Reverse(want)
		}
		if !slices.Equal(names, want) || x.Span(&v).Len() != 3 {
			t.Errorf("got %v of %d, want %v of 3", names, x.Span(&v).Len(), want)
		}
	}
}

// Objects with many keys are found by each of them, also when they go from many keys to few and back.
//
// Guarantees: C3, I1, I2
func TestObjectsWithManyKeys(t *testing.T) {
	for name, compare := range map[string]func(a, b string) int{"all": cmp.Compare[string], "letter": byLetter} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, 7))
			o, w, x := newOwner(), world{}, NewOrdered(tagsOf, compare)
			var index *Index[*thing, string]
			o.edit(func(e *Edit[*thing]) {
				index = addIndex(e, tagsOf)
				e.AddIndex(x)
			})
			for version := range 80 {
				it := &thing{name: fmt.Sprint(random.IntN(4)), version: version}
				for range random.IntN(3)*2*fewKeys + random.IntN(10) {
					it.tags = append(it.tags, fmt.Sprintf("%c%d", 'a'+random.IntN(26), random.IntN(9)))
				}
				if key := object.KeyOf(it); version%10 == 9 && w[key] != nil {
					o.remove(key)
					delete(w, key)
				} else {
					o.put(it)
					w[key] = it
				}
				o.check(t)
				checkSpan(t, fmt.Sprint("version ", version), x, &o.published, w.entries(compare))
				for _, tag := range w.keys() {
					want := w.sorted(func(it *thing) bool { return slices.Contains(it.tags, tag) })
					if got, _ := lookup(index, &o.published, tag); !slices.Equal(got, want) {
						t.Fatalf("version %d: %s finds %v, want %v", version, tag, got, want)
					}
				}
			}
		})
	}
}

// A comparison may fail while an object with many keys changes. The change has then not happened, and a
// repetition succeeds.
//
// Guarantees: C3, I1, I2
func TestComparisonFailsWhileManyKeysChange(t *testing.T) {
	many := func(version int) *thing {
		it := &thing{name: "a", version: version}
		for n := range 3 * fewKeys {
			it.tags = append(it.tags, fmt.Sprint((n*7919+version*fewKeys)%(4*fewKeys)))
		}
		return it
	}
	for fails := 1; ; fails += testkit.Rounds(37, 5) {
		left := 0
		o, x := ordered(func(a, b string) int {
			if left--; left == 0 {
				panic("comparison")
			}
			return cmp.Compare(a, b)
		})
		before, after, other := many(1), many(2), &thing{name: "b", tags: []string{"5"}}
		o.put(before, other)
		w := world{{Name: "a"}: before, {Name: "b"}: other}
		left = fails
		done := returns(func() { o.put(after) })
		left = 0
		if done {
			if fails < 6*fewKeys {
				t.Fatalf("%d comparisons", fails)
			}
			return
		}
		checkSpan(t, fmt.Sprint("after a failure at comparison ", fails), x, &o.published, w.entries(cmp.Compare[string]))
		o.put(after)
		w[object.Key{Name: "a"}] = after
		o.check(t)
		checkSpan(t, fmt.Sprint("repeated after a failure at comparison ", fails), x, &o.published, w.entries(cmp.Compare[string]))
	}
}

// A change of an object with many keys takes time proportional to n log n, not to the square of n.
//
// Guarantees: I3
func TestChangeOfManyKeysComparesLittle(t *testing.T) {
	comparisons := 0
	o, _ := ordered(func(a, b string) int { comparisons++; return cmp.Compare(a, b) })
	it := &thing{name: "a"}
	for n := range 2000 {
		it.tags = append(it.tags, fmt.Sprint(n*7919%2000))
	}
	o.put(it)
	comparisons = 0
	o.put(&thing{name: "a", version: 1, tags: append(slices.Clone(it.tags[1:]), "x")})
	if comparisons > 150_000 {
		t.Errorf("%d comparisons", comparisons)
	}
	o.check(t)
}

// An index that was built keeps no key of an object in its scratch memory.
func TestBuildOfAnOrderedIndexKeepsNoKeys(t *testing.T) {
	o := newOwner()
	o.put(&thing{name: "a", tags: []string{"x", "y", "z"}}, &thing{name: "b", tags: []string{"x"}})
	x := NewOrdered(tagsOf, cmp.Compare)
	o.edit(func(e *Edit[*thing]) { e.AddIndex(x) })
	buf := x.treeIn(&o.published).buf
	for _, key := range buf[:cap(buf)] {
		if key != "" {
			t.Errorf("the index keeps %q", key)
		}
	}
}

// NaN is a key as any other: cmp.Compare sorts it before all numbers. It is freed with its object.
//
// Guarantees: I5
func TestOrderedIndexOfNaN(t *testing.T) {
	o := newOwner()
	x := NewOrdered(func(t *thing) []float64 { return []float64{math.NaN(), float64(len(t.name)), math.NaN()} }, cmp.Compare)
	o.edit(func(e *Edit[*thing]) { e.AddIndex(x) })
	for version := range 5 {
		o.put(&thing{name: "a", version: version}, &thing{name: "bb", version: version})
		var got []string
		s := x.Span(&o.published)
		s.Walk(false, func(key float64, t *thing) bool { got = append(got, fmt.Sprint(key, t.name)); return true })
		if want := []string{"NaNa", "NaNbb", "1a", "2bb"}; !slices.Equal(got, want) || s.UpTo(math.NaN()) != 2 || s.Below(1) != 2 {
			t.Fatalf("got %v, want %v", got, want)
		}
		o.check(t)
	}
	o.remove(object.Key{Name: "a"})
	o.replace()
	if n := x.Span(&o.published).Len(); n != 0 {
		t.Errorf("%d entries but no objects", n)
	}
	o.check(t)
}

// A comparison that contradicts itself orders the entries somehow, but each object is there under each of its keys, and
// none that was removed.
//
// Guarantees: I5
func TestContradictoryComparisonLosesNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for name, compare := range map[string]func(a, b float64) int{
		"NaN equals all": func(a, b float64) int {
			switch {
			case a < b:
				return -1
			case a > b:
				return 1
			}
			return 0
		},
		"always below":  func(a, b float64) int { return -1 },
		"always above":  func(a, b float64) int { return 1 },
		"random":        func(a, b float64) int { return random.IntN(3) - 1 },
		"changes order": func(a, b float64) int { return cmp.Compare(a, b) * (1 - 2*random.IntN(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOwner()
			x := NewOrdered(func(t *thing) []float64 {
				if t.version%3 == 0 {
					return []float64{math.NaN()}
				}
				return []float64{float64(t.version)}
			}, compare)
			o.edit(func(e *Edit[*thing]) { e.AddIndex(x) })
			w := world{}
			for version := 1; version <= 600; version++ {
				it := &thing{name: fmt.Sprint(random.IntN(100)), version: version}
				if version%4 == 0 && w[object.KeyOf(it)] != nil {
					o.remove(object.KeyOf(it))
					delete(w, object.KeyOf(it))
				} else {
					o.put(it)
					w[object.KeyOf(it)] = it
				}
				if version == 300 {
					o.replace(w.sorted(func(*thing) bool { return true })...)
				}
			}
			got := world{}
			s := x.Span(&o.published)
			s.Walk(either(random), func(key float64, it *thing) bool {
				if got[object.KeyOf(it)] != nil {
					t.Errorf("%s is there twice", it.name)
				}
				got[object.KeyOf(it)] = it
				return true
			})
			if !maps.Equal(got, w) || s.Len() != len(w) {
				t.Errorf("%d objects, want %d", len(got), len(w))
			}
			n := 0
			s.Keys(either(random), func(_ float64, entries int) bool { n += entries; return true })
			if n != len(w) {
				t.Errorf("Keys counts %d entries, want %d", n, len(w))
			}
		})
	}
}

func either(random *rand.Rand) bool { return random.IntN(2) == 0 }

// An update that leaves the keys does not change the tree, and calls the function once.
//
// Guarantees: I4
func TestUpdateThatKeepsItsKeysLeavesTheTree(t *testing.T) {
	o, calls := newOwner(), 0
	x := NewOrdered(func(t *thing) []string { calls++; return t.tags }, cmp.Compare[string])
	o.edit(func(e *Edit[*thing]) { e.AddIndex(x) })
	var things []*thing
	for i := range 1000 {
		things = append(things, &thing{name: fmt.Sprint(i), tags: []string{fmt.Sprint(i % 7)}})
	}
	o.replace(things...)
	tree, before := x.treeIn(&o.published).tree, calls
	o.put(&thing{name: "500", version: 1, tags: []string{"3"}})
	if got := x.treeIn(&o.published).tree; fmt.Sprint(got) != fmt.Sprint(tree) || calls != before+1 {
		t.Errorf("the tree changed, or the function was called %d times", calls-before)
	}
	if key, it := entryAt(x.Span(&o.published), "500"); key != "3" || it.version != 1 {
		t.Errorf("the index has version %d of the object, under %s", it.version, key)
	}
}

// entryAt returns the entry of the thing with that name.
func entryAt(s Span[*thing, string], name string) (key string, it *thing) {
	s.Walk(false, func(k string, t *thing) bool {
		if t.name == name {
			key, it = k, t
		}
		return t.name != name
	})
	return key, it
}

// Bounds take as many comparisons as the tree has levels. Counting, skipping and walking take none.
//
// Guarantees: I3
func TestReadsOfAnOrderedIndexCompareLittle(t *testing.T) {
	const n = 50_000
	comparisons := 0
	o, x := ordered(func(a, b string) int { comparisons++; return cmp.Compare(a, b) })
	var things []*thing
	for i := range n {
		things = append(things, &thing{name: fmt.Sprintf("%05d", i), tags: []string{fmt.Sprintf("%04d", i/10)}})
	}
	o.replace(things...)
	all, most := x.Span(&o.published), 0
	for what, read := range map[string]func(){
		"a bound":       func() { most = 20; all.Below("2500") },
		"another bound": func() { most = 20; all.UpTo("2500") },
		"a place":       func() { most = 40; all.Around("2500", object.Key{Name: "25003"}) },
		"the middle": func() {
			most = 0
			seen := 0
			all.Skip(n/2, false).Walk(false, func(_ string, it *thing) bool { seen++; return seen < 100 })
			if all.Len() != n || seen != 100 {
				t.Errorf("%d of %d entries", seen, all.Len())
			}
		},
		"an update": func() { most = 200; o.put(&thing{name: "30000", tags: []string{"0001"}}) },
	} {
		comparisons = 0
		if read(); comparisons > most || comparisons == 0 && most > 0 {
			t.Errorf("%s takes %d comparisons, want at most %d", what, comparisons, most)
		}
	}
}

// A table does not have an ordered index of another one. The entries are then made anew, and the table stays as it was.
//
// Guarantees: I1
func TestOrderedIndexOfAnotherTableIsMadeAnew(t *testing.T) {
	o, x := ordered(cmp.Compare[string])
	_, other := ordered(cmp.Compare[string])
	o.put(&thing{name: "a", tags: []string{"t"}}, &thing{name: "b", tags: []string{"s", "t"}})
	for _, x := range []*Ordered[*thing, string]{x, other} {
		if got := fmt.Sprint(read(x.Span(&o.published), false)); got != "[s=/b@0 t=/a@0 t=/b@0]" {
			t.Errorf("got %s", got)
		}
	}
	o.check(t)
	if s := (Span[*thing, string]{}); s.Len() != 0 || read(s, false) != nil || s.Below("a") != 0 || read(s.Skip(1, true), true) != nil {
		t.Error("the zero Span has entries")
	}
}
