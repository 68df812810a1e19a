package informer

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/informer/sources"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/store/arrival"
	"github.com/typedinformer/informer/internal/store/table"
	"github.com/typedinformer/informer/internal/store/undecoded"
)

// Snapshot is the state of an informer.Snapshot. It never changes.
type Snapshot[T object.Object] struct {
	version table.Version[T] // has the objects and the indexes
	sources sources.Sources[listed]
	late    *late                           // with LayoutCompact
	labels  func(slot uint32) labels.Labels // reads labels without decoding the object; nil if all are decoded
}

// source is one of the sources of a snapshot.
type source = sources.Source[listed]

// listed is the state of a source in a snapshot, besides its resource version.
type listed struct {
	list      *reflector.Origin // of the objects; nil before the first list
	undecoded Undecoded
}

// shard returns the shard that the store has of the source.
func (l listed) shard() (s shardset.Shard) {
	if l.list != nil {
		s = l.list.Shard
	}
	return s
}

// Undecoded are the objects of a source whose newest version could not be decoded. The zero value has none.
type Undecoded struct {
	*undecoded.Set
	collection intake.Collection // that of the first object; nil if there was none
}

// After returns the objects of the source of d that could not be decoded after d, given those before.
func After[T object.Object](before Undecoded, d *reflector.Delta[T]) Undecoded {
	switch {
	case d.Type == reflector.Replaced && d.Origin().Kind != reflector.RestOfShard:
		before = Undecoded{}
	case before.Set == nil: // the common case
	case d.Type == reflector.Upserted:
		before.Set = before.Without(object.KeyOf(d.Object))
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

// Table returns the objects and the indexes. The caller must not write to the result.
func (s *Snapshot[T]) Table() *table.Version[T] { return &s.version }

// Labels returns a function that reads the labels of the object in a slot of the table without decoding the object. It
// returns nil if all objects are decoded.
func (s *Snapshot[T]) Labels() func(slot uint32) labels.Labels { return s.labels }

// Copies returns a view of s whose readers get a copy of each object.
func (s *Snapshot[T]) Copies(copy func(T) T) *Snapshot[T] {
	view := *s
	view.version = s.version.Copies(copy)
	return &view
}

// Get returns the object with that key.
func (s *Snapshot[T]) Get(key object.Key) (T, bool) {
	_, obj, ok := s.version.Find(key)
	return obj, ok
}

// All yields every object, ordered by namespace, then name.
func (s *Snapshot[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { s.version.Walk(table.Range{}, yield) }
}

// From yields every object at or after key.
func (s *Snapshot[T]) From(key object.Key) iter.Seq[T] {
	return func(yield func(T) bool) { s.version.Walk(table.Range{From: key}, yield) }
}

// In yields every object of one namespace, or of all if namespace is empty.
func (s *Snapshot[T]) In(namespace string) iter.Seq[T] {
	return func(yield func(T) bool) { s.version.Walk(table.KeysOf(namespace), yield) }
}

// List returns the objects that All yields, as a new slice.
func (s *Snapshot[T]) List() []T { return s.version.List() }

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.version.Len() }

// ResourceVersion returns the lowest resource version of the sources; see informer.Snapshot.
func (s *Snapshot[T]) ResourceVersion() string { return s.sources.Lowest() }

// Sources returns the sources that have reported anything. The caller must not write to the result.
func (s *Snapshot[T]) Sources() sources.Sources[listed] { return s.sources }

// Failed is an object of a snapshot whose newest version could not be decoded.
type Failed struct {
	Key object.Key // the name is empty if it is not known
	Err error      // by intake.Collection
	// Lacks means that the snapshot has no older version of the object, either.
	Lacks bool
}

// Undecodable returns an error if the server has an object with that key whose newest version could not be decoded; see
// informer.Snapshot.
func (s *Snapshot[T]) Undecodable(key object.Key) error {
	var unknown error
	for i := range s.sources {
		src := &s.sources[i]
		failed := src.Data.undecoded
		if failed.Set == nil || src.Namespace != "" && src.Namespace != key.Namespace {
			continue
		}
		if why := failed.Get(key); why != nil {
			return failed.collection.DecodeError(key, why)
		}
		if why := failed.Unknown(); why != nil {
			unknown = failed.collection.DecodeError(key, why)
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

// AllUndecodable yields each object of a namespace, or of all if namespace is empty, that could not be decoded.
func (s *Snapshot[T]) AllUndecodable(namespace string) iter.Seq[Failed] {
	return func(yield func(Failed) bool) {
		for _, failed := range s.late.failures() {
			if (namespace == "" || failed.Key.Namespace == namespace) && !yield(failed) {
				return
			}
		}
		for i := range s.sources {
			src := &s.sources[i]
			failed := src.Data.undecoded
			if src.Namespace != "" && namespace != "" && src.Namespace != namespace {
				continue
			}
			for key, why := range failed.In(namespace) {
				if s.late.failure(key) == nil &&
					!yield(Failed{key, failed.collection.DecodeError(key, why), !s.version.Has(key)}) {
					return
				}
			}
			for range failed.Unnamed() {
				if !yield(Failed{Err: failed.collection.DecodeError(object.Key{}, failed.Why()), Lacks: true}) {
					return
				}
			}
		}
	}
}

// Absent reports whether s has no objects of a namespace because the server does not serve the resource.
func (s *Snapshot[T]) Absent(namespace string) bool {
	for i := range s.sources {
		src := &s.sources[i]
		if l := src.Data.list; (src.Namespace == "" || src.Namespace == namespace) && l != nil && l.Listed.IsZero() {
			return true
		}
	}
	return false
}

// PolledSince reports whether s has the objects of a namespace, or of all if namespace is empty, from lists without a
// resource version that began after since.
func (s *Snapshot[T]) PolledSince(since time.Time, namespace string) bool {
	polled := false
	for _, src := range s.sources {
		if namespace != "" && src.Namespace != "" && src.Namespace != namespace {
			continue
		}
		if src.Version != "" || src.Data.list == nil || !src.Data.list.Listed.After(since) {
			return false
		}
		polled = true
	}
	return polled
}

// InShard reports whether the shard of s has obj.
func (s *Snapshot[T]) InShard(obj object.Object) bool {
	for _, src := range s.sources {
		if src.Data.list != nil && (src.Namespace == "" || src.Namespace == obj.GetNamespace()) {
			return src.Data.list.Shard.Has(obj)
		}
	}
	return true
}

// Has reports whether s has want.
func (s *Snapshot[T]) Has(want arrival.Want) bool { return want.In(arrivals[T]{s}) }

// arrivals is a snapshot as an [arrival.State].
type arrivals[T object.Object] struct{ snapshot *Snapshot[T] }

func (a arrivals[T]) Version(namespace string) string { return a.snapshot.sources.Version(namespace) }

func (a arrivals[T]) Object(key object.Key) (uid types.UID, version string) {
	obj, ok := a.snapshot.Get(key)
	if !ok {
		return "", ""
	}
	return obj.GetUID(), obj.GetResourceVersion()
}
