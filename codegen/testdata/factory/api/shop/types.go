// +groupName=shop.example.com
package shop

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var SchemeGroupVersion = schema.GroupVersion{Group: "shop.example.com", Version: runtime.APIVersionInternal}

// +genclient

type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Widget) DeepCopyObject() runtime.Object {
	return &Widget{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}
