package watchcache

import (
	"context"
	"maps"
	"reflect"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/spoil"
)

// element is one version of one object, and what it is on the wire as far as somebody has asked for that.
type element[T Object] struct {
	obj T

	mu sync.Mutex // protects encoded; held while encoding, so that no two watchers do the same work
	// The bytes are held for as long as they are among the latest that were made (see latest), then until the next
	// garbage collection: the cost in memory does not grow with the number of objects.
	encoded [formats]weak.Pointer[[]byte]
}

// These make an element an informer.Object.
func (el *element[T]) GetNamespace() string       { return el.obj.GetNamespace() }
func (el *element[T]) GetName() string            { return el.obj.GetName() }
func (el *element[T]) GetUID() types.UID          { return el.obj.GetUID() }
func (el *element[T]) GetResourceVersion() string { return el.obj.GetResourceVersion() }

// bytes returns the element in that format, encoded now if need be.
func (c *Cache[T]) bytes(el *element[T], f format) ([]byte, error) {
	el.mu.Lock()
	defer el.mu.Unlock()
	if b := el.encoded[f].Value(); b != nil {
		return *b, nil
	}
	b, err := c.codec.encode(el.obj, f)
	if err != nil {
		return nil, err
	}
	c.latest.keep(&b)
	el.encoded[f] = weak.Make(&b)
	return b, nil
}

// bytesFor returns what the request with that context is sent of the element: what bytes returns, unless a test spoils it.
func (c *Cache[T]) bytesFor(ctx context.Context, el *element[T], f format) ([]byte, error) {
	b, err := c.bytes(el, f)
	if change := spoil.FromContext(ctx); change != nil && err == nil {
		b = change(informer.KeyOf(el.obj), b)
	}
	return b, err
}

// keepEncoded is how many encodings are kept from the garbage collector. With 1,000 watchers of one collection the
// slowest of those that keep up is seldom as far behind, and with 10 kB each it is 5 MB.
const keepEncoded = 512

// latest holds the encodings made last.
type latest struct {
	mu    sync.Mutex // protects the fields below
	bytes [keepEncoded]*[]byte
	next  int
}

func (l *latest) keep(b *[]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes[l.next] = b
	l.next = (l.next + 1) % len(l.bytes)
}

// ShallowCopy returns a copy of obj whose metadata, kind and apiVersion can be set without writing to obj. All else is
// shared: maps, slices and pointers of the metadata too, which must be replaced, not written to.
func ShallowCopy[T Object](obj T) T {
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			content["metadata"] = maps.Clone(metadata)
		}
		return any(&unstructured.Unstructured{Object: content}).(T)
	}
	v := reflect.New(reflect.TypeFor[T]().Elem())
	v.Elem().Set(reflect.ValueOf(obj).Elem())
	return v.Interface().(T)
}

// metadataOf returns the metadata of obj as the server sends it to those who ask for no more.
func metadataOf(obj metav1.Object) *metav1.PartialObjectMetadata {
	if a, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if m, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return &metav1.PartialObjectMetadata{ObjectMeta: *m}
		}
	}
	return meta.AsPartialObjectMetadata(obj)
}
