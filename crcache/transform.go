package crcache

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// transform returns the function that prepares objects for the store, or nil if there is nothing to prepare.
func (k *kind) transform(config cache.Config) func(client.Object) (client.Object, error) {
	users := config.Transform
	if users == nil && k.id.form != metadataForm {
		return nil
	}
	return func(obj client.Object) (client.Object, error) {
		if k.id.form == metadataForm { // the server sends the kind PartialObjectMetadata
			obj.GetObjectKind().SetGroupVersionKind(k.id.gvk)
		}
		if users == nil {
			return obj, nil
		}
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		result, err := users(obj)
		if err != nil {
			return nil, err
		}
		return held(result, uid, version)
	}
}

// held returns what an informer holds for the result of a transform: the result itself if it is an object with the uid
// and the resource version that the server sent, and otherwise a [transformed]. shown returns the result again.
func held(result any, uid types.UID, version string) (client.Object, error) {
	if v := reflect.ValueOf(result); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, errors.New("it returned nil and no error")
	}
	if obj, ok := result.(client.Object); ok && obj.GetUID() == uid && obj.GetResourceVersion() == version {
		return obj, nil
	}
	metadata, err := meta.Accessor(result)
	if err != nil {
		return nil, fmt.Errorf("it returned a %T, which has no metadata: %w", result, err)
	}
	return &transformed{Object: metadata, result: result, uid: uid, version: version}, nil
}

// shown returns what readers and handlers receive for an object that an informer holds: what the transform returned, if
// there is one. It is a client.Object unless the transform returned something else.
func shown(obj client.Object) any {
	if t, ok := obj.(*transformed); ok {
		return t.result
	}
	return obj
}

// transformed is the result of a transform that lacks the uid or the resource version of the object, or is no
// client.Object. A transform may return that in client-go, whose informers do not look at these fields. Ours do, so
// transformed has them beside the result. Its other metadata are those of the result.
type transformed struct {
	metav1.Object
	result  any
	uid     types.UID
	version string
}

func (t *transformed) GetUID() types.UID          { return t.uid }
func (t *transformed) GetResourceVersion() string { return t.version }

// GetObjectKind returns that of the result.
func (t *transformed) GetObjectKind() schema.ObjectKind {
	if obj, ok := t.result.(runtime.Object); ok {
		return obj.GetObjectKind()
	}
	return schema.EmptyObjectKind
}

// DeepCopyObject copies the result too, unless it has no method for that.
func (t *transformed) DeepCopyObject() runtime.Object {
	obj, ok := t.result.(runtime.Object)
	if !ok {
		return t
	}
	copied := obj.DeepCopyObject()
	metadata, err := meta.Accessor(copied)
	if err != nil {
		return t
	}
	return &transformed{Object: metadata, result: copied, uid: t.uid, version: t.version}
}

// MarshalJSON returns an error, because nothing could decode the result again. An informer with Compact therefore keeps
// t uncompressed.
func (t *transformed) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("a %T without uid or resourceVersion is not encoded", t.result)
}
