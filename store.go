package informer

import (
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/runtime"

	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/store/table"
)

// Store is the local copy of a collection. Each read sees one consistent [Snapshot] and takes no lock. Readers
// therefore never block the writer, regardless of their number and of how long they iterate.
//
// The methods of Store only read. An [Informer] writes to its own store; the [StoreWriter] writes to a store that
// [NewStore] returned. All methods are safe for concurrent use.
type Store[T Object] core.Store[T]

// core returns s as its engine.
func (s *Store[T]) core() *core.Store[T] { return (*core.Store[T])(s) }

// Snapshot returns the current state. It costs one atomic load.
func (s *Store[T]) Snapshot() *Snapshot[T] { return (*Snapshot[T])(s.core().Snapshot()) }

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

// Snapshot is the state of a [Store] and its indexes at one moment. It never changes. A caller may keep it as long as
// it likes, which keeps its objects in memory. All methods are safe for concurrent use.
type Snapshot[T Object] core.Snapshot[T]

// core returns s as its engine.
func (s *Snapshot[T]) core() *core.Snapshot[T] { return (*core.Snapshot[T])(s) }

// Copies returns a view of s whose objects are copies. Each read of it, also by an [Index], returns new objects, which
// the caller may write to. With LayoutCompact, a copy costs no more than decoding the object: the decoded one is not
// copied again.
func Copies[T interface {
	Object
	DeepCopyObject() runtime.Object
}](s *Snapshot[T]) *Snapshot[T] {
	return (*Snapshot[T])(s.core().Copies(func(obj T) T { return obj.DeepCopyObject().(T) }))
}

// Get returns the object with that key.
func (s *Snapshot[T]) Get(key Key) (T, bool) { return s.core().Get(key) }

// Undecodable returns an error if the server has an object with that key whose newest version could not be decoded,
// because T or Config.Transform rejects it. Get then returns the last version that could be decoded, or false if there
// was none. Get also returns false for an object that does not exist: Undecodable then returns nil. Call Get first, on
// the same snapshot.
//
// The error is a [*DecodeError] without Raw, whose Err has only the text of the cause. If the name of some object could
// not be decoded, Undecodable returns an error for each key without an object, since the key may be that object's. With
// LayoutCompact, it returns an error for an object that Get could not decode again.
func (s *Snapshot[T]) Undecodable(key Key) error { return s.core().Undecodable(key) }

// AllUndecodable yields an error for each object whose newest version could not be decoded, in no particular order; see
// [Snapshot.Undecodable]. It leaves out objects whose names could not be decoded.
func (s *Snapshot[T]) AllUndecodable() iter.Seq[*DecodeError] {
	return func(yield func(*DecodeError) bool) {
		for failed := range s.core().AllUndecodable("") {
			if failed.Key.Name != "" && !yield(failed.Err.(*DecodeError)) {
				return
			}
		}
	}
}

// Missing returns an error if the server may have objects in a namespace that the snapshot lacks, because no version of
// them could be decoded. It wraps the [*DecodeError] of one of them. An empty namespace means all namespaces. Return
// this error with a list that it may affect. Call Missing after reading the list, since with LayoutCompact the reading
// finds objects that cannot be decoded again.
func (s *Snapshot[T]) Missing(namespace string) error {
	for failed := range s.core().AllUndecodable(namespace) {
		if failed.Lacks {
			return fmt.Errorf("the store lacks objects: %w", failed.Err)
		}
	}
	return nil
}

// All yields every object, ordered by namespace, then name.
func (s *Snapshot[T]) All() iter.Seq[T] { return s.core().All() }

// From yields every object at or after key, in the order of All. The snapshot need not have an object with that key.
func (s *Snapshot[T]) From(key Key) iter.Seq[T] { return s.core().From(key) }

// Namespace yields every object of one namespace, ordered by name.
func (s *Snapshot[T]) Namespace(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) { s.core().Table().Walk(table.KeysIn(namespace), yield) }
}

// List returns the objects that All yields, as a new slice.
func (s *Snapshot[T]) List() []T { return s.core().List() }

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.core().Len() }

// ResourceVersion returns the resource version up to which the snapshot is complete: it contains every change up to
// that version. An informer of several namespaces has one watch for each; ResourceVersion then returns the lowest
// version of these, comparing versions as decimal numbers, as KEP-5504 defines. It is empty before the first list, or
// if the server sends no resource versions.
func (s *Snapshot[T]) ResourceVersion() string { return s.core().ResourceVersion() }

// StoreWriter writes to a [Store]. It is safe for concurrent use. [NewStore] returns one; the zero value is not usable.
type StoreWriter[T Object] struct{ store *Store[T] }

// NewStore returns an empty store and its writer. It panics if == is not defined for T.
func NewStore[T Object]() (*Store[T], StoreWriter[T]) {
	s := (*Store[T])(core.NewDecodedStore[T]())
	return s, StoreWriter[T]{s}
}

// Apply applies batch in one step. Readers see none of it or all of it, in the store, in every index and in the
// resource version.
//
// Apply returns an error if a delta has no type, or if one of its objects is nil, has no name or is outside
// Delta.Namespace. The store then stays unchanged. It also stays unchanged if the function of an index panics or calls
// [runtime.Goexit].
func (w StoreWriter[T]) Apply(batch ...Delta[T]) error {
	s := w.store.core()
	reads := s.Scratch()
	for i := range batch {
		reads = append(reads, batch[i].read())
	}
	return s.Apply(reads)
}
