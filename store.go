package informer

import (
	"cmp"
	"context"
	"iter"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Store is the local copy of a collection. Every read is from one consistent [Snapshot] and takes no lock: readers,
// however many and however long they iterate, never make the writer wait.
//
// A Store is only read through this type. Its one writer is the [Informer] that it belongs to, or, for a store made
// by [NewStore], the [StoreWriter]. All methods are safe for concurrent use.
type Store[T Object] struct {
	current atomic.Pointer[Snapshot[T]]

	mu      sync.Mutex    // makes writers take turns; protects the fields below
	gen     uint64        // the generation of the last write; see tree
	free    []uint32      // slots below slots that no object has
	next    uint32        // the first slot that never had one
	wake    chan struct{} // closed at the next publication; nil when nobody waits
	editor  edit[T]       // memory to work with
	changes []change[T]   // the same
}

// StoreWriter changes a [Store]. It is safe for concurrent use; each Apply is one step.
type StoreWriter[T Object] struct{ store *Store[T] }

// NewStore returns an empty store and the right to write to it.
func NewStore[T Object]() (*Store[T], StoreWriter[T]) {
	s := &Store[T]{}
	s.current.Store(&Snapshot[T]{names: newNames()})
	return s, StoreWriter[T]{s}
}

// Apply brings all of batch into the store in one step: readers see none of it or all of it, in the store, in every
// index and in the resource version.
func (w StoreWriter[T]) Apply(batch ...Delta[T]) {
	s := w.store
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.applyLocked(batch, s.changes)
	clear(changes)
	if s.changes = changes[:0]; cap(changes) > fifoCapacity {
		s.changes = nil
	}
}

// Snapshot is the state of a [Store] and its indexes at one moment. It never changes and may be kept for as long as
// one likes, at the price of the objects that it holds. All methods are safe for concurrent use.
type Snapshot[T Object] struct {
	names    *names
	records  tree[struct{}] // by name
	versions versions[T]    // the objects of the records
	indexes  []indexTree[T] // by slot
	sources  []source       // sorted by namespace
}

// source is how far one part of the collection has been told.
type source struct{ namespace, resourceVersion string }

// Snapshot returns the present state. It costs one atomic load.
func (s *Store[T]) Snapshot() *Snapshot[T] { return s.current.Load() }

// Get returns the object with that key.
func (s *Store[T]) Get(key Key) (T, bool) { return s.Snapshot().Get(key) }

// All yields every object, ordered by namespace, then name, from one snapshot.
func (s *Store[T]) All() iter.Seq[T] { return s.Snapshot().All() }

// Namespace yields every object of one namespace, ordered by name, from one snapshot.
func (s *Store[T]) Namespace(namespace string) iter.Seq[T] { return s.Snapshot().Namespace(namespace) }

// List returns what All yields as a new slice.
func (s *Store[T]) List() []T { return s.Snapshot().List() }

// Len returns the number of objects.
func (s *Store[T]) Len() int { return s.Snapshot().Len() }

// RV returns the resource version up to which the store is complete; see [Snapshot.RV].
func (s *Store[T]) RV() string { return s.Snapshot().RV() }

// Get returns the object with that key.
func (s *Snapshot[T]) Get(key Key) (T, bool) {
	_, obj, ok := s.find(key)
	return obj, ok
}

// find returns the object with that key and its slot.
func (s *Snapshot[T]) find(key Key) (slot uint32, obj T, ok bool) {
	hash := s.names.hash(key)
	if bucket := s.names.bucket(hash); bucket != nil {
		var none T
		for i := range bucket {
			slot, ok := bucket.slot(i, hash)
			if !ok {
				continue
			}
			if obj := s.versions.at(slot); obj != none && obj.GetName() == key.Name && obj.GetNamespace() == key.Namespace {
				return slot, obj, true
			}
		}
	}
	if r := s.record(key); r != nil {
		return r.slot, s.versions.get(r.slot), true
	}
	return 0, obj, false
}

// record returns the record of the object with that key, nil when there is none.
func (s *Snapshot[T]) record(key Key) *record {
	p := s.place(key)
	if it := s.records.get(byName, &p); it != nil {
		return it.record
	}
	return nil
}

// place returns where the record of key belongs in records.
func (s *Snapshot[T]) place(key Key) place {
	return place{uint32(s.names.hash(key)), key.Namespace, key.Name}
}

// All yields every object, ordered by namespace, then name.
func (s *Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		versions := pageReader[T]{versions: &s.versions}
		s.records.all(func(items []item[struct{}]) bool {
			for i := range items {
				if !yield(versions.get(items[i].slot)) {
					return false
				}
			}
			return true
		})
	}
}

