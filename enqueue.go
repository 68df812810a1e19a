package informer

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/queue/controller"
	"github.com/typedinformer/informer/internal/queue/ownwrites"
	"github.com/typedinformer/informer/internal/queue/queue"
	"github.com/typedinformer/informer/status"
)

// Source adds keys to the queue of a [Controller], for the events of one informer. [EnqueueObject], [EnqueueOwner],
// [Enqueue] and [EnqueueBy] return one, and [Controller.Watch] subscribes to it. [EnqueueFrom] returns one for events
// of another kind. The zero Source is an error.
type Source[K comparable] struct {
	resync    time.Duration
	subscribe func(into target[K], resync time.Duration) *Subscription
	store     WrittenStore
}

// target is where a source adds keys.
type target[K comparable] struct {
	queue *Queue[K]
	own   *ownwrites.Ledger[K] // the writes whose events do not count; nil for none
}

// add adds keys for an event with change, except those whose own writes explain it.
func (t target[K]) add(change ownwrites.Change, o AddOptions, keys ...K) {
	if t.own == nil {
		t.queue.AddWith(o, keys...)
		return
	}
	for _, key := range keys {
		t.own.Event(key, change, func() { t.queue.AddWith(o, key) })
	}
}

// changeOf returns the change from old, which is nil for an addition, to obj.
func changeOf[T Object](old, obj T) ownwrites.Change {
	change := ownwrites.Change{UID: obj.GetUID(), To: obj.GetResourceVersion()}
	if !object.IsNil(old) {
		change.From = old.GetResourceVersion()
	}
	return change
}

var errZeroSource = errors.New("the Source is zero: make one with EnqueueObject, EnqueueOwner, Enqueue or EnqueueBy")

// WithResync returns a copy of s that adds the keys of all objects again and again, with LowPriority; see
// SubscriptionConfig.Resync. Zero means never. If only some keys need that, set Result.RequeueAfter for them instead.
func (s Source[K]) WithResync(resync time.Duration) Source[K] {
	s.resync = resync
	return s
}

// EnqueueObject returns a source that adds an object's own key to the queue, for each event for which all predicates
// return true.
//
// Objects of the initial list and of a resync have [LowPriority], so changes do not wait behind the whole collection.
// All other events have [NormalPriority].
//
// Without predicates, EnqueueObject reads only the key: with LayoutCompact, it decodes no object.
func EnqueueObject[T Object](i *Informer[T], predicates ...Predicate[T]) Source[Key] {
	if len(predicates) == 0 {
		return enqueueBy(i, func(into target[Key]) Handler[T] { return keyEnqueuer[T]{into} }, enqueueConfig[T]())
	}
	return Enqueue(i, func(obj T) []Key { return []Key{KeyOf(obj)} }, predicates...)
}

// EnqueueOwner is like [EnqueueObject], but adds the keys of the object's owners; see [OwnerKeys].
func EnqueueOwner[T Owned](i *Informer[T], owner Owner, predicates ...Predicate[T]) Source[Key] {
	return Enqueue(i, OwnerKeys[T](owner), predicates...)
}

// Enqueue is like [EnqueueObject], but adds the keys that the function keys returns. For an update it adds the keys of
// both the old and the new state, each once, so an owner that has lost the object is reconciled too. keys may return
// any number of keys, in a slice that it does not change later, and must not change the object.
//
// Enqueue calls keys for every change, since Reconcile may have seen each state in the store. If keys is slow, it
// delays the informer once more than 1,024 changes wait. If keys always returns none, the controller only waits until
// the informer has synced. Use this for objects that Reconcile reads and whose events do not matter.
func Enqueue[T Object, K comparable](i *Informer[T], keys func(obj T) []K, predicates ...Predicate[T]) Source[K] {
	return enqueueBy(i, func(into target[K]) Handler[T] { return enqueuer[T, K]{into, keys, AllOf(predicates...)} },
		enqueueConfig[T]())
}

func enqueueConfig[T Object]() SubscriptionConfig[T] {
	return SubscriptionConfig[T]{Delivery: DeliverEveryBlocking(0)}
}

// EnqueueBy returns a source with a custom handler, which chooses the keys and options to add to queue for each event.
// [Controller.Watch] calls the function handler with the controller's queue. [Controller.Replay] calls it again, with a
// queue of its own. Use the queue that the function receives. An empty config.Name means "queue" and the name of the
// queue.
func EnqueueBy[T Object, K comparable](i *Informer[T], handler func(queue *Queue[K]) Handler[T],
	config SubscriptionConfig[T]) Source[K] {
	return enqueueBy(i, func(into target[K]) Handler[T] { return handler(into.queue) }, config)
}

