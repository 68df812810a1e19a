package cache

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// Object is the type of the objects that an informer of this package holds: pointers to the types of k8s.io/api or of
// custom resources, *unstructured.Unstructured and *metav1.PartialObjectMetadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// Result returns the object that readers and handlers receive for obj, an object of an informer of Config.OnStart. This
// is the result of the transform, or obj itself if there is no transform. It has metadata, but may be of any type.
func Result(obj Object) any {
	if a, ok := obj.(*altered); ok {
		return a.result
	}
	return obj
}

// transforming returns the transform of an informer. It sets kind in each object, unless that is empty, and then calls
// f, unless that is nil. Unlike the transform of an informer, f may return any type that has metadata.
func transforming(kind schema.GroupVersionKind, f cache.TransformFunc) func(Object) (Object, error) {
	if kind.Empty() && f == nil {
		return nil
	}
	return func(obj Object) (Object, error) {
		if !kind.Empty() {
			obj.GetObjectKind().SetGroupVersionKind(kind)
		}
		if f == nil {
			return obj, nil
		}
		t, id := reflect.TypeOf(obj), identityOf(obj)
		result, err := f(obj)
		if err != nil {
			return nil, err
		}
		return id.held(result, t)
	}
}

// identity identifies one version of an object.
type identity struct {
	namespace, name string
	uid             types.UID
	version         string
}

func identityOf(obj metav1.Object) identity {
	return identity{
		namespace: obj.GetNamespace(),
		name:      obj.GetName(),
		uid:       obj.GetUID(),
		version:   obj.GetResourceVersion(),
	}
}

// held returns the object that an informer holds for the result of a transform: the result itself if it is of type t
// and has kept its identity, and otherwise an [altered].
func (id identity) held(result any, t reflect.Type) (Object, error) {
	if v := reflect.ValueOf(result); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("it returned nil and no error for a %v", t)
	}
	metadata, err := meta.Accessor(result)
	if err != nil {
		return nil, fmt.Errorf("it returned a %T, which has no metadata: %w", result, err)
	}
	if reflect.TypeOf(result) == t && identityOf(metadata) == id {
		return result.(Object), nil
	}
	return &altered{metadata, id, result}, nil
}

// altered holds the result of a transform that has changed the type, the identity or the version of an object. The
// informer holds it under the identity and the version that the server sent. Its other metadata are those of the
// result.
type altered struct {
	metav1.Object // the metadata of result
	id            identity
	result        any
}

func (a *altered) GetNamespace() string       { return a.id.namespace }
func (a *altered) GetName() string            { return a.id.name }
func (a *altered) GetUID() types.UID          { return a.id.uid }
func (a *altered) GetResourceVersion() string { return a.id.version }

// GetObjectKind returns the kind of the result.
func (a *altered) GetObjectKind() schema.ObjectKind {
	if obj, ok := a.result.(runtime.Object); ok {
		return obj.GetObjectKind()
	}
	return schema.EmptyObjectKind
}

// DeepCopyObject copies the result too, unless it has no method for that.
func (a *altered) DeepCopyObject() runtime.Object {
	obj, ok := a.result.(runtime.Object)
	if !ok {
		return a
	}
	copied := obj.DeepCopyObject()
	metadata, err := meta.Accessor(copied)
	if err != nil {
		return a
	}
	return &altered{metadata, a.id, copied}
}

// MarshalJSON returns an error, so an informer with LayoutCompact holds the result decoded: nobody could decode it.
func (*altered) MarshalJSON() ([]byte, error) {
	return nil, errors.New("the result of the transform has no encoding")
}
