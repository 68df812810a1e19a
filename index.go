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
	s.gen++
	w := s.Snapshot().edit(s.gen)
	x := &Index[T, K]{store: s, slot: len(w.next.indexes), keys: keys, seed: maphash.MakeSeed()}
	t := &keyTree[T, K]{index: x}
	t.build(w.gen, w.next.objects)
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
		hash := x.hash(key)
		x.treeIn(snap).ascend(hash, "", "", func(items []item[K, T]) bool {
			for i := range items {
				if items[i].hash>>ordinalBits != hash>>ordinalBits {
					return false
				}
				if items[i].key == key && !yield(items[i].entry.obj) {
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
		var hash uint64
		var seen []K // keys with that hash; more than one only when hashes collide
		x.treeIn(snap).all(func(items []item[K, T]) bool {
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

func (x *Index[T, K]) hash(key K) uint64 {
	return maphash.Comparable(x.seed, key) &^ (1<<ordinalBits - 1)
}

// treeIn returns the index's tree in snap, made anew when snap is older than the index.
func (x *Index[T, K]) treeIn(snap *Snapshot[T]) tree[K, T] {
	if x.slot < len(snap.indexes) {
		if t, ok := snap.indexes[x.slot].(*keyTree[T, K]); ok && t.index == x {
			return t.tree
		}
	}
	var items []item[K, T]
	snap.objects.all(func(leaf []item[struct{}, T]) bool {
		for i := range leaf {
			items = x.items(leaf[i].entry, items)
		}
		return true
	})
	t := tree[K, T]{}
	t.build(0, sortItems(items))
	return t
}

// items appends one item for each key of e's object.
func (x *Index[T, K]) items(e *entry[T], items []item[K, T]) []item[K, T] {
	mine := len(items)
next:
	for _, key := range x.keys(e.obj) {
		hash := x.hash(key)
		for _, other := range items[mine:] {
			if other.key == key {
				continue next
			}
			if other.hash>>ordinalBits == hash>>ordinalBits {
				hash = other.hash + 1
			}
		}
		items = append(items, item[K, T]{key: key, hash: hash, entry: e})
	}
	return items
}

func sortItems[K comparable, T Object](items []item[K, T]) []item[K, T] {
	slices.SortFunc(items, func(a, b item[K, T]) int {
		return a.compareTo(b.hash, b.entry.namespace, b.entry.name)
	})
	return items
}

// indexTree is a keyTree whose K the store does not know.
type indexTree[T Object] interface {
	clone() indexTree[T]
	// build files all objects of an index that has none.
	build(gen uint64, objects tree[struct{}, T])
	// update files new in the place of old; either may be nil. The index's part of old.hashes begins at at; it
	// returns where it ends.
	update(gen uint64, old *entry[T], at int, new *entry[T]) int
}

// keyTree is the state of an Index in one snapshot.
type keyTree[T Object, K comparable] struct {
	index *Index[T, K]
	tree  tree[K, T]
	buf   []item[K, T] // of the writer
}

func (t *keyTree[T, K]) clone() indexTree[T] {
	c := *t
	return &c
}

func (t *keyTree[T, K]) build(gen uint64, objects tree[struct{}, T]) {
	items := make([]item[K, T], 0, objects.len())
	objects.all(func(leaf []item[struct{}, T]) bool {
		for i := range leaf {
			before := len(items)
			items = t.index.items(leaf[i].entry, items)
			noteHashes(leaf[i].entry, items[before:])
		}
		return true
	})
	t.tree.build(gen, sortItems(items))
}

func (t *keyTree[T, K]) update(gen uint64, old *entry[T], at int, new *entry[T]) int {
	t.buf = t.buf[:0]
	if new != nil {
		t.buf = t.index.items(new, t.buf)
		noteHashes(new, t.buf)
		for _, it := range t.buf {
			t.tree.set(gen, it)
		}
	}
	if old != nil {
		count := int(old.hashes[at])
		for _, hash := range old.hashes[at+1 : at+1+count] {
			if !slices.ContainsFunc(t.buf, func(it item[K, T]) bool { return it.hash == hash }) {
				t.tree.delete(gen, hash, old.namespace, old.name)
			}
		}
		at += 1 + count
	}
	clear(t.buf) // it would keep objects alive
	return at
}

// noteHashes appends the index's part to e.hashes.
func noteHashes[K comparable, T Object](e *entry[T], items []item[K, T]) {
	hashes := make([]uint64, 0, len(e.hashes)+1+len(items))
	hashes = append(append(hashes, e.hashes...), uint64(len(items)))
	for i := range items {
		hashes = append(hashes, items[i].hash)
	}
	e.hashes = hashes
}
