// +groupName=parts.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +informer:index=Name,path=metadata.name
type Gadget struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
// +genclient:nonNamespaced
type IPPool struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
// +genclient:skipVerbs=get
type Listed struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