func enqueueBy[T Object, K comparable](i *Informer[T], handler func(target[K]) Handler[T],
	config SubscriptionConfig[T]) Source[K] {
	subscribe := func(into target[K], resync time.Duration) *Subscription {
		config := config
		config.Resync = resync
		if config.Name == "" {
			config.Name = "queue " + into.queue.config.Name
		}
		return i.Subscribe(handler(into), config)
	}
	return Source[K]{config.Resync, subscribe, i}
}

// Subscriber is what a [Controller] needs of a subscription that [EnqueueFrom] begins. Its methods are those of
// [*Subscription], which is one. They must be safe for concurrent use.
type Subscriber interface {
	HasSynced() bool
	WaitSynced(ctx context.Context) error
	Close()
	Done() <-chan struct{}
	// Err returns [ErrClosed] after Close.
	Err() error
	Status() status.Subscription
}

// EnqueueFrom returns a source of keys that does not belong to one informer. [Controller.Watch] calls subscribe, which
// begins to add keys to queue, and [Controller.Replay] calls it again. resync is that of [Source.WithResync]. stores
// yields the informers that the keys come from: a controller with OwnWrites waits until the first of them that follows
// a written object has it. Nil means that it waits for none.
func EnqueueFrom[K comparable](subscribe func(queue *Queue[K], resync time.Duration) Subscriber,
	stores iter.Seq[WrittenStore]) Source[K] {
	return Source[K]{
		subscribe: func(into target[K], resync time.Duration) *Subscription {
			return &Subscription{foreign{subscribe(into.queue, resync)}}
		},
		store: writtenStores(stores),
	}
}

// foreign is a Subscriber as a deliver.Subscriber.
type foreign struct{ Subscriber }

// End implements deliver.Subscriber.
func (f foreign) End(error) { f.Close() }

// Released implements deliver.Subscriber.
func (f foreign) Released() <-chan struct{} { return f.Done() }

// writtenStores are several stores as one WrittenStore. Nil is none.
type writtenStores iter.Seq[WrittenStore]

// await implements WrittenStore.
func (s writtenStores) await(w ownwrites.Write) controller.Await {
	if s == nil {
		return nil
	}
	for store := range s {
		if wait := store.await(w); wait != nil {
			return wait
		}
	}
	return nil
}

// sources are the sources of a controller. The zero value has none. All methods are safe for concurrent use.
type sources[K comparable] struct {
	controller.Sources // those that are not known to be synced

	mu  sync.Mutex // protects the field below
	all []replay[K]
}

// watch adds r, which Sources has already.
func (s *sources[K]) watch(r replay[K]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
}

// watched returns the sources that were not closed.
func (s *sources[K]) watched() []replay[K] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(r replay[K]) bool { return errors.Is(r.subscription.Err(), ErrClosed) })
	return slices.Clone(s.all)
}

// replay is a source of a controller that can return its keys again.
type replay[K comparable] struct {
	source       Source[K]
	subscription *Subscription // of the controller
}

// keys returns the keys of all objects of the source for which match returns true. It subscribes once more, for the
// initial list only.
func (r replay[K]) keys(ctx context.Context, match func(K) bool) ([]K, error) {
	queue := NewQueue(QueueConfig[K]{Name: "replay"})
	queue.own(func(key K) Ownership {
		if match(key) {
			return KeyOwned
		}
		return KeyForeign
	})
	s := r.source.subscribe(target[K]{queue: queue}, 0)
	defer s.Close()
	if err := s.WaitSynced(ctx); err != nil {
		return nil, err
	}
	return queue.keys(), nil
}

// enqueuer adds keys of the objects to queue.
type enqueuer[T Object, K comparable] struct {
	into target[K]
	keys func(T) []K
	when Predicate[T]
}

func (q enqueuer[T, K]) OnAdd(obj T, initial bool) {
	q.event(Event[T]{Type: Added, Object: obj, Initial: initial}, initial)
}

func (q enqueuer[T, K]) OnUpdate(old, new T) {
	q.event(Event[T]{Type: Updated, Object: new, Old: old}, object.Same(old, new))
}

func (q enqueuer[T, K]) OnDelete(last T, final bool) {
	q.event(Event[T]{Type: Deleted, Object: last, Final: final}, false)
}

func (q enqueuer[T, K]) event(e Event[T], canWait bool) {
	if !q.when(e) {
		return
	}
	var o AddOptions
	if canWait {
		o.Priority = LowPriority
	}
	var change ownwrites.Change // zero for a deletion and the first list
	if q.into.own != nil && e.Type != Deleted && !e.Initial {
		change = changeOf(e.Old, e.Object)
	}
	var before []K
	if !object.IsNil(e.Old) && !object.Same(e.Old, e.Object) {
		before = q.keys(e.Old)
	}
	q.into.add(change, o, queue.Union(before, q.keys(e.Object))...)
}

