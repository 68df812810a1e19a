// Package edits changes the objects of a table, and collects the changes for handlers.
package edits

import (
	"slices"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/table"
)

// Change is the effect of an edit on one key.
type Change[T object.Object] = deliver.Change[T]

// Edit makes the next version of a table. [Edit.Begin] begins it. The zero value collects changes.
//
// An edit calls functions of indexes and methods of objects, which may panic or end the goroutine. If End is therefore
// not called, the next edit of the table begins with the version before.
type Edit[T object.Object] struct {
	// Changes has the changes so far, in order.
	Changes []Change[T]
	// Quiet means that the edit collects no changes.
	Quiet bool

	next  *table.Version[T]
	table table.Edit[T] // makes next
}

// Begin begins an edit of t whose result is next; see [table.Table.Begin].
func (e *Edit[T]) Begin(t *table.Table[T], next *table.Version[T]) {
	e.next, e.table = next, t.Begin(next)
}

// End ends the edit, whose version the caller has published.
func (e *Edit[T]) End() { e.table.End() }

// AddIndex adds x to the table.
func (e *Edit[T]) AddIndex(x table.AnyIndex[T]) { e.table.AddIndex(x) }

// Get returns the object with that key.
func (e *Edit[T]) Get(key object.Key) (T, bool) {
	_, obj, ok := e.next.Find(key)
	return obj, ok
}

// Upsert adds obj or replaces the previous version. It ignores a version that the table has.
func (e *Edit[T]) Upsert(obj T) {
	key := object.KeyOf(obj)
	if slot, old, ok := e.next.Find(key); !ok || !object.SameVersion(old, obj) {
		e.put(key, slot, old, obj)
	}
}

// Set adds obj or replaces the previous version, also by the same one.
func (e *Edit[T]) Set(obj T) {
	key := object.KeyOf(obj)
	slot, old, _ := e.next.Find(key)
	e.put(key, slot, old, obj)
}

// Put adds obj or replaces the previous object of its name, which may be another copy of the same version.
func (e *Edit[T]) Put(obj T) {
	key := object.KeyOf(obj)
	if slot, old, ok := e.next.Find(key); !ok || !object.Same(old, obj) {
		e.put(key, slot, old, obj)
	}
}

// put stores obj in place of old, which is in that slot. If old is nil, it adds obj.
func (e *Edit[T]) put(key object.Key, slot uint32, old, obj T) {
	if object.IsNil(old) {
		e.table.Add(key, obj)
		e.note(Change[T]{Key: key, New: obj, Added: true})
		return
	}
	e.table.Update(slot, obj)
	e.note(replaced(key, old, obj))
}

// Remove removes the object with that key, if the table has it. final reports whether the server sent last, the state
// at the deletion. last is used only then, and only if it has the UID of the removed object: otherwise the table has
// missed the deletion of its object, and a successor.
func (e *Edit[T]) Remove(key object.Key, last T, final bool) {
	slot, old, ok := e.next.Find(key)
	if !ok {
		return
	}
	c := Change[T]{Key: e.table.Remove(slot), Old: old, Last: old, Deleted: true}
	if final && last.GetUID() == old.GetUID() {
		c.Last, c.Final = last, true
	}
	e.note(c)
}

// Replace replaces the objects of a namespace by items; see [table.Edit.Replace]. same and keep are Policy.Same and
// Policy.Keep.
func (e *Edit[T]) Replace(namespace string, items []T, same func(old, new T) bool,
	keep func(key object.Key, old T) bool) {
	if !e.Quiet && e.next.Len() == 0 {
		e.Changes = slices.Grow(e.Changes, len(items))
	}
	e.table.Replace(namespace, items, table.Policy[T]{
		Same: same,
		Keep: keep,
		// e.noteReplaced itself would move e to the heap.
		Changed: func(key object.Key, old, new T) { e.noteReplaced(key, old, new) },
	})
}

// noteReplaced notes a change by Replace. old is nil for an addition, and new for a removal.
func (e *Edit[T]) noteReplaced(key object.Key, old, new T) {
	switch {
	case object.IsNil(old):
		e.note(Change[T]{Key: key, New: new, Added: true})
	case object.IsNil(new):
		e.note(Change[T]{Key: key, Old: old, Last: old, Deleted: true})
	default:
		e.note(replaced(key, old, new))
	}
}

// note appends c to the changes, unless the edit is quiet.
func (e *Edit[T]) note(c Change[T]) {
	if !e.Quiet {
		e.Changes = append(e.Changes, c)
	}
}

// replaced returns the change from old to obj, which may be another object of the same name.
func replaced[T object.Object](key object.Key, old, obj T) Change[T] {
	c := Change[T]{Key: key, Old: old, New: obj, Added: old.GetUID() != obj.GetUID()}
	if c.Added {
		c.Deleted, c.Last = true, old
	}
	return c
}

// Held returns the object of v that is the same version as obj, or obj itself if v does not have that.
func Held[T object.Object](v *table.Version[T], obj T) T {
	if _, held, ok := v.Find(object.KeyOf(obj)); ok && object.SameVersion(held, obj) {
		return held
	}
	return obj
}

// HoldAll returns items, with each one replaced by what [Held] returns for it. It does not modify items, because a
// reader of an informer's Loading may still be reading them.
func HoldAll[T object.Object](v *table.Version[T], items []T) []T {
	held := make([]T, len(items))
	for i, obj := range items {
		held[i] = Held(v, obj)
	}
	return held
}
