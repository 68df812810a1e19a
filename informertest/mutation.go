package informertest

import (
	"reflect"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
)

// DetectMutations finds handlers and readers that write to cached objects, which all readers share. Call it with the
// configuration of an informer before creating the informer:
//
//	var config informer.Config[*corev1.Pod]
//	informertest.DetectMutations(t, &config)
//	pods := informer.New(client, resource, config)
//
// It wraps config.Transform, and keeps a copy of every version of every object. When t ends, or check is called, it
// fails t for each object that differs from its copy, with the object's name and the changed fields. It sets
// config.Layout to LayoutSeparate, so that each object has memory of its own. The copies take the memory of all versions
// until then.
//
// It copies with DeepCopyObject if T has it, otherwise field by field. It then ignores what the unexported fields of
// other packages' types point to.
func DetectMutations[T informer.Object](t testing.TB, config *informer.Config[T]) (check func()) {
	t.Helper()
	var d mutationDetector[T]
	config.Layout = informer.LayoutSeparate
	transform := config.Transform
	config.Transform = func(obj T) (T, error) {
		if transform != nil {
			var err error
			if obj, err = transform(obj); err != nil {
				return obj, err
			}
		}
		d.remember(obj)
		return obj, nil
	}
	check = func() {
		t.Helper()
		d.check(t)
	}
	t.Cleanup(check)
	return check
}

// DetectAllMutations is like [DetectMutations] for every informer of the client that it returns, for a program that makes
// its configurations itself:
//
//	client, _ = informertest.DetectAllMutations(t, client)
//	err := run(ctx, client) // as main calls it
//
// The client that it returns is like client; see [informer.Client.WithObserver]. Informers of client itself are not
// watched.
func DetectAllMutations(t testing.TB, client *informer.Client) (watched *informer.Client, check func()) {
	t.Helper()
	var d mutationDetector[informer.Object]
	check = func() {
		t.Helper()
		d.check(t)
	}
	t.Cleanup(check)
	return client.WithObserver(d.remember), check
}

// mutationDetector keeps copies of objects. T may be an interface.
type mutationDetector[T informer.Versioned] struct {
	mu   sync.Mutex // protects seen
	seen []remembered[T]
}

type remembered[T any] struct{ object, copy T }

func (d *mutationDetector[T]) remember(obj T) {
	if v := reflect.ValueOf(obj); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() { // the informer will reject it
		return
	}
	r := remembered[T]{obj, deepCopy(obj)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, r)
}

// check reports each mutation once.
func (d *mutationDetector[T]) check(t testing.TB) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.seen {
		r := &d.seen[i]
		if reflect.DeepEqual(r.object, r.copy) {
			continue
		}
		everything := cmp.Exporter(func(reflect.Type) bool { return true })
		if diff := cmp.Diff(r.copy, r.object, everything); diff != "" {
			key := informer.Key{Namespace: r.copy.GetNamespace(), Name: r.copy.GetName()}
			t.Errorf("%T %s of resource version %s was modified in the cache (-original +now):\n%s", r.copy, key,
				r.copy.GetResourceVersion(), diff)
		}
		r.copy = deepCopy(r.object)
	}
}

func deepCopy[T any](obj T) T {
	if o, ok := any(obj).(runtime.Object); ok {
		return any(o.DeepCopyObject()).(T)
	}
	c := reflect.New(reflect.TypeOf(obj)).Elem() // T may be an interface
	copyValue(c, reflect.ValueOf(obj))
	return c.Interface().(T)
}

// copyValue sets to to a deep copy of from.
func copyValue(to, from reflect.Value) {
	to.Set(from) // for values without pointers, and for unexported fields
	switch from.Kind() {
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyValue(to.Elem(), from.Elem())
		}
	case reflect.Interface:
		if !from.IsNil() {
			c := reflect.New(from.Elem().Type()).Elem()
			copyValue(c, from.Elem())
			to.Set(c)
		}
	case reflect.Struct:
		for i := range from.NumField() {
			if from.Type().Field(i).IsExported() {
				copyValue(to.Field(i), from.Field(i))
			}
		}
	case reflect.Array:
		for i := range from.Len() {
			copyValue(to.Index(i), from.Index(i))
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyValue(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for entries := from.MapRange(); entries.Next(); {
				c := reflect.New(from.Type().Elem()).Elem()
				copyValue(c, entries.Value())
				to.SetMapIndex(entries.Key(), c)
			}
		}
	}
}
