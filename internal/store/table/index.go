package table

import (
	"hash/maphash"
	"slices"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// fewKeys is the number of keys of an object up to which comparing each with each is cheaper than sorting them.
const fewKeys = 32

// Index finds the objects of a table by keys that a function computes from them. A version has its own tree of each
// index, so the index is always consistent with the objects. [NewIndex] creates one, and [Edit.AddIndex] adds it to a
// table.
//
// The table calls the function once for each version of an object, and keeps the result. A function that returns
// different keys for the same object makes lookups wrong, but corrupts nothing.
type Index[T object.Object, K comparable] struct {
	position int // in Version.indexes
	keys     func(T) []K
	seed     maphash.Seed
}

// NewIndex returns an index for one table. keys returns the keys of an object: none, one or several. Repeated keys
// count once.
func NewIndex[T object.Object, K comparable](keys func(T) []K) *Index[T, K] {
	return &Index[T, K]{keys: keys, seed: maphash.MakeSeed()}
}

// AnyIndex is an [Index] or an [Ordered] of keys of any type.
type AnyIndex[T object.Object] interface {
	// newTree returns the empty state of the index, which has that position in Version.indexes. It is called once.
	newTree(position int) indexTree[T]
}

func (x *Index[T, K]) newTree(position int) indexTree[T] {
	x.position = position
	return &keyTree[T, K]{index: x, tree: cow.NewTree[K, filed](cow.ByHash)}
}

// AddIndex adds x, which no table has, to the version that e makes, and so to all later ones. It calls the function of
// x for every object.
func (e *Edit[T]) AddIndex(x AnyIndex[T]) {
	t := x.newTree(len(e.next.indexes))
	t.build(e.gen, e.next)
	e.next.indexes = append(e.next.indexes, t)
}

// Lookup calls yield with each object of v that has key, ordered by namespace, then name, until yield returns false. If
// v does not have the index, because it is older or belongs to another table, Lookup does nothing and returns false.
func (x *Index[T, K]) Lookup(v *Version[T], key K, yield func(T) bool) (has bool) {
	t := x.treeIn(v)
	if t == nil {
		return false
	}
	if v.from != nil {
		t.slots(key, func(slot uint32) bool { return v.open(slot, yield) })
		return true
	}
	p := cow.Place[K]{Hash: x.hash(key)}
	objects := v.objects.Reader()
	t.tree.Ascend(&p, func(items []item[K]) bool {
		for i := range items {
			if items[i].Hash>>cow.OrdinalBits != p.Hash>>cow.OrdinalBits {
				return false
			}
			if items[i].Key == key && !yield(objects.Get(items[i].Slot)) {
				return false
			}
		}
		return true
	})
	return true
}

// Has reports whether v has the index. A version that is older, or of another table, does not.
func (x *Index[T, K]) Has(v *Version[T]) bool { return x.treeIn(v) != nil }

// AtMost returns a number of objects. At most that many objects of v have key, usually exactly as many. AtMost takes
// O(log n) time. It returns 0 if v does not have the index.
func (x *Index[T, K]) AtMost(v *Version[T], key K) int {
	t, hash := x.treeIn(v), x.hash(key)
	if t == nil {
		return 0
	}
	end := t.tree.Len()
	if next := hash + 1<<cow.OrdinalBits; next > hash {
		end = t.tree.Rank(&cow.Place[K]{Hash: next})
	}
	return end - t.tree.Rank(&cow.Place[K]{Hash: hash})
}

// Keys calls yield with each key that at least one object of v has, once, in no particular order, until yield returns
// false. If v does not have the index, Keys does nothing and returns false.
func (x *Index[T, K]) Keys(v *Version[T], yield func(K) bool) (has bool) {
	t := x.treeIn(v)
	if t == nil {
		return false
	}
	var hash uint32
	var seen []K // the keys with that hash: one, unless hashes collide
	t.tree.All(func(items []item[K]) bool {
		for i := range items {
			if h := items[i].Hash >> cow.OrdinalBits; h != hash || len(seen) == 0 {
				hash, seen = h, seen[:0]
			}
			if !slices.Contains(seen, items[i].Key) {
				seen = append(seen, items[i].Key)
				if !yield(items[i].Key) {
					return false
				}
			}
		}
		return true
	})
	return true
}

// hash returns the hash of key, with ordinal 0.
func (x *Index[T, K]) hash(key K) uint32 {
	return uint32(maphash.Comparable(x.seed, key)) &^ (1<<cow.OrdinalBits - 1)
}

// treeIn returns the index's tree in v, or nil if v does not have the index.
func (x *Index[T, K]) treeIn(v *Version[T]) *keyTree[T, K] {
	if x.position < len(v.indexes) {
		if t, ok := v.indexes[x.position].(*keyTree[T, K]); ok && t.index == x {
			return t
		}
	}
	return nil
}

// items appends one item to items for each key of obj, the object of r. Keys with equal hashes get consecutive
// ordinals. An object that an [Opener] could not make has no keys.
func (x *Index[T, K]) items(r *record, obj T, items []item[K]) []item[K] {
	if object.IsNil(obj) {
		return items
	}
	keys, mine := x.keys(obj), len(items)
	if len(keys) > fewKeys {
		return x.manyItems(r, keys, items)
	}
next:
	for _, key := range keys {
		hash := x.hash(key)
		for _, other := range items[mine:] {
			if other.Key == key {
				continue next
			}
			if other.Hash>>cow.OrdinalBits == hash>>cow.OrdinalBits {
				hash = other.Hash + 1 // the last such item has the highest ordinal
			}
		}
		items = append(items, newItem(key, hash, r))
	}
	return items
}

// manyItems is items for the many keys of an object.
func (x *Index[T, K]) manyItems(r *record, keys []K, items []item[K]) []item[K] {
	seen, last := make(map[K]bool, len(keys)), make(map[uint32]uint32, len(keys)) // the last of equal hashes
	for _, key := range keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		first := x.hash(key)
		hash, taken := last[first]
		if hash++; !taken {
			hash = first
		}
		last[first] = hash
		items = append(items, newItem(key, hash, r))
	}
	return items
}

