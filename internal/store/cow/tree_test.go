package cow

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

type (
	testTree   = Tree[string, int]
	testItem   = Item[string, int]
	testRecord = Record[int]
)

func record(name string) *testRecord {
	space, name, _ := strings.Cut(name, "/")
	return &testRecord{Space: space, Name: name}
}

func place(hash uint32, name string) *Place[string] {
	r := record(name)
	return &Place[string]{Hash: hash, Space: r.Space, Name: r.Name}
}

// byLength orders keys by length, so different keys can have the same place.
func byLength(a, b string) int { return len(a) - len(b) }

// empty returns an empty tree in each order.
var empty = map[string]func() testTree{
	"name": func() testTree { return NewTree[string, int](ByName) },
	"hash": func() testTree { return NewTree[string, int](ByHash) },
	"key":  func() testTree { return NewTreeByKey[string, int](byLength) },
}

// model is what a tree should have, by a place that is equal for equal places of that tree.
type model map[Place[string]]testItem

func (m model) set(t testTree, it testItem)                 { m[m.place(t, it)] = it }
func (m model) delete(t testTree, p Place[string])          { delete(m, m.of(t, p)) }
func (m model) place(t testTree, it testItem) Place[string] { return m.of(t, it.Place()) }

func (m model) of(t testTree, p Place[string]) Place[string] {
	if t.order.keys == nil {
		p.Key = ""
	} else {
		p.Key, p.Hash = strings.Repeat("k", len(p.Key)), 0
	}
	return p
}

// all returns the items of t as "key hash space/name".
func all(t testTree) (list []string) {
	t.All(func(items []testItem) bool {
		for _, it := range items {
			list = append(list, describe(it))
		}
		return true
	})
	return list
}

func describe(it testItem) string { return fmt.Sprint(it.Key, " ", it.Hash, " ", it.Record) }

// sorted returns the items of m in the order of t.
func (m model) sorted(t testTree) []testItem {
	return slices.SortedFunc(maps.Values(m), func(a, b testItem) int { return t.Compare(&a, &b) })
}

func describeAll(items []testItem) (list []string) {
	for _, it := range items {
		list = append(list, describe(it))
	}
	return list
}

// After the same writes, a tree has the items of a map, in its order. So does each earlier version, and writes that the writer
// abandons change none of them.
func TestTreeAndItsVersionsEqualAMap(t *testing.T) {
	for order, empty := range empty {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("order=%s,seed=%d", order, seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				names := 1 + random.IntN(1<<(2+seed%10))
				item := func() testItem {
					n := random.IntN(names)
					r := record(fmt.Sprintf("s%d/n%d", n%3, n))
					hash := uint32(n * 7919) // in ByName, a function of the name
					if order == "hash" {
						hash = uint32(random.IntN(5))<<OrdinalBits | uint32(random.IntN(2))
					}
					return testItem{Key: strings.Repeat(strconv.Itoa(random.IntN(2)), random.IntN(50)), Hash: hash,
						Slot: random.Uint32(), Record: r}
				}
				tree, model := empty(), model{}
				type version struct {
					tree testTree
					want []string
				}
				var kept []version
				for gen := range uint64(40) {
					gen = 2*gen + 1
					abandoned := tree
					for range random.IntN(50) {
						it := item()
						p := it.Place()
						abandoned.Set(gen, it)
						p.Name = item().Record.Name
						abandoned.Delete(gen, &p)
					}
					gen++
					if random.IntN(10) == 0 {
						clear(model)
						for range random.IntN(3 * names) {
							model.set(tree, item())
						}
						tree.Build(gen, model.sorted(tree))
					}
					deletes := random.IntN(10)
					for range random.IntN(100) {
						it := item()
						if p := it.Place(); random.IntN(10) < deletes {
							tree.Delete(gen, &p)
							model.delete(tree, p)
						} else {
							tree.Set(gen, it)
							model.set(tree, it)
						}
					}
					if err := tree.Check(); err != nil {
						t.Fatalf("generation %d: %v", gen, err)
					}
					items := model.sorted(tree)
					want := describeAll(items)
					if got := all(tree); !slices.Equal(got, want) || tree.Len() != len(want) {
						t.Fatalf("generation %d: got %v, want %v", gen, got, want)
					}
					for rank, want := range items {
						p := want.Place()
						if got := tree.Get(&p); got == nil || describe(*got) != describe(want) || tree.Rank(&p) != rank {
							t.Fatalf("generation %d: Get(%v) = %v, want %v of rank %d", gen, p, got, want, rank)
						}
						if order == "key" {
							continue
						}
						if got := tree.Find(want.Hash, want.Record); got == nil || describe(*got) != describe(want) {
							t.Fatalf("generation %d: Find(%v) = %v, want %v", gen, p, got, want)
						}
						if got := tree.Find(want.Hash+1, want.Record); got != nil && got.Hash != want.Hash+1 {
							t.Fatalf("generation %d: Find(%v) with another hash = %v", gen, p, got)
						}
					}
					kept = append(kept, version{tree, want})
				}
				for i, v := range kept {
					if got := all(v.tree); !slices.Equal(got, v.want) {
						t.Fatalf("version %d changed: got %v, want %v", i+1, got, v.want)
					}
				}
				checkReads(t, tree, model.sorted(tree), item())
			})
		}
	}
}

