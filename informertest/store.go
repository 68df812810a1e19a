package informertest

import (
	"testing"

	"github.com/typedinformer/informer"
)

// NewStore returns a store with objects, for tests of code that reads a store or a lister. Such a test needs no server:
//
//	pods, writer := informertest.NewStore(t, web, db)
//	lister := corev1informers.NewPodLister(pods)
//
// All listers and indexes take the store, as they take an informer. The test changes it by the writer, at any time: see
// [informer.StoreWriter.Apply]. The store keeps the objects themselves, not copies. It ignores an object with the UID
// and the resource version of one that it has, so give a changed object a new version, or none.
//
// NewStore ends the test if an object is nil or has no name, or if two objects have the same namespace and name.
func NewStore[T informer.Object](t testing.TB, objects ...T) (*informer.Store[T], informer.StoreWriter[T]) {
	t.Helper()
	store, writer := informer.NewStore[T]()
	var batch []informer.Delta[T]
	for _, obj := range objects {
		batch = append(batch, informer.Delta[T]{Type: informer.Upserted, Object: obj})
	}
	if err := writer.Apply(batch...); err != nil {
		t.Fatalf("informertest.NewStore of %T: %v", *new(T), err)
	}
	seen := map[informer.Key]bool{}
	for _, obj := range objects {
		key := informer.KeyOf(obj)
		if seen[key] {
			t.Fatalf("informertest.NewStore of %T: two objects have the key %s", obj, key)
		}
		seen[key] = true
	}
	return store, writer
}
