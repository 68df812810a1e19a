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
	"github.com/typedinformer/informer/internal/test/spoil"
)

// element is one version of one object, with its encodings so far.
type element[T Object] struct {
	obj T

	mu sync.Mutex // protects encoded; held while encoding, so that no two watchers do the same work
	// The bytes stay as long as they are among the latest encodings (see latest), then until the next garbage
	// collection. So their memory does not grow with the number of objects.
	encoded [formatTable]weak.Pointer[[]byte]
}

// An element is an informer.Object.
func (el *element[T]) GetNamespace() string       { return el.obj.GetNamespace() }
func (el *element[T]) GetName() string            { return el.obj.GetName() }
func (el *element[T]) GetUID() types.UID          { return el.obj.GetUID() }
func (el *element[T]) GetResourceVersion() string { return el.obj.GetResourceVersion() }

// bytes returns the element in that format. It encodes the element if needed.
func (c *Cache[T]) bytes(el *element[T], f format) ([]byte, error) {
	if f.table() {
		return c.rowOf(f, true, el)
	}
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

// bookmark is the bookmark of the watchers that have seen everything up to version rv.
type bookmark[T Object] struct {
	rv      uint64
	element *element[T]
}

// bookmarkAt returns the object of a bookmark. All idle watchers receive the same one, so it is encoded once.
func (c *Cache[T]) bookmarkAt(rv uint64) *element[T] {
	b := c.bookmark.Load()
	if b == nil || b.rv != rv {
		b = &bookmark[T]{rv, &element[T]{obj: c.codec.empty(rv)}}
		c.bookmark.Store(b)
	}
	return b.element
}

// bytesFor returns the result of bytes, unless a test changes it through ctx.
func (c *Cache[T]) bytesFor(ctx context.Context, el *element[T], f format) ([]byte, error) {
	b, err := c.bytes(el, f)
	if change := spoil.FromContext(ctx); change != nil && err == nil {
		b = change(informer.KeyOf(el.obj), b)
	}
	return b, err
}

// keepEncoded is how many encodings the cache keeps from the garbage collector. With 1,000 watchers of one collection,
// the slowest that keeps up is rarely further behind. With 10 kB each, it is 5 MB.
const keepEncoded = 512

// latest holds the latest encodings.
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

// ShallowCopy returns a copy of obj with its own metadata, kind and apiVersion. Everything else is shared, also the
// maps, slices and pointers of the metadata: replace them, do not write to them.
func ShallowCopy[T Object](obj T) T {
	if u, ok := any(obj).(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if metadata, ok := content["metadata"].(map[string]any); ok {
			content["metadata"] = maps.Clone(metadata)
		}
		return any(&unstructured.Unstructured{Object: content}).(T)
	}
	v := reflect.New(reflect.TypeOf(obj).Elem())
	v.Elem().Set(reflect.ValueOf(obj).Elem())
	return v.Interface().(T)
}

// metadataOf returns the metadata of obj as the server sends it to metadata-only clients.
func metadataOf(obj metav1.Object) *metav1.PartialObjectMetadata {
	if a, ok := obj.(metav1.ObjectMetaAccessor); ok {
		if m, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			return &metav1.PartialObjectMetadata{ObjectMeta: *m}
		}
	}
	return meta.AsPartialObjectMetadata(obj)
}
