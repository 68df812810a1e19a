package informer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Object is what an [Informer] caches: a pointer to a struct with a Kubernetes identity.
// Every type that embeds metav1.ObjectMeta is one when used by pointer (*corev1.Pod, the Go type of a CRD,
// *unstructured.Unstructured, *metav1.PartialObjectMetadata), and so is a pointer to a struct of your own
// that holds just the fields you need.
//
// Cached objects are shared by every reader. They must never be written to: copy first.
type Object interface {
	comparable
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetResourceVersion() string
}

// Key names one object of a collection. Namespace is empty for cluster-scoped resources.
type Key = types.NamespacedName

// KeyOf returns the key of obj.
func KeyOf[T Object](obj T) Key {
	return Key{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// EventType says what an [Event] tells.
type EventType uint8

const (
	// Added says that the object is new to this follower.
	Added EventType = iota + 1
	// Updated says that the object replaces Event.Old, which this follower was given before.
	Updated
	// Deleted says that the object is gone.
	Deleted
)

// String returns "Added", "Updated" or "Deleted".
func (t EventType) String() string {
	switch t {
	case Added:
		return "Added"
	case Updated:
		return "Updated"
	case Deleted:
		return "Deleted"
	}
	return fmt.Sprintf("EventType(%d)", uint8(t))
}

// Event is one change as [Informer.Changes] yields it. It carries what the methods of [Handler] are given.
type Event[T Object] struct {
	Type EventType
	// Object is the new state; for Deleted, the last known one.
	Object T
	// Old is the state that this follower was given before. It is set for Updated only.
	Old T
	// Initial is set for an Added object that was there when the subscription, or the informer, began.
	Initial bool
	// Final is set for Deleted when Object is the state at the deletion. It is not set when the deletion was
	// found by listing again, and Object is just the last state that was seen.
	Final bool
}
