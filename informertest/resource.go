package informertest

import (
	"context"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// Resource says how a resource is served.
type Resource struct {
	schema.GroupVersionResource
	// Kind is the kind of the objects. Empty means the name of the Go type; unstructured objects require it.
	Kind string
	// ClusterScoped says that the objects are not in namespaces.
	ClusterScoped bool
	// StatusSubresource gives unstructured objects a status subresource. A Go type has one if it has a field Status.
	StatusSubresource bool
	// SelectableFields are the fields that field selectors may name; see watchcache.Config. Nil means the fields that
	// kube-apiserver supports for the kind.
	SelectableFields []string
	// ShortNames are kubectl's short names of the resource. Nil means those of kube-apiserver, for kinds of Kubernetes
	// itself.
	ShortNames []string
}

// Collection gives the program that runs a [Server] direct access to the objects of one resource, without HTTP and
// encoding.
//
// It writes as the cluster itself: a write sets the whole object, including its status. Create keeps a given uid and
// creationTimestamp. Everything else is as for clients. A Collection does not copy objects deeply: do not write to what
// an object points to after storing it, or to a returned object.
//
// All methods are safe for concurrent use.
type Collection[T watchcache.Object] struct {
	server   *Server
	resource Resource
	cache    *watchcache.Cache[T]
	dynamic  bool // T is *unstructured.Unstructured
	custom   bool // T has no protobuf encoding, and is served like custom resources
	spec     int  // the index of the struct's field Spec, or -1
	status   int  // likewise, of Status
}

// Register makes server serve a resource as objects of type T: a pointer to a type of k8s.io/api, to the Go type of a
// custom resource, or *unstructured.Unstructured. A type without a protobuf encoding is served like a custom resource,
// in JSON only. Before the call, the server responds with 404 Not Found. Register may be called at any time.
//
// It panics if the resource is registered already, has no kind, or names selectable fields that T lacks.
func Register[T watchcache.Object](server *Server, resource Resource) *Collection[T] {
	var none T
	c := &Collection[T]{server: server, spec: -1, status: -1}
	_, proto := any(none).(interface{ Marshal() ([]byte, error) })
	c.custom = !proto
	if _, c.dynamic = any(none).(*unstructured.Unstructured); !c.dynamic {
		t := reflect.TypeFor[T]().Elem()
		if resource.Kind == "" {
			resource.Kind = t.Name()
		}
		c.spec, c.status = fieldIndex(t, "Spec"), fieldIndex(t, "Status")
		resource.StatusSubresource = c.status >= 0
	}
	if resource.Kind == "" || resource.Resource == "" || resource.Version == "" {
		panic(fmt.Sprintf("informertest: resource %v (%T) needs a version, resource and kind", resource.GroupVersionResource,
			none))
	}
	if resource.ShortNames == nil {
		resource.ShortNames = builtinNames[schema.GroupKind{Group: resource.Group, Kind: resource.Kind}].short
	}
	c.resource = resource
	c.cache = watchcache.New[T](watchcache.Config{
		GroupVersionResource: resource.GroupVersionResource,
		Kind:                 resource.Kind,
		SelectableFields:     resource.SelectableFields,
		Window:               server.options.Window,
		ManagedFieldsOptOut:  server.options.ManagedFieldsOptOut,
	})
	server.mu.Lock()
	defer server.mu.Unlock()
	if _, taken := server.collections[resource.GroupVersionResource]; taken {
		panic(fmt.Sprintf("informertest: resource %v is registered already", resource.GroupVersionResource))
	}
	c.put(informer.Delta[T]{Type: informer.Replaced}, server.rv)
	server.collections[resource.GroupVersionResource] = c
	return c
}

func fieldIndex(t reflect.Type, name string) int {
	if f, ok := t.FieldByName(name); ok && len(f.Index) == 1 {
		return f.Index[0]
	}
	return -1
}

// Create adds an object and returns it as stored. It ignores the object's resourceVersion.
func (c *Collection[T]) Create(obj T) (T, error) {
	return c.create(obj, writeOptions{whole: true})
}

// Update replaces an object, including its status, and returns it as stored. If obj has a resourceVersion, it must
// match the stored object.
func (c *Collection[T]) Update(obj T) (T, error) {
	return c.update(obj, writeOptions{whole: true})
}

// Delete removes an object, or marks it for deletion if it has finalizers, and returns its last state.
func (c *Collection[T]) Delete(key informer.Key) (T, error) {
	obj, _, err := c.delete(key, nil, writeOptions{})
	return obj, err
}

// Get returns the object with that key.
func (c *Collection[T]) Get(key informer.Key) (T, bool) { return c.cache.Get(key) }

// All yields every object, ordered by namespace, then name, from one snapshot.
func (c *Collection[T]) All() iter.Seq[T] { return c.cache.All() }

// Len returns the number of objects.
func (c *Collection[T]) Len() int { return c.cache.Len() }

// Watchers returns the number of open watches of this resource.
func (c *Collection[T]) Watchers() int { return c.cache.Watchers() }

// Unregister removes the resource from the server, as if its CustomResourceDefinition was deleted: watches end,
// requests fail with 404 Not Found, and discovery lacks the resource. Do not write to the collection afterwards. The
// resource can be registered again.
func (c *Collection[T]) Unregister() {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.collections[c.resource.GroupVersionResource] == collection(c) {
		delete(s.collections, c.resource.GroupVersionResource)
		c.cache.EndWatches()
	}
}

func (c *Collection[T]) groupKind() schema.GroupKind {
	return schema.GroupKind{Group: c.resource.Group, Kind: c.resource.Kind}
}

func (c *Collection[T]) described() Resource { return c.resource }

func (c *Collection[T]) bookmark(rv uint64) {
	c.put(informer.Delta[T]{Type: informer.Bookmarked}, rv)
}

func (c *Collection[T]) endWatches() { c.cache.EndWatches() }

func (c *Collection[T]) compact() { c.cache.Compact() }

func (c *Collection[T]) snapshot() (restore func(rv uint64)) {
	items := slices.Collect(c.cache.All())
	return func(rv uint64) { c.put(informer.Delta[T]{Type: informer.Replaced, Items: items}, rv) }
}

func (c *Collection[T]) clear(rv uint64) {
	c.put(informer.Delta[T]{Type: informer.Replaced}, rv)
}

// put puts a change into the cache. The caller holds the server's lock.
func (c *Collection[T]) put(d informer.Delta[T], rv uint64) {
	d.ResourceVersion = strconv.FormatUint(rv, 10)
	if err := c.cache.Put(context.Background(), d); err != nil {
		panic(err) // versions come from one counter, in order
	}
}
