package cache

import (
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// Object is the type of the objects that an informer of this package holds: pointers to the types of k8s.io/api or of
// custom resources, *unstructured.Unstructured and *metav1.PartialObjectMetadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// altered holds what a transform has made of an object, if the result is of another type, or if it lacks the identity
// or the version. The informer holds it under the identity and the version that the server sent.
type altered struct {
	metav1.Object // has only the identity and the version
	result        any
}

// GetObjectKind implements runtime.Object.
func (*altered) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (a *altered) DeepCopyObject() runtime.Object {
	own := *a
	if obj, ok := a.result.(runtime.Object); ok {
		own.result = obj.DeepCopyObject()
	}
	return &own
}

// MarshalJSON returns an error, so an informer with Options.Compact holds the result decoded: nobody could decode it.
func (*altered) MarshalJSON() ([]byte, error) {
	return nil, errors.New("the result of the transform has no encoding")
}

// shown returns obj as users of client-go's types see it.
func shown(obj Object) any {
	if a, ok := obj.(*altered); ok {
		return a.result
	}
	return obj
}

// transforming returns f as the transform of an informer. Unlike that, f may return anything but nil.
func transforming(f cache.TransformFunc) func(Object) (Object, error) {
	return func(obj Object) (Object, error) {
		id := metav1.ObjectMeta{
			Namespace:       obj.GetNamespace(),
			Name:            obj.GetName(),
			UID:             obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(),
		}
		t := reflect.TypeOf(obj)
		result, err := f(obj)
		switch {
		case err != nil:
			return nil, err
		case result == nil:
			return nil, fmt.Errorf("it returned nil for a %v", t)
		case reflect.TypeOf(result) != t:
			return &altered{&id, result}, nil
		}
		if same := result.(Object); same.GetNamespace() == id.Namespace && same.GetName() == id.Name &&
			same.GetUID() == id.UID && same.GetResourceVersion() == id.ResourceVersion {
			return same, nil
		}
		return &altered{&id, result}, nil
	}
}
