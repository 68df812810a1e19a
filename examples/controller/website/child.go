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

// childObject is what a child can be: any Go type of the API.
type childObject interface {
	informer.Object
	metav1.Object
}

// child is one kind of objects that websites own, of which each website has one by its name, or none.
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

// errNameTaken says that there is an object by the name of a child that is not the website's.
var errNameTaken = errors.New("the name is taken")

// apply brings the website's child to what desired says, an apply configuration, and returns it once the cache has it.
// If it is like that in the cache already, it does nothing.
func (c *child[T]) apply(ctx context.Context, w *Website, desired any) (T, error) {
	key := informer.KeyOf(w)
	have, cached := c.informer.Store().Get(key)
	if !cached { // it can be there all the same, without our label
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
	// Force takes fields back that somebody else has set.
	applied, err := c.client.Apply(ctx, key, desired, metav1.ApplyOptions{FieldManager: name, Force: true})
	if err != nil {
		return none, err
	}
	return applied, see(ctx, c.informer, applied)
}

// prune deletes what children the website has.
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

// delete deletes obj, and not another by its name.
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

// remove deletes the website's child, and says whether it is gone. It asks the API server: what the cache does not
// have yet would stay behind.
func (c *child[T]) remove(ctx context.Context, w *Website) (gone bool, err error) {
	for range 2 { // most are gone at once
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

// covers says whether obj has all that desired has. What else it has is the API server's defaults, or other people's.
// A list is covered by one that has what its elements have, in any order.
//
// It does not see a field that an earlier desired had and this one has not; those of this controller always have the
// same fields.
func covers(obj, desired any) (bool, error) {
	have, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return false, err
	}
	data, err := json.Marshal(desired)
	if err != nil {
		return false, err
	}
	var want map[string]any // with integers as int64, as in have
	if err := utiljson.Unmarshal(data, &want); err != nil {
		return false, err
	}
	maps.DeleteFunc(want, func(field string, _ any) bool { return field == "kind" || field == "apiVersion" }) // which the cache does not keep
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
