package informer

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer/internal/cow"
)

// Store is the local copy of a collection. Each read sees one consistent [Snapshot] and takes no lock. Readers
// therefore never block the writer, regardless of their number and of how long they iterate.
//
// The methods of Store only read. An [Informer] writes to its own store; the [StoreWriter] writes to a store that
// [NewStore] returned. All methods are safe for concurrent use.
type Store[T Object] struct {
	current atomic.Pointer[Snapshot[T]]
	packed  *Store[*packed]         // with Config.Compact: the store that this one shows; nil otherwise
	show    func(next *Snapshot[T]) // called with each snapshot before it is published; nil for none

	mu   sync.Mutex    // serializes writers; protects the fields below
	wake chan struct{} // closed at the next publication; nil if nothing waits

	gen     uint64    // the generation of the last edit
	editing bool      // an edit has begun and has not been published
	free    []uint32  // unused slots below next
	next    uint32    // the first slot that was never used
	records []*record // by slot; nil for an unused one
	hashes  []uint32  // scratch memory of an edit
}

// Snapshot returns the current state. It costs one atomic load.
func (s *Store[T]) Snapshot() *Snapshot[T] { return s.current.Load() }

// Get returns the object with that key.
func (s *Store[T]) Get(key Key) (T, bool) { return s.Snapshot().Get(key) }

// Undecodable returns an error if the server has an object with that key whose newest version could not be decoded; see
// [Snapshot.Undecodable].
func (s *Store[T]) Undecodable(key Key) error { return s.Snapshot().Undecodable(key) }

// All yields every object, ordered by namespace, then name, from one snapshot.
func (s *Store[T]) All() iter.Seq[T] { return s.Snapshot().All() }

// Namespace yields every object of one namespace, ordered by name, from one snapshot.
func (s *Store[T]) Namespace(namespace string) iter.Seq[T] { return s.Snapshot().Namespace(namespace) }

// List returns the objects that All yields, as a new slice.
func (s *Store[T]) List() []T { return s.Snapshot().List() }

// Len returns the number of objects.
func (s *Store[T]) Len() int { return s.Snapshot().Len() }

// ResourceVersion returns the resource version up to which the store is complete; see [Snapshot.ResourceVersion].
func (s *Store[T]) ResourceVersion() string { return s.Snapshot().ResourceVersion() }

// published returns a channel that is closed at the next publication. Callers take the channel before the snapshot, so
// they miss no publication.
func (s *Store[T]) published() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

// notifyLocked closes the channel that published returned.
func (s *Store[T]) notifyLocked() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// Snapshot is the state of a [Store] and its indexes at one moment. It never changes. A caller may keep it for any
// time, which keeps its objects in memory. All methods are safe for concurrent use.
type Snapshot[T Object] struct {
	hints   *cow.Hints     // from names to slots; shared by all snapshots
	records tree[struct{}] // by name
	objects cow.Array[T]   // by slot
	indexes []indexTree[T] // by Index.slot
	sources []source       // sorted by namespace
	// packed is nil without Config.Compact. With it, this snapshot has the same hints, records and sources as packed, and
	// its objects and indexes are empty.
	packed *Snapshot[*packed]
	lost   *unreadable // if T is *packed: objects that readers could not decode; nil otherwise
	copied func(T) T   // copies each object that is read; nil unless Copies returned this snapshot
}

// Copies returns a view of s whose objects are copies. Each read of it, also by an [Index], returns new objects, which
// the caller may write to. With Config.Compact, a copy costs no more than decoding the object: the decoded one is not
// copied again.
func Copies[T interface {
	Object
	DeepCopyObject() runtime.Object
}](s *Snapshot[T]) *Snapshot[T] {
	view := *s
	view.copied = func(obj T) T { return obj.DeepCopyObject().(T) }
	return &view
}

// shared returns s without copying objects, if s is a view that Copies returned.
func (s *Snapshot[T]) shared() *Snapshot[T] {
	if s.copied == nil {
		return s
	}
	view := *s
	view.copied = nil
	return &view
}

// give returns obj for a reader: a copy if s is a view that Copies returned.
func (s *Snapshot[T]) give(obj T) T {
	if s.copied != nil {
		return s.copied(obj)
	}
	return obj
}

