package informer

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Enqueue returns a handler that adds what keys returns for an object to queue, at each event that meets all of when.
// At an update that is what keys returns for the old state and for the new one, so that whoever lost the object hears
// of it too. keys may return any number of keys, and must not change the object.
//
// Objects of the initial list, and those given again by a resync, go in at [LowPriority], so that a change as it
// happens does not wait behind the whole collection; all others at [NormalPriority].
func Enqueue[T Object, K comparable](queue *Queue[K], keys func(obj T) []K, when ...Predicate[T]) Handler[T] {
	return enqueuer[T, K]{queue, keys, AllOf(when...)}
}

// EnqueueObject is [Enqueue] with the object's own key.
func EnqueueObject[T Object](queue *Queue[Key], when ...Predicate[T]) Handler[T] {
	return Enqueue(queue, func(obj T) []Key { return []Key{KeyOf(obj)} }, when...)
}

// EnqueueOwner is [Enqueue] with the keys of the object's owners; see [OwnerKeys].
func EnqueueOwner[T Owned](queue *Queue[Key], owner Owner, when ...Predicate[T]) Handler[T] {
	return Enqueue(queue, OwnerKeys[T](owner), when...)
}

type enqueuer[T Object, K comparable] struct {
	queue *Queue[K]
	keys  func(T) []K
	when  Predicate[T]
}

func (q enqueuer[T, K]) OnAdd(obj T, initial bool) {
	q.event(Event[T]{Type: Added, Object: obj, Initial: initial}, initial)
}

func (q enqueuer[T, K]) OnUpdate(old, new T) {
	q.event(Event[T]{Type: Updated, Object: new, Old: old}, old == new)
}

func (q enqueuer[T, K]) OnDelete(last T, final bool) {
	q.event(Event[T]{Type: Deleted, Object: last, Final: final}, false)
}

func (q enqueuer[T, K]) event(e Event[T], canWait bool) {
	var none T
	if !q.when(e) {
		return
	}
	var o AddOptions
	if canWait {
		o.Priority = LowPriority
	}
	if e.Old != none && e.Old != e.Object {
		q.queue.AddWith(o, q.keys(e.Old)...)
	}
	q.queue.AddWith(o, q.keys(e.Object)...)
}

// Owned is an Object that tells its owners, as every type does that embeds metav1.ObjectMeta.
type Owned interface {
	Object
	GetOwnerReferences() []metav1.OwnerReference
}

// Owner says which owners of an object count.
type Owner struct {
	// GroupKind is the kind of the owner. Its version does not matter.
	schema.GroupKind
	// ClusterScoped says that owners are in no namespace. Zero means that they are in that of the object.
	ClusterScoped bool
	// All says that every owner counts. Zero means only the one that is marked as the controller, of which there is
	// one at most.
	All bool
}

// OwnerKeys returns a function that returns the keys of an object's owners. It serves [EnqueueOwner], and [NewIndex]
// to find the objects of an owner.
func OwnerKeys[T Owned](owner Owner) func(obj T) []Key {
	return func(obj T) []Key {
		var keys []Key
		for _, ref := range obj.GetOwnerReferences() {
			if ref.Kind != owner.Kind || !owner.All && (ref.Controller == nil || !*ref.Controller) {
				continue
			}
			if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != owner.Group {
				continue
			}
			key := Key{Name: ref.Name}
			if !owner.ClusterScoped {
				key.Namespace = obj.GetNamespace()
			}
			keys = append(keys, key)
		}
		return keys
	}
}

// Predicate says whether an event matters.
type Predicate[T Object] func(e Event[T]) bool

// AllOf returns a predicate that is met when all of these are. Of none it is always met.
func AllOf[T Object](predicates ...Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool {
		for _, p := range predicates {
			if !p(e) {
				return false
			}
		}
		return true
	}
}

// AnyOf returns a predicate that is met when any of these is. Of none it is never met.
func AnyOf[T Object](predicates ...Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool {
		for _, p := range predicates {
			if p(e) {
				return true
			}
		}
		return false
	}
}

// Not returns a predicate that is met when p is not.
func Not[T Object](p Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool { return !p(e) }
}

// GenerationChanged is a [Predicate] that leaves out updates which do not change metadata.generation, and resyncs.
// For most types the API server changes it when the spec changes, and not with the status or the metadata.
func GenerationChanged[T interface {
	Object
	GetGeneration() int64
}](e Event[T]) bool {
	return e.Type != Updated || e.Old.GetGeneration() != e.Object.GetGeneration()
}

// LabelsChanged is a [Predicate] that leaves out updates which do not change the labels, and resyncs.
func LabelsChanged[T interface {
	Object
	GetLabels() map[string]string
}](e Event[T]) bool {
	return e.Type != Updated || !maps.Equal(e.Old.GetLabels(), e.Object.GetLabels())
}

// AnnotationsChanged is a [Predicate] that leaves out updates which do not change the annotations, and resyncs.
func AnnotationsChanged[T interface {
	Object
	GetAnnotations() map[string]string
}](e Event[T]) bool {
	return e.Type != Updated || !maps.Equal(e.Old.GetAnnotations(), e.Object.GetAnnotations())
}
