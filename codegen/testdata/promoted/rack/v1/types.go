// +groupName=rack.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Alone has the method of its metadata that decodes protobuf, and is not encoded in it.
//
// +genclient
type Alone struct {
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
}
