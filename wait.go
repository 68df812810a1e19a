package informer

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/typedinformer/informer/internal/condition"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/queue/controller"
	"github.com/typedinformer/informer/internal/queue/ownwrites"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/store/arrival"
)

// WaitForResourceVersion waits until the store has every change up to resourceVersion. The version may come from any
// response of the server for this resource: a list, an event, a bookmark or a write. It returns an error if ctx ends or
// the informer stops first, or if resourceVersion is not a decimal number, as KEP-5504 defines it.
//
// If the informer follows several namespaces, each of them must reach resourceVersion. A quiet namespace reaches it
// with its next bookmark, about once a minute. [Informer.WaitForObject] waits for the object's own namespace only. If
// the server sends no resource versions, it waits for a list that began after the call; see [status.ReflectorPolled].
func (i *Informer[T]) WaitForResourceVersion(ctx context.Context, resourceVersion string) error {
	if _, err := resourceversion.CompareResourceVersion(resourceVersion, resourceVersion); err != nil {
		return err
	}
	begun := time.Now()
	return i.waitUntil(ctx, func(s *Snapshot[T]) bool {
		all := len(i.resource.Selections) > 0 || len(s.core().Sources()) == len(i.resource.sources())
		return all && (object.Reached(s.ResourceVersion(), resourceVersion) || s.core().PolledSince(begun, ""))
	})
}

// Versioned is the identity and version of an object of any type.
type Versioned interface {
	GetNamespace() string
	GetName() string
	GetResourceVersion() string
}

// WaitForObject waits until the store has obj, which a write returned, or a newer version, or until the store knows
// that obj no longer exists. If the write removed the last finalizer of an object to be deleted, it waits for the
// deletion. A later read sees the write. If the server sends no resource versions for the collection, WaitForObject
// waits for the object or for a list that began after the call.
//
// WaitForObject returns nil at once for an object that the informer does not follow: one of another namespace, or one
// that does not match the label selector or a field selector on metadata.name or metadata.namespace. It returns an
// error if ctx ends or the informer stops first, and a [*DecodeError] if the store cannot have the version because it
// could not be decoded.
func (i *Informer[T]) WaitForObject(ctx context.Context, obj Versioned) error {
	rv := obj.GetResourceVersion()
	if _, err := resourceversion.CompareResourceVersion(rv, rv); err != nil {
		return err
	}
	if i.invalid == nil && !i.latest().follows(obj) {
		return nil
	}
	want := arrival.Want{Key: object.KeyOf(obj), Version: rv}
	want.UID, want.Gone = ownwrites.Removed(i.resource.GroupResource(), obj)
	var undecodable error
	begun := time.Now()
	err := i.waitUntil(ctx, func(s *Snapshot[T]) bool {
		undecodable = nil
		if have, ok := s.Get(want.Key); !ok || !object.Reached(have.GetResourceVersion(), rv) {
			undecodable = s.Undecodable(want.Key)
		}
		return s.core().Has(want) || s.core().PolledSince(begun, want.Key.Namespace)
	})
	return cmp.Or(err, undecodable)
}

// WrittenStore is an [*Informer] of any type. A controller with OwnWrites waits until its store has a write.
type WrittenStore interface {
	// await returns a function that waits until the store has w. It returns nil if the store will never have w.
	await(w ownwrites.Write) controller.Await
}

// await implements WrittenStore.
func (i *Informer[T]) await(w ownwrites.Write) controller.Await {
	if i.invalid != nil || !i.client.http.HadBase(w.Server) || w.Resource != i.resource.GroupResource() {
		return nil
	}
	key := object.KeyOf(w.Object)
	want := arrival.Want{Key: key, Version: w.Version, UID: w.Object.GetUID(), Gone: w.Gone}
	if _, err := resourceversion.CompareResourceVersion(w.Version, w.Version); err != nil {
		want.Version = "" // versions of this server have no order
	}
	snap := i.store.Snapshot()
	obj := cmp.Or(w.Before, w.Object) // Before has labels
	follows := i.latest().follows(obj) && snap.core().InShard(obj)
	if want.Version == "" && !want.Gone || !follows && !snap.core().Table().Has(key) {
		return nil
	}
	if snap.core().PolledSince(time.Time{}, key.Namespace) { // no version would end the wait
		return nil
	}
	want.Leaves = !follows
	return func(done func()) func() { return i.store.core().Await(want, done) }
}

// Await waits until the object with that key meets cond, and returns it. Await calls cond in the caller's goroutine,
// with each version that it sees, and with the zero T while the object does not exist. A cond that returns obj == nil
// waits for a deletion. Await does not call cond for a version that could not be decoded, but waits for the next one.
// It returns an error if ctx ends or the informer stops first, which then also wraps the [*DecodeError] of the latest
// version.
func (i *Informer[T]) Await(ctx context.Context, key Key, cond func(obj T) bool) (T, error) {
	var met T
	var undecodable error
	err := i.waitUntil(ctx, func(s *Snapshot[T]) bool {
		obj, ok := s.Get(key)
		undecodable = s.Undecodable(key)
		if !ok && (!run.IsClosed(i.synced) || undecodable != nil) || !cond(obj) {
			return false
		}
		met = obj
		return true
	})
	switch {
	case err != nil && undecodable != nil:
		return met, fmt.Errorf("await %s %s: %w: %w", i.resource.Resource, key, err, undecodable)
	case err != nil:
		return met, fmt.Errorf("await %s %s: %w", i.resource.Resource, key, err)
	}
	return met, nil
}

// waitUntil returns nil as soon as a snapshot of the store meets cond. It returns the cause of ctx if ctx ends first,
// and an error that wraps [ErrStopped] if the informer stops first.
func (i *Informer[T]) waitUntil(ctx context.Context, cond func(*Snapshot[T]) bool) error {
	if i.invalid != nil {
		return i.invalid
	}
	for {
		published := i.store.core().Published()
		synced := i.synced
		if run.IsClosed(synced) {
			synced = nil
		}
		if cond(i.store.Snapshot()) {
			return i.lasting()
		}
		select {
		case <-published:
		case <-synced: // after the list was published
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-i.stopped:
			if cond(i.store.Snapshot()) {
				return i.lasting()
			}
			return fmt.Errorf("%s: %w", i.resource, ErrStopped)
		}
	}
}

// lasting returns an error if the store may be empty only because of [Informer.Retire], and nil otherwise. Call it
// after reading the store.
func (i *Informer[T]) lasting() error {
	if i.engine.Retired() {
		return fmt.Errorf("%s: %w", i.resource, ErrStopped)
	}
	return nil
}

// HasCondition returns a function for [Informer.Await]. It returns true for an object that has a condition of that type
// with that status in status.conditions: ("Ready", "True") of a Pod or a Node, ("Available", "True") of a Deployment,
// ("Established", "True") of a CustomResourceDefinition. Both may be strings or constants of the API:
//
//	ready := informer.HasCondition[*corev1.Pod](corev1.PodReady, corev1.ConditionTrue)
//
// A condition whose observedGeneration, or else that of the status, differs from metadata.generation belongs to an
// older spec and does not count. T must be *unstructured.Unstructured or have these fields under the names that the Go
// types of the API use; otherwise the function returns false.
func HasCondition[T Object, C, S ~string](conditionType C, status S) func(obj T) bool {
	return func(obj T) bool {
		return !object.IsNil(obj) && condition.Has(obj, string(conditionType), string(status))
	}
}