// checkReads fails the test unless the reads of tree that begin at a place or a rank agree with items.
func checkReads(t *testing.T, tree testTree, items []testItem, from testItem) {
	t.Helper()
	want, p := describeAll(items), from.Place()
	rank, _ := slices.BinarySearchFunc(items, from, func(a, b testItem) int { return tree.Compare(&a, &b) })
	if got := tree.Rank(&p); got != rank {
		t.Errorf("Rank(%v) is %d, want %d", p, got, rank)
	}
	if tree.order.keys != nil {
		if got := tree.Search(func(it *testItem) bool { return tree.Compare(it, &from) < 0 }); got != rank {
			t.Errorf("Search for %v returns %d, want %d", p, got, rank)
		}
	}
	for _, most := range []int{1, 50, len(items)} {
		// read returns at least the first items that a method yields, up to most, each leaf as order returns it.
		read := func(walk func(yield func([]testItem) bool), order func(leaf []testItem)) (got []string) {
			walk(func(leaf []testItem) bool {
				leaf = slices.Clone(leaf)
				order(leaf)
				if len(leaf) == 0 || len(got) >= most {
					t.Errorf("yield is called with %d items after %d, want up to %d", len(leaf), len(got), most)
				}
				got = append(got, describeAll(leaf)...)
				return len(got) < most
			})
			return got
		}
		asIs, reversed := func([]testItem) {}, slices.Reverse[[]testItem]
		got := read(func(yield func([]testItem) bool) { tree.Ascend(&p, yield) }, asIs)
		if want := want[rank:]; len(got) < min(most, len(want)) || !slices.Equal(got, want[:len(got)]) {
			t.Errorf("Ascend(%v): %v, want %v", p, got, want)
		}
		for _, rank := range []int{-1, 0, 1, rank, len(items) / 2, len(items) - 1, len(items), len(items) + 1} {
			inside := min(max(rank, 0), len(items))
			got := read(func(yield func([]testItem) bool) { tree.AscendFrom(rank, yield) }, asIs)
			if want := want[inside:]; len(got) < min(most, len(want)) || !slices.Equal(got, want[:len(got)]) {
				t.Errorf("AscendFrom(%d): %v, want %v", rank, got, want)
			}
			got = read(func(yield func([]testItem) bool) { tree.DescendFrom(rank, yield) }, reversed)
			want := slices.Clone(want[:inside])
			slices.Reverse(want)
			if len(got) < min(most, len(want)) || !slices.Equal(got, want[:len(got)]) {
				t.Errorf("DescendFrom(%d): %v, want %v", rank, got, want)
			}
		}
	}
}

// Reads at a rank are right at the borders of the nodes of each level.
func TestReadsAtARankAgreeOnThreeLevels(t *testing.T) {
	const n = 1500 // 32^2 < n
	tree := numbered(n)
	var items []testItem
	tree.All(func(leaf []testItem) bool { items = append(items, leaf...); return true })
	for _, from := range []int{0, 31, 32, 33, 1023, 1024, 1025, n - 1} {
		checkReads(t, tree, items, items[from])
	}
}

// A key that does not equal itself has a place in a tree that is sorted by key, if the comparison gives it one.
func TestTreeByKeyFindsNaN(t *testing.T) {
	tree := NewTreeByKey[float64, int](cmp.Compare[float64])
	for i, key := range []float64{1, math.NaN(), math.Inf(-1), math.NaN(), 0, math.Copysign(0, -1)} {
		for gen := range uint64(2) {
			tree.Set(gen, Item[float64, int]{Key: key, Slot: uint32(i), Record: record("/" + string(rune('a'+i%5)))})
		}
	}
	if err := tree.Check(); err != nil {
		t.Error(err)
	}
	var got []string
	tree.All(func(items []Item[float64, int]) bool {
		for _, it := range items {
			got = append(got, fmt.Sprint(it.Key, " ", it.Record))
		}
		return true
	})
	if want := []string{"NaN /b", "NaN /d", "-Inf /c", "-0 /a", "0 /e", "1 /a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 2 {
		tree.Delete(3, &Place[float64]{Key: math.NaN(), Name: string(rune('b' + 2*i))})
	}
	if tree.Len() != 4 {
		t.Errorf("%d items after the deletion of NaN, want 4", tree.Len())
	}
}

