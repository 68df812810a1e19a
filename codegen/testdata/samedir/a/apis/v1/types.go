// +groupName=a.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
type Thing struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
