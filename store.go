package informer

import (
	"fmt"
	"iter"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/informer/sources"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/store/arrival"
	"github.com/typedinformer/informer/internal/store/table"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// Store is the local copy of a collection. Each read sees one consistent [Snapshot] and takes no lock. Readers
// therefore never block the writer, regardless of their number and of how long they iterate.
//
// The methods of Store only read. An [Informer] writes to its own store; the [StoreWriter] writes to a store that
// [NewStore] returned. All methods are safe for concurrent use.
type Store[T Object] struct {
	current  atomic.Pointer[Snapshot[T]]
	addIndex func(table.AnyIndex[T])
	show     func(*Snapshot[T], []deliver.Change[T]) // called with each snapshot before it is published; nil for none
	same     func(a, b T) bool                       // reports whether two objects are equal
	// values means that the objects come from functions of the program; see fetch.Source.HasValues. An object may lack a
	// name, and one with a known UID and resource version may have new content.
	values bool

	mu    sync.Mutex           // serializes writers; protects the fields below
	wake  chan struct{}        // closed at the next publication; nil if nothing waits
	table table.Table[T]       // makes the versions of the snapshots
	reads []reflector.Delta[T] // scratch memory of a StoreWriter

	board arrival.Board // has a lock of its own
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

// published returns a channel that is closed at the next publication. Take the channel before the snapshot, to miss no
// publication.
func (s *Store[T]) published() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return s.wake
}

// notifyLocked wakes those who wait for a publication: it closes the channel that published returned.
func (s *Store[T]) notifyLocked() {
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// Snapshot is the state of a [Store] and its indexes at one moment. It never changes. A caller may keep it as long as
// it likes, which keeps its objects in memory. All methods are safe for concurrent use.
type Snapshot[T Object] struct {
	version table.Version[T] // has the objects and the indexes
	sources sources.Sources[listed]
	late    lateFailures
	labels  func(slot uint32) labels.Labels // reads labels without decoding the object; nil if all are decoded
}

// Copies returns a view of s whose objects are copies. Each read of it, also by an [Index], returns new objects, which
// the caller may write to. With Config.Compact, a copy costs no more than decoding the object: the decoded one is not
// copied again.
func Copies[T interface {
	Object
	DeepCopyObject() runtime.Object
}](s *Snapshot[T]) *Snapshot[T] {
	view := *s
	view.version = s.version.Copies(func(obj T) T { return obj.DeepCopyObject().(T) })
	return &view
}

// source is one of the sources of a snapshot.
type source = sources.Source[listed]

// listed is the state of a source in a snapshot, besides its resource version.
type listed struct {
	list      *reflector.Origin // of the objects; nil before the first list
	undecoded undecodable
}

// undecodable are the objects of a source whose newest version could not be decoded.
type undecodable struct {
	*undecoded.Set
	collection intake.Collection // that of the first object; nil if there was none
}

// failure returns the error of the object with that key for a reason of the set.
func (u undecodable) failure(key Key, why error) *DecodeError {
	return u.collection.DecodeError(key, why).(*DecodeError)
}

// undecodableAfter returns the objects of the source of d that could not be decoded after d, given those before.
func undecodableAfter[T Object](before undecodable, d *reflector.Delta[T]) undecodable {
	switch {
	case d.Type == reflector.Replaced && d.Origin().Kind != reflector.RestOfShard:
		before = undecodable{}
	case before.Set == nil: // the common case
	case d.Type == reflector.Upserted:
		before.Set = before.Without(KeyOf(d.Object))
	case d.Type == reflector.Removed:
		before.Set = before.Without(d.RemovedKey())
	}
	for _, failed := range d.Undecoded {
		if d.Namespace != "" && failed.Key.Namespace != d.Namespace && failed.Key.Name != "" {
			continue
		}
		if before.Set == nil {
			before.collection = failed.Collection
		}
		before.Set = before.With(failed.Key, object.ID{UID: failed.UID, Version: failed.Version}, failed.Err)
	}
	return before
}

// shard returns the shard that the store has of the source.
func (l listed) shard() (s shardset.Shard) {
	if l.list != nil {
		s = l.list.Shard
	}
	return s
}

// lateFailures report the objects of a snapshot that readers could not decode, with Config.Compact.
type lateFailures interface {
	// failure returns why the object with that key could not be decoded when it was read, or nil if it could.
	failure(key Key) *DecodeError
	// failures returns failure of all objects.
	failures() []*DecodeError
}

// noFailures are the lateFailures of a snapshot that holds decoded objects.
type noFailures struct{}

func (noFailures) failure(Key) *DecodeError { return nil }
func (noFailures) failures() []*DecodeError { return nil }

// Get returns the object with that key.
func (s *Snapshot[T]) Get(key Key) (T, bool) {
	_, obj, ok := s.version.Find(key)
	return obj, ok
}

// Undecodable returns an error if the server has an object with that key whose newest version could not be decoded,
// because T or Config.Transform rejects it. Get then returns the last version that could be decoded, or false if there
// was none. Get also returns false for an object that does not exist: Undecodable then returns nil. Call Get first, on
// the same snapshot.
//
// The error is a [*DecodeError] without Raw, whose Err has only the text of the cause. If the name of some object could
// not be decoded, Undecodable returns an error for each key without an object, since the key may be that object's. With
// Config.Compact, it returns an error for an object that Get could not decode again.
func (s *Snapshot[T]) Undecodable(key Key) error {
	var unknown *DecodeError
	for _, src := range s.sources {
		if src.Data.undecoded.Set == nil || src.Namespace != "" && src.Namespace != key.Namespace {
			continue
		}
		if why := src.Data.undecoded.Get(key); why != nil {
			return src.Data.undecoded.failure(key, why)
		}
		if why := src.Data.undecoded.Unknown(); why != nil {
			unknown = src.Data.undecoded.failure(key, why)
		}
	}
	if failed := s.late.failure(key); failed != nil {
		return failed
	}
	if unknown != nil && !s.version.Has(key) {
		return unknown
	}
	return nil
}

// AllUndecodable yields an error for each object whose newest version could not be decoded, in no particular order; see
// [Snapshot.Undecodable]. It leaves out objects whose names could not be decoded.
func (s *Snapshot[T]) AllUndecodable() iter.Seq[*DecodeError] {
	return func(yield func(*DecodeError) bool) {
		for failed := range s.undecodable("") {
			if failed.Key.Name != "" && !yield(failed) {
				return
			}
		}
	}
}

// Missing returns an error if the server may have objects in a namespace that the snapshot lacks, because no version of
// them could be decoded. It wraps the [*DecodeError] of one of them. An empty namespace means all namespaces. Return
// this error with a list that it may affect. Call Missing after reading the list, since with Config.Compact the reading
// finds objects that cannot be decoded again.
func (s *Snapshot[T]) Missing(namespace string) error {
	for failed, lacks := range s.undecodable(namespace) {
		if lacks {
			return fmt.Errorf("the store lacks objects: %w", failed)
		}
	}
	return nil
}

// undecodable yields an error for each object of a namespace, or of all if namespace is empty, that could not be
// decoded, and whether s lacks the object. An object whose name could not be decoded has an empty key.
func (s *Snapshot[T]) undecodable(namespace string) iter.Seq2[*DecodeError, bool] {
	return func(yield func(failed *DecodeError, lacks bool) bool) {
		for _, failed := range s.late.failures() {
			if (namespace == "" || failed.Key.Namespace == namespace) && !yield(failed, true) {
				return
			}
		}
		for _, src := range s.sources {
			u := src.Data.undecoded
			if src.Namespace != "" && namespace != "" && src.Namespace != namespace {
				continue
			}
			for key, why := range u.In(namespace) {
				if s.late.failure(key) == nil && !yield(u.failure(key, why), !s.version.Has(key)) {
					return
				}
			}
			for range u.Unnamed() {
				if !yield(u.failure(Key{}, u.Why()), true) {
					return
				}
			}
		}
	}
}

// All yields every object, ordered by namespace, then name.
func (s *Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { s.version.Walk(table.Range{}, yield) }
}

// From yields every object at or after key, in the order of All. The snapshot need not have an object with that key.
func (s *Snapshot[T]) From(key Key) iter.Seq[T] {
	return func(yield func(T) bool) { s.version.Walk(table.Range{From: key}, yield) }
}

// Namespace yields every object of one namespace, ordered by name.
func (s *Snapshot[T]) Namespace(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) { s.version.Walk(table.KeysIn(namespace), yield) }
}

// in yields every object of one namespace, or of all if namespace is empty.
func (s *Snapshot[T]) in(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) { s.version.Walk(table.KeysOf(namespace), yield) }
}

// List returns the objects that All yields, as a new slice.
func (s *Snapshot[T]) List() []T { return s.version.List() }

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.version.Len() }

// ResourceVersion returns the resource version up to which the snapshot is complete: it contains every change up to
// that version. An informer of several namespaces has one watch for each; ResourceVersion then returns the lowest
// version of these, comparing versions as decimal numbers, as KEP-5504 defines. It is empty before the first list, or
// if the server sends no resource versions.
func (s *Snapshot[T]) ResourceVersion() string { return s.sources.Lowest() }

// arrivals is a snapshot as an [arrival.State].
type arrivals[T Object] struct{ snapshot *Snapshot[T] }

func (a arrivals[T]) Version(namespace string) string { return a.snapshot.sources.Version(namespace) }

func (a arrivals[T]) Object(key Key) (uid types.UID, version string) {
	obj, ok := a.snapshot.Get(key)
	if !ok {
		return "", ""
	}
	return obj.GetUID(), obj.GetResourceVersion()
}
