package crcache

import (
	"context"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/typedinformer/informer/internal/queue/ownwrites"
)

// SkipOwnWrites makes a controller of controller-runtime ignore the events of its own writes, as
// informer.Controller.SkipOwnWrites does: a request is not added for an event if writes of the latest call of Reconcile
// for it lead from the old version of the object to the new one. So a controller that writes a status runs once for a
// change, not twice. Use one for each controller, and wrap its handlers, its Reconciler and the client of that:
//
//	var own crcache.SkipOwnWrites[reconcile.Request]
//	err := ctrl.NewControllerManagedBy(mgr).Named("website").
//		Watches(&Website{}, own.Handler(&handler.EnqueueRequestForObject{})).
//		Complete(own.Reconciler(&websites{own.Client(mgr.GetClient())}))
//
// Only a write that the server accepts at one version of the object, or that creates the object, proves that nobody else
// changed it before: Create, Update and Status().Update of an object with a resourceVersion, and a Patch whose body has
// one, such as that of client.MergeFromWithOptimisticLock. The events of all other writes add their requests, and so do
// deletions, resyncs, the event of a write whose answer was lost, and an event that comes more than a minute after its
// write, or after the next call for its request has begun. Reconcile must pass its context to the client.
//
// It works with the cache of this package and with that of controller-runtime. The zero value is ready to use. All
// methods are safe for concurrent use.
type SkipOwnWrites[R comparable] struct{ ledger ownwrites.Ledger[R] }

// Skipped returns the number of requests that events would have added without s.
func (s *SkipOwnWrites[R]) Skipped() uint64 { return s.ledger.Dropped() }

// Reconciler returns a Reconciler that calls r, and notes what r writes by a client of Client.
func (s *SkipOwnWrites[R]) Reconciler(r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return reconcile.TypedFunc[R](func(ctx context.Context, request R) (reconcile.Result, error) {
		ctx, call := s.ledger.Begin(ctx, request)
		defer call.End()
		return r.Reconcile(ctx, request)
	})
}

// Handler returns a handler that calls h, and adds no request whose own writes explain the event.
func (s *SkipOwnWrites[R]) Handler(h handler.TypedEventHandler[client.Object, R]) handler.TypedEventHandler[client.Object, R] {
	return ownHandler[R]{h, &s.ledger}
}

type ownHandler[R comparable] struct {
	handler.TypedEventHandler[client.Object, R] // of deletions and generic events
	ledger                                      *ownwrites.Ledger[R]
}

// Create implements handler.TypedEventHandler.
func (h ownHandler[R]) Create(ctx context.Context, e event.TypedCreateEvent[client.Object],
	q workqueue.TypedRateLimitingInterface[R]) {
	var change ownwrites.Change // zero for the first list
	if !e.IsInInitialList {
		change = ownwrites.Change{UID: e.Object.GetUID(), To: e.Object.GetResourceVersion()}
	}
	h.TypedEventHandler.Create(ctx, e, h.into(q, change))
}

// Update implements handler.TypedEventHandler.
func (h ownHandler[R]) Update(ctx context.Context, e event.TypedUpdateEvent[client.Object],
	q workqueue.TypedRateLimitingInterface[R]) {
	change := ownwrites.Change{UID: e.ObjectNew.GetUID(), From: e.ObjectOld.GetResourceVersion(), To: e.ObjectNew.GetResourceVersion()}
	h.TypedEventHandler.Update(ctx, e, h.into(q, change))
}

// into returns a queue that adds to q what an event with change adds.
func (h ownHandler[R]) into(q workqueue.TypedRateLimitingInterface[R], change ownwrites.Change) workqueue.TypedRateLimitingInterface[R] {
	own := ownQueue[R]{q, h.ledger, change}
	if ranked, ok := q.(priorityqueue.PriorityQueue[R]); ok {
		return ownPriorityQueue[R]{ranked, own}
	}
	return own
}