// unpack returns the object of p for a reader, as give does, or the zero T if it cannot be decoded.
func (s *Snapshot[T]) unpack(p *packed) T {
	if s.copied != nil && p.alive() == nil {
		obj, _ := p.decode(nil).(T)
		return obj
	}
	var none T
	obj := unpack[T](p)
	if s.copied != nil && obj != none {
		return s.copied(obj)
	}
	return obj
}

// objectReader reads the objects of a snapshot by slot. It must not be used concurrently. With Config.Compact, it
// returns the zero T for an object that cannot be decoded; iterators skip that.
type objectReader[T Object] struct {
	objects cow.ArrayReader[T]
	view    *Snapshot[T]              // nil if readers get the objects that the store holds
	packed  *cow.ArrayReader[*packed] // with Config.Compact
}

func (s *Snapshot[T]) reader() objectReader[T] {
	r := objectReader[T]{objects: s.objects.Reader()}
	if s.packed != nil {
		packed := s.packed.objects.Reader()
		r.view, r.packed = s, &packed
	} else if s.copied != nil {
		r.view = s
	}
	return r
}

func (r *objectReader[T]) Get(slot uint32) T {
	if r.view == nil {
		return r.objects.Get(slot)
	}
	if r.packed != nil {
		return r.view.unpack(r.packed.Get(slot))
	}
	return r.view.give(r.objects.Get(slot))
}

// record is the entry of an object in the trees, from its addition to its deletion. The current version of the object
// is in Snapshot.objects instead, so an update does not write to the trees unless it changes an index key.
type record = cow.Record[filed]

