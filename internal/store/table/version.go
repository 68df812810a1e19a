package table

import (
	"cmp"
	"fmt"
	"reflect"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// CompareKeys orders keys by namespace, then name, like [cmp.Compare].
func CompareKeys(a, b object.Key) int {
	if c := cmp.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}

// Version is the state of a [Table] and its indexes at one moment. Copying a Version is cheap. A caller may keep it for
// any time, which keeps its objects in memory. [Empty] returns the first version of a table; the zero value has no
// objects and no indexes, and no edit may begin with it.
type Version[T object.Object] struct {
	hints   *cow.Hints     // from names to slots; shared by all versions
	from    source[T]      // makes the objects at each read; nil for a table's own version, which has them in objects
	records tree[struct{}] // by name
	objects cow.Array[T]   // by slot
	indexes []indexTree[T] // by Index.at
}

// Empty returns an empty version, with which the first edit of a [Table] begins. It panics if == is not defined for T.
func Empty[T object.Object]() Version[T] {
	if t := reflect.TypeFor[T](); !t.Comparable() {
		panic(fmt.Sprintf("informer: objects of type %v cannot be compared; use a pointer", t))
	}
	return Version[T]{hints: cow.NewHints()}
}

// record is the entry of an object in the trees, from its addition to its removal. The current version of the object is
// in Version.objects instead, so an update does not write to the trees unless it changes an index key.
type record = cow.Record[filed]

// filed is the part of a record that the table uses.
type filed struct {
	slot uint32 // of the object in Version.objects
	// hashes has one part for each [Index], in the order of Version.indexes: the number of the object's keys, then the
	// hash of each key with its ordinal. Only the writer reads and writes it.
	hashes []uint32
}

// tree and item are instances of [cow.Tree] and [cow.Item]. The tree of the records has no keys; that of an index has
// keys of type K.
type (
	tree[K comparable] = cow.Tree[K, filed]
	item[K comparable] = cow.Item[K, filed]
)

func newItem[K comparable](key K, hash uint32, r *record) item[K] {
	return item[K]{Key: key, Hash: hash, Slot: r.Data.slot, Record: r}
}

func keyOfRecord(r *record) object.Key { return object.Key{Namespace: r.Space, Name: r.Name} }

// Len returns the number of objects.
func (v *Version[T]) Len() int { return v.records.Len() }

// Indexes returns the number of indexes.
func (v *Version[T]) Indexes() int { return len(v.indexes) }

// Find returns the object with that key and its slot.
func (v *Version[T]) Find(key object.Key) (slot uint32, obj T, ok bool) {
	if v.from != nil {
		return v.from.find(key)
	}
	hash := v.hints.Hash(key.Namespace, key.Name)
	if bucket := v.hints.Bucket(hash); bucket != nil {
		for i := range bucket {
			slot, ok := bucket.Slot(i, hash)
			if !ok {
				continue
			}
			obj := v.objects.Find(slot)
			if !object.IsNil(obj) && obj.GetName() == key.Name && obj.GetNamespace() == key.Namespace {
				return slot, obj, true
			}
		}
	}
	if r := v.record(key); r != nil {
		return r.Data.slot, v.objects.Get(r.Data.slot), true
	}
	return 0, obj, false
}

// Has reports whether v has an object with that key, also if no reader can get it.
func (v *Version[T]) Has(key object.Key) bool {
	if v.from != nil {
		return v.from.has(key)
	}
	_, _, ok := v.Find(key)
	return ok
}

// Shared returns the object in slot, which must be in use. It is the one that readers share, also if v has copies.
func (v *Version[T]) Shared(slot uint32) T {
	if v.from != nil {
		return v.from.shared(slot)
	}
	return v.objects.Get(slot)
}

// Give returns obj, which [Version.Shared] or [Version.WalkShared] returned, for a reader of v: a copy if v has copies.
func (v *Version[T]) Give(obj T) T {
	if v.from != nil {
		return v.from.give(obj)
	}
	return obj
}

// record returns the record of the object with that key, or nil if there is none.
func (v *Version[T]) record(key object.Key) *record {
	p := v.place(key)
	if it := v.records.Get(&p); it != nil {
		return it.Record
	}
	return nil
}

// place returns the place of key's record in records.
func (v *Version[T]) place(key object.Key) cow.Place[struct{}] {
	return cow.Place[struct{}]{Hash: v.hints.Hash(key.Namespace, key.Name), Space: key.Namespace, Name: key.Name}
}

// Range is a range of keys. The zero value has all keys.
type Range struct {
	From   object.Key // the first key
	Within bool       // only keys of From.Namespace
}

// KeysIn returns the keys of one namespace.
func KeysIn(namespace string) Range {
	return Range{From: object.Key{Namespace: namespace}, Within: true}
}

// KeysOf returns the keys of one namespace, or of all if namespace is empty.
func KeysOf(namespace string) Range {
	return Range{From: object.Key{Namespace: namespace}, Within: namespace != ""}
}

// Walk calls yield with each object whose key is in r, ordered by namespace, then name, until yield returns false.
func (v *Version[T]) Walk(r Range, yield func(T) bool) {
	if v.from != nil {
		v.walkSlots(r, func(slot uint32) bool { return v.open(slot, yield) })
		return
	}
	objects := v.objects.Reader()
	v.records.Ascend(&cow.Place[struct{}]{Space: r.From.Namespace, Name: r.From.Name}, func(items []item[struct{}]) bool {
		inside := r.inside(items)
		for i := range items[:inside] {
			if !yield(objects.Get(items[i].Slot)) {
				return false
			}
		}
		return inside == len(items)
	})
}

// open calls yield with the object in slot, unless v.from cannot make it.
func (v *Version[T]) open(slot uint32, yield func(T) bool) bool {
	if v.from == nil {
		return yield(v.objects.Get(slot))
	}
	obj := v.from.open(slot)
	return object.IsNil(obj) || yield(obj)
}

// WalkShared is like Walk, but calls yield with the objects that readers share, also if v has copies.
func (v *Version[T]) WalkShared(r Range, yield func(T) bool) {
	if v.from == nil {
		v.Walk(r, yield)
		return
	}
	v.walkSlots(r, func(slot uint32) bool {
		obj := v.from.shared(slot)
		return object.IsNil(obj) || yield(obj)
	})
}

// WalkSome is like Walk, but leaves out the objects whose slots want rejects, and makes none of these.
func (v *Version[T]) WalkSome(r Range, want func(slot uint32) bool, yield func(T) bool) {
	v.walkSlots(r, func(slot uint32) bool { return !want(slot) || v.open(slot, yield) })
}

// walkSlots is like Walk, but calls yield with the slots of the objects.
func (v *Version[T]) walkSlots(r Range, yield func(slot uint32) bool) {
	v.records.Ascend(&cow.Place[struct{}]{Space: r.From.Namespace, Name: r.From.Name}, func(items []item[struct{}]) bool {
		inside := r.inside(items)
		for i := range items[:inside] {
			if !yield(items[i].Slot) {
				return false
			}
		}
		return inside == len(items)
	})
}

// inside returns how many of items, of which none is before r, are in r.
func (r *Range) inside(items []item[struct{}]) int {
	n := len(items)
	if r.Within && items[n-1].Record.Space != r.From.Namespace {
		for n = 0; items[n].Record.Space == r.From.Namespace; {
			n++
		}
	}
	return n
}

// List returns all objects, ordered by namespace, then name, as a new slice.
func (v *Version[T]) List() []T {
	list := make([]T, 0, v.Len())
	if v.from != nil {
		v.Walk(Range{}, func(obj T) bool {
			list = append(list, obj)
			return true
		})
		return list
	}
	objects := v.objects.Reader()
	v.records.All(func(items []item[struct{}]) bool {
		for i := range items {
			list = append(list, objects.Get(items[i].Slot))
		}
		return true
	})
	return list
}

// eachRecord calls do with the record of each object, in the order of Walk.
func (v *Version[T]) eachRecord(do func(*record)) {
	v.records.All(func(items []item[struct{}]) bool {
		for i := range items {
			do(items[i].Record)
		}
		return true
	})
}

// buildHints builds the hints from the records. Only the writer may call it.
func (v *Version[T]) buildHints() {
	v.hints.Build(v.Len(), func(put func(hash, slot uint32)) {
		v.records.All(func(items []item[struct{}]) bool { // no record is read: that would be a wait for memory each
			for i := range items {
				put(items[i].Hash, items[i].Slot)
			}
			return true
		})
	})
}
