package informer

import (
	"cmp"
	"slices"
)

// maxNode is how many items a node of a tree holds at most. Smaller nodes make a write cheaper (it copies one
// node a level), larger ones make listing faster.
const maxNode = 32

// entry is one version of one object as the trees hold it. Nothing in it changes once it is published, except
// hashes, which only the writer of the store reads and writes.
type entry[T Object] struct {
	namespace, name string
	obj             T
	// hashes are the index keys that the object was filed under: for each index in the order of their slots,
	// a count and that many hashes.
	hashes []uint64
}

// item is what a leaf holds. The store's own tree has no K and hash 0; an index has one item for each pair of
// index key and object.
type item[K comparable, T Object] struct {
	key   K
	hash  uint64
	entry *entry[T]
}

// ordinalBits are the lowest bits of an item's hash. They number the index keys of one object that have the same
// hash, so that each has a place of its own in the tree; they are 0 but for such collisions.
const ordinalBits = 8

// compareTo orders items by hash (without the ordinal), namespace, name, ordinal.
func (it *item[K, T]) compareTo(hash uint64, namespace, name string) int {
	return compareItems(it.hash, it.entry, hash, namespace, name)
}

func compareItems[T Object](hash uint64, e *entry[T], otherHash uint64, namespace, name string) int {
	if hash>>ordinalBits != otherHash>>ordinalBits {
		return cmp.Compare(hash, otherHash)
	}
	if c := cmp.Compare(e.namespace, namespace); c != 0 {
		return c
	}
	if c := cmp.Compare(e.name, name); c != 0 {
		return c
	}
	return cmp.Compare(hash, otherHash)
}

// tree is a persistent B+ tree: a published tree never changes. A write copies the nodes on the way to the item,
// each at most once a generation, and leaves all others shared with the trees before it.
//
// Only the writer calls set, delete and build, with a generation that no published node has.
type tree[K comparable, T Object] struct {
	root *node[K, T] // nil when the tree is empty
}

// node is a leaf when kids is nil.
type node[K comparable, T Object] struct {
	gen   uint64 // the generation that may write to this node
	count int    // items in and below this node
	items []item[K, T]
	seps  []separator[T] // seps[i] is the smallest item in or below kids[i]
	kids  []*node[K, T]
}

type separator[T Object] struct {
	hash  uint64
	entry *entry[T]
}

func (n *node[K, T]) first() separator[T] {
	if n.kids != nil {
		return n.seps[0]
	}
	return separator[T]{n.items[0].hash, n.items[0].entry}
}

