package cow

import (
	"cmp"
	"math"
	"slices"
)

// maxNode is the maximum number of items or kids of a node. A write copies one node per level, so smaller nodes make
// writes cheaper. Larger nodes make iteration faster.
const maxNode = 32

// Record names an element. Items of several trees can share one record, so each item needs one pointer instead of two
// strings.
//
// Space and Name must not change while a tree has an item of the record. Trees ignore Data; its owner synchronizes
// access to it.
type Record[D any] struct {
	Space, Name string
	Data        D
}

// String returns the space and the name, separated by a slash.
func (r *Record[D]) String() string { return r.Space + "/" + r.Name }

// Item is an element of a [Tree]. Hash and the names in Record give its place in the tree. Key and Slot are the
// caller's; Slot is usually an index into an [Array]. Record must not be nil.
type Item[K comparable, D any] struct {
	Key    K
	Hash   uint32
	Slot   uint32
	Record *Record[D]
}

// Place is a position in a [Tree]. The tree need not have an item there. Key counts only in a tree that is sorted by
// key, and Hash only in others.
type Place[K comparable] struct {
	Key         K
	Hash        uint32
	Space, Name string
}

// Place returns the position of the item.
func (it *Item[K, D]) Place() Place[K] {
	return Place[K]{Key: it.Key, Hash: it.Hash, Space: it.Record.Space, Name: it.Record.Name}
}

// Order is the sort order of a [Tree] that is not sorted by key: [ByName], which is the zero value, or [ByHash].
//
// An Order is a bit mask. A tree sorts by the hash bits in the mask, then by space and name, then by the other hash
// bits.
type Order uint32

const (
	// ByName sorts by space, then name. A tree has one item for each pair of them. The hash must be a function of space
	// and name; Get compares it first, which avoids most accesses to records.
	ByName Order = 0
	// ByHash sorts by hash, then space, then name. The lowest OrdinalBits of a hash are an ordinal, which is 0 for most
	// items. If two keys of one record have the same hash, different ordinals give them different places. The ordinal does
	// not affect the order between records, so all items with the same other bits are neighbours, sorted by space and
	// name.
	ByHash Order = math.MaxUint32 &^ (1<<OrdinalBits - 1)

	// OrdinalBits is the number of low bits of a hash that hold the ordinal in a tree that is sorted [ByHash].
	OrdinalBits = 8
)

// order is the sort order of a tree: that of mask or, if keys is not nil, by key, then space, then name.
type order[K comparable] struct {
	mask Order
	keys func(a, b K) int
}

// compare compares it with p, like [cmp.Compare].
func compare[K comparable, D any](o order[K], it *Item[K, D], p *Place[K]) int {
	if o.keys != nil {
		if c := o.keys(it.Key, p.Key); c != 0 {
			return c
		}
	}
	return compareRest(o, it.Hash, it.Record, p)
}

// compareRest is compare for an item with that hash and record whose key, if o sorts by key, is equal to that of p.
func compareRest[K comparable, D any](o order[K], hash uint32, r *Record[D], p *Place[K]) int {
	if mask := uint32(o.mask); o.keys == nil && hash&mask != p.Hash&mask {
		return cmp.Compare(hash, p.Hash)
	}
	if c := cmp.Compare(r.Space, p.Space); c != 0 {
		return c
	}
	if c := cmp.Compare(r.Name, p.Name); c != 0 || o.mask == ByName {
		return c
	}
	return cmp.Compare(hash, p.Hash)
}

// Tree is a persistent B+ tree: a sorted map from places to items. A write takes O(log n) time and copies at most one
// node per level, plus a neighbour if a deletion merges two nodes.
//
// The zero value is an empty tree that is sorted [ByName]. Copying a Tree keeps its version; see the package
// documentation for generations and concurrency.
type Tree[K comparable, D any] struct {
	root  *node[K, D] // nil when the tree is empty
	order order[K]
}

// NewTree returns an empty tree with the given order.
func NewTree[K comparable, D any](o Order) Tree[K, D] { return Tree[K, D]{order: order[K]{mask: o}} }

// NewTreeByKey returns an empty tree that is sorted by key, then space, then name. compare compares two keys, like
// [cmp.Compare]. A tree has one item for each space, name and key; two keys are one if compare returns 0.
//
// If compare contradicts itself, the tree has its items in some order, and may fail to find an item that it has, so Set
// can add it a second time and Delete can leave it. [Tree.Len] shows both.
func NewTreeByKey[K comparable, D any](compare func(a, b K) int) Tree[K, D] {
	return Tree[K, D]{order: order[K]{keys: compare}}
}

