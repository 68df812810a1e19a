package table

import (
	"slices"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// Policy says what [Edit.Replace] does with the objects. All its functions must be set. The items are not part of it:
// what the functions refer to would then move to the heap.
type Policy[T object.Object] struct {
	// Same reports whether the table keeps old, although the items have new under its key.
	Same func(old, new T) bool
	// Keep reports whether an object stays, although the items do not have its key.
	Keep func(key object.Key, old T) bool
	// Changed is called for each change, in the order of the keys. old is the zero T for an addition, and new for a
	// removal.
	Changed func(key object.Key, old, new T)
}

// step is a step of a replacement.
type step[T object.Object] struct {
	record *record // nil for a new object
	key    object.Key
	old    T // the zero T for a new object
	new    T // the zero T for a removal
}

// Replace replaces the objects of a namespace by items. An empty namespace means all namespaces. The items may be in
// any order; if several have one key, the last one counts. All must be in the namespace.
//
// An object for which policy.Same returns true stays, with its memory. So a replacement by the same objects retains no
// memory.
func (e *Edit[T]) Replace(namespace string, items []T, policy Policy[T]) {
	items = lastOfEach(items)
	if e.next.Len() == 0 {
		e.fill(items, policy.Changed)
		return
	}
	for _, s := range e.steps(namespace, items, policy) {
		switch {
		case s.record == nil:
			e.Add(s.key, s.new)
		case object.IsNil(s.new):
			e.drop(s.record)
		default:
			e.Update(s.record.Data.slot, s.new)
		}
		policy.Changed(s.key, s.old, s.new)
	}
}

// steps returns the steps from the objects of the table to items, which are sorted and have distinct keys. It writes
// nothing: nothing may write to the tree while Ascend iterates over it.
func (e *Edit[T]) steps(namespace string, items []T, policy Policy[T]) (steps []step[T]) {
	next := 0
	add := func() {
		steps = append(steps, step[T]{key: object.KeyOf(items[next]), new: items[next]})
		next++
	}
	objects := e.next.objects.Reader()
	e.next.records.Ascend(&cow.Place[struct{}]{Space: namespace}, func(leaf []item[struct{}]) bool {
		for i := range leaf {
			r := leaf[i].Record
			if namespace != "" && r.Space != namespace {
				return false
			}
			key := keyOfRecord(r)
			for next < len(items) && CompareKeys(object.KeyOf(items[next]), key) < 0 {
				add()
			}
			old := objects.Get(leaf[i].Slot)
			switch {
			case next < len(items) && object.KeyOf(items[next]) == key:
				if !policy.Same(old, items[next]) {
					steps = append(steps, step[T]{record: r, key: key, old: old, new: items[next]})
				}
				next++
			case !policy.Keep(key, old):
				steps = append(steps, step[T]{record: r, key: key, old: old})
			}
		}
		return true
	})
	for next < len(items) {
		add()
	}
	return steps
}

// fill adds items to an empty version, and calls changed for each. They must be sorted and have distinct keys.
func (e *Edit[T]) fill(items []T, changed func(key object.Key, old, new T)) {
	var none T
	e.table.free, e.table.next, e.table.records = nil, uint32(len(items)), make([]*record, len(items))
	e.next.objects = cow.Array[T]{}
	all := make([]item[struct{}], len(items))
	for i, obj := range items {
		key := object.KeyOf(obj)
		r := newRecord(key, uint32(i))
		e.table.records[i] = r
		all[i] = newItem(struct{}{}, e.next.place(key).Hash, r)
		e.next.objects.Set(e.gen, r.Data.slot, obj)
		changed(key, none, obj)
	}
	e.next.records.Build(e.gen, all)
	e.next.buildHints()
	for _, x := range e.next.indexes {
		x.build(e.gen, e.next)
	}
}

// lastOfEach returns objects sorted by key. If several have one key, it returns only the last of these. It does not
// change objects, but can return it.
func lastOfEach[T object.Object](objects []T) []T {
	byKey := func(a, b T) int { return CompareKeys(object.KeyOf(a), object.KeyOf(b)) }
	if !slices.IsSortedFunc(objects, byKey) {
		objects = slices.Clone(objects)
		slices.SortStableFunc(objects, byKey)
	}
	var kept []T // nil until an object is left out
	for i, obj := range objects {
		switch again := i+1 < len(objects) && byKey(obj, objects[i+1]) == 0; {
		case again && kept == nil:
			kept = slices.Clone(objects[:i])
		case !again && kept != nil:
			kept = append(kept, obj)
		}
	}
	if kept == nil {
		return objects
	}
	return kept
}
