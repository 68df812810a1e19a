package v1beta1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// CronJob has all by default.
type CronJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +kubebuilder:object:root=true

// CronJobList is a list.
type CronJobList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []CronJob `json:"items"`
}

// +kubebuilder:object:root=true

// Configuration is a file.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gear,scope=Cluster,singular=cog,shortName={g,gg},categories="all,gears"
type Gearing struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// Policy has only the resource marker.
//
// +kubebuilder:resource:scope=Namespaced,shortName=pol
type Policy struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:unservedversion
type Former struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:skipversion
type Skipped struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +kubebuilder:object:root=false
type NotRoot struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// Both has the markers of both, which agree.
// +genclient
// +genclient:nonNamespaced
// +resourceName=both
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=both,scope=Cluster
type Both struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
