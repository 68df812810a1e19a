package informer

import (
	"fmt"
	"slices"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/intake"
	"github.com/typedinformer/informer/internal/table"
)

// StoreWriter writes to a [Store]. It is safe for concurrent use. [NewStore] returns one; the zero value is not usable.
type StoreWriter[T Object] struct{ store *Store[T] }

// NewStore returns an empty store and its writer.
func NewStore[T Object]() (*Store[T], StoreWriter[T]) {
	s := &Store[T]{same: intake.Unpacked[T]{}.SameContent}
	s.addIndex = s.addOwnIndex
	s.current.Store(&Snapshot[T]{version: table.Empty[T](), reopened: neverReopened{}})
	return s, StoreWriter[T]{s}
}

// addOwnIndex adds x to the table of s.
func (s *Store[T]) addOwnIndex(x table.AnyIndex[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var w edit[T]
	w.beginLocked(s)
	w.table.AddIndex(x)
	w.publishLocked()
}

// Apply applies batch in one step. Readers see none of it or all of it, in the store, in every index and in the
// resource version.
//
// Apply returns an error if a delta has no type, or if one of its objects is nil, has no name or is outside
// Delta.Namespace. The store then stays unchanged. It also stays unchanged if the function of an index panics or calls
// [runtime.Goexit].
func (w StoreWriter[T]) Apply(batch ...Delta[T]) error {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	_, err := w.store.applyLocked(batch, edit[T]{quiet: true})
	return err
}

// change is the effect of one delta on one key.
type change[T Object] = deliver.Change[T]

// apply applies batch in one step and appends its effects to changes, in order. If a delta is invalid, apply returns an
// error and does nothing.
func (s *Store[T]) apply(batch []Delta[T], changes []change[T]) ([]change[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applyLocked(batch, edit[T]{changes: changes})
}

// merge applies one edit that do makes, and appends its effects to changes, in order.
func (s *Store[T]) merge(changes []change[T], do func(*edit[T])) []change[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := edit[T]{changes: changes}
	w.beginLocked(s)
	do(&w)
	w.publishLocked()
	return w.changes
}

// applyLocked begins w and applies batch with it. It returns the changes of w.
func (s *Store[T]) applyLocked(batch []Delta[T], w edit[T]) ([]change[T], error) {
	for i := range batch {
		if err := batch[i].validate(); err != nil {
			return w.changes, fmt.Errorf("delta %d of %d: %w", i+1, len(batch), err)
		}
	}
	w.beginLocked(s)
	for i := range batch {
		switch d := &batch[i]; d.Type {
		case Upserted:
			w.upsert(d.Object)
			w.advance(d)
		case Removed:
			w.remove(d)
			w.advance(d)
		case Replaced:
			w.replace(d, w.list(d))
		case Bookmarked:
			w.advance(d)
		}
	}
	w.publishLocked()
	return w.changes, nil
}

// edit creates the next snapshot of a store. Its owner holds the store's lock from beginLocked to publishLocked.
//
// An edit calls functions of indexes and methods of objects, which may panic or end the goroutine. The edit then ends
// without publication, and has no effect.
type edit[T Object] struct {
	store   *Store[T]
	next    *Snapshot[T]
	table   table.Edit[T] // makes next.version
	changes []change[T]
	quiet   bool // do not collect changes
}

// beginLocked begins an edit of s.
func (w *edit[T]) beginLocked(s *Store[T]) {
	next := *s.Snapshot()
	w.store, w.next, w.table = s, &next, s.table.Begin(&next.version)
}

// publishLocked ends the edit: from now on, readers get its snapshot.
func (w *edit[T]) publishLocked() {
	s := w.store
	if table.Asserting {
		s.assertLocked(w.next)
	}
	if s.show != nil {
		s.show(w.next, w.changes)
	}
	s.current.Store(w.next)
	w.table.End()
	s.notifyLocked()
	if s.board.Waits() {
		s.board.Reached(arrivals[T]{w.next}, deliver.Keys(w.changes))
	}
}

// note appends c to the changes, unless the edit is quiet.
func (w *edit[T]) note(c change[T]) {
	if !w.quiet {
		w.changes = append(w.changes, c)
	}
}

// replaced returns the change from old to obj, which may be another object of the same name.
func replaced[T Object](key Key, old, obj T) change[T] {
	c := change[T]{Key: key, Old: old, New: obj, Added: old.GetUID() != obj.GetUID()}
	if c.Added {
		c.Deleted, c.Last = true, old
	}
	return c
}

// sameVersion reports whether a and b are the same version of the same object. It returns false for objects without a
// resource version.
func sameVersion[T Object](a, b T) bool {
	rv := b.GetResourceVersion()
	return rv != "" && a.GetResourceVersion() == rv && a.GetUID() == b.GetUID()
}

// upsert adds obj or replaces the previous version. It ignores a version that the store has.
func (w *edit[T]) upsert(obj T) {
	key := KeyOf(obj)
	slot, old, ok := w.next.version.Find(key)
	switch {
	case !ok:
		w.table.Add(key, obj)
		w.note(change[T]{Key: key, New: obj, Added: true})
	case !sameVersion(old, obj):
		w.table.Update(slot, obj)
		w.note(replaced(key, old, obj))
	}
}

// remove removes the object of d, if the store has it.
func (w *edit[T]) remove(d *Delta[T]) {
	var none T
	final := d.Object != none
	slot, old, ok := w.next.version.Find(d.removedKey())
	if !ok {
		return
	}
	c := change[T]{Key: w.table.Remove(slot), Old: old, Last: old, Deleted: true}
	if final && d.Object.GetUID() == old.GetUID() { // another UID: the store missed the deletion of old and a successor
		c.Last, c.Final = d.Object, true
	}
	w.note(c)
}

// replace replaces the contents of d's namespace with d's items, except for the objects of kept, which could not be
// decoded. If the store already has the version of an item, it keeps its own copy, so a relist without changes retains
// no memory.
func (w *edit[T]) replace(d *Delta[T], kept undecodable) {
	if !w.quiet && w.next.Len() == 0 {
		w.changes = slices.Grow(w.changes, len(d.Items))
	}
	from := d.whence()
	keepAll := from.kind == restOfShard || kept.Unnamed() > 0
	w.table.Replace(d.Namespace, d.Items, table.Policy[T]{
		Same:    func(old, new T) bool { return sameVersion(old, new) && (!d.Restored || w.store.same(old, new)) },
		Keep:    func(key Key, old T) bool { return (keepAll || kept.Has(key)) && from.shard.Has(old) },
		Changed: func(key Key, old, new T) { w.noteReplaced(key, old, new) }, // w.noteReplaced would move w to the heap
	})
}

// noteReplaced notes a change of a Replaced. old is nil for an addition, and new for a deletion.
func (w *edit[T]) noteReplaced(key Key, old, new T) {
	var none T
	switch {
	case old == none:
		w.note(change[T]{Key: key, New: new, Added: true})
	case new == none:
		w.note(change[T]{Key: key, Old: old, Last: old, Deleted: true})
	default:
		w.note(replaced(key, old, new))
	}
}

// advance records that the source of d has reached its resource version.
func (w *edit[T]) advance(d *Delta[T]) {
	src, _ := w.next.sources.Of(d.Namespace)
	src.Data.undecoded = d.undecoded(src.Data.undecoded)
	w.next.sources = w.next.sources.Advance(d.Namespace, d.ResourceVersion, src.Data)
}

// list records that the source of d, a Replaced, has listed its objects or has another shard. It returns the objects
// that could not be decoded.
func (w *edit[T]) list(d *Delta[T]) undecodable {
	from, version := d.whence(), d.ResourceVersion
	have, found := w.next.sources.Of(d.Namespace)
	if found && from.kind == restOfShard {
		if version = have.Version; have.Data.list != nil {
			from.listed = have.Data.list.listed
		}
	}
	data := listed{&from, d.undecoded(have.Data.undecoded)}
	w.next.sources = w.next.sources.Set(source{Namespace: d.Namespace, Version: version, Data: data})
	return data.undecoded
}

// checkedAtOnce is the number of objects up to which assertLocked checks a store at every publication. It checks a
// store n times as large only at every nth publication, so the average cost of a write does not grow.
const checkedAtOnce = 128

// assertLocked panics if next breaks an invariant. Builds with the tag assert call it before each publication. It
// visits every object.
func (s *Store[T]) assertLocked(next *Snapshot[T]) {
	if s.table.Edits()%uint64(next.Len()/checkedAtOnce+1) != 0 {
		return
	}
	if err := s.checkLocked(next); err != nil {
		panic(fmt.Sprintf("informer: store of %d %T after %d edits: %v", next.Len(), *new(T), s.table.Edits(), err))
	}
}

// checkLocked returns an error that names a broken invariant of next, or nil. next must be the current snapshot, or
// that of the edit under way.
func (s *Store[T]) checkLocked(next *Snapshot[T]) error {
	if err := s.table.Check(&next.version); err != nil {
		return err
	}
	return next.sources.Check()
}
