// +groupName=words.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type object struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// +genclient
type Endpoints struct{ object }

// +genclient
type Ingress struct{ object }

// +genclient
type NetworkPolicy struct{ object }

// +genclient
type StorageClass struct{ object }

// +genclient
type Gateway struct{ object }

// +genclient
type Box struct{ object }

// +genclient
type Quiz struct{ object }

// +genclient
type Batch struct{ object }

// +genclient
type Path struct{ object }

// +genclient
type Mesh struct{ object }

// +genclient
type Leaf struct{ object }

// +genclient
type Knife struct{ object }

// +genclient
type Node struct{ object }

// +genclient
type IPAddress struct{ object }

// +genclient
type A struct{ object }

// +genclient
type Datum struct{ object }

// +genclient
type Staff struct{ object }

// +genclient
type Hidden struct{ object }