// filed is the part of a record that the store uses.
type filed struct {
	slot uint32 // of the object in Snapshot.objects
	// hashes has one part for each index, in the order of Snapshot.indexes: the number of the object's keys, then the hash
	// of each key with its ordinal. Only the writer reads and writes it.
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

func keyOfRecord(r *record) Key { return Key{Namespace: r.Space, Name: r.Name} }

// indexTree is the state of an index in a snapshot. The methods build, add and update append the part of this index to
// the hashes of each record that they file.
type indexTree[T Object] interface {
	clone() indexTree[T]
	// build files all objects of snap in an empty index.
	build(gen uint64, snap *Snapshot[T])
	// add files obj under the new record r.
	add(gen uint64, r *record, obj T)
	// update files obj under r. The first part of hashes is that of the previous version; update returns the rest.
	update(gen uint64, r *record, hashes []uint32, obj T) []uint32
	// drop removes r. The first part of hashes is that of its object; drop returns the rest.
	drop(gen uint64, r *record, hashes []uint32) []uint32
	// restoreHashes appends the part of this index to the hashes of each record of snap.
	restoreHashes(snap *Snapshot[T])
	// check returns an error that names a broken invariant, or nil. It removes the part of this index, which comes first,
	// from each record's hashes in the map.
	check(hashes map[*record][]uint32) error
}

// source is the source of one namespace, or of all if namespace is empty. It has reported every change up to
// resourceVersion.
type source struct {
	namespace, resourceVersion string
	shard                      *Shard    // of its objects; nil before the first list
	listed                     time.Time // when the last list began
	undecoded                  *undecoded
}

// Get returns the object with that key.
func (s *Snapshot[T]) Get(key Key) (T, bool) {
	if s.packed != nil {
		var obj, none T
		if _, p, ok := s.packed.find(key); ok {
			obj = s.unpack(p)
		}
		return obj, obj != none
	}
	_, obj, ok := s.find(key)
	if ok {
		obj = s.give(obj)
	}
	return obj, ok
}

// Undecodable returns an error if the server has an object with that key whose newest version could not be decoded,
// because T or Config.Transform rejects it. Get then returns the last version that could be decoded, or false if there
// was none. Get also returns false for an object that does not exist: Undecodable then returns nil. Call Get first, and
// both of one snapshot.
//
// The error is a [*DecodeError] without Raw, whose Err has only the text of the cause. If the name of some object could
// not be decoded, there is an error for each key without an object, since that object may have it. With Config.Compact,
// there is an error for an object that Get could not decode again.
func (s *Snapshot[T]) Undecodable(key Key) error {
	var unknown *DecodeError
	for _, src := range s.sources {
		if src.undecoded == nil || src.namespace != "" && src.namespace != key.Namespace {
			continue
		}
		if failed := src.undecoded.get(key); failed != nil {
			return failed
		}
		unknown = src.undecoded.unknown(key)
	}
	if failed := s.unreadable(key); failed != nil {
		return failed
	}
	if unknown != nil && !s.has(key) {
		return unknown
	}
	return nil
}

// AllUndecodable yields an error for each object whose newest version could not be decoded, in no particular order; see
// [Snapshot.Undecodable]. It leaves out objects whose names could not be decoded.
func (s *Snapshot[T]) AllUndecodable() iter.Seq[*DecodeError] {
	return func(yield func(*DecodeError) bool) {
		for _, failed := range s.allUnreadable() {
			if !yield(failed) {
				return
			}
		}
		for _, src := range s.sources {
			for failed := range src.undecoded.in("") {
				if s.unreadable(failed.Key) == nil && !yield(failed) {
					return
				}
			}
		}
	}
}

// Missing returns an error if the server may have objects in a namespace that the snapshot lacks, because no version of
// them could be decoded. It wraps the [*DecodeError] of one of them. An empty namespace means all namespaces. A reader
// that can return an error with a list returns this one. Call Missing after reading the list, for what Config.Compact
// cannot decode again.
func (s *Snapshot[T]) Missing(namespace string) error {
	for failed := range s.missing(namespace) {
		return fmt.Errorf("the store lacks objects: %w", failed)
	}
	return nil
}

// missing yields an error for each object of a namespace, or of all if namespace is empty, that s lacks because it
// could not be decoded.
func (s *Snapshot[T]) missing(namespace string) iter.Seq[*DecodeError] {
	return func(yield func(*DecodeError) bool) {
		for _, failed := range s.allUnreadable() {
			if (namespace == "" || failed.Key.Namespace == namespace) && !yield(failed) {
				return
			}
		}
		for _, src := range s.sources {
			if src.namespace != "" && namespace != "" && src.namespace != namespace {
				continue
			}
			for failed := range src.undecoded.in(namespace) {
				if !s.has(failed.Key) && !yield(failed) {
					return
				}
			}
			for range src.undecoded.unnamed() {
				if !yield(&DecodeError{Resource: src.undecoded.resource, Err: src.undecoded.why}) {
					return
				}
			}
		}
	}
}

// undecodable returns how many objects could not be decoded, and how many of them s lacks.
func (s *Snapshot[T]) undecodable() (all, missing int) {
	for range s.AllUndecodable() {
		all++
	}
	for _, src := range s.sources {
		all += src.undecoded.unnamed()
	}
	for range s.missing("") {
		missing++
	}
	return all, missing
}

// has reports whether s has an object with that key, without decoding it.
func (s *Snapshot[T]) has(key Key) bool {
	if s.packed != nil {
		_, _, ok := s.packed.find(key)
		return ok
	}
	_, _, ok := s.find(key)
	return ok
}

// packedView returns the snapshot of the packed objects with Config.Compact, and nil otherwise.
func (s *Snapshot[T]) packedView() *Snapshot[*packed] {
	if s.packed != nil {
		return s.packed
	}
	p, _ := any(s).(*Snapshot[*packed])
	return p
}

// unreadable returns why the object with that key could not be decoded when it was read, which happens with
// Config.Compact only. It returns nil if there was no such failure.
func (s *Snapshot[T]) unreadable(key Key) *DecodeError {
	if view := s.packedView(); view != nil {
		if _, p, ok := view.find(key); ok {
			return p.failed()
		}
	}
	return nil
}

// allUnreadable returns unreadable of all objects.
func (s *Snapshot[T]) allUnreadable() []*DecodeError {
	view := s.packedView()
	if view == nil || view.lost == nil {
		return nil
	}
	return view.lost.in(func(key Key) *packed {
		_, p, _ := view.find(key)
		return p
	})
}

// find returns the object with that key and its slot.
func (s *Snapshot[T]) find(key Key) (slot uint32, obj T, ok bool) {
	hash := s.hints.Hash(key.Namespace, key.Name)
	if bucket := s.hints.Bucket(hash); bucket != nil {
		var none T
		for i := range bucket {
			slot, ok := bucket.Slot(i, hash)
			if !ok {
				continue
			}
			if obj := s.objects.Find(slot); obj != none && obj.GetName() == key.Name && obj.GetNamespace() == key.Namespace {
				return slot, obj, true
			}
		}
	}
	if r := s.record(key); r != nil {
		return r.Data.slot, s.objects.Get(r.Data.slot), true
	}
	return 0, obj, false
}

// record returns the record of the object with that key, or nil if there is none.
func (s *Snapshot[T]) record(key Key) *record {
	p := s.place(key)
	if it := s.records.Get(&p); it != nil {
		return it.Record
	}
	return nil
}

// place returns the place of key's record in records.
func (s *Snapshot[T]) place(key Key) cow.Place {
	return cow.Place{Hash: uint32(s.hints.Hash(key.Namespace, key.Name)), Space: key.Namespace, Name: key.Name}
}

// All yields every object, ordered by namespace, then name.
func (s *Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		var none T
		objects := s.reader()
		s.records.All(func(items []item[struct{}]) bool {
			for i := range items {
				if obj := objects.Get(items[i].Slot); obj != none && !yield(obj) {
					return false
				}
			}
			return true
		})
	}
}

