package informer

import (
	"cmp"
	"math"
	"slices"
)

// maxNode is how many items a node of a tree holds at most. Smaller nodes make a write cheaper (it copies one
// node a level), larger ones make listing faster.
const maxNode = 32

// record stands for one object in the trees, from its addition to its deletion. The object itself, which changes more
// often, is in the snapshot's versions at slot. Nothing in a record changes once it is published, except hashes, which
// only the writer of the store reads and writes.
type record struct {
	namespace, name string
	slot            uint32
	// hashes are the index keys that the object is filed under: for each index in the order of their slots, a count
	// and that many hashes.
	hashes []uint32
}

func (r *record) key() Key { return Key{Namespace: r.namespace, Name: r.name} }

// item is what a leaf holds. An index has one for each pair of index key and object; the store's own tree has no K.
type item[K comparable] struct {
	key    K
	hash   uint32
	slot   uint32 // the record's, at hand for readers
	record *record
}

func newItem[K comparable](key K, hash uint32, r *record) item[K] {
	return item[K]{key, hash, r.slot, r}
}

// order says how a tree is sorted: by the bits of the hash that are set in it, namespace, name, and then by the other
// bits of the hash.
type order uint32

const (
	// byName is the order of the store's own tree. The hash of an item is that of its namespace and name, and tells
	// items of one leaf apart without a look at their records.
	byName order = 0
	// byHash is the order of an index's tree. The lowest bits of a hash are 0, except that they number the index keys
	// of one object that have the same hash otherwise, so that each has a place of its own. Different keys of different
	// objects may share a hash: then their items are mixed.
	byHash order = math.MaxUint32 &^ (1<<ordinalBits - 1)

	ordinalBits = 8
)

// place is where an item belongs in a tree.
type place struct {
	hash            uint32
	namespace, name string
}

func (it *item[K]) place() place { return place{it.hash, it.record.namespace, it.record.name} }

// compare returns how an item with that hash and record stands to p.
func (o order) compare(hash uint32, r *record, p *place) int {
	if mask := uint32(o); hash&mask != p.hash&mask {
		return cmp.Compare(hash, p.hash)
	}
	if c := cmp.Compare(r.namespace, p.namespace); c != 0 {
		return c
	}
	if c := cmp.Compare(r.name, p.name); c != 0 || o == byName {
		return c
	}
	return cmp.Compare(hash, p.hash)
}

// tree is a persistent B+ tree: a published tree never changes. A write copies the nodes on the way to the item,
// each at most once a generation, and leaves all others shared with the trees before it.
//
// Only the writer calls set, delete and build, with a generation that no published node has. The order must be the
// same in all calls.
type tree[K comparable] struct {
	root *node[K] // nil when the tree is empty
}

// node is a leaf when kids is nil.
type node[K comparable] struct {
	gen   uint64 // the generation that may write to this node
	count int    // items in and below this node
	items []item[K]
	seps  []separator // seps[i] is the smallest item in or below kids[i]
	kids  []*node[K]
}

type separator struct {
	hash   uint32
	record *record
}

func (n *node[K]) first() separator {
	if n.kids != nil {
		return n.seps[0]
	}
	return separator{n.items[0].hash, n.items[0].record}
}

