package main

import (
	"testing"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// Controllers have nothing to do for a pod that is loaded: it has a node, and neither an owner nor a finalizer, nor
// does it need an object that does not exist.
func TestSettled(t *testing.T) {
	f := fleet.New(fleet.Config{})
	changed := false
	for pod := range f.All() {
		before := pod.DeepCopy()
		pod = settled(pod, "other")
		changed = changed || before.Spec.NodeName == "" && pod.Spec.NodeName == "other" && len(before.OwnerReferences) > 0
		if pod.Spec.NodeName == "" || len(pod.OwnerReferences)+len(pod.Finalizers)+len(pod.ManagedFields) > 0 ||
			pod.UID != "" || pod.ResourceVersion != "" || pod.Spec.PriorityClassName != "" || pod.DeletionTimestamp != nil {
			t.Fatalf("%s is not settled", pod.Name)
		}
		for _, v := range pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				t.Errorf("%s has a claim", pod.Name)
			}
		}
	}
	if !changed {
		t.Error("no pod of the fleet had an owner and no node: the test shows nothing")
	}
}
