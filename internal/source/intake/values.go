package intake

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
)

// takeValue makes a T of a Go value. It never takes the version that is held for the same: the value's version may mean
// nothing.
func (d *Decoder[T]) takeValue(e *encoded[T], asked *Asked) {
	want := d.Packing.Type()
	switch t := reflect.TypeOf(e.value); {
	case t != want:
		e.err = fmt.Errorf("it is a %v instead of a %v", t, want)
		return
	case reflect.ValueOf(e.value).IsNil():
		e.err = fmt.Errorf("it is a nil %v", t)
		return
	}
	metadata, err := meta.Accessor(e.value)
	if err != nil {
		e.err = err
		return
	}
	if d.Filter != nil {
		seen := meta.AsPartialObjectMetadata(metadata).DeepCopy()
		seen.ManagedFields = nil
		d.Call(func() { e.filtered = !d.Filter(seen) })
		if e.filtered {
			return
		}
	}
	if d.DropManagedFields && len(metadata.GetManagedFields()) > 0 {
		metadata.SetManagedFields(nil)
	}
	e.obj, e.unsure = d.Packing.Value(e.value), !asked.Shard.IsWhole()
}

// identity returns the identity of an object for which there may be no T, as far as it is known.
func (e *encoded[T]) identity(f decode.Format, raw []byte) (key object.Key, uid, version string) {
	if !e.isValue {
		var id decode.Identity
		if large := decode.Large(e.err); large != nil {
			id = large.ID
		} else {
			id = f.Peek(raw)
		}
		return keyOf(id), string(id.UID), string(id.ResourceVersion)
	}
	if v := reflect.ValueOf(e.value); v.Kind() != reflect.Pointer || v.IsNil() {
		return key, "", ""
	}
	obj, ok := e.value.(metav1.Object)
	if !ok {
		return key, "", ""
	}
	return object.KeyOf(obj), string(obj.GetUID()), obj.GetResourceVersion()
}
