package table

import (
	"slices"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// Ordered has the objects of a table in the order of keys that a function computes from them. Objects with equal keys
// are in the order of their own keys. Like an [Index], it is always consistent with the objects. [NewOrdered] creates
// one, and [Edit.AddIndex] adds it to a table.
//
// Neither the function nor the comparison can corrupt the table. If the function returns different keys for the same
// object, or if the comparison contradicts itself, the objects are in some order.
type Ordered[T object.Object, K comparable] struct {
	position int // in Version.indexes
	keys     func(T) []K
	compare  func(a, b K) int
}

// NewOrdered returns an ordered index for one table. keys returns the keys of an object: none, one or several. compare
// compares two keys, like [cmp.Compare]. If it returns 0 for keys of one object, only the first of these counts.
func NewOrdered[T object.Object, K comparable](keys func(T) []K, compare func(a, b K) int) *Ordered[T, K] {
	return &Ordered[T, K]{keys: keys, compare: compare}
}

func (x *Ordered[T, K]) newTree(position int) indexTree[T] {
	x.position = position
	return x.empty()
}

// empty returns the state of the index in an empty version.
func (x *Ordered[T, K]) empty() *sortedTree[T, K] {
	return &sortedTree[T, K]{index: x, tree: cow.NewTreeByKey[K, filed](x.compare), filed: new([][]K)}
}

// Span returns all entries of v. If v does not have the index, because it is older or belongs to another table, Span
// calls the function of the index for every object, and sorts them.
func (x *Ordered[T, K]) Span(v *Version[T]) Span[T, K] {
	t := x.treeIn(v)
	if t == nil {
		t = x.empty()
		t.build(0, v)
	}
	return Span[T, K]{version: v, tree: t.tree, compare: x.compare, high: t.tree.Len()}
}

// treeIn returns the index's tree in v, or nil if v does not have the index.
func (x *Ordered[T, K]) treeIn(v *Version[T]) *sortedTree[T, K] {
	if x.position < len(v.indexes) {
		if t, ok := v.indexes[x.position].(*sortedTree[T, K]); ok && t.index == x {
			return t
		}
	}
	return nil
}

// distinct appends the keys of obj to keys, which is empty: in the order of the function or, if they are many, in their
// own order. An object that an [Opener] could not make has no keys.
func (x *Ordered[T, K]) distinct(obj T, keys []K) []K {
	if object.IsNil(obj) {
		return keys
	}
	all := x.keys(obj)
	if len(all) > fewKeys {
		keys = append(keys, all...)
		slices.SortStableFunc(keys, x.compare)
		return slices.CompactFunc(keys, func(a, b K) bool { return x.compare(a, b) == 0 })
	}
	for _, key := range all {
		if x.find(keys, key) < 0 {
			keys = append(keys, key)
		}
	}
	return keys
}

// find returns the index of the key in keys that the comparison does not tell from key, or -1.
func (x *Ordered[T, K]) find(keys []K, key K) int {
	return slices.IndexFunc(keys, func(other K) bool { return x.compare(other, key) == 0 })
}

// sortedTree is the state of an Ordered in one version. It implements [indexTree], and has no part in the hashes of a
// record: it needs the keys themselves to find their items.
type sortedTree[T object.Object, K comparable] struct {
	index *Ordered[T, K]
	tree  tree[K]
	filed *[][]K // the keys of the object in each slot, of the last version; only the writer reads and writes them
	buf   []K    // scratch memory of edits
}

func (t *sortedTree[T, K]) clone() indexTree[T] {
	c := *t
	return &c
}

func (t *sortedTree[T, K]) build(gen uint64, v *Version[T]) {
	items := make([]item[K], 0, v.Len())
	v.eachRecord(func(r *record) {
		t.buf = t.index.distinct(v.Shared(r.Data.slot), t.buf[:0])
		for _, key := range t.buf {
			items = append(items, newItem(key, 0, r))
		}
	})
	clear(t.buf[:cap(t.buf)]) // it must not keep keys in memory, of any object
	t.fill(gen, items)
	t.restore(v)
}

// fill replaces the items of the tree.
func (t *sortedTree[T, K]) fill(gen uint64, items []item[K]) {
	slices.SortFunc(items, func(a, b item[K]) int { return t.tree.Compare(&a, &b) })
	t.tree.Build(gen, items)
}

func (t *sortedTree[T, K]) restore(*Version[T]) {
	*t.filed = nil
	t.tree.All(func(items []item[K]) bool {
		for i := range items {
			slot := items[i].Slot
			t.note(slot, append(t.keysIn(slot), items[i].Key))
		}
		return true
	})
}

// keysIn returns the keys of the object in slot.
func (t *sortedTree[T, K]) keysIn(slot uint32) []K {
	if int(slot) < len(*t.filed) {
		return (*t.filed)[slot]
	}
	return nil
}

// note records that the object in slot has these keys.
func (t *sortedTree[T, K]) note(slot uint32, keys []K) {
	if more := int(slot) + 1 - len(*t.filed); more > 0 {
		*t.filed = append(*t.filed, make([][]K, more)...)
	}
	(*t.filed)[slot] = keys
}

func (t *sortedTree[T, K]) add(gen uint64, r *record, obj T) { t.update(gen, r, nil, obj) }

func (t *sortedTree[T, K]) update(gen uint64, r *record, hashes []uint32, obj T) []uint32 {
	t.buf = t.index.distinct(obj, t.buf[:0])
	if !slices.Equal(t.buf, t.keysIn(r.Data.slot)) {
		t.file(gen, r, slices.Clone(t.buf))
	}
	clear(t.buf)
	return hashes
}

func (t *sortedTree[T, K]) drop(gen uint64, r *record, hashes []uint32) []uint32 {
	t.file(gen, r, nil)
	return hashes
}

// file replaces the keys of r by keys, which file owns and which are distinct.
func (t *sortedTree[T, K]) file(gen uint64, r *record, keys []K) {
	old, before := t.keysIn(r.Data.slot), t.tree.Len()
	if max(len(old), len(keys)) > fewKeys {
		t.exchangeMany(gen, r, old, keys)
	} else {
		t.exchange(gen, r, old, keys)
	}
	if t.tree.Len()-before != len(keys)-len(old) {
		t.sortAgain(gen, r, keys)
	}
	t.note(r.Data.slot, keys)
}

// exchange replaces the items of the keys old of r by those of keys.
func (t *sortedTree[T, K]) exchange(gen uint64, r *record, old, keys []K) {
	for i, key := range keys {
		if found := t.index.find(old, key); found >= 0 && old[found] == key {
			keys[i] = old[found] // the tree has this one, and the new one can be in memory of its own
		} else {
			keys[i] = t.tree.Set(gen, newItem(key, 0, r)) // replaces an equal key
		}
	}
	for _, key := range old {
		if t.index.find(keys, key) < 0 {
			t.tree.Delete(gen, &cow.Place[K]{Key: key, Space: r.Space, Name: r.Name})
		}
	}
}

// exchangeMany is exchange for many keys. It sorts both, and compares neighbors only.
func (t *sortedTree[T, K]) exchangeMany(gen uint64, r *record, old, keys []K) {
	slices.SortFunc(old, t.index.compare)
	slices.SortFunc(keys, t.index.compare)
	for len(old)+len(keys) > 0 {
		order := len(keys) - len(old) // if one is empty, the other is next
		if len(old) > 0 && len(keys) > 0 {
			order = t.index.compare(old[0], keys[0])
		}
		switch {
		case order < 0:
			t.tree.Delete(gen, &cow.Place[K]{Key: old[0], Space: r.Space, Name: r.Name})
		case order == 0 && old[0] == keys[0]:
			keys[0] = old[0]
		default:
			keys[0] = t.tree.Set(gen, newItem(keys[0], 0, r))
		}
		if order <= 0 {
			old = old[1:]
		}
		if order >= 0 {
			keys = keys[1:]
		}
	}
}

// sortAgain replaces the items of r by those of keys, and builds the tree again. It is for a comparison that
// contradicts itself or what it returned earlier: the tree then does not find the items that it has.
func (t *sortedTree[T, K]) sortAgain(gen uint64, r *record, keys []K) {
	items := make([]item[K], 0, t.tree.Len())
	t.tree.All(func(leaf []item[K]) bool {
		for i := range leaf {
			if leaf[i].Record != r {
				items = append(items, leaf[i])
			}
		}
		return true
	})
	for _, key := range keys {
		items = append(items, newItem(key, 0, r))
	}
	t.fill(gen, items)
}

// Span is a range of the entries of an [Ordered] in a version. Each entry is a key with an object that has it, and the
// entries are numbered from 0. The zero value has no entries.
type Span[T object.Object, K comparable] struct {
	version   *Version[T]
	tree      tree[K]
	compare   func(a, b K) int
	low, high int // the first entry, and the one after the last
}

// Len returns the number of entries, also of those whose objects no reader can get.
func (s Span[T, K]) Len() int { return s.high - s.low }

// From returns the entries of s from that number on.
func (s Span[T, K]) From(n int) Span[T, K] {
	s.low = min(max(s.low, n), s.high)
	return s
}

// To returns the entries of s before that number.
func (s Span[T, K]) To(n int) Span[T, K] {
	s.high = max(min(s.high, n), s.low)
	return s
}

// Skip returns s without its first n entries, or without its last ones. It returns all if n is negative.
func (s Span[T, K]) Skip(n int, last bool) Span[T, K] {
	n = min(max(n, 0), s.Len())
	if last {
		return s.To(s.high - n)
	}
	return s.From(s.low + n)
}

// Below returns the number of the first entry, in s or not, whose key is not below key.
func (s Span[T, K]) Below(key K) int {
	return s.tree.Search(func(it *item[K]) bool { return s.compare(it.Key, key) < 0 })
}

// UpTo returns the number of the first entry, in s or not, whose key is above key.
func (s Span[T, K]) UpTo(key K) int {
	return s.tree.Search(func(it *item[K]) bool { return s.compare(it.Key, key) <= 0 })
}

// Around returns the number of the first entry that is not before key and object, and of the first one behind them.
// Both are equal if there is no entry of key and object.
func (s Span[T, K]) Around(key K, object object.Key) (first, behind int) {
	place := newItem(key, 0, newRecord(object, 0))
	search := func(most int) int {
		return s.tree.Search(func(it *item[K]) bool { return s.tree.Compare(it, &place) < most })
	}
	return search(0), search(1)
}

// Keys calls yield with each key of s, and the number of entries that have it, in ascending order, or in descending
// order if last is set, until yield returns false. It takes O(log n) time for each key.
func (s Span[T, K]) Keys(last bool, yield func(key K, entries int) bool) {
	for s.Len() > 0 {
		n := s.low
		if last {
			n = s.high - 1
		}
		var key K
		s.tree.AscendFrom(n, func(items []item[K]) bool { key = items[0].Key; return false })
		// at least one, even if the comparison contradicts itself
		rest := s.Skip(1, last)
		if last {
			rest = rest.To(s.Below(key))
		} else {
			rest = rest.From(s.UpTo(key))
		}
		if !yield(key, s.Len()-rest.Len()) {
			return
		}
		s = rest
	}
}

// Walk calls yield with each entry, the last one first if last is set, until yield returns false.
func (s Span[T, K]) Walk(last bool, yield func(key K, obj T) bool) {
	left := s.Len()
	var key K
	open := func(obj T) bool { return yield(key, obj) }
	entry := func(it *item[K]) bool {
		key = it.Key
		left--
		return s.version.open(it.Slot, open) && left > 0
	}
	switch {
	case left == 0:
	case last:
		s.tree.DescendFrom(s.high, func(items []item[K]) bool {
			for i := len(items) - 1; i >= 0; i-- {
				if !entry(&items[i]) {
					return false
				}
			}
			return true
		})
	default:
		s.tree.AscendFrom(s.low, func(items []item[K]) bool {
			for i := range items {
				if !entry(&items[i]) {
					return false
				}
			}
			return true
		})
	}
}