// From yields every object from key on, in the order of All. The key itself need not exist.
func (s *Snapshot[T]) From(key Key) iter.Seq[T] {
	return func(yield func(T) bool) {
		versions := pageReader[T]{versions: &s.versions}
		p := place{namespace: key.Namespace, name: key.Name}
		s.records.ascend(byName, &p, func(items []item[struct{}]) bool {
			for i := range items {
				if !yield(versions.get(items[i].slot)) {
					return false
				}
			}
			return true
		})
	}
}

// Namespace yields every object of one namespace, ordered by name.
func (s *Snapshot[T]) Namespace(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) {
		versions := pageReader[T]{versions: &s.versions}
		s.records.ascend(byName, &place{namespace: namespace}, func(items []item[struct{}]) bool {
			whole := items[len(items)-1].record.namespace == namespace
			for i := range items {
				if !whole && items[i].record.namespace != namespace || !yield(versions.get(items[i].slot)) {
					return false
				}
			}
			return true
		})
	}
}

// List returns what All yields as a new slice.
func (s *Snapshot[T]) List() []T {
	list := make([]T, 0, s.Len())
	versions := pageReader[T]{versions: &s.versions}
	s.records.all(func(items []item[struct{}]) bool {
		for i := range items {
			list = append(list, versions.get(items[i].slot))
		}
		return true
	})
	return list
}

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.records.len() }

// RV returns the resource version up to which the snapshot is complete: every change up to it is in. With several
// namespaces, each of which is told of by a watch of its own, it is the lowest of theirs. It is empty before the
// first list, or when the server gives none.
//
// Resource versions are compared as decimal numbers, as KEP-5504 says.
func (s *Snapshot[T]) RV() string {
	if len(s.sources) == 0 {
		return ""
	}
	lowest := s.sources[0].resourceVersion
	for _, src := range s.sources[1:] {
		if older(src.resourceVersion, lowest) {
			lowest = src.resourceVersion
		}
	}
	return lowest
}

// sourceRV returns the resource version of the source that tells of namespace.
func (s *Snapshot[T]) sourceRV(namespace string) string {
	for _, src := range s.sources {
		if src.namespace == namespace || src.namespace == "" {
			return src.resourceVersion
		}
	}
	return ""
}

// older says whether resource version a is known to be before b. An unknown version, empty or "0", is before every
// known one.
func older(a, b string) bool {
	if unknown := a == "" || a == "0"; unknown {
		return b != "" && b != "0"
	}
	c, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && c < 0
}

// reached says whether resource version have is known to be want or after it.
func reached(have, want string) bool {
	c, err := resourceversion.CompareResourceVersion(have, want)
	return err == nil && c >= 0
}

// waitUntil returns nil as soon as a snapshot meets cond, and ctx's cause or ErrStopped when ctx or stopped ends first.
func (s *Store[T]) waitUntil(ctx context.Context, stopped <-chan struct{}, cond func(*Snapshot[T]) bool) error {
	for {
		s.mu.Lock()
		if s.wake == nil {
			s.wake = make(chan struct{})
		}
		wake := s.wake
		s.mu.Unlock()
		if cond(s.Snapshot()) { // after wake was taken: no publication is missed
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stopped:
			if cond(s.Snapshot()) {
				return nil
			}
			return ErrStopped
		}
	}
}

// change is what one delta did to one key. An object that was replaced by another of the same name (its UID tells)
// has both deleted and added set.
type change[T Object] struct {
	key     Key
	old     T    // what the store had; set for an update and a deletion
	last    T    // the state at the deletion, or old again when that is unknown
	new     T    // what the store has now; set for an update and an addition
	added   bool // there is a new object that did not take the place of an old one with the same UID
	deleted bool // the old object is gone
	final   bool // last is the state at the deletion
}

// apply brings batch into the store in one step, and returns changes with what it did appended, in order.
func (s *Store[T]) apply(batch []Delta[T], changes []change[T]) []change[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applyLocked(batch, changes)
}

func (s *Store[T]) applyLocked(batch []Delta[T], changes []change[T]) []change[T] {
	w := s.editLocked()
	for i := range batch {
		switch d := &batch[i]; d.Type {
		case Upserted:
			changes = w.upsert(d.Object, changes)
			w.advance(d.Namespace, d.ResourceVersion)
		case Removed:
			changes = w.remove(d, changes)
			w.advance(d.Namespace, d.ResourceVersion)
		case Replaced:
			changes = w.replace(d, changes)
			w.setSource(d.Namespace, d.ResourceVersion)
		case Bookmarked:
			w.advance(d.Namespace, d.ResourceVersion)
		}
	}
	s.publishLocked(w.next)
	return changes
}

