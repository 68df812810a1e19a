package website

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/reconcile"
)

// childObject is the constraint for a child: any Go type of the API.
type childObject[T any] interface {
	reconcile.Object[T]
	metav1.Object
}

// child is one kind of objects that websites own. Each website has at most one, by its own name.
type child[T childObject[T]] struct {
	informer *informer.Informer[T]
	client   *informer.TypedClient[T]
	byOwner  *informer.Index[T, informer.Key]
	resource schema.GroupResource
}

func newChild[T childObject[T]](client *informer.Client, group *informer.Group, resource schema.GroupVersionResource,
	log *slog.Logger) (child[T], error) {
	i, _, err := informer.Shared(group, informer.Resource{GroupVersionResource: resource,
		LabelSelector: managedBy + "=" + name}, informer.Config[T]{Logger: log})
	if err != nil {
		return child[T]{}, err
	}
	return child[T]{
		informer: i,
		client:   informer.NewTypedClient[T](client, resource),
		byOwner:  informer.NewIndex(i, informer.OwnerKeys[T](owner)),
		resource: resource.GroupResource(),
	}, nil
}

// errNameTaken indicates that an object with the child's name does not belong to the website.
var errNameTaken = errors.New("the name is taken")

// apply makes the website's child as shape wants it, and returns it once the cache has it. It writes only a difference.
func (c *child[T]) apply(ctx context.Context, w *Website, initial T, shape func(w *Website, obj T)) (T, error) {
	// The cache selects a label, so an object that it lacks may exist.
	applied, operation, err := reconcile.CreateOrUpdate(ctx, c.client, c.informer.Store(), initial, func(obj T) error {
		if obj.GetUID() != "" && !metav1.IsControlledBy(obj, w) {
			return fmt.Errorf("%s %s: %w", c.resource, informer.KeyOf(obj), errNameTaken)
		}
		labels := maps.Clone(obj.GetLabels())
		if labels == nil {
			labels = map[string]string{}
		}
		labels[managedBy], labels[instance] = name, w.Name
		obj.SetLabels(labels)
		shape(w, obj)
		return reconcile.SetControllerReference(w, kind, obj)
	})
	if err != nil || operation == reconcile.Unchanged {
		return applied, err
	}
	return applied, see(ctx, c.informer, applied)
}

// prune deletes the website's children.
func (c *child[T]) prune(ctx context.Context, w *Website) error {
	for obj := range c.byOwner.Lookup(informer.KeyOf(w)) {
		if metav1.IsControlledBy(obj, w) {
			if err := c.delete(ctx, obj); err != nil {
				return err
			}
		}
	}
	return nil
}

// delete deletes obj, but not another object of its name.
func (c *child[T]) delete(ctx context.Context, obj T) error {
	uid := obj.GetUID()
	err := c.client.Delete(ctx, informer.KeyOf(obj), metav1.DeleteOptions{
		Preconditions:     &metav1.Preconditions{UID: &uid},
		PropagationPolicy: new(metav1.DeletePropagationBackground),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// remove deletes the website's child, and reports whether it is gone. It asks the API server, because it must not miss
// a child that the cache does not have yet.
func (c *child[T]) remove(ctx context.Context, w *Website) (gone bool, err error) {
	for range 2 { // most disappear at once
		obj, err := c.client.Get(ctx, informer.KeyOf(w), metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return true, nil
		case err != nil:
			return false, err
		case !metav1.IsControlledBy(obj, w):
			return true, nil
		}
		if err := c.delete(ctx, obj); err != nil {
			return false, err
		}
	}
	return false, nil
}