// indexTree is the state of an index in a version. The methods build, add and update append the part of this index to
// the hashes of each record that they file. The part of an [Ordered] is nothing at all.
type indexTree[T object.Object] interface {
	clone() indexTree[T]
	// build files all objects of v in an empty index.
	build(gen uint64, v *Version[T])
	// add files obj under the new record r.
	add(gen uint64, r *record, obj T)
	// update files obj under r. The first part of hashes is that of the previous version; update returns the rest.
	update(gen uint64, r *record, hashes []uint32, obj T) []uint32
	// drop removes r. The first part of hashes is that of its object; drop returns the rest.
	drop(gen uint64, r *record, hashes []uint32) []uint32
	// restore appends the part of this index to the hashes of each record of v, and restores everything else that edits
	// of this index change in place.
	restore(v *Version[T])
	// check returns an error that names a broken invariant, or nil. It removes the part of this index, which comes first,
	// from each record's hashes in the map.
	check(hashes map[*record][]uint32) error
}

// keyTree is the state of an Index in one version. It implements [indexTree].
type keyTree[T object.Object, K comparable] struct {
	index *Index[T, K]
	tree  tree[K]
	buf   []item[K] // scratch memory of edits
}

// slots calls yield with the slot of each object that has key, until yield returns false.
func (t *keyTree[T, K]) slots(key K, yield func(slot uint32) bool) {
	p := cow.Place[K]{Hash: t.index.hash(key)}
	t.tree.Ascend(&p, func(items []item[K]) bool {
		for i := range items {
			if items[i].Hash>>cow.OrdinalBits != p.Hash>>cow.OrdinalBits {
				return false
			}
			if items[i].Key == key && !yield(items[i].Slot) {
				return false
			}
		}
		return true
	})
}

func (t *keyTree[T, K]) clone() indexTree[T] {
	c := *t
	return &c
}

func (t *keyTree[T, K]) build(gen uint64, v *Version[T]) {
	items := make([]item[K], 0, v.Len())
	v.eachRecord(func(r *record) {
		before := len(items)
		items = t.index.items(r, v.Shared(r.Data.slot), items)
		noteHashes(r, items[before:])
	})
	slices.SortFunc(items, func(a, b item[K]) int { return t.tree.Compare(&a, &b) })
	t.tree.Build(gen, items)
}

func (t *keyTree[T, K]) add(gen uint64, r *record, obj T) {
	t.update(gen, r, []uint32{0}, obj) // there was no previous version: it has 0 hashes
}

func (t *keyTree[T, K]) update(gen uint64, r *record, hashes []uint32, obj T) []uint32 {
	t.buf = t.index.items(r, obj, t.buf[:0])
	noteHashes(r, t.buf)
	old, rest := searchable(hashes[1:1+hashes[0]]), hashes[1+hashes[0]:]
	for i := range t.buf {
		it := &t.buf[i]
		if contains(old, it.Hash) { // another key can have the same hash
			if have := t.tree.Find(it.Hash, r); have != nil && have.Key == it.Key {
				continue
			}
		}
		t.tree.Set(gen, *it)
	}
	now := searchable(r.Data.hashes[len(r.Data.hashes)-len(t.buf):])
	for _, hash := range old {
		if !contains(now, hash) {
			t.tree.Delete(gen, &cow.Place[K]{Hash: hash, Space: r.Space, Name: r.Name})
		}
	}
	clear(t.buf) // it must not keep records in memory
	return rest
}

func (t *keyTree[T, K]) drop(gen uint64, r *record, hashes []uint32) []uint32 {
	for _, hash := range hashes[1 : 1+hashes[0]] {
		t.tree.Delete(gen, &cow.Place[K]{Hash: hash, Space: r.Space, Name: r.Name})
	}
	return hashes[1+hashes[0]:]
}

func (t *keyTree[T, K]) restore(v *Version[T]) {
	count := make(map[*record]int, v.Len()) // for each record, the position in its hashes of its number of keys here
	v.eachRecord(func(r *record) {
		count[r] = len(r.Data.hashes)
		r.Data.hashes = append(r.Data.hashes, 0)
	})
	t.tree.All(func(items []item[K]) bool {
		for i := range items {
			r := items[i].Record
			r.Data.hashes[count[r]]++
			r.Data.hashes = append(r.Data.hashes, items[i].Hash)
		}
		return true
	})
}

// searchable returns hashes for contains: a sorted copy if they are many.
func searchable(hashes []uint32) []uint32 {
	if len(hashes) <= fewKeys {
		return hashes
	}
	return slices.Sorted(slices.Values(hashes))
}

// contains reports whether a result of searchable has a hash.
func contains(hashes []uint32, hash uint32) bool {
	if len(hashes) <= fewKeys {
		return slices.Contains(hashes, hash)
	}
	_, found := slices.BinarySearch(hashes, hash)
	return found
}

// noteHashes appends the part of an index to the hashes of r: those of items.
func noteHashes[K comparable](r *record, items []item[K]) {
	r.Data.hashes = append(r.Data.hashes, uint32(len(items)))
	for i := range items {
		r.Data.hashes = append(r.Data.hashes, items[i].Hash)
	}
}
