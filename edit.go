package informer

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/typedinformer/informer/internal/cow"
	"github.com/typedinformer/informer/internal/deliver"
)

// StoreWriter writes to a [Store]. It is safe for concurrent use. [NewStore] returns one; the zero value is not usable.
type StoreWriter[T Object] struct{ store *Store[T] }

// NewStore returns an empty store and its writer.
func NewStore[T Object]() (*Store[T], StoreWriter[T]) {
	s := &Store[T]{}
	s.current.Store(&Snapshot[T]{hints: cow.NewHints()})
	return s, StoreWriter[T]{s}
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

// applyLocked applies batch with w, which has not begun. It returns the changes of w.
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
// An edit writes to its own versions of the trees and the array; readers cannot see these before publishLocked. It
// changes five things in place: Store.free, Store.next, Store.records, the hints, and the hashes in the records.
//
// An edit calls functions of indexes and methods of objects, which may panic or end the goroutine. The edit then ends
// without publication, and the things that it changed in place no longer match the published snapshot. The next edit
// notices that from Store.editing, and first restores these things from the snapshot.
type edit[T Object] struct {
	store   *Store[T]
	next    *Snapshot[T]
	gen     uint64 // the generation of its writes; see package cow
	changes []change[T]
	quiet   bool // do not collect changes
}

// beginLocked begins an edit of s.
func (w *edit[T]) beginLocked(s *Store[T]) {
	if s.editing {
		s.restoreLocked()
	}
	s.editing = true
	s.gen++
	next := *s.Snapshot()
	next.indexes = slices.Clone(next.indexes)
	for i, x := range next.indexes {
		next.indexes[i] = x.clone()
	}
	w.store, w.next, w.gen = s, &next, s.gen
}

// publishLocked ends the edit: from now on, readers get its snapshot.
func (w *edit[T]) publishLocked() {
	s := w.store
	if asserting {
		s.assertLocked(w.next)
	}
	if s.show != nil {
		s.show(w.next)
	}
	s.current.Store(w.next)
	s.editing = false
	s.notifyLocked()
}

// restoreLocked restores everything that an edit changes in place from the published snapshot.
func (s *Store[T]) restoreLocked() {
	snap := s.Snapshot()
	s.next = 0
	snap.eachRecord(func(r *record) {
		s.next = max(s.next, r.Data.slot+1)
		r.Data.hashes = r.Data.hashes[:0]
	})
	s.records = make([]*record, s.next)
	snap.eachRecord(func(r *record) { s.records[r.Data.slot] = r })
	s.free = nil
	for slot, r := range s.records {
		if r == nil {
			s.free = append(s.free, uint32(slot))
		}
	}
	for _, x := range snap.indexes {
		x.restoreHashes(snap)
	}
	snap.buildHints()
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

// sameContent reports whether a and b are equal.
func sameContent[T Object](a, b T) bool {
	if p, ok := any(a).(*packed); ok {
		return p.sameContent(any(b).(*packed))
	}
	return reflect.DeepEqual(a, b)
}

// upsert adds obj or replaces the previous version. It ignores a version that the store has.
func (w *edit[T]) upsert(obj T) {
	key := KeyOf(obj)
	slot, old, ok := w.next.find(key)
	switch {
	case !ok:
		w.add(key, obj)
		w.note(change[T]{Key: key, New: obj, Added: true})
	case !sameVersion(old, obj):
		w.update(w.store.records[slot], obj)
		w.note(replaced(key, old, obj))
	}
}

// remove removes the object of d, if the store has it.
func (w *edit[T]) remove(d *Delta[T]) {
	var none T
	final := d.Object != none
	slot, old, ok := w.next.find(d.removedKey())
	if !ok {
		return
	}
	r := w.store.records[slot]
	w.drop(r)
	c := change[T]{Key: keyOfRecord(r), Old: old, Last: old, Deleted: true}
	if final && d.Object.GetUID() == old.GetUID() { // another UID: the store missed the deletion of old and a successor
		c.Last, c.Final = d.Object, true
	}
	w.note(c)
}

// replace replaces the contents of d's namespace with d's items, and leaves the objects of kept, which d could not
// decode. If an item is the version that the store has, the store keeps its own copy. A relist without changes
// therefore retains no memory.
func (w *edit[T]) replace(d *Delta[T], kept *undecoded) {
	items := lastOfEach(d.Items)
	if w.next.Len() == 0 {
		w.fill(items)
		return
	}
	keepAll := d.part || kept.unnamed() > 0
	// Collect the steps first: nothing may write to the tree while Ascend iterates over it.
	type step struct {
		record *record // nil for a new object
		key    Key
		old    T
		new    T // nil for a deletion
	}
	var steps []step
	next := 0
	add := func() {
		steps = append(steps, step{key: KeyOf(items[next]), new: items[next]})
		next++
	}
	objects := w.next.objects.Reader()
	w.next.records.Ascend(&cow.Place{Space: d.Namespace}, func(leaf []item[struct{}]) bool {
		for i := range leaf {
			r := leaf[i].Record
			if d.Namespace != "" && r.Space != d.Namespace {
				return false
			}
			key := keyOfRecord(r)
			for next < len(items) && compareKeys(KeyOf(items[next]), key) < 0 {
				add()
			}
			old := objects.Get(leaf[i].Slot)
			switch {
			case next < len(items) && KeyOf(items[next]) == key:
				if !sameVersion(old, items[next]) || d.Restored && !sameContent(old, items[next]) {
					steps = append(steps, step{r, key, old, items[next]})
				}
				next++
			case !keepAll && !kept.has(key) || !d.shard.Has(old):
				steps = append(steps, step{record: r, key: key, old: old})
			}
		}
		return true
	})
	for next < len(items) {
		add()
	}
	var none T
	for _, s := range steps {
		switch {
		case s.record == nil:
			w.add(s.key, s.new)
			w.note(change[T]{Key: s.key, New: s.new, Added: true})
		case s.new == none:
			w.drop(s.record)
			w.note(change[T]{Key: s.key, Old: s.old, Last: s.old, Deleted: true})
		default:
			w.update(s.record, s.new)
			w.note(replaced(s.key, s.old, s.new))
		}
	}
}

// fill adds items to an empty snapshot. They must be sorted and have distinct keys.
func (w *edit[T]) fill(items []T) {
	w.store.free, w.store.next, w.store.records = nil, uint32(len(items)), make([]*record, len(items))
	w.next.objects = cow.Array[T]{}
	all := make([]item[struct{}], len(items))
	if !w.quiet {
		w.changes = slices.Grow(w.changes, len(items))
	}
	for i, obj := range items {
		key := KeyOf(obj)
		r := newRecord(key, uint32(i))
		w.store.records[i] = r
		all[i] = newItem(struct{}{}, w.next.place(key).Hash, r)
		w.next.objects.Set(w.gen, r.Data.slot, obj)
		w.note(change[T]{Key: key, New: obj, Added: true})
	}
	w.next.records.Build(w.gen, all)
	w.next.buildHints()
	for _, x := range w.next.indexes {
		x.build(w.gen, w.next)
	}
}

// lastOfEach returns objects sorted by key. If several have one key, it returns only the last of these. It does not
// change objects, but can return it.
func lastOfEach[T Object](objects []T) []T {
	byKey := func(a, b T) int { return compareKeys(KeyOf(a), KeyOf(b)) }
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

// compareKeys orders keys by namespace, then name, like [cmp.Compare].
func compareKeys(a, b Key) int {
	if c := cmp.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}

// newRecord returns a record that no index has filed.
func newRecord(key Key, slot uint32) *record {
	return &record{Space: key.Namespace, Name: key.Name, Data: filed{slot: slot}}
}

// add adds obj under a key that the store does not have.
func (w *edit[T]) add(key Key, obj T) {
	r := newRecord(key, w.takeSlot())
	w.store.records[r.Data.slot] = r
	w.next.objects.Set(w.gen, r.Data.slot, obj)
	hash := w.next.hints.Hash(key.Namespace, key.Name)
	w.next.records.Set(w.gen, newItem(struct{}{}, uint32(hash), r))
	if !w.next.hints.Put(hash, r.Data.slot) {
		w.next.buildHints()
	}
	for _, x := range w.next.indexes {
		x.add(w.gen, r, obj)
	}
}

// takeSlot returns an unused slot and marks it used.
func (w *edit[T]) takeSlot() uint32 {
	s := w.store
	if last := len(s.free) - 1; last >= 0 {
		slot := s.free[last]
		s.free = s.free[:last]
		return slot
	}
	s.next++
	s.records = append(s.records, nil)
	return s.next - 1
}

// update replaces the object of r with obj.
func (w *edit[T]) update(r *record, obj T) {
	w.next.objects.Set(w.gen, r.Data.slot, obj)
	if len(w.next.indexes) == 0 {
		return
	}
	old := append(w.store.hashes[:0], r.Data.hashes...)
	w.store.hashes = old
	r.Data.hashes = r.Data.hashes[:0]
	for _, x := range w.next.indexes {
		old = x.update(w.gen, r, old, obj)
	}
}

// drop removes the object of r.
func (w *edit[T]) drop(r *record) {
	var none T
	w.next.objects.Set(w.gen, r.Data.slot, none)
	hash := w.next.hints.Hash(r.Space, r.Name)
	w.next.hints.Drop(hash, r.Data.slot)
	w.next.records.Delete(w.gen, &cow.Place{Hash: uint32(hash), Space: r.Space, Name: r.Name})
	old := r.Data.hashes
	for _, x := range w.next.indexes {
		old = x.drop(w.gen, r, old)
	}
	w.store.free = append(w.store.free, r.Data.slot)
	w.store.records[r.Data.slot] = nil
}

// buildHints builds the hints from the records. Only the writer may call it.
func (s *Snapshot[T]) buildHints() {
	s.hints.Build(s.Len(), func(put func(hash uint64, slot uint32)) {
		s.eachRecord(func(r *record) { put(s.hints.Hash(r.Space, r.Name), r.Data.slot) })
	})
}

// advance records that the source of d has reached its resource version. It ignores an empty version and one that
// precedes the current one.
func (w *edit[T]) advance(d *Delta[T]) {
	src := source{namespace: d.Namespace, resourceVersion: d.ResourceVersion}
	if i, found := w.sourceAt(d.Namespace); found {
		have := &w.next.sources[i]
		src.shard, src.listed, src.undecoded = have.shard, have.listed, d.undecoded(have.undecoded)
		if src.resourceVersion == "" || older(src.resourceVersion, have.resourceVersion) {
			src.resourceVersion = have.resourceVersion
			if src.undecoded == have.undecoded {
				return
			}
		}
	} else if src.undecoded = d.undecoded(nil); src.resourceVersion == "" && src.undecoded == nil {
		return
	}
	w.setSource(src)
}

// list records that the source of d, a Replaced, has listed its objects or has another shard. It returns the objects
// that could not be decoded.
func (w *edit[T]) list(d *Delta[T]) *undecoded {
	shard := d.shard
	src := source{namespace: d.Namespace, resourceVersion: d.ResourceVersion, shard: &shard, listed: d.listed}
	if i, found := w.sourceAt(d.Namespace); found && d.part {
		src = w.next.sources[i]
		src.shard = &shard
	}
	src.undecoded = d.undecoded(src.undecoded)
	w.setSource(src)
	return src.undecoded
}

// setSource records the state of a source. Unlike advance it can go back: a server that was restored from a backup has
// older versions.
func (w *edit[T]) setSource(src source) {
	i, found := w.sourceAt(src.namespace)
	w.next.sources = slices.Clone(w.next.sources) // the published snapshot shares it
	if found {
		w.next.sources[i] = src
	} else {
		w.next.sources = slices.Insert(w.next.sources, i, src)
	}
}

// sourceAt returns the index of the source of namespace, or where to insert it.
func (w *edit[T]) sourceAt(namespace string) (int, bool) {
	return slices.BinarySearchFunc(w.next.sources, namespace, func(s source, namespace string) int {
		return cmp.Compare(s.namespace, namespace)
	})
}

// checkedAtOnce is the number of objects up to which assertLocked checks a store at every publication. It checks a
// store that is n times as large at every nth publication only, so that the average cost of a write does not grow.
const checkedAtOnce = 4096

// assertLocked panics if next breaks an invariant. Builds with the tag assert call it before each publication. It
// visits every object.
func (s *Store[T]) assertLocked(next *Snapshot[T]) {
	if s.gen%uint64(next.Len()/checkedAtOnce+1) != 0 {
		return
	}
	if err := s.checkLocked(next); err != nil {
		panic(fmt.Sprintf("informer: store of %d %T at generation %d: %v", next.Len(), *new(T), s.gen, err))
	}
}

// checkLocked returns an error that names a broken invariant of next, or nil. The fields of s must belong to next.
// checkLocked does not call the functions of indexes, which may run only once for each version of an object.
func (s *Store[T]) checkLocked(next *Snapshot[T]) error {
	if err := next.records.Check(); err != nil {
		return fmt.Errorf("records: %w", err)
	}
	if err := next.objects.Check(); err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	var none T
	used := make([]*record, s.next) // by slot
	hashes := make(map[*record][]uint32, next.Len())
	var err error
	next.records.All(func(items []item[struct{}]) bool {
		for i := range items {
			if err = s.checkItemLocked(next, &items[i], used); err != nil {
				return false
			}
			hashes[items[i].Record] = items[i].Record.Data.hashes
		}
		return true
	})
	if err != nil {
		return err
	}
	var free record // stands for the free slots
	if len(s.records) != int(s.next) {
		return fmt.Errorf("%d records by slot, but %d slots were allocated", len(s.records), s.next)
	}
	for slot, r := range used {
		if s.records[slot] != r {
			return fmt.Errorf("slot %d belongs to record %v, but records by slot has %v", slot, r, s.records[slot])
		}
	}
	for _, slot := range s.free {
		switch {
		case slot >= s.next:
			return fmt.Errorf("free slot %d was never allocated", slot)
		case used[slot] != nil:
			return fmt.Errorf("free slot %d is in use, or free twice", slot)
		case next.objects.Get(slot) != none:
			return fmt.Errorf("free slot %d holds an object", slot)
		}
		used[slot] = &free
	}
	if n := next.Len() + len(s.free); n != int(s.next) {
		return fmt.Errorf("%d slots were allocated, %d are in use or free", s.next, n)
	}
	if n := next.hints.Len(); n != next.Len() {
		return fmt.Errorf("hints: %d names, but there are %d objects", n, next.Len())
	}
	if err := next.hints.Check(func(slot uint32) (hash uint64, ok bool) {
		if slot >= s.next || used[slot] == &free {
			return 0, false
		}
		return next.hints.Hash(used[slot].Space, used[slot].Name), true
	}); err != nil {
		return fmt.Errorf("hints: %w", err)
	}
	for i := 1; i < len(next.sources); i++ {
		if next.sources[i-1].namespace >= next.sources[i].namespace {
			return fmt.Errorf("sources %v are not sorted or not distinct", next.sources)
		}
	}
	for i, x := range next.indexes {
		if err := x.check(hashes); err != nil {
			return fmt.Errorf("index %d: %w", i, err)
		}
	}
	for r, rest := range hashes {
		if len(rest) > 0 {
			return fmt.Errorf("record %s has hashes of more than %d indexes", r, len(next.indexes))
		}
	}
	return nil
}

// checkItemLocked checks one item of next.records, and sets its record in used.
func (s *Store[T]) checkItemLocked(next *Snapshot[T], it *item[struct{}], used []*record) error {
	var none T
	r := it.Record
	slot := r.Data.slot
	switch {
	case it.Slot != slot:
		return fmt.Errorf("record %s has slot %d, but is filed with slot %d", r, slot, it.Slot)
	case it.Hash != next.place(keyOfRecord(r)).Hash:
		return fmt.Errorf("record %s is filed with another hash", r)
	case slot >= s.next:
		return fmt.Errorf("record %s has slot %d, which was never allocated", r, slot)
	case used[slot] != nil:
		return fmt.Errorf("record %s has slot %d, and so has %s", r, slot, used[slot])
	}
	if obj := next.objects.Get(slot); obj == none || KeyOf(obj) != keyOfRecord(r) {
		return fmt.Errorf("record %s has slot %d, which holds another object or none", r, slot)
	}
	used[slot] = r
	return nil
}
