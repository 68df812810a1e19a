package informer

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

// entry is an entry of an ordered index.
type entry struct {
	key string
	obj *thing
}

// orderedEntries returns the entries that an index of tags has of things.
func orderedEntries(things []*thing) (all []entry) {
	for _, obj := range things {
		for _, tag := range slices.Compact(slices.Sorted(slices.Values(obj.tags))) {
			all = append(all, entry{tag, obj})
		}
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.obj.namespace, b.obj.namespace), cmp.Compare(a.obj.name, b.obj.name))
	})
	return all
}

// entriesOf returns the entries of r.
func entriesOf(r OrderedRange[*thing, string]) (all []entry) {
	for key, obj := range r.Entries() {
		all = append(all, entry{key, obj})
	}
	return all
}

// narrow returns r and its entries after a random method.
func narrow(random *rand.Rand, r OrderedRange[*thing, string],
	entries []entry) (what string, narrower OrderedRange[*thing, string], want []entry) {
	keep := func(name, key string, keep func(c int) bool, r OrderedRange[*thing, string]) (string, OrderedRange[*thing, string], []entry) {
		return name + " " + key, r, slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return !keep(cmp.Compare(e.key, key)) })
	}
	key := []string{"", "tag0", "tag1", "tag10", "tag3", "tag7", "tag70", "z"}[random.IntN(8)]
	n := random.IntN(len(entries)+5) - 2
	inside := min(max(n, 0), len(entries))
	switch random.IntN(9) {
	case 0:
		return keep("AtLeast", key, func(c int) bool { return c >= 0 }, r.AtLeast(key))
	case 1:
		return keep("Above", key, func(c int) bool { return c > 0 }, r.Above(key))
	case 2:
		return keep("AtMost", key, func(c int) bool { return c <= 0 }, r.AtMost(key))
	case 3:
		return keep("Below", key, func(c int) bool { return c < 0 }, r.Below(key))
	case 4:
		if len(entries) > 3 { // Equal leaves little
			return "Skip none", r.Skip(0), entries
		}
		return keep("Equal", key, func(c int) bool { return c == 0 }, r.Equal(key))
	case 5:
		return fmt.Sprint("Skip ", n), r.Skip(n), entries[inside:]
	case 6:
		return fmt.Sprint("Limit ", n), r.Limit(n), entries[:inside]
	case 7:
		want := slices.Clone(entries)
		slices.Reverse(want)
		return "Descending", r.Descending(), want
	}
	if len(entries) == 0 {
		return "After nothing", r.After(key, Key{Name: "a"}), nil
	}
	i := random.IntN(len(entries))
	return fmt.Sprint("After ", i), r.After(entries[i].key, KeyOf(entries[i].obj)), entries[i+1:]
}

// checkRange fails the test unless all reads of r agree with want.
func checkRange(t *testing.T, how string, r OrderedRange[*thing, string], want []entry) {
	t.Helper()
	var objects []*thing
	for _, e := range want {
		objects = append(objects, e.obj)
	}
	if got := entriesOf(r); !slices.Equal(got, want) || r.Len() != len(want) {
		t.Fatalf("%s: got %v, want %v; Len is %d", how, got, want, r.Len())
	}
	if all, list := slices.Collect(r.All()), r.List(); !slices.Equal(all, objects) || !slices.Equal(list, objects) {
		t.Fatalf("%s: All yields %d objects, List returns %d, want %d", how, len(all), len(list), len(objects))
	}
	rest := want
	for key, n := range r.Keys() {
		if n < 1 || n > len(rest) || rest[0].key != key || rest[n-1].key != key {
			t.Fatalf("%s: Keys yields %s %d times at %v", how, key, n, rest)
		}
		rest = rest[n:]
	}
	if len(rest) > 0 {
		t.Fatalf("%s: Keys leaves out %v", how, rest)
	}
	for range r.Keys() {
		break
	}
	for obj := range r.All() {
		if obj != want[0].obj {
			t.Fatalf("%s: the first object is %s", how, obj.name)
		}
		break
	}
}

