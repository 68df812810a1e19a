package set

import (
	"context"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/queue/queue"
	"github.com/typedinformer/informer/internal/run"
)

// Enqueue returns a source of keys for an [informer.Controller]: the keys that the function keys returns for the
// objects of all members. For an update it adds those of both the old and the new state, each once; keys must
// not change a slice that it has returned. Objects of
// initial lists and of resyncs have [informer.LowPriority].
//
// The source is synced when the members are known, and each present one is synced, or when its start has failed or
// takes long: a member that hangs does not keep the controller from the keys of the others. So Reconcile must not take
// a member without objects for an empty one: Status and [Set.WaitSynced] tell the difference.
func Enqueue[ID comparable, T informer.Object, K comparable](s *Set[ID, T],
	keys func(id ID, obj T) []K) informer.Source[K] {
	subscribe := func(into *informer.Queue[K], resync time.Duration) informer.Subscriber {
		return source{s.Subscribe(enqueuer[ID, T, K]{into, keys}, SubscriptionConfig{
			Name:     "queue " + into.Status().Name,
			Delivery: informer.DeliverEveryBlocking(0),
			Resync:   resync,
		})}
	}
	return informer.EnqueueFrom(subscribe, func(yield func(informer.WrittenStore) bool) {
		for _, m := range s.all() {
			if !yield(m.informer) {
				return
			}
		}
	})
}

// source is the subscription of a controller, which does not wait for a member whose start has failed.
type source struct{ *Subscription }

// HasSynced reports whether WaitSynced would return at once.
func (s source) HasSynced() bool {
	if !run.IsClosed(s.known) {
		return false
	}
	for m, sub := range s.present() {
		if !m.settled() || m.synced() && !sub.HasSynced() {
			return false
		}
	}
	return s.ended() == nil
}

// WaitSynced waits until the members are known, and for those that are in the set then.
func (s source) WaitSynced(ctx context.Context) error {
	return s.wait(ctx, func(m *life, sub joined) error {
		select {
		case <-m.begun:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if !m.synced() {
			return nil
		}
		return sub.WaitSynced(ctx)
	})
}

// enqueuer adds keys of the objects to queue.
type enqueuer[ID comparable, T informer.Object, K comparable] struct {
	queue *informer.Queue[K]
	keys  func(ID, T) []K
}

func (q enqueuer[ID, T, K]) OnAdd(id ID, obj T, initial bool) { q.add(id, nil, obj, initial) }

func (q enqueuer[ID, T, K]) OnUpdate(id ID, old, new T) {
	if object.Same(old, new) { // a resync
		q.add(id, nil, new, true)
		return
	}
	q.add(id, q.keys(id, old), new, false)
}

func (q enqueuer[ID, T, K]) OnDelete(id ID, last T, _ bool) { q.add(id, nil, last, false) }

// add adds the keys of obj, and those of its state before.
func (q enqueuer[ID, T, K]) add(id ID, before []K, obj T, canWait bool) {
	var o informer.AddOptions
	if canWait {
		o.Priority = informer.LowPriority
	}
	q.queue.AddWith(o, queue.Union(before, q.keys(id, obj))...)
}
