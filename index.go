package informer

import (
	"fmt"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/typedinformer/informer/internal/cow"
)

// Index finds the objects of a [Store] by keys that a function computes from them: for example pods by node, or by the
// claims of their volumes. It is always consistent with the store: both change in the same step.
//
// The index calls the function once for each version of an object and keeps the result. A function that returns
// different keys for the same version makes lookups wrong, but corrupts nothing. If the function panics or calls
// [runtime.Goexit], the step that called it has no effect. The function runs during writes to the store, so it must be
// fast and must not call the informer.
//
// An Index lives as long as its store; [NewIndex] creates one. All methods are safe for concurrent use.
type Index[T Object, K comparable] struct {
	store *Store[T]
	slot  int // in Snapshot.indexes
	keys  func(T) []K
	seed  maphash.Seed
	// packed is nil without Config.Compact. With it, packed is the index of the store that this index's store shows, with
	// the same seed.
	packed *Index[*packed, K]
}

// Indexable is an [*Informer] or a [*Store]: what [NewIndex] and listers read.
type Indexable[T Object] interface{ indexed() *Store[T] }

func (s *Store[T]) indexed() *Store[T] { return s }

// NewIndex adds an index to an informer or a store, at any time. The index is complete when NewIndex returns. keys
// returns the keys of an object: none, one or several. Repeated keys count once.
func NewIndex[T Object, K comparable](in Indexable[T], keys func(T) []K) *Index[T, K] {
	s := in.indexed()
	if s.packed != nil {
		inner := NewIndex(s.packed, func(p *packed) []K {
			var none T
			obj := unpack[T](p)
			if obj == none {
				return nil
			}
			return keys(obj)
		})
		return &Index[T, K]{store: s, keys: keys, seed: inner.seed, packed: inner}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var w edit[T]
	w.beginLocked(s)
	x := &Index[T, K]{store: s, slot: len(w.next.indexes), keys: keys, seed: maphash.MakeSeed()}
	t := newKeyTree(x)
	t.build(w.gen, w.next)
	w.next.indexes = append(w.next.indexes, t)
	w.publishLocked()
	return x
}

// Lookup yields the objects that have key, ordered by namespace, then name, from one snapshot.
func (x *Index[T, K]) Lookup(key K) iter.Seq[T] { return x.LookupIn(x.store.Snapshot(), key) }

// LookupIn yields the objects of snap that have key, ordered by namespace, then name. If snap is older than the index
// or belongs to another store, LookupIn calls the index's function for every object in it.
func (x *Index[T, K]) LookupIn(snap *Snapshot[T], key K) iter.Seq[T] {
	return func(yield func(T) bool) {
		var none T
		p := cow.Place{Hash: x.hash(key)}
		objects := snap.reader()
		x.treeIn(snap).Ascend(&p, func(items []item[K]) bool {
			for i := range items {
				if items[i].Hash>>cow.OrdinalBits != p.Hash>>cow.OrdinalBits {
					return false
				}
				if items[i].Key != key {
					continue
				}
				if obj := objects.Get(items[i].Slot); obj != none && !yield(obj) {
					return false
				}
			}
			return true
		})
	}
}

// List returns the objects that Lookup yields, as a new slice.
func (x *Index[T, K]) List(key K) []T {
	snap := x.store.Snapshot()
	t, hash := x.treeIn(snap), x.hash(key)
	most := t.Len() // the number of items with that hash
	if next := hash + 1<<cow.OrdinalBits; next > hash {
		most = t.Rank(&cow.Place{Hash: next})
	}
	most -= t.Rank(&cow.Place{Hash: hash})
	return slices.AppendSeq(make([]T, 0, most), x.LookupIn(snap, key))
}

// Count returns the number of objects that have key. It takes time proportional to that number.
func (x *Index[T, K]) Count(key K) int { return x.CountIn(x.store.Snapshot(), key) }

// CountIn returns the number of objects of snap that have key. It takes time proportional to that number.
func (x *Index[T, K]) CountIn(snap *Snapshot[T], key K) int {
	n := 0
	for range x.LookupIn(snap, key) {
		n++
	}
	return n
}

// Keys yields each key that at least one object has, once, in no particular order, from one snapshot.
func (x *Index[T, K]) Keys() iter.Seq[K] { return x.KeysIn(x.store.Snapshot()) }

// KeysIn yields each key that at least one object of snap has, once, in no particular order.
func (x *Index[T, K]) KeysIn(snap *Snapshot[T]) iter.Seq[K] {
	return func(yield func(K) bool) {
		var hash uint32
		var seen []K // the keys with that hash: one, unless hashes collide
		x.treeIn(snap).All(func(items []item[K]) bool {
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
	}
}

// hash returns the hash of key, with ordinal 0.
func (x *Index[T, K]) hash(key K) uint32 {
	return uint32(maphash.Comparable(x.seed, key)) &^ (1<<cow.OrdinalBits - 1)
}

// treeIn returns the index's tree in snap. If snap has none, treeIn builds it.
func (x *Index[T, K]) treeIn(snap *Snapshot[T]) tree[K] {
	if x.packed != nil && snap.packed != nil {
		return x.packed.treeIn(snap.packed)
	}
	if x.slot < len(snap.indexes) {
		if t, ok := snap.indexes[x.slot].(*keyTree[T, K]); ok && t.index == x {
			return t.tree
		}
	}
	t := newKeyTree(x).tree
	t.Build(0, x.allItems(snap, func(*record, []item[K]) {}))
	return t
}

// allItems returns the items of all objects of snap, sorted. It first calls each with the record and the items of each
// object.
func (x *Index[T, K]) allItems(snap *Snapshot[T], each func(*record, []item[K])) []item[K] {
	var none T
	items := make([]item[K], 0, snap.Len())
	objects := snap.shared().reader()
	snap.eachRecord(func(r *record) {
		before := len(items)
		if obj := objects.Get(r.Data.slot); obj != none {
			items = x.items(r, obj, items)
		}
		each(r, items[before:])
	})
	slices.SortFunc(items, func(a, b item[K]) int { return cow.Compare(cow.ByHash, &a, &b) })
	return items
}

// items appends one item to items for each key of obj, the object of r. Keys with equal hashes get consecutive
// ordinals.
func (x *Index[T, K]) items(r *record, obj T, items []item[K]) []item[K] {
	mine := len(items)
next:
	for _, key := range x.keys(obj) {
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

// keyTree is the state of an Index in one snapshot. It implements [indexTree].
type keyTree[T Object, K comparable] struct {
	index *Index[T, K]
	tree  tree[K]
	buf   []item[K] // scratch memory of edits
}

func newKeyTree[T Object, K comparable](x *Index[T, K]) *keyTree[T, K] {
	return &keyTree[T, K]{index: x, tree: cow.NewTree[K, filed](cow.ByHash)}
}

func (t *keyTree[T, K]) clone() indexTree[T] {
	c := *t
	return &c
}

func (t *keyTree[T, K]) build(gen uint64, snap *Snapshot[T]) {
	t.tree.Build(gen, t.index.allItems(snap, noteHashes[K]))
}

func (t *keyTree[T, K]) add(gen uint64, r *record, obj T) {
	t.update(gen, r, []uint32{0}, obj) // there was no previous version: it has 0 hashes
}

func (t *keyTree[T, K]) update(gen uint64, r *record, hashes []uint32, obj T) []uint32 {
	t.buf = t.index.items(r, obj, t.buf[:0])
	noteHashes(r, t.buf)
	old, rest := hashes[1:1+hashes[0]], hashes[1+hashes[0]:]
	for i := range t.buf {
		it := &t.buf[i]
		if slices.Contains(old, it.Hash) { // another key can have the same hash
			if have := t.tree.Find(it.Hash, r); have != nil && have.Key == it.Key {
				continue
			}
		}
		t.tree.Set(gen, *it)
	}
	for _, hash := range old {
		if !slices.ContainsFunc(t.buf, func(it item[K]) bool { return it.Hash == hash }) {
			t.tree.Delete(gen, &cow.Place{Hash: hash, Space: r.Space, Name: r.Name})
		}
	}
	clear(t.buf) // it must not keep records in memory
	return rest
}

func (t *keyTree[T, K]) drop(gen uint64, r *record, hashes []uint32) []uint32 {
	for _, hash := range hashes[1 : 1+hashes[0]] {
		t.tree.Delete(gen, &cow.Place{Hash: hash, Space: r.Space, Name: r.Name})
	}
	return hashes[1+hashes[0]:]
}

func (t *keyTree[T, K]) restoreHashes(snap *Snapshot[T]) {
	count := make(map[*record]int, snap.Len()) // where a record's hashes have the number of its keys in this index
	snap.eachRecord(func(r *record) {
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

// noteHashes appends the part of an index to the hashes of r: those of items.
func noteHashes[K comparable](r *record, items []item[K]) {
	r.Data.hashes = append(r.Data.hashes, uint32(len(items)))
	for i := range items {
		r.Data.hashes = append(r.Data.hashes, items[i].Hash)
	}
}

func (t *keyTree[T, K]) check(hashes map[*record][]uint32) error {
	if err := t.tree.Check(); err != nil {
		return err
	}
	items := 0
	for r, have := range hashes {
		if len(have) == 0 || len(have) <= int(have[0]) {
			return fmt.Errorf("record %s has no hashes of this index", r)
		}
		mine := have[1 : 1+have[0]]
		hashes[r] = have[1+have[0]:]
		items += len(mine)
		keys := make(map[K]bool, len(mine))
		for _, hash := range mine {
			it := t.tree.Get(&cow.Place{Hash: hash, Space: r.Space, Name: r.Name})
			switch {
			case it == nil:
				return fmt.Errorf("record %s is not filed under one of its keys", r)
			case it.Record != r || it.Slot != r.Data.slot:
				return fmt.Errorf("key %v of %s leads to an outdated record", it.Key, r)
			// NaN has a different hash each time
			case it.Key == it.Key && t.index.hash(it.Key)>>cow.OrdinalBits != hash>>cow.OrdinalBits:
				return fmt.Errorf("key %v of %s is filed with another hash", it.Key, r)
			case keys[it.Key]:
				return fmt.Errorf("record %s is filed under key %v twice", r, it.Key)
			}
			keys[it.Key] = true
		}
	}
	if n := t.tree.Len(); n != items {
		return fmt.Errorf("%d items but the records have %d keys", n, items)
	}
	return nil
}
