package kinds

import (
	"iter"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/set"
)

// Handler receives the changes of the objects of all members, with the kind of each. Calls for one kind come one after
// the other, in the order of the changes, as [informer.Handler] says. Calls for different kinds may be concurrent.
type Handler[T informer.Object] interface {
	// OnAdd receives an object that is new to this handler; see [informer.Handler]. initial is also true for the objects
	// of the first list of a kind that joins the set later.
	OnAdd(kind schema.GroupResource, obj T, initial bool)
	// OnUpdate receives an object that has replaced old.
	OnUpdate(kind schema.GroupResource, old, new T)
	// OnDelete receives an object that no longer exists, or whose kind has left the set, with final=false.
	OnDelete(kind schema.GroupResource, last T, final bool)
}

// HandlerFuncs is a [Handler] made of the functions AddFunc, UpdateFunc and DeleteFunc, which have the parameters of the
// methods of Handler. Nil functions are not called.
type HandlerFuncs[T informer.Object] = set.HandlerFuncs[schema.GroupResource, T]

// SubscriptionConfig configures a subscription: Name, Delivery, Resync, NewOnly and OnPanic are those of
// [informer.SubscriptionConfig], for each member. The zero value is right for most.
type SubscriptionConfig = set.SubscriptionConfig

// Subscription ties a handler to a [Set]. Like an [informer.Subscription], it has the methods Close, Done, Err,
// HasSynced, WaitSynced and Status, over all members.
type Subscription = set.Subscription

// Subscribe registers h for the objects of all members, also of those that come later. For each member, it first calls
// OnAdd for every object in the store, and then delivers every later change. If h is nil or c is wrong, Subscribe
// returns a subscription that has ended; see its Err.
func (s *Set[T]) Subscribe(h Handler[T], c SubscriptionConfig) *Subscription {
	return s.members.Subscribe(h, c)
}

// Enqueue returns a source of keys for an [informer.Controller]: those that the function keys returns for the objects
// of all members, also of those that come later. For an update it adds those of both the old and the new state. Keys
// that name the kind beside the object let one controller reconcile all kinds; see [Key].
//
// The source is synced when each present member is synced, or when its start has failed or takes long: so the
// controller must not take a missing object of a kind that is not synced for a deleted one; see [Set.Status].
func Enqueue[T informer.Object, K comparable](s *Set[T],
	keys func(kind schema.GroupResource, obj T) []K) informer.Source[K] {
	return set.Enqueue(s.members, keys)
}

// Key identifies an object of a set.
type Key struct {
	Kind schema.GroupResource
	informer.Key
}

// KeyOf returns the key of an object of a kind.
func KeyOf(kind schema.GroupResource, obj informer.Object) Key { return Key{kind, informer.KeyOf(obj)} }

// String returns the kind and the key, such as "deployments.apps default/web" or "nodes node-1".
func (k Key) String() string { return k.Kind.String() + " " + strings.TrimPrefix(k.Key.String(), "/") }

// Index finds the objects of all members by keys that a function computes from them, such as the UIDs of their owners.
// [NewIndex] creates one. All methods are safe for concurrent use, and take no lock.
type Index[T informer.Object, K comparable] struct {
	index *set.Index[schema.GroupResource, T, K]
}

// NewIndex adds an index to a set, at any time. It is complete for the present members when NewIndex returns, and later
// ones join it. keys returns the keys of an object: none, one or several. It must be fast, and must not call the set.
func NewIndex[T informer.Object, K comparable](s *Set[T],
	keys func(kind schema.GroupResource, obj T) []K) *Index[T, K] {
	return &Index[T, K]{set.NewIndex(s.members, keys)}
}

// Lookup yields the objects that have key, with their kinds. Those of one kind come from one snapshot of its store.
func (x *Index[T, K]) Lookup(key K) iter.Seq2[schema.GroupResource, T] { return x.index.Lookup(key) }

// Snapshot is the state of the stores of a [Set]. It never changes. The part of each kind is a snapshot of its store:
// objects, indexes and resource version belong together. Parts of different kinds may be of different moments.
type Snapshot[T informer.Object] struct {
	snapshot *set.Snapshot[schema.GroupResource, T]
	catalog  *catalog
}

// Snapshot returns the present state of all members.
func (s *Set[T]) Snapshot() *Snapshot[T] {
	s.mu.Lock()
	latest := s.catalog
	s.mu.Unlock()
	return &Snapshot[T]{s.members.Snapshot(), latest}
}

// All yields every object with its kind.
func (s *Snapshot[T]) All() iter.Seq2[schema.GroupResource, T] { return s.snapshot.All() }

// Member returns the snapshot of one kind, under any of its names.
func (s *Snapshot[T]) Member(kind schema.GroupResource) (*informer.Snapshot[T], bool) {
	return s.snapshot.Member(s.catalog.canonical(kind))
}

// Members yields the snapshot of each kind.
func (s *Snapshot[T]) Members() iter.Seq2[schema.GroupResource, *informer.Snapshot[T]] {
	return s.snapshot.Members()
}

// Len returns the number of objects.
func (s *Snapshot[T]) Len() int { return s.snapshot.Len() }