// find returns the place of the first item that is not smaller, and whether it is equal.
func (n *node[K]) find(o order, p *place) (int, bool) {
	low, high := 0, len(n.items)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := o.compare(n.items[mid].hash, n.items[mid].record, p); {
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
func (n *node[K]) kid(o order, p *place) int {
	low, high := 1, len(n.seps)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if o.compare(n.seps[mid].hash, n.seps[mid].record, p) <= 0 {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

func (t tree[K]) len() int {
	if t.root == nil {
		return 0
	}
	return t.root.count
}

// get returns the item at p, nil when there is none. It may be read, but not written to.
func (t tree[K]) get(o order, p *place) *item[K] {
	n := t.root
	if n == nil {
		return nil
	}
	for n.kids != nil {
		n = n.kids[n.kid(o, p)]
	}
	if o == byName { // one look at a record rather than one for each comparison, each of which waits for memory
		for i := range n.items {
			if it := &n.items[i]; it.hash == p.hash && it.record.name == p.name && it.record.namespace == p.namespace {
				return it
			}
		}
		return nil
	}
	if i, ok := n.find(o, p); ok {
		return &n.items[i]
	}
	return nil
}

// ascend calls yield with each leaf's items, from the first item that is not smaller on, until it returns false.
func (t tree[K]) ascend(o order, p *place, yield func([]item[K]) bool) {
	if t.root != nil {
		t.root.ascend(o, p, yield)
	}
}

func (n *node[K]) ascend(o order, p *place, yield func([]item[K]) bool) bool {
	if n.kids == nil {
		i, _ := n.find(o, p)
		return i == len(n.items) || yield(n.items[i:])
	}
	k := n.kid(o, p)
	return n.kids[k].ascend(o, p, yield) && n.leaves(k+1, yield)
}

// all calls yield with each leaf's items in order until it returns false.
func (t tree[K]) all(yield func([]item[K]) bool) {
	switch {
	case t.root == nil:
	case t.root.kids == nil:
		yield(t.root.items)
	default:
		t.root.leaves(0, yield)
	}
}

// leaves calls yield with the items of each leaf below kids[from:] in order.
func (n *node[K]) leaves(from int, yield func([]item[K]) bool) bool {
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
func (t *tree[K]) build(gen uint64, items []item[K]) {
	t.root = nil
	if len(items) == 0 {
		return
	}
	for i := range items[1:] {
		if items[i+1].key == items[i].key {
			items[i+1].key = items[i].key // as in set
		}
	}
	var level []*node[K]
	for chunk := range slices.Chunk(items, maxNode) {
		level = append(level, &node[K]{gen: gen, count: len(chunk), items: slices.Clone(chunk)})
	}
	for len(level) > 1 {
		var above []*node[K]
		for chunk := range slices.Chunk(level, maxNode) {
			above = append(above, newInner(gen, slices.Clone(chunk)))
		}
		level = above
	}
	t.root = level[0]
}

func newInner[K comparable](gen uint64, kids []*node[K]) *node[K] {
	n := &node[K]{gen: gen, kids: kids, seps: make([]separator, len(kids))}
	for i, kid := range kids {
		n.seps[i] = kid.first()
		n.count += kid.count
	}
	return n
}

// set puts it into the tree, in the place of an equal item if there is one.
func (t *tree[K]) set(gen uint64, o order, it item[K]) {
	if t.root == nil {
		t.root = &node[K]{gen: gen, count: 1, items: []item[K]{it}}
		return
	}
	p := it.place()
	root, split, _ := t.root.set(gen, o, &p, it)
	if split != nil {
		root = newInner(gen, []*node[K]{root, split})
	}
	t.root = root
}

// set returns the node that stands in n's place, a second one to follow it when it became too large, and whether
// there is an item more.
func (n *node[K]) set(gen uint64, o order, p *place, it item[K]) (own, split *node[K], grew bool) {
	if n.kids == nil {
		i, found := n.find(o, p)
		n = n.own(gen)
		if found {
			n.items[i] = it
			return n, nil, false
		}
		if i > 0 && n.items[i-1].key == it.key {
			it.key = n.items[i-1].key // one string is compared with itself faster than with its like
		}
		n.items = slices.Insert(n.items, i, it)
		n.count++
		if len(n.items) > maxNode {
			split = n.split(i)
		}
		return n, split, true
	}
	k := n.kid(o, p)
	kid, second, grew := n.kids[k].set(gen, o, p, it)
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
func (n *node[K]) own(gen uint64) *node[K] {
	if n.gen == gen {
		return n
	}
	own := &node[K]{gen: gen, count: n.count}
	if n.kids == nil {
		own.items = append(make([]item[K], 0, min(len(n.items)+4, maxNode+1)), n.items...)
	} else {
		own.seps = append(make([]separator, 0, len(n.seps)+1), n.seps...)
		own.kids = append(make([]*node[K], 0, len(n.kids)+1), n.kids...)
	}
	return own
}

// split cuts n's second half off into a node of its own. When the item that made n too large is its last one, just
// that one goes, so that objects that come in order leave full nodes behind.
func (n *node[K]) split(inserted int) *node[K] {
	if n.kids == nil {
		at := len(n.items) / 2
		if inserted == len(n.items)-1 {
			at = inserted
		}
		tail := append(make([]item[K], 0, maxNode+1), n.items[at:]...)
		clear(n.items[at:])
		n.items = n.items[:at]
		n.count = at
		return &node[K]{gen: n.gen, count: len(tail), items: tail}
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
func (t *tree[K]) delete(gen uint64, o order, p *place) {
	if t.root == nil {
		return
	}
	t.root, _ = t.root.delete(gen, o, p)
	for t.root != nil && len(t.root.kids) == 1 {
		t.root = t.root.kids[0]
	}
}

// delete returns the node that stands in n's place, nil when nothing is left, and whether there was such an item.
func (n *node[K]) delete(gen uint64, o order, p *place) (own *node[K], removed bool) {
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
	n.kids[k], n.seps[k] = kid, kid.first()
	if k == 0 || !n.merge(gen, k-1) {
		n.merge(gen, k)
	}
	return n, true
}

func (n *node[K]) dropKid(k int) {
	n.kids = slices.Delete(n.kids, k, k+1)
	n.seps = slices.Delete(n.seps, k, k+1)
}

// merge joins kids k and k+1 when they fit well into one, so that deletions leave no chain of small nodes.
func (n *node[K]) merge(gen uint64, k int) bool {
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
