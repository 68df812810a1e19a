package informer

import (
	"iter"
	"slices"

	"github.com/typedinformer/informer/internal/store/table"
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
	keys  func(T) []K
	index *table.Index[T, K] // finds the objects in snapshots of store
}

// Indexable is an [*Informer] or a [*Store], which [NewIndex] and listers read.
type Indexable[T Object] interface{ indexed() *Store[T] }

func (s *Store[T]) indexed() *Store[T] { return s }

// NewIndex adds an index to an informer or a store, at any time. The index is complete when NewIndex returns. keys
// returns the keys of an object: none, one or several. Repeated keys count once.
func NewIndex[T Object, K comparable](in Indexable[T], keys func(T) []K) *Index[T, K] {
	x := &Index[T, K]{in.indexed(), keys, table.NewIndex(keys)}
	x.store.core().AddIndex(x.index)
	return x
}

// Lookup yields the objects that have key, ordered by namespace, then name, from one snapshot.
func (x *Index[T, K]) Lookup(key K) iter.Seq[T] { return x.LookupIn(x.store.Snapshot(), key) }

// LookupIn yields the objects of snap that have key, ordered by namespace, then name. If snap is older than the index
// or belongs to another store, LookupIn calls the index's function for every object in it.
func (x *Index[T, K]) LookupIn(snap *Snapshot[T], key K) iter.Seq[T] {
	return func(yield func(T) bool) { x.lookup(snap, key, yield) }
}

// lookup calls yield with each object of snap that has key, until yield returns false.
func (x *Index[T, K]) lookup(snap *Snapshot[T], key K, yield func(T) bool) {
	if !x.index.Lookup(snap.core().Table(), key, yield) {
		x.scan(snap, key, yield)
	}
}

// scan calls yield with each object of snap, which does not have the index, that has key, until yield returns false.
func (x *Index[T, K]) scan(snap *Snapshot[T], key K, yield func(T) bool) {
	snap.core().Table().WalkShared(table.Range{}, func(obj T) bool {
		return !slices.Contains(x.keys(obj), key) || yield(snap.core().Table().Give(obj))
	})
}

// List returns the objects that Lookup yields, as a new slice.
func (x *Index[T, K]) List(key K) []T {
	snap := x.store.Snapshot()
	return slices.AppendSeq(make([]T, 0, x.index.AtMost(snap.core().Table(), key)), x.LookupIn(snap, key))
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
	return func(yield func(K) bool) { x.eachKey(snap, yield) }
}

// eachKey calls yield with each key that at least one object of snap has, until yield returns false.
func (x *Index[T, K]) eachKey(snap *Snapshot[T], yield func(K) bool) {
	if !x.index.Keys(snap.core().Table(), yield) {
		x.scanKeys(snap, yield)
	}
}

// scanKeys calls yield with each key of the objects of snap, which does not have the index, until yield returns false.
func (x *Index[T, K]) scanKeys(snap *Snapshot[T], yield func(K) bool) {
	seen := map[K]struct{}{}
	snap.core().Table().WalkShared(table.Range{}, func(obj T) bool {
		for _, key := range x.keys(obj) {
			if _, again := seen[key]; again {
				continue
			}
			seen[key] = struct{}{}
			if !yield(key) {
				return false
			}
		}
		return true
	})
}
