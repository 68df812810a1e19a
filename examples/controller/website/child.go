package website

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/typedinformer/informer"
)

// childObject is the constraint for a child: any Go type of the API.
type childObject interface {
	informer.Object
	metav1.Object
}

// child is one kind of objects that websites own. Each website has at most one, by its own name.
type child[T childObject] struct {
	informer *informer.Informer[T]
	client   *informer.TypedClient[T]
	byOwner  *informer.Index[T, informer.Key]
	resource schema.GroupResource
}

func newChild[T childObject](client *informer.Client, group *informer.Group, resource schema.GroupVersionResource, log *slog.Logger) (child[T], error) {
	i, _, err := informer.Shared(group, informer.Resource{GroupVersionResource: resource, LabelSelector: managedBy + "=" + name}, informer.Config[T]{Logger: log})
	if err != nil {
		return child[T]{}, err
	}
	return child[T]{i, informer.NewTypedClient[T](client, resource), informer.NewIndex(i, informer.OwnerKeys[T](owner)), resource.GroupResource()}, nil
}

// errNameTaken indicates that an object with the child's name does not belong to the website.
var errNameTaken = errors.New("the name is taken")

// apply brings the website's child to desired, an apply configuration, and returns it once the cache has it. If the cached
// child already matches, apply does nothing.
func (c *child[T]) apply(ctx context.Context, w *Website, desired any) (T, error) {
	key := informer.KeyOf(w)
	have, cached := c.informer.Store().Get(key)
	if !cached { // it may exist without our label
		var err error
		if have, err = c.client.Get(ctx, key, metav1.GetOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return have, err
		}
	}
	var none T
	if have != none && !metav1.IsControlledBy(have, w) {
		return none, fmt.Errorf("%s %s: %w", c.resource, key, errNameTaken)
	}
	if cached {
		if same, err := covers(have, desired); same || err != nil {
			return have, err
		}
	}
	// Force takes back fields that others have set.
	applied, err := c.client.Apply(ctx, key, desired, metav1.ApplyOptions{FieldManager: name, Force: true})
	if err != nil {
		return none, err
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

// remove deletes the website's child, and reports whether it is gone. It asks the API server, because it must not miss a child
// that the cache does not have yet.
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

// covers reports whether obj has every field of desired. Other fields are defaults of the API server, or other people's.
// A list covers another one if it covers each of its elements, in any order.
//
// covers does not detect a field that an earlier desired had and this one lacks. In this controller, desired always has
// the same fields.
func covers(obj, desired any) (bool, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return false, err
	}
	data, err := json.Marshal(desired)
	if err != nil {
		return false, err
	}
	var want map[string]any // integers are int64, as in have
	if err := utiljson.Unmarshal(data, &want); err != nil {
		return false, err
	}
	maps.DeleteFunc(want, func(field string, _ any) bool { return field == "kind" || field == "apiVersion" }) // the cache does not keep them
	return coversValue(have, want), nil
}

func coversValue(have, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		for field, value := range want {
			ok = ok && coversValue(have[field], value)
		}
		return ok
	case []any:
		have, ok := have.([]any)
		for _, value := range want {
			ok = ok && slices.ContainsFunc(have, func(other any) bool { return coversValue(other, value) })
		}
		return ok
	default:
		return have == want
	}
}
