package table

import (
	"errors"
	"fmt"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/store/cow"
)

// checkedAtOnce is the number of objects up to which Assert checks a table at every edit. It checks a table n times as
// large only at every nth edit, so the average cost of an edit does not grow.
const checkedAtOnce = 128

// Assert panics if v, which the edit under way has made, breaks an invariant, or if check of what belongs to v returns
// an error. Builds with the tag assert call it before each publication. It visits every object.
func (t *Table[T]) Assert(v *Version[T], check func() error) {
	if t.Edits()%uint64(v.Len()/checkedAtOnce+1) != 0 {
		return
	}
	if err := errors.Join(t.Check(v), check()); err != nil {
		panic(fmt.Sprintf("informer: store of %d %T after %d edits: %v", v.Len(), *new(T), t.Edits(), err))
	}
}

// Check returns an error that names a broken invariant of v, or nil. v must be the last version, or the one that an
// edit has just made. Check visits every object. It does not call the functions of indexes, which may run only once for
// each version of an object.
func (t *Table[T]) Check(v *Version[T]) error {
	if err := v.Check(); err != nil {
		return err
	}
	c := check[T]{table: t, v: v, used: make([]*record, t.next), hashes: make(map[*record][]uint32, v.Len())}
	for _, part := range []func() error{c.items, c.slots, c.free, c.hints, c.indexes} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// Check returns an error that names a broken invariant of the trees and the array of v, or nil. Unlike [Table.Check],
// it can check any version.
func (v *Version[T]) Check() error {
	if err := v.records.Check(); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	if err := v.objects.Check(); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	return nil
}

// check is one check of a table. Its methods run in the order in which they are declared.
type check[T object.Object] struct {
	table  *Table[T]
	v      *Version[T]
	used   []*record            // by slot; nil for one that no object has
	hashes map[*record][]uint32 // the parts of indexes that have not been checked
}

// freed stands for the free slots in check.used.
var freed record

// items checks the items of the tree of names. It sets used and hashes.
func (c *check[T]) items() (err error) {
	c.v.records.All(func(items []item[struct{}]) bool {
		for i := range items {
			if err = c.item(&items[i]); err != nil {
				return false
			}
			c.hashes[items[i].Record] = items[i].Record.Data.hashes
		}
		return true
	})
	return err
}

func (c *check[T]) item(it *item[struct{}]) error {
	r := it.Record
	slot := r.Data.slot
	switch {
	case it.Slot != slot:
		return fmt.Errorf("record %s has slot %d, but is filed with slot %d", r, slot, it.Slot)
	case it.Hash != c.v.place(keyOfRecord(r)).Hash:
		return fmt.Errorf("record %s is filed with another hash", r)
	case slot >= c.table.next:
		return fmt.Errorf("record %s has slot %d, which was never allocated", r, slot)
	case c.used[slot] != nil:
		return fmt.Errorf("record %s has slot %d, and so has %s", r, slot, c.used[slot])
	}
	if obj := c.v.objects.Get(slot); object.IsNil(obj) || object.KeyOf(obj) != keyOfRecord(r) {
		return fmt.Errorf("record %s has slot %d, which holds another object or none", r, slot)
	}
	c.used[slot] = r
	return nil
}

// slots checks the records by slot.
func (c *check[T]) slots() error {
	if len(c.table.records) != int(c.table.next) {
		return fmt.Errorf("%d records by slot, but %d slots were allocated", len(c.table.records), c.table.next)
	}
	for slot, r := range c.used {
		if c.table.records[slot] != r {
			return fmt.Errorf("slot %d belongs to record %v, but records by slot has %v", slot, r, c.table.records[slot])
		}
	}
	return nil
}

// free checks the free slots, and marks them in used.
func (c *check[T]) free() error {
	for _, slot := range c.table.free {
		switch {
		case slot >= c.table.next:
			return fmt.Errorf("free slot %d was never allocated", slot)
		case c.used[slot] != nil:
			return fmt.Errorf("free slot %d is in use, or free twice", slot)
		case !object.IsNil(c.v.objects.Get(slot)):
			return fmt.Errorf("free slot %d holds an object", slot)
		}
		c.used[slot] = &freed
	}
	if n := c.v.Len() + len(c.table.free); n != int(c.table.next) {
		return fmt.Errorf("%d slots were allocated, %d are in use or free", c.table.next, n)
	}
	return nil
}

// hints checks the hints, which belong to the last version.
func (c *check[T]) hints() error {
	if n := c.v.hints.Len(); n != c.v.Len() {
		return fmt.Errorf("hints: %d names, but there are %d objects", n, c.v.Len())
	}
	err := c.v.hints.Check(func(slot uint32) (hash uint32, ok bool) {
		if slot >= c.table.next || c.used[slot] == &freed {
			return 0, false
		}
		return c.v.hints.Hash(c.used[slot].Space, c.used[slot].Name), true
	})
	if err != nil {
		return fmt.Errorf("hints: %w", err)
	}
	return nil
}

// indexes checks the indexes, and that no record has hashes of another one.
func (c *check[T]) indexes() error {
	for i, x := range c.v.indexes {
		if err := x.check(c.hashes); err != nil {
			return fmt.Errorf("index %d: %w", i, err)
		}
	}
	for r, rest := range c.hashes {
		if len(rest) > 0 {
			return fmt.Errorf("record %s has hashes of more than %d indexes", r, len(c.v.indexes))
		}
	}
	return nil
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
		if err := t.checkRecord(r, mine); err != nil {
			return err
		}
	}
	if n := t.tree.Len(); n != items {
		return fmt.Errorf("%d items but the records have %d keys", n, items)
	}
	return nil
}

// checkRecord checks that the tree has an item of r for each of hashes.
func (t *keyTree[T, K]) checkRecord(r *record, hashes []uint32) error {
	keys := make(map[K]bool, len(hashes))
	for _, hash := range hashes {
		it := t.tree.Get(&cow.Place[K]{Hash: hash, Space: r.Space, Name: r.Name})
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
	return nil
}

func (t *sortedTree[T, K]) check(hashes map[*record][]uint32) error {
	if err := t.tree.Check(); err != nil {
		return err
	}
	items := 0
	for r := range hashes {
		for _, key := range t.keysIn(r.Data.slot) {
			it := t.tree.Get(&cow.Place[K]{Key: key, Space: r.Space, Name: r.Name})
			switch {
			case it == nil:
				return fmt.Errorf("record %s is not filed under its key %v", r, key)
			case it.Record != r || it.Slot != r.Data.slot:
				return fmt.Errorf("key %v of %s leads to an outdated record", key, r)
			case it.Key != key && it.Key == it.Key:
				return fmt.Errorf("record %s is filed under key %v, which should be %v", r, it.Key, key)
			}
			items++
		}
	}
	filed := 0
	for _, keys := range *t.filed {
		filed += len(keys)
	}
	if n := t.tree.Len(); n != items || filed != items {
		return fmt.Errorf("%d items and %d filed keys, but the records have %d keys", n, filed, items)
	}
	return nil
}
