package informer

import (
	"context"
	"log/slog"
	"time"

	"github.com/typedinformer/informer/internal/queue/controller"
	"github.com/typedinformer/informer/internal/queue/ownwrites"
)

// OwnWrites makes a [Controller] wait for its own writes: a key whose reconcile wrote objects through a [TypedClient]
// is not handed out again until the store of every source of the controller has these writes or newer versions. So
// Reconcile never sees a state older than its own writes, which would make it create objects twice or fail with
// conflicts.
//
// The key takes no worker meanwhile, and becomes ready as soon as the last store has the writes. Reconcile must pass
// its context to the client. The controller does not wait for stores that exclude an object by namespace, labels, name
// or shard. If a store has another field selector that does not match a written object, the key waits for the next
// version that the store receives. The controller does not wait for DeleteCollection, or for writes by other clients.
//
// A key that waits does not count as ready for [Queue.WaitProcessed] and [Controller.WaitSynced]. The waits end with
// Run, and when the queue drains. The zero value waits for nothing.
type OwnWrites struct {
	// Deadline is the time after which the key is handed out even if a store lacks a write, for example because its watch
	// is down or slow. The controller then logs a warning and counts it. Zero means that the controller does not wait for
	// its writes.
	Deadline time.Duration

	holds controller.Holds
}

// note returns the context of a reconcile, and the notes of its writes, or nil if o is the zero value.
func (o *OwnWrites) note(ctx context.Context) (context.Context, *ownwrites.Notes) {
	if o.Deadline <= 0 {
		return ctx, nil
	}
	return ownwrites.With(ctx)
}

// hold keeps key, which is in work, from being handed out again until the stores of sources have the writes in notes.
// log receives a warning at the deadline.
func hold[K comparable](o *OwnWrites, queue *Queue[K], key K, notes *ownwrites.Notes, sources []replay[K],
	log *slog.Logger) {
	var waits []controller.Await
	var resources []string
	for _, w := range notes.Take() {
		for _, s := range sources {
			if s.subscription.Err() != nil {
				continue
			}
			if wait := s.source.store.await(w); wait != nil {
				waits, resources = append(waits, wait), append(resources, w.Resource.String())
			}
		}
	}
	o.holds.Hold(controller.Held{
		Hold:     func() bool { return queue.hold(key) },
		LetGo:    func() { queue.letGo(key) },
		Deadline: o.Deadline,
		Late: func() {
			log.Warn("reconciling again at OwnWrites.Deadline, although a store lacks a write of the last reconcile", "key", key,
				"resources", resources, "deadline", o.Deadline)
		},
	}, waits)
}
