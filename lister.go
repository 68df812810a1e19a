package informer

import (
	"iter"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/store/table"
)

// Labeled is an [Object] with labels, for a [Lister]. Every type that embeds metav1.ObjectMeta is one.
type Labeled interface {
	Object
	GetLabels() map[string]string
}

// Lister reads a [Store] as client-go's listers do: by name, with a NotFound error, and by label selector. It holds no
// data of its own, so creating one is cheap.
//
// If no version of an object could be decoded, Get returns a [*DecodeError], not NotFound. List and All leave such
// objects out; [NamespaceLister.ListComplete] returns an error for them, also for all namespaces: Namespace(""). Of
// other objects, all return the last version that could be decoded; see [Store.Undecodable].
//
// Each call reads one consistent [Snapshot]. Lists are ordered by namespace, then name. Callers must not write to the
// objects. All methods are safe for concurrent use.
type Lister[T Labeled] struct {
	store    *Store[T]
	resource schema.GroupResource
}

// NewLister returns a lister of source, an [Informer] or a [Store]. An informer's lister is empty at first, and
// complete once the informer has synced. NotFound errors name resource.
func NewLister[T Labeled](source Indexable[T], resource schema.GroupResource) Lister[T] {
	return Lister[T]{source.indexed(), resource}
}

// Get returns the object with that key, or the NotFound error that the API server would return; see
// apierrors.IsNotFound. If the object exists but could not be decoded, the error is a [*DecodeError].
func (l Lister[T]) Get(key Key) (T, error) {
	snap := l.store.Snapshot()
	obj, ok := snap.Get(key)
	if ok {
		return obj, nil
	}
	if err := snap.Undecodable(key); err != nil {
		return obj, err
	}
	return obj, apierrors.NewNotFound(l.resource, key.Name)
}

// List returns the objects whose labels selector matches, as a new slice. A nil selector matches all.
func (l Lister[T]) List(selector labels.Selector) []T { return l.Namespace("").List(selector) }

// All yields every object.
func (l Lister[T]) All() iter.Seq[T] { return l.store.All() }

// Namespace returns a lister of the objects of one namespace. If namespace is empty, List and All return the objects of
// all namespaces, and Get returns an object without a namespace, as in client-go.
func (l Lister[T]) Namespace(namespace string) NamespaceLister[T] {
	return NamespaceLister[T]{l, namespace}
}

// Select yields the objects of snap in namespace whose labels selector matches, in the order of [Snapshot.All]. An
// empty namespace means all namespaces, and a nil selector matches all. With LayoutCompact, only the matching objects
// are decoded.
func Select[T Labeled](snap *Snapshot[T], namespace string, selector labels.Selector) iter.Seq[T] {
	switch {
	case selector == nil || selector.Empty():
		return snap.core().In(namespace)
	case snap.core().Labels() != nil:
		return func(yield func(T) bool) {
			labels := snap.core().Labels()
			matches := func(slot uint32) bool { return selector.Matches(labels(slot)) }
			snap.core().Table().WalkSome(table.KeysOf(namespace), matches, yield)
		}
	}
	return func(yield func(T) bool) {
		snap.core().Table().WalkShared(table.KeysOf(namespace), func(obj T) bool {
			return !selector.Matches(labels.Set(obj.GetLabels())) || yield(snap.core().Table().Give(obj))
		})
	}
}

// NamespaceLister reads the objects of one namespace, or those of a cluster-scoped resource; see [Lister.Namespace].
type NamespaceLister[T Labeled] struct {
	lister    Lister[T]
	namespace string
}

// NewClusterLister is like [NewLister], for a cluster-scoped resource, whose objects have no namespace.
func NewClusterLister[T Labeled](source Indexable[T], resource schema.GroupResource) NamespaceLister[T] {
	return NewLister(source, resource).Namespace("")
}

// Get returns the object with that name, or an error; see [Lister.Get].
func (l NamespaceLister[T]) Get(name string) (T, error) {
	return l.lister.Get(Key{Namespace: l.namespace, Name: name})
}

// List returns the objects whose labels selector matches, as a new slice. A nil selector matches all.
func (l NamespaceLister[T]) List(selector labels.Selector) []T {
	return selected(l.lister.store.Snapshot(), l.namespace, selector)
}

// ListComplete is like List. If objects may be missing because they could not be decoded, it also returns an error,
// which wraps the [*DecodeError] of one of them. The labels of such an object are not known, so it counts whatever
// selector is.
func (l NamespaceLister[T]) ListComplete(selector labels.Selector) ([]T, error) {
	snap := l.lister.store.Snapshot()
	list := selected(snap, l.namespace, selector)
	return list, snap.Missing(l.namespace)
}

func selected[T Labeled](snap *Snapshot[T], namespace string, selector labels.Selector) []T {
	if namespace == "" && (selector == nil || selector.Empty()) {
		return snap.List()
	}
	return slices.Collect(Select(snap, namespace, selector))
}

// All yields every object.
func (l NamespaceLister[T]) All() iter.Seq[T] {
	return l.lister.store.core().Snapshot().In(l.namespace)
}