// From yields every object at or after key, in the order of All. The snapshot need not have an object with that key.
func (s *Snapshot[T]) From(key Key) iter.Seq[T] {
	return func(yield func(T) bool) {
		var none T
		objects := s.reader()
		p := cow.Place{Space: key.Namespace, Name: key.Name}
		s.records.Ascend(&p, func(items []item[struct{}]) bool {
			for i := range items {
				if obj := objects.Get(items[i].Slot); obj != none && !yield(obj) {
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
		var none T
		objects := s.reader()
		s.records.Ascend(&cow.Place{Space: namespace}, func(items []item[struct{}]) bool {
			whole := items[len(items)-1].Record.Space == namespace
			for i := range items {
				if !whole && items[i].Record.Space != namespace {
					return false
				}
				if obj := objects.Get(items[i].Slot); obj != none && !yield(obj) {
					return false
				}
			}
			return true
		})
	}
}

// in yields every object of one namespace, or of all if namespace is empty.
func (s *Snapshot[T]) in(namespace string) iter.Seq[T] {
	if namespace == "" {
		return s.All()
	}
	return s.Namespace(namespace)
}

// List returns the objects that All yields, as a new slice.
func (s *Snapshot[T]) List() []T {
	var none T
	list := make([]T, 0, s.Len())
	objects := s.reader()
	s.records.All(func(items []item[struct{}]) bool {
		for i := range items {
			if obj := objects.Get(items[i].Slot); obj != none {
				list = append(list, obj)
			}
		}
		return true
	})
	return list
}

// eachRecord calls do with the record of each object, in the order of All.
func (s *Snapshot[T]) eachRecord(do func(*record)) {
	s.records.All(func(items []item[struct{}]) bool {
		for i := range items {
			do(items[i].Record)
		}
		return true
	})
}

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.records.Len() }

// ResourceVersion returns the resource version up to which the snapshot is complete: it contains every change up to
// that version. An informer of several namespaces has one watch for each; ResourceVersion then returns the lowest
// version of these, comparing versions as decimal numbers, as KEP-5504 defines. It is empty before the first list, or
// if the server sends no resource versions.
func (s *Snapshot[T]) ResourceVersion() string {
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

// sourceOf returns the source of namespace.
func (s *Snapshot[T]) sourceOf(namespace string) (source, bool) {
	for _, src := range s.sources {
		if src.namespace == namespace {
			return src, true
		}
	}
	return source{}, false
}

// sourceRV returns the resource version that the source of namespace has reached, or "" if it has reported nothing.
func (s *Snapshot[T]) sourceRV(namespace string) string {
	for _, src := range s.sources {
		if src.namespace == namespace || src.namespace == "" {
			return src.resourceVersion
		}
	}
	return ""
}
