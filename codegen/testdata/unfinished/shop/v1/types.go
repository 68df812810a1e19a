// +groupName=shop.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient
// +informer:index=Node,path=spec.node
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Node string `json:"node"`
	} `json:"spec"`
}

var _ runtime.Object = &Widget{} // DeepCopyObject is to be generated
