package informer

import (
	"hash/maphash"
	"iter"
	"slices"
)

// Index finds the objects of a [Store] by keys that a function computes from them: pods by node, or by each of
// their volumes' claims. It is always consistent with the store: both change in the same step.
//
// The function is called once for each version of an object. What it returned is kept, so a function that changes
// its mind, or that reads what it should not, gives odd answers but corrupts nothing. It runs while the store is
// being written to, so it must be quick and must not call into the informer.
//
// An Index lives as long as its store. All methods are safe for concurrent use.
type Index[T Object, K comparable] struct {
	store *Store[T]
	slot  int // where snapshots have its tree
	keys  func(T) []K
	seed  maphash.Seed
}

// Indexable is what [NewIndex] takes: an [*Informer] or a [*Store].
type Indexable[T Object] interface{ indexed() *Store[T] }

func (s *Store[T]) indexed() *Store[T] { return s }

// NewIndex adds an index to an informer or a store, at any time. It is complete when NewIndex returns. keys returns
// the keys under which an object is found: none, one or several; repeated ones count once.
func NewIndex[T Object, K comparable](in Indexable[T], keys func(T) []K) *Index[T, K] {
	s := in.indexed()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.editLocked()
	x := &Index[T, K]{store: s, slot: len(w.next.indexes), keys: keys, seed: maphash.MakeSeed()}
	t := &keyTree[T, K]{index: x}
	t.build(w.gen, w.next)
	w.next.indexes = append(w.next.indexes, t)
	s.publishLocked(w.next)
	return x
}

// Lookup yields the objects that have key, ordered by namespace, then name, from one snapshot.
func (x *Index[T, K]) Lookup(key K) iter.Seq[T] { return x.LookupIn(x.store.Snapshot(), key) }

// LookupIn yields the objects of snap that have key, ordered by namespace, then name. For a snapshot that is older
// than the index, it calls the index's function for each object.
func (x *Index[T, K]) LookupIn(snap *Snapshot[T], key K) iter.Seq[T] {
	return func(yield func(T) bool) {
		p := place{hash: x.hash(key)}
		versions := pageReader[T]{versions: &snap.versions}
		x.treeIn(snap).ascend(byHash, &p, func(items []item[K]) bool {
			for i := range items {
				if items[i].hash>>ordinalBits != p.hash>>ordinalBits {
					return false
				}
				if items[i].key == key && !yield(versions.get(items[i].slot)) {
					return false
				}
			}
			return true
		})
	}
}

// List returns what Lookup yields as a new slice.
func (x *Index[T, K]) List(key K) []T {
	snap := x.store.Snapshot()
	return slices.AppendSeq(make([]T, 0, x.CountIn(snap, key)), x.LookupIn(snap, key))
}

// Count returns how many objects have key.
func (x *Index[T, K]) Count(key K) int { return x.CountIn(x.store.Snapshot(), key) }

// CountIn returns how many objects of snap have key.
func (x *Index[T, K]) CountIn(snap *Snapshot[T], key K) int {
	n := 0
	for range x.LookupIn(snap, key) {
		n++
	}
	return n
}

// Keys yields every key that some object has, once, in no particular order, from one snapshot.
func (x *Index[T, K]) Keys() iter.Seq[K] { return x.KeysIn(x.store.Snapshot()) }

// KeysIn yields every key that some object of snap has, once, in no particular order.
func (x *Index[T, K]) KeysIn(snap *Snapshot[T]) iter.Seq[K] {
	return func(yield func(K) bool) {
		var hash uint32
		var seen []K // keys with that hash; more than one only when hashes collide
		x.treeIn(snap).all(func(items []item[K]) bool {
			for i := range items {
				if h := items[i].hash >> ordinalBits; h != hash || len(seen) == 0 {
					hash, seen = h, seen[:0]
				}
				if !slices.Contains(seen, items[i].key) {
					seen = append(seen, items[i].key)
					if !yield(items[i].key) {
						return false
					}
				}
			}
			return true
		})
	}
}

func (x *Index[T, K]) hash(key K) uint32 {
	return uint32(maphash.Comparable(x.seed, key)) &^ (1<<ordinalBits - 1)
}

