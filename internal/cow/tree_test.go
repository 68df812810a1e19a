package cow

import (
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

func place(hash uint32, name string) *Place {
	r := record(name)
	return &Place{hash, r.Space, r.Name}
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

// sorted returns the items of a model in a tree's order.
func sorted(o Order, model map[Place]testItem) (list []string) {
	for _, it := range slices.SortedFunc(maps.Values(model), func(a, b testItem) int { return Compare(o, &a, &b) }) {
		list = append(list, describe(it))
	}
	return list
}

// After the same writes, a tree has the items of a map, in its order. So does each earlier version, and writes that the writer
// abandons change none of them.
func TestTreeAndItsVersionsEqualAMap(t *testing.T) {
	for _, o := range []Order{ByName, ByHash} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprintf("order=%x,seed=%d", uint32(o), seed), func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 0))
				names := 1 + random.IntN(1<<(2+seed%10))
				item := func() testItem {
					n := random.IntN(names)
					r := record(fmt.Sprintf("s%d/n%d", n%3, n))
					hash := uint32(n * 7919) // in ByName, a function of the name
					if o == ByHash {
						hash = uint32(random.IntN(5))<<OrdinalBits | uint32(random.IntN(2))
					}
					return testItem{Key: strconv.Itoa(random.IntN(50)), Hash: hash, Record: r}
				}
				tree, model := NewTree[string, int](o), map[Place]testItem{}
				type version struct {
					tree  testTree
					model map[Place]testItem
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
							it := item()
							model[it.Place()] = it
						}
						items := slices.SortedFunc(maps.Values(model), func(a, b testItem) int { return Compare(o, &a, &b) })
						tree.Build(gen, items)
					}
					deletes := random.IntN(10)
					for range random.IntN(100) {
						it := item()
						if p := it.Place(); random.IntN(10) < deletes {
							tree.Delete(gen, &p)
							delete(model, p)
						} else {
							tree.Set(gen, it)
							model[p] = it
						}
					}
					if err := tree.Check(); err != nil {
						t.Fatalf("generation %d: %v", gen, err)
					}
					if got, want := all(tree), sorted(o, model); !slices.Equal(got, want) || tree.Len() != len(want) {
						t.Fatalf("generation %d: got %v, want %v", gen, got, want)
					}
					for p, want := range model {
						if got := tree.Get(&p); got == nil || describe(*got) != describe(want) {
							t.Fatalf("generation %d: Get(%v) = %v, want %v", gen, p, got, want)
						}
						if got := tree.Find(want.Hash, want.Record); got == nil || describe(*got) != describe(want) {
							t.Fatalf("generation %d: Find(%v) = %v, want %v", gen, p, got, want)
						}
						if got := tree.Find(want.Hash+1, want.Record); got != nil && got.Hash != want.Hash+1 {
							t.Fatalf("generation %d: Find(%v) with another hash = %v", gen, p, got)
						}
					}
					kept = append(kept, version{tree, maps.Clone(model)})
				}
				for i, v := range kept {
					if got, want := all(v.tree), sorted(o, v.model); !slices.Equal(got, want) {
						t.Fatalf("version %d changed: got %v, want %v", i+1, got, want)
					}
				}
				from := item()
				p := from.Place()
				var got []string
				tree.Ascend(&p, func(items []testItem) bool {
					for _, it := range items {
						got = append(got, describe(it))
					}
					return len(got) < names
				})
				rest := maps.Clone(model)
				maps.DeleteFunc(rest, func(_ Place, it testItem) bool { return Compare(o, &it, &from) < 0 })
				if want := sorted(o, rest); len(got) < min(names, len(want)) || !slices.Equal(got, want[:len(got)]) {
					t.Errorf("Ascend(%v): %v, want %v", p, got, want)
				}
				if rank, want := tree.Rank(&p), tree.Len()-len(rest); rank != want {
					t.Errorf("Rank(%v) is %d, want %d", p, rank, want)
				}
			})
		}
	}
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
	tree.Ascend(&Place{Hash: 512}, func(items []testItem) bool {
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
	if it := floats.Get(place(0, "/b")); it == nil || it.Key != 1 {
		t.Errorf("the neighbour of NaN is %v", it)
	}
}

// Check reports each kind of broken invariant.
func TestTreeCheckReportsEachBrokenInvariant(t *testing.T) {
	for want, spoil := range map[string]func(t *testTree){
		"":                           func(*testTree) {},
		"node counts":                func(t *testTree) { t.root.kids[0].count-- },
		"separator s/000000 differs": func(t *testTree) { t.root.seps[1] = t.root.seps[0] },
		"leaves at depths":           func(t *testTree) { t.root.kids[1] = newInner(1, []*node[string, int]{t.root.kids[1]}) },
		"comes before":               func(t *testTree) { slices.Reverse(t.root.kids[0].items[1:]) },
		"has a kid of generation 2":  func(t *testTree) { t.root.kids[0].gen++ },
		"empty node":                 func(t *testTree) { t.root.kids[0] = &node[string, int]{} },
		"both 32 items and kids":     func(t *testTree) { t.root.kids[0].kids = []*node[string, int]{}; t.root.kids[0].seps = nil },
		"node has 33 items":          func(t *testTree) { n := t.root.kids[0]; n.items = append(n.items, n.items[0]) },
		"2 kids and 1 separators":    func(t *testTree) { t.root.seps = t.root.seps[:1] },
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