// Compare returns a negative number if a comes before b in the order of the tree, a positive number if it comes after
// b, and zero if both have the same place.
func (t Tree[K, D]) Compare(a, b *Item[K, D]) int {
	p := b.Place()
	return compare(t.order, a, &p)
}

// node is a leaf if kids is nil, and otherwise an inner node without items.
type node[K comparable, D any] struct {
	gen   uint64 // the generation that may write to this node
	count int    // items in this subtree
	items []Item[K, D]
	kids  []*node[K, D]
	// A tree that is sorted by key has firsts, any other has seps.
	seps   []separator[D] // seps[i] is that of the first item below kids[i]
	firsts []Item[K, D]   // firsts[i] is the first item below kids[i]
}

// separator says where the subtree of a kid begins. A write copies the separators of each node on its way, so they have
// only what the order needs.
type separator[D any] struct {
	hash   uint32
	record *Record[D]
}

// Build replaces the contents of the tree with items. They must be in the tree's order and have distinct places. Build
// does not keep the slice, but it can replace a key in it with an equal one.
func (t *Tree[K, D]) Build(gen uint64, items []Item[K, D]) {
	t.root = nil
	if len(items) == 0 {
		return
	}
	for i := range items[1:] {
		if items[i+1].Key == items[i].Key {
			items[i+1].Key = items[i].Key // see set
		}
	}
	var level []*node[K, D]
	for chunk := range slices.Chunk(items, maxNode) {
		level = append(level, &node[K, D]{gen: gen, count: len(chunk), items: slices.Clone(chunk)})
	}
	for len(level) > 1 {
		var above []*node[K, D]
		for chunk := range slices.Chunk(level, maxNode) {
			above = append(above, newInner(gen, t.order, slices.Clone(chunk)))
		}
		level = above
	}
	t.root = level[0]
}

// Set adds it to the tree. It replaces the item at the same place, if there is one. It returns the key that the tree
// now has there, which can be an equal one in memory that others have too.
func (t *Tree[K, D]) Set(gen uint64, it Item[K, D]) K {
	if t.root == nil {
		t.root = &node[K, D]{gen: gen, count: 1, items: []Item[K, D]{it}}
		return it.Key
	}
	p := it.Place()
	root, split, _ := t.root.set(gen, t.order, &p, &it)
	if split != nil {
		root = newInner(gen, t.order, []*node[K, D]{root, split})
	}
	t.root = root
	return it.Key
}

// Delete removes the item at p, if there is one.
func (t *Tree[K, D]) Delete(gen uint64, p *Place[K]) {
	if t.root == nil {
		return
	}
	t.root, _ = t.root.delete(gen, t.order, p)
	for t.root != nil && len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
}

// first returns the first item in n's subtree. Without firsts, it has the hash and the record only.
func (n *node[K, D]) first() Item[K, D] {
	switch {
	case n.kids == nil:
		return n.items[0]
	case n.firsts != nil:
		return n.firsts[0]
	}
	return Item[K, D]{Hash: n.seps[0].hash, Record: n.seps[0].record}
}

func newInner[K comparable, D any](gen uint64, o order[K], kids []*node[K, D]) *node[K, D] {
	n := &node[K, D]{gen: gen, kids: kids}
	if o.keys != nil {
		n.firsts = make([]Item[K, D], len(kids))
	} else {
		n.seps = make([]separator[D], len(kids))
	}
	for i, kid := range kids {
		n.separate(i)
		n.count += kid.count
	}
	return n
}

// separate notes the first item below kid k.
func (n *node[K, D]) separate(k int) {
	first := n.kids[k].first()
	if n.firsts != nil {
		n.firsts[k] = first
	} else {
		n.seps[k] = separator[D]{first.Hash, first.Record}
	}
}

// set returns the node that replaces n. If that node became too large, split is its second half. grew reports whether
// the number of items grew.
func (n *node[K, D]) set(gen uint64, o order[K], p *Place[K], it *Item[K, D]) (own, split *node[K, D], grew bool) {
	if n.kids == nil {
		i, found := n.find(o, p)
		n = n.own(gen)
		if found {
			n.items[i] = *it
			return n, nil, false
		}
		if i > 0 && n.items[i-1].Key == it.Key {
			it.Key = n.items[i-1].Key // equal strings then share memory, and comparing them is faster
		}
		n.items = slices.Insert(n.items, i, *it)
		n.count++
		if len(n.items) > maxNode {
			split = n.split(o, i)
		}
		return n, split, true
	}
	k := n.kid(o, p)
	kid, second, grew := n.kids[k].set(gen, o, p, it)
	n = n.own(gen)
	n.kids[k] = kid
	n.separate(k)
	if grew {
		n.count++
	}
	if second != nil {
		n.insert(k+1, second)
		if len(n.kids) > maxNode {
			split = n.split(o, k+1)
		}
	}
	return n, split, grew
}