// treeIn returns the index's tree in snap, made anew when snap is older than the index.
func (x *Index[T, K]) treeIn(snap *Snapshot[T]) tree[K] {
	if x.slot < len(snap.indexes) {
		if t, ok := snap.indexes[x.slot].(*keyTree[T, K]); ok && t.index == x {
			return t.tree
		}
	}
	t := tree[K]{}
	t.build(0, x.allItems(snap, func(*record, []item[K]) {}))
	return t
}

// allItems returns the sorted items of all objects of snap, and calls each with those of one object.
func (x *Index[T, K]) allItems(snap *Snapshot[T], each func(*record, []item[K])) []item[K] {
	items := make([]item[K], 0, snap.Len())
	versions := pageReader[T]{versions: &snap.versions}
	snap.records.all(func(leaf []item[struct{}]) bool {
		for i := range leaf {
			before, r := len(items), leaf[i].record
			items = x.items(r, versions.get(r.slot), items)
			each(r, items[before:])
		}
		return true
	})
	slices.SortFunc(items, func(a, b item[K]) int {
		p := b.place()
		return byHash.compare(a.hash, a.record, &p)
	})
	return items
}

// items appends one item for each key of obj, the object of r.
func (x *Index[T, K]) items(r *record, obj T, items []item[K]) []item[K] {
	mine := len(items)
next:
	for _, key := range x.keys(obj) {
		hash := x.hash(key)
		for _, other := range items[mine:] {
			if other.key == key {
				continue next
			}
			if other.hash>>ordinalBits == hash>>ordinalBits {
				hash = other.hash + 1
			}
		}
		items = append(items, newItem(key, hash, r))
	}
	return items
}

// indexTree is a keyTree whose K the store does not know. Each method that files the object of a record appends the
// index's part to the record's hashes.
type indexTree[T Object] interface {
	clone() indexTree[T]
	// build files all objects of snap, in an index that has none.
	build(gen uint64, snap *Snapshot[T])
	add(gen uint64, r *record, obj T)
	// update files obj where r was filed by the first part of hashes, and returns the rest of them.
	update(gen uint64, r *record, hashes []uint32, obj T) []uint32
	// drop takes r out of where it was filed by the first part of hashes, and returns the rest of them.
	drop(gen uint64, r *record, hashes []uint32) []uint32
	// check returns what is wrong with the index, for which each record has the first part of its hashes, and leaves
	// the rest of them there.
	check(hashes map[*record][]uint32) error
}

// keyTree is the state of an Index in one snapshot.
type keyTree[T Object, K comparable] struct {
	index *Index[T, K]
	tree  tree[K]
	buf   []item[K] // of the writer
}

func (t *keyTree[T, K]) clone() indexTree[T] {
	c := *t
	return &c
}

func (t *keyTree[T, K]) build(gen uint64, snap *Snapshot[T]) {
	t.tree.build(gen, t.index.allItems(snap, noteHashes[K]))
}

func (t *keyTree[T, K]) add(gen uint64, r *record, obj T) {
	t.update(gen, r, []uint32{0}, obj) // it was filed by none
}

func (t *keyTree[T, K]) update(gen uint64, r *record, hashes []uint32, obj T) []uint32 {
	t.buf = t.index.items(r, obj, t.buf[:0])
	noteHashes(r, t.buf)
	old, rest := hashes[1:1+hashes[0]], hashes[1+hashes[0]:]
	for _, it := range t.buf {
		p := it.place()
		if slices.Contains(old, it.hash) { // hashes of different keys can be equal
			if have := t.tree.get(byHash, &p); have != nil && have.key == it.key {
				continue
			}
		}
		t.tree.set(gen, byHash, it)
	}
	for _, hash := range old {
		if !slices.ContainsFunc(t.buf, func(it item[K]) bool { return it.hash == hash }) {
			t.tree.delete(gen, byHash, &place{hash, r.namespace, r.name})
		}
	}
	clear(t.buf) // it would keep records alive
	return rest
}

func (t *keyTree[T, K]) drop(gen uint64, r *record, hashes []uint32) []uint32 {
	for _, hash := range hashes[1 : 1+hashes[0]] {
		t.tree.delete(gen, byHash, &place{hash, r.namespace, r.name})
	}
	return hashes[1+hashes[0]:]
}

// noteHashes appends an index's part to r.hashes.
func noteHashes[K comparable](r *record, items []item[K]) {
	r.hashes = append(r.hashes, uint32(len(items)))
	for i := range items {
		r.hashes = append(r.hashes, items[i].hash)
	}
}
