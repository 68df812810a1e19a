package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Foo asks for a Deployment. In sample-controller, this type and its copies are in pkg/apis, and stay there.
type Foo struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   FooSpec   `json:"spec"`
	Status FooStatus `json:"status"`
}

// FooSpec is the desired state.
type FooSpec struct {
	DeploymentName string `json:"deploymentName"`
	Replicas       *int32 `json:"replicas"`
}

// FooStatus is the observed state.
type FooStatus struct {
	AvailableReplicas int32 `json:"availableReplicas"`
}

var (
	fooKind     = schema.GroupVersionKind{Group: "samplecontroller.k8s.io", Version: "v1alpha1", Kind: "Foo"}
	fooResource = fooKind.GroupVersion().WithResource("foos")
)

// DeepCopy returns a copy that shares no memory with f.
func (f *Foo) DeepCopy() *Foo {
	c := *f
	f.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	if f.Spec.Replicas != nil {
		c.Spec.Replicas = new(*f.Spec.Replicas)
	}
	return &c
}

// DeepCopyObject makes a Foo a runtime.Object, which UpdateStatus needs.
func (f *Foo) DeepCopyObject() runtime.Object { return f.DeepCopy() }
