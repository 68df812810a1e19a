package reconcile

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/typedinformer/informer"
)

// Object is an object that can be copied, such as *corev1.Pod, *unstructured.Unstructured, or a generated type.
type Object[T any] interface {
	informer.Object
	DeepCopy() T
}

// Reader reads objects from a cache, such as an *informer.Store[T].
type Reader[T any] interface {
	Get(key informer.Key) (obj T, ok bool)
}

// Operation is the write that [CreateOrUpdate] has made.
type Operation uint8

const (
	// Unchanged means that the object was as desired. Nothing was written.
	Unchanged Operation = iota
	// Created means that the object did not exist.
	Created
	// Updated means that the object existed, and was changed.
	Updated
)

// String returns the name of the operation, such as "Created".
func (o Operation) String() string {
	switch o {
	case Unchanged:
		return "Unchanged"
	case Created:
		return "Created"
	case Updated:
		return "Updated"
	}
	return fmt.Sprintf("Operation(%d)", uint8(o))
}

// CreateOrUpdate brings an object into the state that change sets. It reads the object from cache, changes a copy, and
// updates the object if the copy differs. If the object does not exist, it changes a copy of initial, which has at
// least the name and the namespace, and creates it. It returns the object as the server stored it, or a copy from the
// cache if nothing was written. The caller may write to it. To make sure that the next call of Reconcile sees it, call
// Informer.WaitForObject.
//
// If somebody else has written the object, or the cache is behind, CreateOrUpdate reads the object from the server, and
// calls change again, up to five times in all. So change must be right for any version of the object: it sets the
// fields that the caller owns, and leaves the others. It must not change name or namespace. If it returns an error,
// nothing is written.
//
// With a nil cache, CreateOrUpdate reads from the server. The cache may lack objects, but those in it must be whole: no
// Config.Transform may drop their fields.
//
// To declare all fields that the caller owns, and remove those that it no longer sets, use TypedClient.Apply instead.
func CreateOrUpdate[T Object[T]](ctx context.Context, client *informer.TypedClient[T], cache Reader[T], initial T,
	change func(obj T) error) (T, Operation, error) {
	key := informer.KeyOf(initial)
	var have, result, none T
	cached := false
	if cache != nil {
		have, cached = cache.Get(key)
	}
	operation := Unchanged
	add := func() (err error) {
		operation = Created
		result, err = create(ctx, client, initial, change)
		return err
	}
	read := !cached // before the next change
	err := retry.OnError(retry.DefaultRetry, again, func() (err error) {
		if read && cache != nil && operation == Unchanged { // the first try: most likely it does not exist
			return add()
		}
		if read {
			have, err = client.Get(ctx, key, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return add()
			} else if err != nil {
				return err
			}
		}
		read, operation = true, Updated
		changed := false
		result, changed, err = update(ctx, have, change, client.Update)
		if err == nil && !changed {
			operation = Unchanged
		}
		return err
	})
	if err != nil {
		return none, Unchanged, err
	}
	return result, operation, nil
}

// again reports whether a try after err may succeed: the object was written, deleted or created since it was read.
func again(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err)
}

// Update changes a copy of obj, which may be from a cache, and updates the object if the copy differs. It returns the
// object as the server stored it, and whether it was written. After a conflict it reads the object from the server, and
// calls change again, as [CreateOrUpdate] does. If the object was deleted and created again, the error is the conflict.
func Update[T Object[T]](ctx context.Context, client *informer.TypedClient[T], obj T,
	change func(obj T) error) (updated T, changed bool, err error) {
	return retried(ctx, client, obj, change, client.Update)
}

// UpdateStatus is like [Update] for the status subresource. The server ignores changes of the spec and, for custom
// resources, of the metadata.
func UpdateStatus[T Object[T]](ctx context.Context, client *informer.TypedClient[T], obj T,
	change func(obj T) error) (updated T, changed bool, err error) {
	return retried(ctx, client, obj, change, client.UpdateStatus)
}

// writeFunc is TypedClient.Update or UpdateStatus.
type writeFunc[T any] func(ctx context.Context, obj T, o metav1.UpdateOptions) (T, error)

func retried[T Object[T]](ctx context.Context, client *informer.TypedClient[T], obj T, change func(obj T) error,
	write writeFunc[T]) (updated T, changed bool, err error) {
	uid := obj.GetUID()
	var conflict error
	recreated := false
	err = retry.OnError(retry.DefaultRetry, func(err error) bool { return apierrors.IsConflict(err) && !recreated },
		func() error {
			if conflict != nil {
				if obj, err = client.Get(ctx, informer.KeyOf(obj), metav1.GetOptions{}); err != nil {
					return err
				}
				if recreated = obj.GetUID() != uid; recreated {
					return fmt.Errorf("the object was deleted and created again: %w", conflict)
				}
			}
			updated, changed, conflict = update(ctx, obj, change, write)
			return conflict
		})
	if err != nil {
		var none T
		return none, false, err
	}
	return updated, changed, nil
}

// update changes a copy of have, and writes it if it differs.
func update[T Object[T]](ctx context.Context, have T, change func(obj T) error, write writeFunc[T]) (result T,
	changed bool, err error) {
	want, err := changedCopy(have, change)
	if err != nil || equality.Semantic.DeepEqual(have, want) {
		return want, false, err // not have, which may be in a cache
	}
	result, err = write(ctx, want, metav1.UpdateOptions{})
	return result, err == nil, err
}

func create[T Object[T]](ctx context.Context, client *informer.TypedClient[T], initial T, change func(obj T) error) (T,
	error) {
	want, err := changedCopy(initial, change)
	if err != nil {
		return want, err
	}
	return client.Create(ctx, want, metav1.CreateOptions{})
}

func changedCopy[T Object[T]](obj T, change func(obj T) error) (T, error) {
	want := obj.DeepCopy()
	if err := change(want); err != nil {
		var none T
		return none, err
	}
	if had, has := informer.KeyOf(obj), informer.KeyOf(want); had != has {
		var none T
		return none, informer.TerminalError(fmt.Errorf("change must not rename an object: it made %s out of %s", has, had))
	}
	return want, nil
}
