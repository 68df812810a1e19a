// +groupName=spare-parts.example.com
// +groupGoName=SpareParts
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient

type Factory struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Factory) DeepCopyObject() runtime.Object {
	return &Factory{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient

type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Widget) DeepCopyObject() runtime.Object {
	return &Widget{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}