// ownQueue is the queue of one event.
type ownQueue[R comparable] struct {
	workqueue.TypedRateLimitingInterface[R]
	ledger *ownwrites.Ledger[R]
	change ownwrites.Change
}

// Add implements workqueue.TypedInterface.
func (q ownQueue[R]) Add(request R) {
	q.ledger.Event(request, q.change, func() { q.TypedRateLimitingInterface.Add(request) })
}

// ownPriorityQueue is ownQueue with priorities.
type ownPriorityQueue[R comparable] struct {
	priorityqueue.PriorityQueue[R]
	own ownQueue[R]
}

// Add implements workqueue.TypedInterface.
func (q ownPriorityQueue[R]) Add(request R) { q.own.Add(request) }

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q ownPriorityQueue[R]) AddWithOpts(o priorityqueue.AddOpts, requests ...R) {
	for _, request := range requests {
		q.own.ledger.Event(request, q.own.change, func() { q.PriorityQueue.AddWithOpts(o, request) })
	}
}

// Client returns a client that does what c does, and notes the writes in the context of a call of Reconciler.
func (s *SkipOwnWrites[R]) Client(c client.Client) client.Client { return ownClient{c} }

type ownClient struct{ client.Client }

// Create implements client.Writer.
func (c ownClient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	o := (&client.CreateOptions{}).ApplyOptions(opts)
	return sending(ctx, obj, true, "", o.DryRun, func() error { return c.Client.Create(ctx, obj, opts...) })
}

// Update implements client.Writer.
func (c ownClient) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	o := (&client.UpdateOptions{}).ApplyOptions(opts)
	return sending(ctx, obj, false, obj.GetResourceVersion(), o.DryRun, func() error { return c.Client.Update(ctx, obj, opts...) })
}

// Patch implements client.Writer.
func (c ownClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	o := (&client.PatchOptions{}).ApplyOptions(opts)
	return sending(ctx, obj, false, base(ctx, obj, patch), o.DryRun, func() error { return c.Client.Patch(ctx, obj, patch, opts...) })
}

// Status implements client.StatusClient.
func (c ownClient) Status() client.SubResourceWriter { return c.SubResource("status") }

// SubResource implements client.SubResourceClientConstructor.
func (c ownClient) SubResource(name string) client.SubResourceClient {
	return ownSubResource{c.Client.SubResource(name), name == "status"}
}

// ownSubResource notes the writes of a status. The responses of other subresources may be of other objects.
type ownSubResource struct {
	client.SubResourceClient
	status bool
}

// Update implements client.SubResourceWriter.
func (c ownSubResource) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	o := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	version := ""
	if c.status && o.SubResourceBody == nil {
		version = obj.GetResourceVersion()
	}
	return sending(ctx, obj, false, version, o.DryRun, func() error { return c.SubResourceClient.Update(ctx, obj, opts...) })
}

// Patch implements client.SubResourceWriter.
func (c ownSubResource) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	o := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	version := ""
	if c.status && o.SubResourceBody == nil {
		version = base(ctx, obj, patch)
	}
	return sending(ctx, obj, false, version, o.DryRun, func() error { return c.SubResourceClient.Patch(ctx, obj, patch, opts...) })
}

// base returns the version that patch requires of obj, or "" if it requires none or nobody wants to know.
func base(ctx context.Context, obj client.Object, patch client.Patch) string {
	if !ownwrites.Recorded(ctx) {
		return ""
	}
	body, err := patch.Data(obj)
	if err != nil { // the write has that error, too
		return ""
	}
	return ownwrites.BaseOf(patch.Type(), body)
}

// sending calls write, which creates obj or changes it at version base, and notes what that made of obj. It notes nothing
// for a base of "" that is no creation, nor for a dry run.
func sending(ctx context.Context, obj client.Object, creates bool, base string, dryRun []string, write func() error) error {
	if !creates && base == "" || len(dryRun) > 0 {
		return write()
	}
	answered := ownwrites.Sending(ctx, base)
	err := write()
	if err != nil {
		answered(nil)
		return err
	}
	answered(obj)
	return nil
}
