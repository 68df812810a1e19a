// Package v1beta1 is an API.
// +kubebuilder:object:generate=true
// +groupName=batch.example.com
package v1beta1

import "k8s.io/apimachinery/pkg/runtime/schema"

var (
	// GroupVersion is group version used to register these objects
	GroupVersion = schema.GroupVersion{Group: "batch.example.com", Version: "v1beta1"}

	// Other is not it.
	Other = schema.GroupVersion{Group: "other.example.com", Version: "v1"}
)