// An item that replaces one at the same place can have another key, slot and record. The separators above follow.
func TestSetReplacesTheWholeItem(t *testing.T) {
	tree := NewTreeByKey[string, int](byLength)
	for i := range 5 * maxNode {
		tree.Set(1, testItem{Key: strings.Repeat("a", i), Record: record("/r")})
	}
	for i := range 5 * maxNode {
		tree.Set(2, testItem{Key: strings.Repeat("b", i), Slot: 7, Record: record("/r")})
		if err := tree.Check(); err != nil || tree.Len() != 5*maxNode {
			t.Fatalf("item %d: %v, %d items", i, err, tree.Len())
		}
	}
	tree.All(func(items []testItem) bool {
		for _, it := range items {
			if strings.Contains(it.Key, "a") || it.Slot != 7 {
				t.Errorf("%+v is left", it)
			}
		}
		return true
	})
}

// Items with equal hashes are neighbours and sorted by name, then by ordinal.
func TestByHashDistinguishesItemsWithEqualHashes(t *testing.T) {
	tree := NewTree[string, int](ByHash)
	a, b := record("/a"), record("/b")
	for gen, it := range []testItem{
		{Key: "x", Hash: 512, Record: a}, {Key: "y", Hash: 513, Record: a}, {Key: "x", Hash: 512, Record: b},
		{Key: "z", Hash: 256, Record: b}, {Key: "w", Hash: 768, Record: a},
	} {
		tree.Set(uint64(gen), it)
	}
	if err := tree.Check(); err != nil {
		t.Fatal(err)
	}
	var got []string
	tree.Ascend(&Place[string]{Hash: 512}, func(items []testItem) bool {
		for _, it := range items {
			got = append(got, describe(it))
		}
		return true
	})
	if want := []string{"x 512 /a", "y 513 /a", "x 512 /b", "w 768 /a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if it := tree.Get(place(513, "/a")); it == nil || it.Key != "y" {
		t.Errorf("Get(513, a) = %v", it)
	}
	if it := tree.Get(place(513, "/b")); it != nil {
		t.Errorf("Get(513, b) = %v", it)
	}
}

// numbered returns a tree of n items that Build filled.
func numbered(n int) testTree {
	var tree testTree
	items := make([]testItem, n)
	for i := range items {
		items[i] = testItem{Key: "k", Hash: uint32(i), Record: record(fmt.Sprintf("s/%06d", i))}
	}
	tree.Build(1, items)
	return tree
}

// nodes adds the nodes of t to seen, and returns the number of nodes that it added.
func nodes(t testTree, seen map[*node[string, int]]bool) (added int) {
	var walk func(n *node[string, int])
	walk = func(n *node[string, int]) {
		if n == nil || seen[n] {
			return
		}
		seen[n] = true
		added++
		for _, kid := range n.kids {
			walk(kid)
		}
	}
	walk(t.root)
	return added
}

// A write copies one node per level and shares all others. A second write of a generation copies nothing.
func TestWriteToATreeCopiesOneNodePerLevel(t *testing.T) {
	const n, depth = 20_000, 3 // 32^2 < n/32 <= 32^3
	tree := numbered(n)
	seen := map[*node[string, int]]bool{}
	nodes(tree, seen)
	for name, write := range map[string]func(t *testTree){
		"Set of an item that exists": func(t *testTree) {
			t.Set(2, testItem{Key: "other", Hash: n / 2, Record: record(fmt.Sprintf("s/%06d", n/2))})
		},
		"Delete":                   func(t *testTree) { t.Delete(2, place(n/2, fmt.Sprintf("s/%06d", n/2))) },
		"Delete of a missing item": func(t *testTree) { t.Delete(2, place(1, "s/none")) },
	} {
		next := tree
		write(&next)
		want := depth
		if name == "Delete of a missing item" {
			want = 0
		}
		if added := nodes(next, maps.Clone(seen)); added != want {
			t.Errorf("%s creates %d nodes, want %d", name, added, want)
		}
		if nodes(tree, maps.Clone(seen)) != 0 || tree.Len() != n {
			t.Errorf("%s changes the earlier version", name)
		}
	}
	next := tree
	next.Set(2, testItem{Hash: 7, Record: record("s/000007")})
	again := testItem{Hash: 8, Record: record("s/000008")} // in the same leaf
	if allocs := testing.AllocsPerRun(100, func() { next.Set(2, again) }); allocs != 0 {
		t.Errorf("a second write of a generation makes %v allocations", allocs)
	}
}