// After the same deltas, any range of an ordered index equals the same part of a sorted slice. So do those of earlier
// snapshots, also from before the index.
//
// Guarantees: C3, C6, I1, I2
func TestRangesEqualPartsOfASortedSlice(t *testing.T) {
	for seed := range uint64(Rounds(10, 30)) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			t.Parallel()
			g := &generator{Rand: rand.New(rand.NewPCG(seed, 4)), world: world{}}
			store, w := NewStore[*thing]()
			failIn := 0
			tags := func(t *thing) []string {
				if failIn--; failIn == 0 {
					if g.IntN(2) == 0 {
						runtime.Goexit()
					}
					panic("key function")
				}
				return t.tags
			}
			indexes := []*OrderedIndex[*thing, string]{NewOrderedIndex(store, tags)}
			type kept struct {
				snap *Snapshot[*thing]
				want []entry
			}
			var old []kept
			for step := range 150 {
				if step == 75 {
					indexes = append(indexes, NewOrderedIndex(store, tags))
				}
				var batch []Delta[*thing]
				for range g.IntN(6) {
					batch = append(batch, g.delta())
				}
				if g.IntN(5) == 0 {
					failIn = 1 + g.IntN(20)
				}
				before := store.Snapshot()
				if !attempt(func() { w.Apply(batch...) }) {
					if failIn != 0 || store.Snapshot() != before {
						t.Fatalf("step %d: a function failed, and the store changed", step)
					}
					w.Apply(batch...)
				}
				failIn = 0
				if now := (kept{store.Snapshot(), orderedEntries(store.List())}); g.IntN(8) == 0 {
					old = append(old, now)
				}
				for _, x := range indexes {
					checkRange(t, fmt.Sprint("step ", step), x.Range(), orderedEntries(store.List()))
				}
				if len(old) == 0 {
					continue
				}
				from := old[g.IntN(len(old))]
				for i, x := range indexes {
					r, want := x.RangeIn(from.snap), from.want
					how := fmt.Sprintf("step %d, index %d", step, i)
					for range 5 {
						var what string
						what, r, want = narrow(g.Rand, r, want)
						how += ", " + what
						checkRange(t, how, r, want)
					}
				}
			}
			if err := store.core().Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// The pages of one snapshot are the whole list, whatever the writer does meanwhile.
//
// Guarantees: C2, I1
func TestPagesOfOneSnapshotAreOneList(t *testing.T) {
	const objects, size = 1000, 70
	store, w := NewStore[*thing]()
	type row struct{ tag, uid string }
	rowOf := func(t *thing) row { return row{t.tags[0], t.uid} }
	compare := func(a, b row) int { return cmp.Or(cmp.Compare(a.tag, b.tag), -cmp.Compare(a.uid, b.uid)) }
	x := NewOrderedIndexFunc(store, func(t *thing) []row { return []row{rowOf(t)} }, compare)
	newThing := func(version, i int) *thing {
		return &thing{namespace: strconv.Itoa(i % 3), name: strconv.Itoa(i), uid: strconv.Itoa(i % 11), rv: strconv.Itoa(version),
			tags: []string{strconv.Itoa((i + version) % 13)}}
	}
	apply := func(version int) {
		const batch = 10
		for i := 0; i < objects; i += batch {
			var deltas []Delta[*thing]
			for j := range batch {
				deltas = append(deltas, Delta[*thing]{Type: Upserted, Object: newThing(version, i+j)})
			}
			w.Apply(deltas...)
		}
	}
	apply(1)
	var ended atomic.Bool
	var readers sync.WaitGroup
	for _, descending := range []bool{false, true} {
		readers.Go(func() {
			for rounds := 0; rounds < 3 || !ended.Load(); rounds++ {
				r := x.Range()
				if descending {
					r = r.Descending()
				}
				var pages []*thing
				for n := 0; n < r.Len(); n += size {
					page := r.Skip(n).Limit(size).List()
					if want := min(size, r.Len()-n); len(page) != want {
						t.Errorf("page %d has %d objects, want %d", n/size, len(page), want)
						return
					}
					pages = append(pages, page...)
				}
				names := map[Key]bool{}
				for i, obj := range pages {
					names[KeyOf(obj)] = true
					if i > 0 {
						a, b := pages[i-1], obj
						if descending {
							a, b = b, a
						}
						if c := cmp.Or(compare(rowOf(a), rowOf(b)), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name)); c >= 0 {
							t.Errorf("%+v comes before %+v", a, b)
							return
						}
					}
				}
				if len(names) != objects || len(pages) != objects {
					t.Errorf("%d objects on the pages, %d different ones, want %d", len(pages), len(names), objects)
					return
				}
			}
		})
	}
	for version := 2; version < 6; version++ {
		apply(version)
	}
	ended.Store(true)
	readers.Wait()
}

