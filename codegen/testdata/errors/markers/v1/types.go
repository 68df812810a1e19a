// +groupName=markers.example.com
// +groupGoName=no-name
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type object struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient=true
type Old struct{ object }

// +genclient
// +genclient:namespaced
type Unknown struct{ object }

// +genclient
// +genclient:onlyVerbs=list,look
type Verb struct{ object }

// +genclient
type NoMeta struct{ Name string }

// +genclient
type hidden struct{ object }

// +genclient
// +resourceName=Big
type Big struct{ object }

// +kubebuilder:resource:path=a/b
type Slash struct{ object }

// +kubebuilder:resource:path
type NoValue struct{ object }

// +kubebuilder:resource:scope=cluster
type Scope struct{ object }

// +genclient
// +genclient:nonNamespaced
// +kubebuilder:resource:scope=Namespaced
type TwoScopes struct{ object }

// +genclient
// +resourceName=this
// +kubebuilder:resource:path=that
type TwoNames struct{ object }

// +genclient
// +resourceName=same
type Same struct{ object }

// +genclient
// +resourceName=same
type Other struct{ object }

// +informer:index=Node,path=node
type NoRoot struct{ object }
