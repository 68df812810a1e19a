// +groupName=shop.example.com
package v1

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

// +genclient
// +genclient:nonNamespaced

type Warehouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Warehouse) DeepCopyObject() runtime.Object {
	return &Warehouse{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:onlyVerbs=list,watch

type Ticket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Ticket) DeepCopyObject() runtime.Object {
	return &Ticket{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}
