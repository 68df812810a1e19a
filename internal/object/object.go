// Package object has the words that every room uses for a cached object: its key, its identity, and its versions.
//
// A constraint of objects has methods alone: it does not embed comparable. Go compiles a generic function once for all
// pointer types only with such a constraint. With comparable it compiles the function for each type of objects again.
// So generic code compares objects with [IsNil] and [Same].
package object

import "k8s.io/apimachinery/pkg/types"

// Object is the type of cached objects, a pointer. informer.Object describes it.
type Object interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Key names one object of a collection. Namespace is empty for cluster-scoped resources.
type Key = types.NamespacedName

// Named is an object, or another value that has the name of one.
type Named interface {
	GetNamespace() string
	GetName() string
}

// KeyOf returns the key of obj.
func KeyOf[T Named](obj T) Key { return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()} }

// ID is the identity and version of an object. An empty part is unknown.
type ID struct{ UID, Version string }

// IDOf returns the ID of obj.
func IDOf[T Object](obj T) ID {
	return ID{UID: string(obj.GetUID()), Version: obj.GetResourceVersion()}
}

// IsNil reports whether obj is the zero T: nil, for a pointer.
func IsNil[T any](obj T) bool {
	var none T
	return any(obj) == any(none)
}

// Same reports whether a and b are the same object in memory. T must be a pointer or another comparable type.
func Same[T any](a, b T) bool { return any(a) == any(b) }