func (s *Store[T]) publishLocked(next *Snapshot[T]) {
	if asserting {
		s.assertLocked(next)
	}
	s.current.Store(next)
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// edit is a snapshot in the making, by the holder of the store's lock. What in it is not of its generation belongs to
// published snapshots too.
type edit[T Object] struct {
	store  *Store[T]
	next   *Snapshot[T]
	gen    uint64
	hashes []uint32 // of the record that is being updated
}

func (s *Store[T]) editLocked() *edit[T] {
	s.gen++
	next := *s.Snapshot()
	next.indexes = slices.Clone(next.indexes)
	for i, x := range next.indexes {
		next.indexes[i] = x.clone()
	}
	s.editor = edit[T]{store: s, next: &next, gen: s.gen, hashes: s.editor.hashes}
	return &s.editor
}

// add files an object whose key is new.
func (w *edit[T]) add(key Key, obj T) {
	r := &record{namespace: key.Namespace, name: key.Name}
	if free := w.store.free; len(free) > 0 {
		r.slot, w.store.free = free[len(free)-1], free[:len(free)-1]
	} else {
		r.slot = w.store.next
		w.store.next++
	}
	w.next.versions.set(w.gen, r.slot, obj)
	hash := w.next.names.hash(key)
	w.next.records.set(w.gen, byName, newItem(struct{}{}, uint32(hash), r))
	if !w.next.names.put(hash, r.slot) {
		w.next.buildNames()
	}
	for _, x := range w.next.indexes {
		x.add(w.gen, r, obj)
	}
}

// buildNames notes the names of all objects.
func (s *Snapshot[T]) buildNames() {
	s.names.build(s.Len(), func(note func(hash uint64, slot uint32)) {
		s.records.all(func(items []item[struct{}]) bool {
			for i := range items {
				note(s.names.hash(items[i].record.key()), items[i].slot)
			}
			return true
		})
	})
}

// update files obj in the place of the object at slot, which has that key.
func (w *edit[T]) update(key Key, slot uint32, obj T) {
	w.next.versions.set(w.gen, slot, obj)
	if len(w.next.indexes) == 0 {
		return
	}
	r := w.next.record(key)
	w.hashes = append(w.hashes[:0], r.hashes...)
	old := w.hashes
	r.hashes = r.hashes[:0]
	for _, x := range w.next.indexes {
		old = x.update(w.gen, r, old, obj)
	}
}

// drop takes the object of r out.
func (w *edit[T]) drop(r *record) {
	var none T
	w.next.versions.set(w.gen, r.slot, none)
	hash := w.next.names.hash(r.key())
	w.next.names.drop(hash, r.slot)
	w.next.records.delete(w.gen, byName, &place{uint32(hash), r.namespace, r.name})
	for old, i := r.hashes, 0; i < len(w.next.indexes); i++ {
		old = w.next.indexes[i].drop(w.gen, r, old)
	}
	w.store.free = append(w.store.free, r.slot)
}

func (w *edit[T]) upsert(obj T, changes []change[T]) []change[T] {
	key := KeyOf(obj)
	slot, old, ok := w.next.find(key)
	if !ok {
		w.add(key, obj)
		return append(changes, change[T]{key: key, new: obj, added: true})
	}
	if sameVersion(old, obj) {
		return changes
	}
	w.update(key, slot, obj)
	return append(changes, changed(key, old, obj))
}

// changed describes that obj took the place of old.
func changed[T Object](key Key, old, obj T) change[T] {
	c := change[T]{key: key, old: old, new: obj, added: old.GetUID() != obj.GetUID()}
	if c.added {
		c.deleted, c.last = true, old
	}
	return c
}

// sameVersion says whether a and b are one version of one object. Objects without a resource version never are.
func sameVersion[T Object](a, b T) bool {
	rv := b.GetResourceVersion()
	return rv != "" && a.GetResourceVersion() == rv && a.GetUID() == b.GetUID()
}

func (w *edit[T]) remove(d *Delta[T], changes []change[T]) []change[T] {
	var none T
	key, final := d.Key, d.Object != none
	if final {
		key = KeyOf(d.Object)
	}
	r := w.next.record(key)
	if r == nil {
		return changes
	}
	old := w.next.versions.get(r.slot)
	w.drop(r)
	c := change[T]{key: r.key(), old: old, last: old, deleted: true}
	if final && d.Object.GetUID() == old.GetUID() { // else old went before, unseen, when what came after it could not be read
		c.last, c.final = d.Object, true
	}
	return append(changes, c)
}

// replace makes d's items all there is in d's namespace. Of unchanged objects the old ones stay, so that a relist that
// finds nothing new leaves nothing behind in memory.
func (w *edit[T]) replace(d *Delta[T], changes []change[T]) []change[T] {
	items := lastOfEach(d.Items)
	if w.next.records.len() == 0 {
		return w.fill(items, changes)
	}
	kept := make(map[Key]bool, len(d.Kept))
	for _, key := range d.Kept {
		kept[key] = true
	}
	// First see what there is to do, then do it: the tree cannot be walked and written to at once.
	type step struct {
		record *record // nil for a new object
		key    Key
		old    T
		new    T // nil for one that is gone
	}
	var steps []step
	next := 0
	add := func() {
		steps = append(steps, step{key: KeyOf(items[next]), new: items[next]})
		next++
	}
	versions := pageReader[T]{versions: &w.next.versions}
	w.next.records.ascend(byName, &place{namespace: d.Namespace}, func(leaf []item[struct{}]) bool {
		for i := range leaf {
			r := leaf[i].record
			if d.Namespace != "" && r.namespace != d.Namespace {
				return false
			}
			key := r.key()
			for next < len(items) && compareKeys(KeyOf(items[next]), key) < 0 {
				add()
			}
			old := versions.get(leaf[i].slot)
			switch {
			case next < len(items) && KeyOf(items[next]) == key:
				if !sameVersion(old, items[next]) || d.Restored && !reflect.DeepEqual(old, items[next]) {
					steps = append(steps, step{r, key, old, items[next]})
				}
				next++
			case !kept[key] && !kept[Key{}]:
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
			changes = append(changes, change[T]{key: s.key, new: s.new, added: true})
		case s.new == none:
			w.drop(s.record)
			changes = append(changes, change[T]{key: s.key, old: s.old, last: s.old, deleted: true})
		default:
			w.update(s.key, s.record.slot, s.new)
			changes = append(changes, changed(s.key, s.old, s.new))
		}
	}
	return changes
}

// fill builds the trees of an empty snapshot from items, sorted and without equals.
func (w *edit[T]) fill(items []T, changes []change[T]) []change[T] {
	w.store.free, w.store.next = nil, 0
	all := make([]item[struct{}], len(items))
	changes = slices.Grow(changes, len(items))
	w.next.versions = versions[T]{gen: w.gen}
	for i, obj := range items {
		key := KeyOf(obj)
		r := &record{namespace: key.Namespace, name: key.Name, slot: uint32(i)}
		all[i] = newItem(struct{}{}, w.next.place(key).hash, r)
		w.next.versions.set(w.gen, r.slot, obj)
		changes = append(changes, change[T]{key: key, new: obj, added: true})
	}
	w.store.next = uint32(len(items))
	w.next.records.build(w.gen, all)
	w.next.buildNames()
	for _, x := range w.next.indexes {
		x.build(w.gen, w.next)
	}
	return changes
}

// advance notes that namespace has been told up to resourceVersion, unless it was told further before.
func (w *edit[T]) advance(namespace, resourceVersion string) {
	i, found := w.sourceAt(namespace)
	if resourceVersion == "" || found && older(resourceVersion, w.next.sources[i].resourceVersion) {
		return
	}
	w.setSource(namespace, resourceVersion)
}

// setSource notes the same, also when that goes back: the server was restored from a backup.
func (w *edit[T]) setSource(namespace, resourceVersion string) {
	src := source{namespace, resourceVersion}
	i, found := w.sourceAt(namespace)
	w.next.sources = slices.Clone(w.next.sources) // published snapshots have the old one
	if found {
		w.next.sources[i] = src
	} else {
		w.next.sources = slices.Insert(w.next.sources, i, src)
	}
}

func (w *edit[T]) sourceAt(namespace string) (int, bool) {
	return slices.BinarySearchFunc(w.next.sources, namespace, func(s source, namespace string) int {
		return cmp.Compare(s.namespace, namespace)
	})
}

func compareKeys(a, b Key) int {
	if c := cmp.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return cmp.Compare(a.Name, b.Name)
}

// lastOfEach returns objects sorted by key, and of several with one key the last.
func lastOfEach[T Object](objects []T) []T {
	byKey := func(a, b T) int { return compareKeys(KeyOf(a), KeyOf(b)) }
	if !slices.IsSortedFunc(objects, byKey) {
		objects = slices.Clone(objects)
		slices.SortStableFunc(objects, byKey)
	}
	var kept []T // nil while nothing was left out
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
