package informer

import (
	"cmp"
	"iter"

	"github.com/typedinformer/informer/internal/store/table"
)

// OrderedIndex has the objects of a [Store] in the order of keys that a function computes from them: for example pods
// by age, for lists that show one page after the other. It is always consistent with the store: both change in the same
// step. An [Index] is smaller and faster if the order does not matter.
//
// An object has one entry for each of its keys. Entries are in the order of their keys, then of the namespaces and
// names of their objects.
//
// The rules for the function of an Index also hold here, and for the comparison: both run during writes to the store.
// An inconsistent comparison, for example one that returns 0 for NaN and any number, makes the order arbitrary and
// writes slow, but loses no object.
//
// An OrderedIndex lives as long as its store; [NewOrderedIndex] creates one. All methods are safe for concurrent use.
type OrderedIndex[T Object, K comparable] struct {
	store *Store[T]
	index *table.Ordered[T, K]
}

// NewOrderedIndex adds an ordered index to an informer or a store, at any time. The index is complete when
// NewOrderedIndex returns. keys returns the keys of an object: none, one or several. Repeated keys count once. The
// order is that of [cmp.Compare], in which NaN equals itself and is below all other numbers.
func NewOrderedIndex[T Object, K cmp.Ordered](in Indexable[T], keys func(T) []K) *OrderedIndex[T, K] {
	return NewOrderedIndexFunc(in, keys, cmp.Compare)
}

// NewOrderedIndexFunc is like [NewOrderedIndex], but with keys of any comparable type: for example a struct of several
// columns, compared with [cmp.Or]. compare compares two keys, like [cmp.Compare]. Keys for which it returns 0 are
// equal; of equal keys of one object, only the first counts.
func NewOrderedIndexFunc[T Object, K comparable](in Indexable[T], keys func(T) []K,
	compare func(a, b K) int) *OrderedIndex[T, K] {
	x := &OrderedIndex[T, K]{in.indexed(), table.NewOrdered(keys, compare)}
	x.store.core().AddIndex(x.index)
	return x
}

// Range returns all entries, in ascending order, from the current snapshot.
func (x *OrderedIndex[T, K]) Range() OrderedRange[T, K] { return x.RangeIn(x.store.Snapshot()) }

// RangeIn returns all entries of snap, in ascending order. The pages of a list fit together if their ranges come from
// one snapshot. If snap is older than the index or belongs to another store, RangeIn calls the index's function for
// every object in it, and sorts them.
func (x *OrderedIndex[T, K]) RangeIn(snap *Snapshot[T]) OrderedRange[T, K] {
	return OrderedRange[T, K]{span: x.index.Span(snap.core().Table())}
}

// OrderedRange is a range of the entries of an [OrderedIndex] in one snapshot. It never changes: its methods return
// other ranges, or read it. The zero value has no entries.
//
//	all := byAge.Range()                                 // one snapshot
//	page := all.Descending().Skip(200).Limit(50).List()  // the fifth 50, the youngest first
//	total, new := all.Len(), all.AtLeast(yesterday).Len()
//
// Each method that does not read objects takes O(log n) time, regardless of the size of the range and of the number of
// entries that it skips. All methods are safe for concurrent use. A range keeps the objects of its snapshot in memory.
type OrderedRange[T Object, K comparable] struct {
	span       table.Span[T, K]
	descending bool
}

// Descending returns the same entries in the reverse order. The objects with one key are reversed too.
func (r OrderedRange[T, K]) Descending() OrderedRange[T, K] {
	r.descending = !r.descending
	return r
}

// AtLeast returns the entries of r with keys at or above key.
func (r OrderedRange[T, K]) AtLeast(key K) OrderedRange[T, K] {
	r.span = r.span.From(r.span.Below(key))
	return r
}

// Above returns the entries of r with keys above key.
func (r OrderedRange[T, K]) Above(key K) OrderedRange[T, K] {
	r.span = r.span.From(r.span.UpTo(key))
	return r
}

// AtMost returns the entries of r with keys at or below key.
func (r OrderedRange[T, K]) AtMost(key K) OrderedRange[T, K] {
	r.span = r.span.To(r.span.UpTo(key))
	return r
}

// Below returns the entries of r with keys below key.
func (r OrderedRange[T, K]) Below(key K) OrderedRange[T, K] {
	r.span = r.span.To(r.span.Below(key))
	return r
}

// Equal returns the entries of r with that key.
func (r OrderedRange[T, K]) Equal(key K) OrderedRange[T, K] { return r.AtLeast(key).AtMost(key) }

// After returns the entries that follow the one of key and object in the order of r. r need not have that entry. So a
// list can continue in a later snapshot, after the last entry of its previous page. It then has each entry that has not
// moved meanwhile exactly once.
func (r OrderedRange[T, K]) After(key K, object Key) OrderedRange[T, K] {
	first, behind := r.span.Around(key, object)
	if r.descending {
		r.span = r.span.To(first)
	} else {
		r.span = r.span.From(behind)
	}
	return r
}

// Skip returns r without its first n entries. It returns r if n is negative.
func (r OrderedRange[T, K]) Skip(n int) OrderedRange[T, K] {
	r.span = r.span.Skip(n, r.descending)
	return r
}

// Limit returns the first n entries of r, or all if it has fewer. It returns none if n is negative.
func (r OrderedRange[T, K]) Limit(n int) OrderedRange[T, K] {
	r.span = r.span.Skip(r.Len()-max(n, 0), !r.descending)
	return r
}

// Len returns the number of entries. With LayoutCompact, it counts objects that cannot be decoded again, which the
// other methods leave out.
func (r OrderedRange[T, K]) Len() int { return r.span.Len() }

// All yields the object of each entry.
func (r OrderedRange[T, K]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		r.span.Walk(r.descending, func(_ K, obj T) bool { return yield(obj) })
	}
}

// Entries yields the key and the object of each entry.
func (r OrderedRange[T, K]) Entries() iter.Seq2[K, T] {
	return func(yield func(K, T) bool) { r.span.Walk(r.descending, yield) }
}

// List returns the objects that All yields, as a new slice.
func (r OrderedRange[T, K]) List() []T {
	list := make([]T, 0, r.Len())
	r.span.Walk(r.descending, func(_ K, obj T) bool { list = append(list, obj); return true })
	return list
}

// Keys yields each key once, with the number of its entries. It takes O(log n) time for each key.
func (r OrderedRange[T, K]) Keys() iter.Seq2[K, int] {
	return func(yield func(K, int) bool) { r.span.Keys(r.descending, yield) }
}
