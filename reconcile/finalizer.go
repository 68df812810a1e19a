package reconcile

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HasFinalizer reports whether obj has the finalizer.
func HasFinalizer(obj metav1.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}

// AddFinalizer adds the finalizer to obj, and reports whether it was missing. Write obj before you create what the
// finalizer cleans up. The API server rejects a new finalizer once an object is being deleted.
func AddFinalizer(obj metav1.Object, finalizer string) (changed bool) {
	if HasFinalizer(obj, finalizer) {
		return false
	}
	obj.SetFinalizers(append(slices.Clip(obj.GetFinalizers()), finalizer))
	return true
}

// RemoveFinalizer removes the finalizer from obj, and reports whether obj had it.
func RemoveFinalizer(obj metav1.Object, finalizer string) (changed bool) {
	if !HasFinalizer(obj, finalizer) {
		return false
	}
	left := slices.Clone(obj.GetFinalizers())
	obj.SetFinalizers(slices.DeleteFunc(left, func(f string) bool { return f == finalizer }))
	return true
}
