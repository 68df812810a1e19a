package factory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// errOtherTransform indicates that the transform of an informer does not only drop managedFields.
var errOtherTransform = errors.New("its function sets a transform that does more than drop managedFields: " +
	"set it on the informer that the factory returns, or with WithTransform")

// probe runs an informer of client-go that has a transform on an example of obj in which every field has a value. It
// returns nil if the transform drops managedFields and nothing else.
func (r *recorder) probe(i clientcache.SharedIndexInformer, obj runtime.Object) error {
	example, err := exampleOf(reflect.TypeOf(obj))
	if err != nil {
		return err
	}
	encoded, err := json.Marshal(example)
	if err != nil {
		return fmt.Errorf("example of a %T: %w", obj, err)
	}
	list := fmt.Appendf(nil, `{"metadata":{"resourceVersion":"1"},"items":[%s]}`, encoded) // the client adds the kind
	r.mu.Lock()
	r.list = list
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.list = nil
		r.mu.Unlock()
	}()
	got, err := firstObject(i)
	if err != nil {
		return err
	}
	want := reflect.New(reflect.TypeOf(obj).Elem()).Interface()
	if err := json.Unmarshal(encoded, want); err != nil {
		return fmt.Errorf("example of a %T: %w", obj, err)
	}
	m, err := meta.Accessor(want)
	if err != nil {
		return err
	}
	if m.SetManagedFields(nil); !reflect.DeepEqual(got, want) {
		return errOtherTransform
	}
	return nil
}

// firstObject runs i until it has synced, and returns its object.
func firstObject(i clientcache.SharedIndexInformer) (any, error) {
	_ = i.SetWatchErrorHandlerWithContext(func(context.Context, *clientcache.Reflector, error) {})
	ctx, cancel := context.WithTimeout(klog.NewContext(context.Background(), logr.Discard()), patience)
	var running sync.WaitGroup
	running.Go(func() { i.RunWithContext(ctx) })
	defer running.Wait()
	defer cancel()
	select {
	case <-i.HasSyncedChecker().Done():
	case <-ctx.Done():
	}
	objects := i.GetStore().List()
	if len(objects) != 1 {
		return nil, errOtherTransform
	}
	return objects[0], nil
}

// answer answers a request of an informer that probe runs: a list with the example, a streaming list with an error, and
// a watch with no events.
func answer(req *http.Request, list []byte) (*http.Response, error) {
	code, query := http.StatusOK, req.URL.Query()
	switch {
	case query.Get("sendInitialEvents") != "":
		code = http.StatusUnprocessableEntity
		list = []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
	case query.Get("watch") != "":
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	}
	return &http.Response{
		StatusCode: code,
		Header:     http.Header{"Content-Type": {"application/json"}},
		Body:       io.NopCloser(bytes.NewReader(list)),
		Request:    req,
	}, nil
}

// exampleOf returns an object of type t, a pointer, in which every field has a value.
func exampleOf(t reflect.Type) (any, error) {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v is not a pointer to a struct", t)
	}
	obj := reflect.New(t.Elem())
	fill(obj.Elem(), 0)
	if m, err := meta.Accessor(obj.Interface()); err != nil {
		return nil, err
	} else if m.SetDeletionTimestamp(nil); m.GetName() == "" {
		return nil, fmt.Errorf("a %v has no name", t)
	}
	return obj.Interface(), nil
}

// deepest is the depth at which fill stops, for types that contain themselves.
const deepest = 20

// fill sets each part of v.
func fill(v reflect.Value, depth int) {
	switch to := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return // lists have none
	case *metav1.Time:
		*to = metav1.Unix(1, 0)
		return
	case *metav1.MicroTime:
		*to = metav1.NewMicroTime(time.Unix(1, 0))
		return
	case *metav1.FieldsV1:
		to.SetRawBytes([]byte(`{}`))
		return
	case *runtime.RawExtension:
		to.Raw = []byte(`{"x":1}`)
		return
	case *resource.Quantity:
		*to = resource.MustParse("1")
		return
	case *intstr.IntOrString:
		*to = intstr.FromInt32(1)
		return
	}
	if kind := v.Kind(); depth >= deepest && (kind == reflect.Pointer || kind == reflect.Slice || kind == reflect.Map) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), depth+1)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, depth+1)
		fill(value, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), depth+1)
			}
		}
	}
}
