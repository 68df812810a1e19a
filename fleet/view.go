package fleet

import (
	"cmp"
	"slices"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/set"
)

// Handler receives the changes of the objects of all clusters; see [informer.Handler].
type Handler[T informer.Object] = set.Handler[string, T]

// HandlerFuncs is a [Handler] made of functions. Nil functions are not called.
type HandlerFuncs[T informer.Object] = set.HandlerFuncs[string, T]

// SubscriptionConfig configures a subscription. The zero value is right for most.
type SubscriptionConfig = set.SubscriptionConfig

// Subscription ties a handler to a fleet.
type Subscription = set.Subscription

// Snapshot is the state of the stores of a fleet. The part of each cluster is consistent; parts of different clusters may
// be of different moments.
type Snapshot[T informer.Object] = set.Snapshot[string, T]

// Index finds the objects of all clusters by keys.
type Index[T informer.Object, K comparable] = set.Index[string, T, K]

// Subscribe registers h for the objects of all clusters, also of later ones. For each cluster, it first calls OnAdd for
// every object in the store, and then delivers every later change.
func (f *Fleet[T]) Subscribe(h Handler[T], c SubscriptionConfig) *Subscription {
	return f.set.Subscribe(h, c)
}

// Snapshot returns the present objects of all clusters.
func (f *Fleet[T]) Snapshot() *Snapshot[T] { return f.set.Snapshot() }

// NewIndex adds an index over all clusters, also later ones, at any time. keys must be fast, and must not call methods of
// the fleet.
func NewIndex[T informer.Object, K comparable](f *Fleet[T], keys func(cluster string, obj T) []K) *Index[T, K] {
	return set.NewIndex(f.set, keys)
}

// Key is the key of an object in a cluster.
type Key struct {
	Cluster string
	informer.Key
}

// String returns the key as cluster/namespace/name.
func (k Key) String() string { return k.Cluster + "/" + k.Key.String() }

// EnqueueObject returns a source for [informer.Controller.Watch]: the key of each object that changes, in any cluster.
func EnqueueObject[T informer.Object](f *Fleet[T]) informer.Source[Key] {
	return Enqueue(f, func(cluster string, obj T) []Key { return []Key{{cluster, informer.KeyOf(obj)}} })
}

// Enqueue returns a source for [informer.Controller.Watch]: the keys that the function keys returns for each object that
// changes, in any cluster. A cluster that hangs does not keep the controller from the keys of the others.
func Enqueue[T informer.Object, K comparable](f *Fleet[T], keys func(cluster string, obj T) []K) informer.Source[K] {
	return set.Enqueue(f.set, keys)
}

// Status is the status of a fleet.
type Status struct {
	// Err is why the source does not know the clusters. Nil means that it does, or has not reported yet.
	Err error `json:"-"`
	// Clusters has the status of each cluster, by name.
	Clusters []ClusterStatus
}

// ClusterStatus is the status of a cluster of a fleet.
type ClusterStatus struct {
	set.MemberStatus[string]
	// ConfigErr is why the present configuration of the cluster is unusable. The last good one is in use, if there was one:
	// otherwise the cluster has no informer. Nil means that the present configuration is in use.
	ConfigErr error `json:"-"`
}

// Status returns the status of all clusters.
func (f *Fleet[T]) Status() Status {
	members := map[string]set.MemberStatus[string]{}
	for _, m := range f.set.Status() {
		members[m.ID] = m
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := Status{Err: f.failed}
	for name, c := range f.clusters {
		m, ok := members[name]
		if !ok {
			m = set.MemberStatus[string]{ID: name, MemberStatus: informer.MemberStatus{Name: name, Err: c.err}}
		}
		s.Clusters = append(s.Clusters, ClusterStatus{m, c.err})
	}
	slices.SortFunc(s.Clusters, func(a, b ClusterStatus) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// Members returns the status of the clusters, for pages and metrics that show several sets.
func (f *Fleet[T]) Members() []informer.MemberStatus {
	clusters := f.Status().Clusters
	all := make([]informer.MemberStatus, len(clusters))
	for i, c := range clusters {
		all[i] = c.MemberStatus.MemberStatus
	}
	return all
}