// own returns n if gen may change it, and otherwise a copy.
func (n *node[K, D]) own(gen uint64) *node[K, D] {
	if n.gen == gen {
		return n
	}
	own := &node[K, D]{gen: gen, count: n.count}
	if n.kids == nil {
		own.items = append(make([]Item[K, D], 0, min(len(n.items)+4, maxNode+1)), n.items...)
	} else {
		if n.firsts != nil {
			own.firsts = append(make([]Item[K, D], 0, len(n.firsts)+1), n.firsts...)
		} else {
			own.seps = append(make([]separator[D], 0, len(n.seps)+1), n.seps...)
		}
		own.kids = append(make([]*node[K, D], 0, len(n.kids)+1), n.kids...)
	}
	return own
}

// split moves the second half of n to a new node and returns it. inserted is the index of the item or kid that made n
// too large. If that is the last one, split moves only that one: insertions in ascending order then leave full nodes
// behind.
func (n *node[K, D]) split(o order[K], inserted int) *node[K, D] {
	if n.kids == nil {
		index := len(n.items) / 2
		if inserted == len(n.items)-1 {
			index = inserted
		}
		tail := append(make([]Item[K, D], 0, maxNode+1), n.items[index:]...)
		clear(n.items[index:])
		n.items = n.items[:index]
		n.count = index
		return &node[K, D]{gen: n.gen, count: len(tail), items: tail}
	}
	index := len(n.kids) / 2
	if inserted == len(n.kids)-1 {
		index = inserted
	}
	second := newInner(n.gen, o, slices.Clone(n.kids[index:]))
	n.kids = slices.Delete(n.kids, index, len(n.kids))
	if n.firsts != nil {
		n.firsts = slices.Delete(n.firsts, index, len(n.firsts))
	} else {
		n.seps = slices.Delete(n.seps, index, len(n.seps))
	}
	n.count -= second.count
	return second
}

// delete returns the node that replaces n, or nil if n became empty, and whether it removed an item.
func (n *node[K, D]) delete(gen uint64, o order[K], p *Place[K]) (own *node[K, D], removed bool) {
	if n.kids == nil {
		i, found := n.find(o, p)
		switch {
		case !found:
			return n, false
		case len(n.items) == 1:
			return nil, true
		}
		n = n.own(gen)
		n.items = slices.Delete(n.items, i, i+1)
		n.count--
		return n, true
	}
	k := n.kid(o, p)
	kid, removed := n.kids[k].delete(gen, o, p)
	if !removed {
		return n, false
	}
	if kid == nil && len(n.kids) == 1 {
		return nil, true
	}
	n = n.own(gen)
	n.count--
	if kid == nil {
		n.dropKid(k)
		return n, true
	}
	n.kids[k] = kid
	n.separate(k)
	if k == 0 || !n.merge(gen, k-1) {
		n.merge(gen, k)
	}
	return n, true
}

// insert adds a kid before kid k.
func (n *node[K, D]) insert(k int, kid *node[K, D]) {
	n.kids = slices.Insert(n.kids, k, kid)
	if n.firsts != nil {
		n.firsts = slices.Insert(n.firsts, k, Item[K, D]{})
	} else {
		n.seps = slices.Insert(n.seps, k, separator[D]{})
	}
	n.separate(k)
}

func (n *node[K, D]) dropKid(k int) {
	n.kids = slices.Delete(n.kids, k, k+1)
	if n.firsts != nil {
		n.firsts = slices.Delete(n.firsts, k, k+1)
	} else {
		n.seps = slices.Delete(n.seps, k, k+1)
	}
}

// merge joins kids k and k+1 if together they fill at most three quarters of a node, and reports whether it did.
// Without it, deletions would leave many small nodes behind.
func (n *node[K, D]) merge(gen uint64, k int) bool {
	if k+1 >= len(n.kids) {
		return false
	}
	a, b := n.kids[k], n.kids[k+1]
	if len(a.items)+len(b.items)+len(a.kids)+len(b.kids) > maxNode*3/4 {
		return false
	}
	a = a.own(gen)
	a.items = append(a.items, b.items...)
	a.seps = append(a.seps, b.seps...)
	a.firsts = append(a.firsts, b.firsts...)
	a.kids = append(a.kids, b.kids...)
	a.count += b.count
	n.kids[k] = a
	n.dropKid(k + 1)
	return true
}
