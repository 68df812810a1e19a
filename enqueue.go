package informer

import (
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Source is where the keys of a [Controller] come from. [EnqueueObject], [EnqueueOwner], [Enqueue] and [EnqueueBy] return
// one, and [Controller.Watch] subscribes to it.
type Source[K comparable] interface {
	subscribe(queue *Queue[K]) *Subscription
}

// EventSource is the [Source] that the events of one informer are.
type EventSource[T Object, K comparable] struct {
	informer *Informer[T]
	handler  func(queue *Queue[K]) Handler[T]
	config   SubscriptionConfig[T]
	every    bool // the handler needs each change: the queue folds keys
}

// EnqueueObject returns a source that adds an object's own key to the queue, at each event that meets all of when.
//
// Objects of the initial list and of a resync have [LowPriority], so a change as it happens does not wait behind the
// whole collection. All other events have [NormalPriority].
func EnqueueObject[T Object](i *Informer[T], when ...Predicate[T]) EventSource[T, Key] {
	return Enqueue(i, func(obj T) []Key { return []Key{KeyOf(obj)} }, when...)
}

// EnqueueOwner is [EnqueueObject] with the keys of the object's owners; see [OwnerKeys].
func EnqueueOwner[T Owned](i *Informer[T], owner Owner, when ...Predicate[T]) EventSource[T, Key] {
	return Enqueue(i, OwnerKeys[T](owner), when...)
}

// Enqueue is [EnqueueObject] with the keys that the function keys returns. An update adds the keys of the old state and
// those of the new one: an owner that has lost the object is reconciled too. keys may return any number of keys, and
// must not change the object. Every change counts, also of an object that comes and goes while keys is slow: Reconcile may have
// seen it in the store. So keys may delay the informer, once more than SubscriptionConfig.MaxBacklog changes wait. If it always
// returns none, the controller only waits until the informer has synced, which
// is right for objects that Reconcile reads and whose events do not matter.
func Enqueue[T Object, K comparable](i *Informer[T], keys func(obj T) []K, when ...Predicate[T]) EventSource[T, K] {
	source := EnqueueBy(i, func(queue *Queue[K]) Handler[T] { return enqueuer[T, K]{queue, keys, AllOf(when...)} })
	source.every = true
	return source
}

// EnqueueBy returns a source with a handler of your own, which decides for each event what to add to queue, and how.
// [Controller.Watch] calls the function handler once, with the controller's queue.
func EnqueueBy[T Object, K comparable](i *Informer[T], handler func(queue *Queue[K]) Handler[T]) EventSource[T, K] {
	return EventSource[T, K]{informer: i, handler: handler}
}

// With returns a source like s whose subscription has that configuration: a filter, or a resync. Only a source of EnqueueBy heeds
// Delivery and Block.
func (s EventSource[T, K]) With(config SubscriptionConfig[T]) EventSource[T, K] {
	s.config = config
	return s
}

func (s EventSource[T, K]) subscribe(queue *Queue[K]) *Subscription {
	config := s.config
	if s.every {
		config.Delivery, config.Block = DeliverEvery, true
	}
	return s.informer.SubscribeWith(s.handler(queue), config)
}

// enqueuer adds keys of the objects to queue.
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

// Owned is an [Object] that has owner references. Every type that embeds metav1.ObjectMeta is one.
type Owned interface {
	Object
	GetOwnerReferences() []metav1.OwnerReference
}

// Owner says which owners of an object count.
type Owner struct {
	// GroupKind is the kind of the owner. Its version does not matter.
	schema.GroupKind
	// ClusterScoped says that owners are in no namespace. False means that they are in the namespace of the object.
	ClusterScoped bool
	// All says that every owner counts. False means only the owner that is marked as the controller. An object has at
	// most one of these.
	All bool
}

// OwnerKeys returns a function that returns the keys of an object's owners. [EnqueueOwner] uses it. With [NewIndex] it
// finds the objects of an owner.
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
