package table

import (
	"slices"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// Table makes the versions of a table. It has what only the writer uses: readers need nothing but a [Version]. The zero
// value is ready for use with the version that [Empty] returns. It must not be copied after the first edit.
type Table[T object.Object] struct {
	gen     uint64    // the generation of the last edit; see package cow
	editing bool      // an edit has begun and has not ended
	free    []uint32  // unused slots below next
	next    uint32    // the first slot that was never used
	records []*record // by slot; nil for an unused one
	hashes  []uint32  // scratch memory of an edit
}

// Edits returns the number of edits that have begun.
func (t *Table[T]) Edits() uint64 { return t.gen }

// Edit makes the next version of a table. [Table.Begin] returns one.
//
// An edit writes to its own versions of the trees and the array. It changes six things in place: Table.free,
// Table.next, Table.records, the hints, the hashes in the records, and the keys that each Ordered has filed.
//
// An edit calls functions of indexes and methods of objects, which may panic or end the goroutine. If End is therefore
// not called, the things that the edit changed in place do not match the published version. The next edit notices that
// from Table.editing, and first restores these things from the published version.
type Edit[T object.Object] struct {
	table *Table[T]
	next  *Version[T]
	gen   uint64 // of its writes
}

// Begin begins an edit. next must be a copy of the version with which the last edit ended; the edit changes it to the
// new version. If the last edit was not ended, next must be a copy of the version with which that edit began.
func (t *Table[T]) Begin(next *Version[T]) Edit[T] {
	if t.editing {
		t.restore(next)
	}
	t.editing = true
	t.gen++
	next.indexes = slices.Clone(next.indexes)
	for i, x := range next.indexes {
		next.indexes[i] = x.clone()
	}
	return Edit[T]{table: t, next: next, gen: t.gen}
}

// End ends the edit, whose version the caller has published. No method of the edit may be called afterwards.
func (e *Edit[T]) End() { e.table.editing = false }

// restore restores everything that an edit changes in place from the published version.
func (t *Table[T]) restore(v *Version[T]) {
	t.next = 0
	v.eachRecord(func(r *record) {
		t.next = max(t.next, r.Data.slot+1)
		r.Data.hashes = r.Data.hashes[:0]
	})
	t.records = make([]*record, t.next)
	v.eachRecord(func(r *record) { t.records[r.Data.slot] = r })
	t.free = nil
	for slot, r := range t.records {
		if r == nil {
			t.free = append(t.free, uint32(slot))
		}
	}
	for _, x := range v.indexes {
		x.restore(v)
	}
	v.buildHints()
}

// newRecord returns a record that no index has filed.
func newRecord(key object.Key, slot uint32) *record {
	return &record{Space: key.Namespace, Name: key.Name, Data: filed{slot: slot}}
}

// Add adds obj under its key, which the table must not have. The table keeps the strings of key.
func (e *Edit[T]) Add(key object.Key, obj T) {
	r := newRecord(key, e.table.takeSlot())
	e.table.records[r.Data.slot] = r
	e.next.objects.Set(e.gen, r.Data.slot, obj)
	hash := e.next.hints.Hash(key.Namespace, key.Name)
	e.next.records.Set(e.gen, newItem(struct{}{}, hash, r))
	if !e.next.hints.Put(hash, r.Data.slot) {
		e.next.buildHints()
	}
	for _, x := range e.next.indexes {
		x.add(e.gen, r, obj)
	}
}

// takeSlot returns an unused slot and marks it used.
func (t *Table[T]) takeSlot() uint32 {
	if last := len(t.free) - 1; last >= 0 {
		slot := t.free[last]
		t.free = t.free[:last]
		return slot
	}
	t.next++
	t.records = append(t.records, nil)
	return t.next - 1
}

// Update replaces the object in slot, which must be in use, with obj, which must have the same key.
func (e *Edit[T]) Update(slot uint32, obj T) {
	e.next.objects.Set(e.gen, slot, obj)
	if len(e.next.indexes) == 0 {
		return
	}
	r := e.table.records[slot]
	old := append(e.table.hashes[:0], r.Data.hashes...)
	e.table.hashes = old
	r.Data.hashes = r.Data.hashes[:0]
	for _, x := range e.next.indexes {
		old = x.update(e.gen, r, old, obj)
	}
}

// Remove removes the object in slot, which must be in use. It returns the object's key.
func (e *Edit[T]) Remove(slot uint32) object.Key {
	r := e.table.records[slot]
	e.drop(r)
	return keyOfRecord(r)
}

// drop removes the object of r.
func (e *Edit[T]) drop(r *record) {
	var none T
	e.next.objects.Set(e.gen, r.Data.slot, none)
	hash := e.next.hints.Hash(r.Space, r.Name)
	e.next.hints.Drop(hash, r.Data.slot)
	e.next.records.Delete(e.gen, &cow.Place[struct{}]{Hash: hash, Space: r.Space, Name: r.Name})
	old := r.Data.hashes
	for _, x := range e.next.indexes {
		old = x.drop(e.gen, r, old)
	}
	e.table.free = append(e.table.free, r.Data.slot)
	e.table.records[r.Data.slot] = nil
}
