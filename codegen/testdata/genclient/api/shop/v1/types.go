package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +k8s:prerelease-lifecycle-gen:introduced=1.2

// Widget is namespaced.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// WidgetList has no marker.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// Depot is cluster-scoped.
// +genclient
// +genclient:nonNamespaced
// +genclient:noStatus
// +genclient:method=GetScale,verb=get,subresource=scale,result=k8s.io/api/autoscaling/v1.Scale
type Depot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

/*
+genclient
+resourceName=stock
*/

// Shelf has another name in the URL.
type Shelf struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
// +genclient:onlyVerbs=get,list,watch
type ReadOnly struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
// +genclient:readonly
type AlsoReadOnly struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
// +genclient:onlyVerbs=create
type Review struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
// +genclient:skipVerbs=watch,patch
type NoWatch struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
// +genclient:noVerbs
type NoVerbs struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient

// This comment is too far away from the next type to be its own.

type Unmarked struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

type (
	// +genclient
	Grouped struct {
		metav1.ObjectMeta `json:"metadata,omitempty"`
	}
)