// A list that continues after its last entry in a later snapshot has each entry that has not moved exactly once.
//
// Guarantees: I2
func TestListContinuesInALaterSnapshot(t *testing.T) {
	for _, descending := range []bool{false, true} {
		random := rand.New(rand.NewPCG(1, 5))
		store, w := NewStore[*thing]()
		x := NewOrderedIndex(store, func(t *thing) []string { return t.tags })
		put := func(n int) {
			name := fmt.Sprintf("%03d", n)
			w.Apply(Delta[*thing]{Type: Upserted, Object: &thing{name: name, rv: strconv.Itoa(random.Int()), tags: []string{name[:2]}}})
		}
		for n := range 1000 {
			if n%2 == 0 {
				put(n)
			}
		}
		var got []string
		page := x.Range()
		if descending {
			page = page.Descending()
		}
		for page = page.Limit(30); page.Len() > 0; {
			var last entry
			for key, obj := range page.Entries() {
				if obj.name[2]%2 == 0 {
					got = append(got, obj.name)
				}
				last = entry{key, obj}
			}
			for range 50 { // odd ones come and go, and even ones change
				n := random.IntN(1000)
				if n%2 == 1 && random.IntN(2) == 0 {
					w.Apply(Delta[*thing]{Type: Removed, Key: Key{Name: fmt.Sprintf("%03d", n)}})
				} else {
					put(n)
				}
			}
			page = x.Range()
			if descending {
				page = page.Descending()
			}
			page = page.After(last.key, KeyOf(last.obj)).Limit(30)
		}
		if descending {
			slices.Reverse(got)
		}
		if len(got) != 500 || !slices.IsSorted(got) || len(slices.Compact(got)) != 500 {
			t.Errorf("descending=%v: the pages have %d objects that stayed, want 500, sorted", descending, len(got))
		}
	}
}

// The zero OrderedRange, and the ranges of an empty store, have no entries.
func TestEmptyRanges(t *testing.T) {
	store, _ := NewStore[*thing]()
	x := NewOrderedIndex(store, func(t *thing) []string { return t.tags })
	for _, r := range []OrderedRange[*thing, string]{{}, x.Range()} {
		checkRange(t, "empty", r, nil)
		checkRange(t, "narrowed", r.Descending().AtLeast("a").Below("b").Skip(3).Limit(math.MaxInt).Skip(math.MaxInt), nil)
		checkRange(t, "equal", r.Above("a").AtMost("b").Equal("b").After("a", Key{Name: "n"}).Limit(math.MinInt), nil)
	}
}

// If the function or the comparison panics while the index is made, there is no new index, and the store stays as it was.
//
// Guarantees: C3
func TestNewOrderedIndexThatFailsHasNotBeenMade(t *testing.T) {
	for how, fail := range keyFailures {
		if how != "panic" && how != "Goexit" {
			continue // cmp.Ordered keys can be hashed
		}
		for _, inComparison := range []bool{false, true} {
			store, w := NewStore[*thing]()
			for i := range 5 {
				w.Apply(Delta[*thing]{Type: Upserted, Object: &thing{name: strconv.Itoa(i), tags: []string{"all"}}})
			}
			calls := 0
			failing := func(here bool) {
				if here {
					if calls++; calls == 3 {
						fail()
					}
				}
			}
			if attempt(func() {
				NewOrderedIndexFunc(store, func(t *thing) []string { failing(!inComparison); return t.tags },
					func(a, b string) int { failing(inComparison); return cmp.Compare(a, b) })
			}) {
				t.Errorf("%s: the index was made", how)
			}
			x := NewOrderedIndex(store, func(t *thing) []string { return t.tags })
			w.Apply(Delta[*thing]{Type: Removed, Key: Key{Name: "2"}})
			if n, indexes := x.Range().Equal("all").Len(), store.Snapshot().core().Table().Indexes(); n != 4 || indexes != 1 {
				t.Errorf("%s: %d entries in %d indexes, want 4 in 1", how, n, indexes)
			}
		}
	}
}

// Keys of all ordered types have the order of cmp.Compare, also NaN.
//
// Guarantees: I5
func TestOrderOfNumbers(t *testing.T) {
	store, w := NewStore[*thing]()
	numbers := map[string]float64{"nan": math.NaN(), "inf": math.Inf(1), "-inf": math.Inf(-1), "0": 0, "1": 1, "-1": -1}
	x := NewOrderedIndex(store, func(t *thing) []float64 { return []float64{numbers[t.name]} })
	for name := range maps.Keys(numbers) {
		for rv := range 3 {
			w.Apply(Delta[*thing]{Type: Upserted, Object: &thing{name: name, rv: strconv.Itoa(rv)}})
		}
	}
	var names []string
	for obj := range x.Range().All() {
		names = append(names, obj.name)
	}
	if want := []string{"nan", "-inf", "-1", "0", "1", "inf"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if nan, all := x.Range().Equal(math.NaN()).Len(), x.Range().Above(math.NaN()).Len(); nan != 1 || all != 5 {
		t.Errorf("%d entries of NaN and %d above it, want 1 and 5", nan, all)
	}
	w.Apply(Delta[*thing]{Type: Removed, Key: Key{Name: "nan"}})
	if n := x.Range().Len(); n != 5 {
		t.Errorf("%d entries, want 5", n)
	}
}
