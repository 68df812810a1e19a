package cow

import (
	"slices"
	"sort"
)

// Len returns the number of items.
func (t Tree[K, D]) Len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// Get returns the item at p, or nil if there is none. The caller must not modify it.
func (t Tree[K, D]) Get(p *Place[K]) *Item[K, D] {
	n := t.root
	if n == nil {
		return nil
	}
	for n.kids != nil {
		n = n.kids[n.kid(t.order, p)]
	}
	if t.order.mask == ByName && t.order.keys == nil {
		// a binary search would access a record, and so wait for memory, at each comparison
		for i := range n.items {
			if it := &n.items[i]; it.Hash == p.Hash && it.Record.Name == p.Name && it.Record.Space == p.Space {
				return it
			}
		}
		return nil
	}
	if i, ok := n.find(t.order, p); ok {
		return &n.items[i]
	}
	return nil
}

// Find returns the item of r with that hash, or nil if there is none. The tree must not be sorted by key. The caller
// must not modify it. In a tree with many equal hashes, Find accesses fewer records than [Tree.Get].
func (t Tree[K, D]) Find(hash uint32, r *Record[D]) *Item[K, D] {
	n := t.root
	if n == nil {
		return nil
	}
	p := Place[K]{Hash: hash, Space: r.Space, Name: r.Name}
	for n.kids != nil {
		n = n.kids[n.kid(t.order, &p)]
	}
	for i := range n.items {
		if it := &n.items[i]; it.Record == r && it.Hash == hash {
			return it
		}
	}
	return nil
}

// Rank returns the number of items before p. It takes O(log n) time.
func (t Tree[K, D]) Rank(p *Place[K]) (rank int) {
	n := t.root
	if n == nil {
		return 0
	}
	for n.kids != nil {
		k := n.kid(t.order, p)
		for _, before := range n.kids[:k] {
			rank += before.count
		}
		n = n.kids[k]
	}
	i, _ := n.find(t.order, p)
	return rank + i
}

// Search returns the number of items for which before returns true. It must do so for the first items, in the order of
// the tree, and for no other. The tree must be sorted by key. Search takes O(log n) time.
func (t Tree[K, D]) Search(before func(*Item[K, D]) bool) (rank int) {
	n := t.root
	if n == nil {
		return 0
	}
	for n.kids != nil {
		k := sort.Search(len(n.kids)-1, func(i int) bool { return !before(&n.firsts[i+1]) })
		for _, kid := range n.kids[:k] {
			rank += kid.count
		}
		n = n.kids[k]
	}
	return rank + sort.Search(len(n.items), func(i int) bool { return !before(&n.items[i]) })
}

// Ascend calls yield with the items at and after p, in order, until yield returns false. Each call gets the items of
// one leaf, at least one. yield must not modify or keep the slice, and must not write to this version of the tree.
func (t Tree[K, D]) Ascend(p *Place[K], yield func([]Item[K, D]) bool) {
	if t.root != nil {
		t.root.ascend(t.order, p, yield)
	}
}

// AscendFrom is like Ascend, but begins with the item that has rank items before it.
func (t Tree[K, D]) AscendFrom(rank int, yield func([]Item[K, D]) bool) {
	if rank < t.Len() {
		t.root.ascendFrom(max(rank, 0), yield)
	}
}

// DescendFrom calls yield with the first rank items of the tree, the last leaf first, until yield returns false. Within
// each slice, the items are in ascending order. The rules of Ascend apply to yield.
func (t Tree[K, D]) DescendFrom(rank int, yield func([]Item[K, D]) bool) {
	if rank = min(rank, t.Len()); rank > 0 {
		t.root.descendFrom(rank, yield)
	}
}

// All calls yield with all items, in order, until yield returns false. Each call gets the items of one leaf, at least
// one. yield must not modify or keep the slice, and must not write to this version of the tree.
func (t Tree[K, D]) All(yield func([]Item[K, D]) bool) {
	switch {
	case t.root == nil:
	case t.root.kids == nil:
		yield(t.root.items)
	default:
		t.root.leaves(0, yield)
	}
}

// find returns the index of the first item at or after p, and whether that item is at p.
func (n *node[K, D]) find(o order[K], p *Place[K]) (int, bool) {
	low, high := 0, len(n.items)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := compare(o, &n.items[mid], p); {
		case c < 0:
			low = mid + 1
		case c > 0:
			high = mid
		default:
			return mid, true
		}
	}
	return low, false
}

// compareKid compares the first item below kid k with p, like [cmp.Compare].
func (n *node[K, D]) compareKid(o order[K], k int, p *Place[K]) int {
	if n.firsts != nil {
		return compare(o, &n.firsts[k], p)
	}
	return compareRest(o, n.seps[k].hash, n.seps[k].record, p)
}

// kid returns the index of the kid whose subtree has the items at p.
func (n *node[K, D]) kid(o order[K], p *Place[K]) int {
	low, high := 1, len(n.kids)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if n.compareKid(o, mid, p) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

func (n *node[K, D]) ascend(o order[K], p *Place[K], yield func([]Item[K, D]) bool) bool {
	if n.kids == nil {
		i, _ := n.find(o, p)
		return i == len(n.items) || yield(n.items[i:])
	}
	k := n.kid(o, p)
	return n.kids[k].ascend(o, p, yield) && n.leaves(k+1, yield)
}

// ascendFrom calls yield with the items of n's subtree without the first rank ones, which are not all.
func (n *node[K, D]) ascendFrom(rank int, yield func([]Item[K, D]) bool) bool {
	if n.kids == nil {
		return yield(n.items[rank:])
	}
	k := 0
	for rank >= n.kids[k].count {
		rank -= n.kids[k].count
		k++
	}
	return n.kids[k].ascendFrom(rank, yield) && n.leaves(k+1, yield)
}

// descendFrom calls yield with the first rank items of n's subtree, beginning with the last leaf. rank is at least one.
func (n *node[K, D]) descendFrom(rank int, yield func([]Item[K, D]) bool) bool {
	if n.kids == nil {
		return yield(n.items[:rank])
	}
	end := n.count
	for _, kid := range slices.Backward(n.kids) {
		begin := end - kid.count
		if begin < rank && !kid.descendFrom(min(rank, end)-begin, yield) {
			return false
		}
		end = begin
	}
	return true
}

// leaves calls yield with the items of each leaf below kids[from:], in order.
func (n *node[K, D]) leaves(from int, yield func([]Item[K, D]) bool) bool {
	for _, kid := range n.kids[from:] {
		if kid.kids == nil {
			if !yield(kid.items) {
				return false
			}
		} else if !kid.leaves(0, yield) {
			return false
		}
	}
	return true
}
