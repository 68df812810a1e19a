package reconcile

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// OwnedError indicates that another object controls the object.
type OwnedError struct {
	// Namespace and Name are those of the object.
	Namespace, Name string
	// Owner is the reference to its controlling owner.
	Owner metav1.OwnerReference
}

// Error names the object and its owner.
func (e *OwnedError) Error() string {
	return fmt.Sprintf("%s/%s is controlled by %s %s, uid %s", e.Namespace, e.Name, e.Owner.Kind, e.Owner.Name,
		e.Owner.UID)
}

// SetControllerReference makes owner, which is of the given kind, the controlling owner of obj. So
// [informer.EnqueueOwner] finds the owner, and the garbage collector deletes obj after it. If another object controls
// obj, the error is an [*OwnedError]. A namespaced owner must be in the namespace of obj; otherwise the garbage
// collector would delete obj.
func SetControllerReference(owner metav1.Object, kind schema.GroupVersionKind, obj metav1.Object) error {
	if held := metav1.GetControllerOfNoCopy(obj); held != nil && held.UID != owner.GetUID() {
		return &OwnedError{Namespace: obj.GetNamespace(), Name: obj.GetName(), Owner: *held}
	}
	return setOwner(owner, obj, *metav1.NewControllerRef(owner, kind))
}

// SetOwnerReference makes owner, which is of the given kind, one of the owners of obj, without control. If owner is an
// owner already, it keeps Controller and BlockOwnerDeletion. The rule for namespaces is that of
// [SetControllerReference].
func SetOwnerReference(owner metav1.Object, kind schema.GroupVersionKind, obj metav1.Object) error {
	ref := metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.GetName(),
		UID: owner.GetUID()}
	for _, had := range obj.GetOwnerReferences() {
		if had.UID == ref.UID {
			ref.Controller, ref.BlockOwnerDeletion = had.Controller, had.BlockOwnerDeletion
		}
	}
	return setOwner(owner, obj, ref)
}

func setOwner(owner, obj metav1.Object, ref metav1.OwnerReference) error {
	switch namespace := owner.GetNamespace(); {
	case ref.UID == "":
		return fmt.Errorf("the owner %s %s has no uid: it must be an object that the API server has stored", ref.Kind,
			ref.Name)
	case namespace != "" && namespace != obj.GetNamespace():
		return fmt.Errorf("the owner %s %s is in namespace %s, and %s in %q: they must be in the same one", ref.Kind,
			ref.Name, namespace, obj.GetName(), obj.GetNamespace())
	}
	refs := slices.Clone(obj.GetOwnerReferences())
	if i := slices.IndexFunc(refs, func(had metav1.OwnerReference) bool { return had.UID == ref.UID }); i >= 0 {
		refs[i] = ref
	} else {
		refs = append(refs, ref)
	}
	obj.SetOwnerReferences(refs)
	return nil
}
