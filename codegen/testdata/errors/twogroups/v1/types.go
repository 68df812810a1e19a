// +groupName=a.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var GroupVersion = schema.GroupVersion{Group: "b.example.com", Version: "v1"}

// +genclient
type Thing struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
