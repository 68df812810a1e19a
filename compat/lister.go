// Package compat is what the listers are made of that codegen writes with -compat. They have the interfaces of those
// that client-go's lister-gen writes, so that a controller moves to them by changing an import.
package compat

import (
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
)

// ResourceLister is embedded in a generated lister. It answers as the ResourceIndexer of k8s.io/client-go/listers does,
// except that lists are in order, by namespace, then name.
type ResourceLister[T informer.Labeled] struct {
	lister informer.NamespaceLister[T]
	all    informer.Lister[T]
}

// New returns a lister of an informer or of a store. Its NotFound errors name resource.
func New[T informer.Labeled](of informer.Indexable[T], resource schema.GroupResource) ResourceLister[T] {
	all := informer.NewLister(of, resource)
	return ResourceLister[T]{all.Namespace(""), all}
}

// In returns a lister of one namespace.
func (l ResourceLister[T]) In(namespace string) ResourceLister[T] {
	l.lister = l.all.Namespace(namespace)
	return l
}

// List returns the objects whose labels selector matches. The error is always nil.
func (l ResourceLister[T]) List(selector labels.Selector) (ret []T, err error) {
	return l.lister.List(selector), nil
}

// Get returns the object of that name, or a NotFound error.
func (l ResourceLister[T]) Get(name string) (T, error) {
	return l.lister.Get(name)
}