// Build and insertions in ascending order leave full leaves behind. Deletions do not leave many small leaves behind.
func TestLeavesAreWellFilled(t *testing.T) {
	const n = 10_000
	leaves := func(t testTree) (leaves int) {
		t.All(func([]testItem) bool { leaves++; return true })
		return leaves
	}
	if got := leaves(numbered(n)); got != n/maxNode+1 {
		t.Errorf("Build creates %d leaves for %d items", got, n)
	}
	var tree testTree
	for i := range n {
		tree.Set(uint64(i), testItem{Hash: uint32(i), Record: record(fmt.Sprintf("s/%06d", i))})
	}
	if got := leaves(tree); got != n/maxNode+1 {
		t.Errorf("Set in order creates %d leaves for %d items", got, n)
	}
	for i := range n {
		if i%20 != 0 {
			tree.Delete(uint64(n+i), place(uint32(i), fmt.Sprintf("s/%06d", i)))
		}
	}
	if got := leaves(tree); tree.Len() != n/20 || got > n/20/(maxNode/4) {
		t.Errorf("after deletions: %d leaves with %d items", got, tree.Len())
	}
	if err := tree.Check(); err != nil {
		t.Error(err)
	}
}

// Neighbours with equal keys share the memory of the key.
func TestEqualKeysOfNeighboursShareMemory(t *testing.T) {
	key := func() string { return strings.Clone("key") }
	var built, set testTree
	var items []testItem
	for i := range 10 {
		it := testItem{Key: key(), Hash: uint32(i), Record: record(fmt.Sprintf("s/%06d", i))}
		items = append(items, it)
		set.Set(1, it)
	}
	built.Build(1, items)
	for name, tree := range map[string]testTree{"Build": built, "Set": set} {
		memory := map[*byte]bool{}
		tree.All(func(items []testItem) bool {
			for i := range items {
				memory[unsafe.StringData(items[i].Key)] = true
			}
			return true
		})
		if len(memory) != 1 {
			t.Errorf("%s: %d copies of the key", name, len(memory))
		}
	}
	var floats Tree[float64, int] // NaN does not equal itself, so it must not be replaced
	floats.Set(1, Item[float64, int]{Key: math.NaN(), Record: record("/a")})
	floats.Set(1, Item[float64, int]{Key: 1, Record: record("/b")})
	if it := floats.Get(&Place[float64]{Name: "b"}); it == nil || it.Key != 1 {
		t.Errorf("the neighbour of NaN is %v", it)
	}
}

// Check reports each kind of broken invariant.
func TestTreeCheckReportsEachBrokenInvariant(t *testing.T) {
	for want, spoil := range map[string]func(t *testTree){
		"":                          func(*testTree) {},
		"node counts":               func(t *testTree) { t.root.kids[0].count-- },
		"separator 1 differs":       func(t *testTree) { t.root.seps[1] = t.root.seps[0] },
		"leaves at depths":          func(t *testTree) { t.root.kids[1] = newInner(1, t.order, []*node[string, int]{t.root.kids[1]}) },
		"comes before":              func(t *testTree) { slices.Reverse(t.root.kids[0].items[1:]) },
		"has a kid of generation 2": func(t *testTree) { t.root.kids[0].gen++ },
		"empty node":                func(t *testTree) { t.root.kids[0] = &node[string, int]{} },
		"both 32 items and kids":    func(t *testTree) { t.root.kids[0].kids = []*node[string, int]{}; t.root.kids[0].seps = nil },
		"node has 33 items":         func(t *testTree) { n := t.root.kids[0]; n.items = append(n.items, n.items[0]) },
		"2 kids and 1 separators":   func(t *testTree) { t.root.seps = t.root.seps[:1] },
		"2 kids and 3 separators":   func(t *testTree) { t.root.firsts = make([]testItem, 1) },
	} {
		tree := numbered(2 * maxNode)
		spoil(&tree)
		switch err := tree.Check(); {
		case err == nil && want != "":
			t.Errorf("%s: Check returned nil", want)
		case err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