// find returns the place of the first item that is not smaller, and whether it is equal.
func (n *node[K, T]) find(hash uint64, namespace, name string) (int, bool) {
	low, high := 0, len(n.items)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := n.items[mid].compareTo(hash, namespace, name); {
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

// kid returns the place of the kid in or below which the item belongs.
func (n *node[K, T]) kid(hash uint64, namespace, name string) int {
	low, high := 1, len(n.seps)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if compareItems(n.seps[mid].hash, n.seps[mid].entry, hash, namespace, name) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

func (t tree[K, T]) len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// get returns the entry at that place, nil when there is none.
func (t tree[K, T]) get(hash uint64, namespace, name string) *entry[T] {
	n := t.root
	if n == nil {
		return nil
	}
	for n.kids != nil {
		n = n.kids[n.kid(hash, namespace, name)]
	}
	if i, ok := n.find(hash, namespace, name); ok {
		return n.items[i].entry
	}
	return nil
}

// ascend calls yield with each leaf's items, from the first item that is not smaller on, until it returns false.
func (t tree[K, T]) ascend(hash uint64, namespace, name string, yield func([]item[K, T]) bool) {
	if t.root != nil {
		t.root.ascend(hash, namespace, name, yield)
	}
}

func (n *node[K, T]) ascend(hash uint64, namespace, name string, yield func([]item[K, T]) bool) bool {
	if n.kids == nil {
		i, _ := n.find(hash, namespace, name)
		return i == len(n.items) || yield(n.items[i:])
	}
	k := n.kid(hash, namespace, name)
	return n.kids[k].ascend(hash, namespace, name, yield) && n.leaves(k+1, yield)
}

// all calls yield with each leaf's items in order until it returns false.
func (t tree[K, T]) all(yield func([]item[K, T]) bool) {
	switch {
	case t.root == nil:
	case t.root.kids == nil:
		yield(t.root.items)
	default:
		t.root.leaves(0, yield)
	}
}

// leaves calls yield with the items of each leaf below kids[from:] in order.
func (n *node[K, T]) leaves(from int, yield func([]item[K, T]) bool) bool {
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

// build replaces the tree by one that holds items, which are sorted and without equals.
func (t *tree[K, T]) build(gen uint64, items []item[K, T]) {
	t.root = nil
	if len(items) == 0 {
		return
	}
	var level []*node[K, T]
	for chunk := range slices.Chunk(items, maxNode) {
		level = append(level, &node[K, T]{gen: gen, count: len(chunk), items: slices.Clone(chunk)})
	}
	for len(level) > 1 {
		var above []*node[K, T]
		for chunk := range slices.Chunk(level, maxNode) {
			above = append(above, newInner(gen, slices.Clone(chunk)))
		}
		level = above
	}
	t.root = level[0]
}

func newInner[K comparable, T Object](gen uint64, kids []*node[K, T]) *node[K, T] {
	n := &node[K, T]{gen: gen, kids: kids, seps: make([]separator[T], len(kids))}
	for i, kid := range kids {
		n.seps[i] = kid.first()
		n.count += kid.count
	}
	return n
}

// set puts it into the tree, in the place of an equal item if there is one.
func (t *tree[K, T]) set(gen uint64, it item[K, T]) {
	if t.root == nil {
		t.root = &node[K, T]{gen: gen, count: 1, items: []item[K, T]{it}}
		return
	}
	root, split, _ := t.root.set(gen, it)
	if split != nil {
		root = newInner(gen, []*node[K, T]{root, split})
	}
	t.root = root
}

// set returns the node that stands in n's place, a second one to follow it when it became too large, and whether
// there is an item more.
func (n *node[K, T]) set(gen uint64, it item[K, T]) (own, split *node[K, T], grew bool) {
	if n.kids == nil {
		i, found := n.find(it.hash, it.entry.namespace, it.entry.name)
		n = n.own(gen)
		if found {
			n.items[i] = it
			return n, nil, false
		}
		n.items = slices.Insert(n.items, i, it)
		n.count++
		if len(n.items) > maxNode {
			split = n.split(i)
		}
		return n, split, true
	}
	k := n.kid(it.hash, it.entry.namespace, it.entry.name)
	kid, second, grew := n.kids[k].set(gen, it)
	n = n.own(gen)
	n.kids[k], n.seps[k] = kid, kid.first()
	if grew {
		n.count++
	}
	if second != nil {
		n.kids = slices.Insert(n.kids, k+1, second)
		n.seps = slices.Insert(n.seps, k+1, second.first())
		if len(n.kids) > maxNode {
			split = n.split(k + 1)
		}
	}
	return n, split, grew
}

// own returns n when gen may write to it, otherwise a copy to which it may.
func (n *node[K, T]) own(gen uint64) *node[K, T] {
	if n.gen == gen {
		return n
	}
	own := &node[K, T]{gen: gen, count: n.count}
	if n.kids == nil {
		own.items = append(make([]item[K, T], 0, min(len(n.items)+4, maxNode+1)), n.items...)
	} else {
		own.seps = append(make([]separator[T], 0, len(n.seps)+1), n.seps...)
		own.kids = append(make([]*node[K, T], 0, len(n.kids)+1), n.kids...)
	}
	return own
}

// split cuts n's second half off into a node of its own. When the item that made n too large is its last one, just
// that one goes, so that objects that come in order leave full nodes behind.
func (n *node[K, T]) split(inserted int) *node[K, T] {
	if n.kids == nil {
		at := len(n.items) / 2
		if inserted == len(n.items)-1 {
			at = inserted
		}
		tail := append(make([]item[K, T], 0, maxNode+1), n.items[at:]...)
		clear(n.items[at:])
		n.items = n.items[:at]
		n.count = at
		return &node[K, T]{gen: n.gen, count: len(tail), items: tail}
	}
	at := len(n.kids) / 2
	if inserted == len(n.kids)-1 {
		at = inserted
	}
	second := newInner(n.gen, slices.Clone(n.kids[at:]))
	clear(n.kids[at:])
	clear(n.seps[at:])
	n.kids, n.seps = n.kids[:at], n.seps[:at]
	n.count -= second.count
	return second
}

// delete takes the item out of the tree, if it is there.
func (t *tree[K, T]) delete(gen uint64, hash uint64, namespace, name string) {
	if t.root == nil {
		return
	}
	t.root, _ = t.root.delete(gen, hash, namespace, name)
	for t.root != nil && len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
}

// delete returns the node that stands in n's place, nil when nothing is left, and whether there was such an item.
func (n *node[K, T]) delete(gen uint64, hash uint64, namespace, name string) (own *node[K, T], removed bool) {
	if n.kids == nil {
		i, found := n.find(hash, namespace, name)
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
	k := n.kid(hash, namespace, name)
	kid, removed := n.kids[k].delete(gen, hash, namespace, name)
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
	n.kids[k], n.seps[k] = kid, kid.first()
	if k == 0 || !n.merge(gen, k-1) {
		n.merge(gen, k)
	}
	return n, true
}

func (n *node[K, T]) dropKid(k int) {
	n.kids = slices.Delete(n.kids, k, k+1)
	n.seps = slices.Delete(n.seps, k, k+1)
}

// merge joins kids k and k+1 when they fit well into one, so that deletions leave no chain of small nodes.
func (n *node[K, T]) merge(gen uint64, k int) bool {
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
	a.kids = append(a.kids, b.kids...)
	a.count += b.count
	n.kids[k] = a
	n.dropKid(k + 1)
	return true
}
