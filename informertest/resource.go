package informertest

import (
	"fmt"
	"iter"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/watchcache"
)

// Resource says how a resource is served.
type Resource struct {
	schema.GroupVersionResource
	// Kind is the kind of the objects. Empty means the name of the Go type; unstructured objects require it.
	Kind string
	// ListKind is the kind of lists. Empty means the kind with the suffix List.
	ListKind string
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
	// Singular is the singular name, and Categories are groups of resources, such as kubectl's all. Empty means the kind
	// in lower case, and the categories of kube-apiserver for kinds of Kubernetes itself.
	Singular   string
	Categories []string
	// Scale gives the objects a scale subresource. Nil means none, but those kinds of Kubernetes itself that have it.
	Scale *ScalePaths
	// Table makes the Tables that kubectl get requests. Nil means the columns Name and Age.
	Table *watchcache.Table
	// Hooks are called when clients write objects.
	Hooks Hooks
	// TypeConverter knows the lists of the objects that server-side apply merges by key. Nil means Options.TypeConverter
	// and, for types without protobuf, that no list is merged.
	TypeConverter managedfields.TypeConverter
	// Schema is the OpenAPI v3 schema of the objects, for kubectl explain: something that encoding/json encodes so. Nil
	// means that of the Go type, and no fields for unstructured objects.
	Schema any
	// Warning, if not empty, is sent with every response, as for a version that is deprecated.
	Warning string
	// ObjectsOf, if not nil, is a collection of the same kind, whose objects this resource serves too, in its own version:
	// a write to one is a write to both. If it is registered for this very resource, the new registration replaces it, and
	// its watches end. If it is not registered any more, its objects are copied.
	ObjectsOf *Collection[*unstructured.Unstructured]

	verbs metav1.Verbs // nil means those of every collection
}

// Hooks are functions that a [Server] calls when clients write objects of a resource. They do what a
// CustomResourceDefinition, or kube-apiserver's own code for a kind, adds to the rules that hold for all kinds. Each may
// be nil. A [Collection], which writes as the cluster itself, calls only Removed. They may be called concurrently.
type Hooks struct {
	// Decode completes an object that has just been decoded: it drops fields that the kind does not have, and fills in
	// defaults. It returns the paths of the fields that it has dropped, which the client may want to know.
	Decode func(obj metav1.Object) (dropped []string, err error)
	// Create returns why an object cannot be created at present, or nil. It is called before webhooks and Validate.
	Create func(obj metav1.Object) error
	// Validate returns what is wrong with an object, also with its metadata, which the server checks only if this is nil.
	// old is nil for a new object. The subresource is empty, "status", or another that is written like the object
	// itself, such as "ephemeralcontainers". It must not write to the objects, nor call the server.
	Validate func(obj, old metav1.Object, subresource string) field.ErrorList
	// Read returns an object as clients read it after it has been stored, perhaps in another version of the kind, or by an
	// earlier schema. It must not write to obj, nor call the server. Nil means that objects are read as they were written.
	Read func(obj metav1.Object) metav1.Object
	// Delete prepares the deletion of an object, such as by a finalizer, which defers it. It must not call the server.
	Delete func(obj metav1.Object)
	// Changed is called after a write to the object with that key, before the client gets the response.
	Changed func(key informer.Key)
	// Removed is called after a write that removed the object with that key, also by a Collection and by the controllers,
	// before the write returns.
	Removed func(key informer.Key)
}

// Collection gives the program that runs a [Server] direct access to the objects of one resource, without HTTP and
// encoding.
//
// It writes as the cluster itself: a write sets the whole object, including its status. Create keeps a given uid and
// creationTimestamp. Everything else is as for clients. A Collection does not copy objects deeply: do not write to what
// an object points to after storing it, or to a returned object.
//
// All methods are safe for concurrent use.
type Collection[T watchcache.Object] struct{ core *collection }

// Register makes server serve a resource as objects of type T: a pointer to a type of k8s.io/api, to the Go type of a
// custom resource, or *unstructured.Unstructured. A type without a protobuf encoding is served like a custom resource,
// in JSON only. Before the call, the server responds with 404 Not Found. Register may be called at any time.
//
// It panics if the resource is registered already, has no kind, or names selectable fields that T lacks.
func Register[T watchcache.Object](server *Server, resource Resource) *Collection[T] {
	return &Collection[T]{server.register(resource, reflect.TypeFor[T]())}
}

// RegisterType is like [Register] for a type that only the running program knows: a pointer to a struct that is a
// metav1.Object. It panics if it is not.
func RegisterType(server *Server, resource Resource, t reflect.Type) *Collection[metav1.Object] {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct || !t.Implements(reflect.TypeFor[metav1.Object]()) {
		panic(fmt.Sprintf("informertest: %v is not a pointer to a struct with metadata", t))
	}
	return &Collection[metav1.Object]{server.register(resource, t)}
}

// CollectionOf returns the collection of a resource that somebody has registered, and whether there is one of type T.
func CollectionOf[T watchcache.Object](server *Server, resource schema.GroupVersionResource) (*Collection[T], bool) {
	server.mu.Lock()
	defer server.mu.Unlock()
	c, ok := server.collections[resource]
	if !ok || !c.typ.AssignableTo(reflect.TypeFor[T]()) {
		return nil, false
	}
	return &Collection[T]{c}, true
}

// Create adds an object and returns it as stored. It ignores the object's resourceVersion.
func (c *Collection[T]) Create(obj T) (T, error) {
	return as[T](c.core.create(obj, writeOptions{whole: true}))
}

// Update replaces an object, including its status, and returns it as stored. If obj has a resourceVersion, it must
// match the stored object.
func (c *Collection[T]) Update(obj T) (T, error) {
	return as[T](c.core.update(obj, writeOptions{whole: true}))
}

// Delete removes an object, or marks it for deletion if it has finalizers, and returns its last state. A pod goes at
// once, and a namespace as for clients; see [Controllers].
func (c *Collection[T]) Delete(key informer.Key) (T, error) {
	obj, _, err := c.core.delete(key, metav1.DeleteOptions{}, writeOptions{whole: true})
	return as[T](obj, err)
}

// Get returns the object with that key.
func (c *Collection[T]) Get(key informer.Key) (T, bool) {
	obj, ok := c.core.cache.Get(key)
	typed, _ := obj.(T)
	return typed, ok
}

// All yields every object, ordered by namespace, then name, from one snapshot.
func (c *Collection[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for obj := range c.core.cache.All() {
			if !yield(obj.(T)) {
				return
			}
		}
	}
}

// Len returns the number of objects.
func (c *Collection[T]) Len() int { return c.core.cache.Len() }

// Watchers returns the number of open watches of this resource.
func (c *Collection[T]) Watchers() int { return c.core.cache.Watchers() }

// Unregister removes the resource from the server, as if its CustomResourceDefinition was deleted: watches end,
// requests fail with 404 Not Found, and discovery lacks the resource. Do not write to the collection afterwards. The
// resource can be registered again.
func (c *Collection[T]) Unregister() { c.core.unregister() }

// as returns the results of a write as those of a Collection.
func as[T watchcache.Object](obj object, err error) (T, error) {
	typed, _ := obj.(T)
	return typed, err
}
