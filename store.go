package informer

import (
	"cmp"
	"context"
	"iter"
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

	mu   sync.Mutex    // makes writers take turns; protects the fields below
	gen  uint64        // the generation of the last write; see tree
	wake chan struct{} // closed at the next publication; nil when nobody waits
}

// StoreWriter changes a [Store]. It is safe for concurrent use; each Apply is one step.
type StoreWriter[T Object] struct{ store *Store[T] }

// NewStore returns an empty store and the right to write to it.
func NewStore[T Object]() (*Store[T], StoreWriter[T]) {
	s := &Store[T]{}
	s.current.Store(&Snapshot[T]{})
	return s, StoreWriter[T]{s}
}

// Apply brings all of batch into the store in one step: readers see none of it or all of it, in the store, in every
// index and in the resource version.
func (w StoreWriter[T]) Apply(batch ...Delta[T]) { w.store.apply(batch, nil) }

// Snapshot is the state of a [Store] and its indexes at one moment. It never changes and may be kept for as long as
// one likes, at the price of the objects that it holds. All methods are safe for concurrent use.
type Snapshot[T Object] struct {
	objects tree[struct{}, T]
	indexes []indexTree[T] // by slot
	sources []source       // sorted by namespace
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
	if e := s.objects.get(0, key.Namespace, key.Name); e != nil {
		return e.obj, true
	}
	var none T
	return none, false
}

// All yields every object, ordered by namespace, then name.
func (s *Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		s.objects.all(func(items []item[struct{}, T]) bool {
			for i := range items {
				if !yield(items[i].entry.obj) {
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
		s.objects.ascend(0, key.Namespace, key.Name, func(items []item[struct{}, T]) bool {
			for i := range items {
				if !yield(items[i].entry.obj) {
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
		s.objects.ascend(0, namespace, "", func(items []item[struct{}, T]) bool {
			for i := range items {
				if e := items[i].entry; e.namespace != namespace || !yield(e.obj) {
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
	s.objects.all(func(items []item[struct{}, T]) bool {
		for i := range items {
			list = append(list, items[i].entry.obj)
		}
		return true
	})
	return list
}

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.objects.len() }

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
	s.gen++
	w := s.Snapshot().edit(s.gen)
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
	s.current.Store(next)
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// edit is a snapshot in the making. The nodes of its trees that are not of its generation belong to published
// snapshots too.
type edit[T Object] struct {
	next *Snapshot[T]
	gen  uint64
}

func (s *Snapshot[T]) edit(gen uint64) *edit[T] {
	next := &Snapshot[T]{objects: s.objects, indexes: slices.Clone(s.indexes), sources: s.sources}
	for i, x := range next.indexes {
		next.indexes[i] = x.clone()
	}
	return &edit[T]{next: next, gen: gen}
}

// set files e in the place of old, the entry of the same key, which may be nil.
func (w *edit[T]) set(old, e *entry[T]) {
	w.next.objects.set(w.gen, item[struct{}, T]{entry: e})
	w.reindex(old, e)
}

func (w *edit[T]) drop(old *entry[T]) {
	w.next.objects.delete(w.gen, 0, old.namespace, old.name)
	w.reindex(old, nil)
}

func (w *edit[T]) reindex(old, new *entry[T]) {
	at := 0 // where in old.hashes the index's part begins
	for _, x := range w.next.indexes {
		at = x.update(w.gen, old, at, new)
	}
}

func (w *edit[T]) upsert(obj T, changes []change[T]) []change[T] {
	key := KeyOf(obj)
	old := w.next.objects.get(0, key.Namespace, key.Name)
	if old != nil && sameVersion(old.obj, obj) {
		return changes
	}
	w.set(old, &entry[T]{namespace: key.Namespace, name: key.Name, obj: obj})
	return append(changes, changed(key, old, obj))
}

// changed describes that obj took the place of old, which may be nil.
func changed[T Object](key Key, old *entry[T], obj T) change[T] {
	c := change[T]{key: key, new: obj, added: true}
	if old != nil {
		c.old = old.obj
		if c.added = old.obj.GetUID() != obj.GetUID(); c.added {
			c.deleted, c.last = true, old.obj
		}
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
	old := w.next.objects.get(0, key.Namespace, key.Name)
	if old == nil {
		return changes
	}
	w.drop(old)
	c := change[T]{key: key, old: old.obj, last: old.obj, deleted: true, final: final}
	if final {
		c.last = d.Object
	}
	return append(changes, c)
}

// replace makes d's items all there is in d's namespace. Unchanged objects keep their entries, so that a relist that
// finds nothing new leaves nothing behind in memory.
func (w *edit[T]) replace(d *Delta[T], changes []change[T]) []change[T] {
	items := make([]*entry[T], 0, len(d.Items)+len(d.Kept))
	for _, obj := range d.Items {
		items = append(items, &entry[T]{namespace: obj.GetNamespace(), name: obj.GetName(), obj: obj})
	}
	for _, key := range d.Kept {
		if e := w.next.objects.get(0, key.Namespace, key.Name); e != nil {
			items = append(items, e)
		}
	}
	slices.SortStableFunc(items, compareEntries)
	items = lastOfEach(items)

	if w.next.objects.len() == 0 {
		return w.fill(items, changes)
	}
	var gone, came []*entry[T] // pairwise; either may be nil
	next := 0
	place := func() {
		changes = append(changes, changed(items[next].key(), nil, items[next].obj))
		gone, came = append(gone, nil), append(came, items[next])
		next++
	}
	w.next.objects.ascend(0, d.Namespace, "", func(leaf []item[struct{}, T]) bool {
		for i := range leaf {
			old := leaf[i].entry
			if d.Namespace != "" && old.namespace != d.Namespace {
				return false
			}
			for next < len(items) && compareEntries(items[next], old) < 0 {
				place()
			}
			if next == len(items) || compareEntries(items[next], old) != 0 {
				changes = append(changes, change[T]{key: old.key(), old: old.obj, last: old.obj, deleted: true})
				gone, came = append(gone, old), append(came, nil)
				continue
			}
			e := items[next]
			next++
			if e != old && !sameVersion(old.obj, e.obj) {
				changes = append(changes, changed(e.key(), old, e.obj))
				gone, came = append(gone, old), append(came, e)
			}
		}
		return true
	})
	for next < len(items) {
		place()
	}
	for i, e := range came {
		if e == nil {
			w.drop(gone[i])
		} else {
			w.set(gone[i], e)
		}
	}
	return changes
}

// fill builds the trees of an empty snapshot from items, sorted and without equals.
func (w *edit[T]) fill(items []*entry[T], changes []change[T]) []change[T] {
	all := make([]item[struct{}, T], len(items))
	changes = slices.Grow(changes, len(items))
	for i, e := range items {
		all[i].entry = e
		changes = append(changes, changed(e.key(), nil, e.obj))
	}
	w.next.objects.build(w.gen, all)
	for _, x := range w.next.indexes {
		x.build(w.gen, w.next.objects)
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

func (e *entry[T]) key() Key { return Key{Namespace: e.namespace, Name: e.name} }

func compareEntries[T Object](a, b *entry[T]) int {
	if c := cmp.Compare(a.namespace, b.namespace); c != 0 {
		return c
	}
	return cmp.Compare(a.name, b.name)
}

// lastOfEach drops from sorted all but the last of equal entries.
func lastOfEach[T Object](sorted []*entry[T]) []*entry[T] {
	kept := sorted[:0]
	for i, e := range sorted {
		if i+1 == len(sorted) || compareEntries(e, sorted[i+1]) != 0 {
			kept = append(kept, e)
		}
	}
	return kept
}
