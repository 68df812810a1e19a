// Package compat supports the listers that codegen writes with -compat. These have the interfaces of client-go's
// lister-gen, so that a controller can switch to them by changing an import.
package compat

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
)

// ResourceLister is embedded in a generated lister. It behaves like the ResourceIndexer of k8s.io/client-go/listers,
// but lists are ordered by namespace, then name.
type ResourceLister[T informer.Labeled] struct {
	lister informer.NamespaceLister[T]
	all    informer.Lister[T]
}

// New returns a lister of source, an informer or a store. Its NotFound errors name resource.
func New[T informer.Labeled](source informer.Indexable[T], resource schema.GroupResource) ResourceLister[T] {
	all := informer.NewLister(source, resource)
	return ResourceLister[T]{all.Namespace(""), all}
}

// In returns a lister of namespace.
func (l ResourceLister[T]) In(namespace string) ResourceLister[T] {
	l.lister = l.all.Namespace(namespace)
	return l
}

// List returns the objects whose labels match selector. If objects may be missing because they could not be decoded, it
// also returns an error; see informer.NamespaceLister.ListComplete.
func (l ResourceLister[T]) List(selector labels.Selector) (ret []T, err error) {
	return l.lister.ListComplete(selector)
}

// Get returns the object called name, or a NotFound error. If the object exists but could not be decoded, the error is
// an *informer.DecodeError.
func (l ResourceLister[T]) Get(name string) (T, error) {
	return l.lister.Get(name)
}