// keyEnqueuer adds the key of each object to queue.
type keyEnqueuer[T Object] struct{ into target[Key] }

func (q keyEnqueuer[T]) OnAdd(obj T, initial bool) {
	var none T
	q.change(none, obj, initial)
}
func (q keyEnqueuer[T]) OnUpdate(old, new T) { q.change(old, new, object.Same(old, new)) }
func (q keyEnqueuer[T]) OnDelete(last T, _ bool) {
	q.into.add(ownwrites.Change{}, AddOptions{}, KeyOf(last))
}

// change adds the key of obj. A change that can wait is of the first list or of a resync: no write explains it.
func (q keyEnqueuer[T]) change(old, obj T, canWait bool) {
	var o AddOptions
	var change ownwrites.Change
	if canWait {
		o.Priority = LowPriority
	} else if q.into.own != nil {
		change = changeOf(old, obj)
	}
	q.into.add(change, o, KeyOf(obj))
}

// ofPacked implements undecoding.
func (q keyEnqueuer[T]) ofPacked() deliver.Handler[*packed] { return keyEnqueuer[*packed](q) }

// Owned is an [Object] that has owner references. Every type that embeds metav1.ObjectMeta is one.
type Owned interface {
	Object
	GetOwnerReferences() []metav1.OwnerReference
}

// Owner selects owners of an object.
type Owner struct {
	// GroupKind is the kind of the owner. Its version does not matter.
	schema.GroupKind
	// ClusterScoped is true if owners are in no namespace. False means that they are in the namespace of the object.
	ClusterScoped bool
	// All selects every owner of that kind. False means only the owner that is marked as the controller. An object has at
	// most one of these.
	All bool
}

// Key returns the key of the owner that ref, a reference of an object in namespace, names. ok is false if o does not
// select it.
func (o Owner) Key(namespace string, ref metav1.OwnerReference) (key Key, ok bool) {
	if ref.Kind != o.Kind || !o.All && (ref.Controller == nil || !*ref.Controller) {
		return Key{}, false
	}
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err != nil || gv.Group != o.Group {
		return Key{}, false
	}
	if o.ClusterScoped {
		namespace = ""
	}
	return Key{Namespace: namespace, Name: ref.Name}, true
}

// OwnerKeys returns a function that returns the keys of an object's owners. [EnqueueOwner] uses it. Pass it to
// [NewIndex] for an index that finds the objects of an owner.
func OwnerKeys[T Owned](owner Owner) func(obj T) []Key {
	return func(obj T) []Key {
		var keys []Key
		for _, ref := range obj.GetOwnerReferences() {
			if key, ok := owner.Key(obj.GetNamespace(), ref); ok {
				keys = append(keys, key)
			}
		}
		return keys
	}
}

// Predicate reports whether an event matters. Comparing parts that did not change is cheap, for example Old.Spec and
// Object.Spec by equality.Semantic.DeepEqual; see OnUpdate of [Handler].
type Predicate[T Object] func(e Event[T]) bool

// AllOf returns a predicate that returns true if all predicates do. Without predicates it always returns true.
func AllOf[T Object](predicates ...Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool {
		return !slices.ContainsFunc(predicates, func(p Predicate[T]) bool { return !p(e) })
	}
}

// AnyOf returns a predicate that returns true if any of the predicates does. Without predicates it always returns
// false.
func AnyOf[T Object](predicates ...Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool {
		return slices.ContainsFunc(predicates, func(p Predicate[T]) bool { return p(e) })
	}
}

// Not returns a predicate that returns true if p returns false.
func Not[T Object](p Predicate[T]) Predicate[T] {
	return func(e Event[T]) bool { return !p(e) }
}

// GenerationChanged is a [Predicate] that rejects updates which do not change metadata.generation, and resyncs. For
// most types the API server changes the generation when the spec changes, but not when the status or the metadata
// changes.
func GenerationChanged[T interface {
	Object
	GetGeneration() int64
}](e Event[T]) bool {
	return e.Type != Updated || e.Old.GetGeneration() != e.Object.GetGeneration()
}

// LabelsChanged is a [Predicate] that rejects updates which do not change the labels, and resyncs.
func LabelsChanged[T interface {
	Object
	GetLabels() map[string]string
}](e Event[T]) bool {
	return e.Type != Updated || !maps.Equal(e.Old.GetLabels(), e.Object.GetLabels())
}

// AnnotationsChanged is a [Predicate] that rejects updates which do not change the annotations, and resyncs.
func AnnotationsChanged[T interface {
	Object
	GetAnnotations() map[string]string
}](e Event[T]) bool {
	return e.Type != Updated || !maps.Equal(e.Old.GetAnnotations(), e.Object.GetAnnotations())
}
