// +groupName=shop.example.com
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient

type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Widget) DeepCopyObject() runtime.Object {
	return &Widget{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}
