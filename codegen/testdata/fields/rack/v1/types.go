// +groupName=rack.example.com
package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Thing is in a rack.
//
// +genclient
// +informer:index=Port,path=spec.ports[*].number
// +informer:index=Gone,path=spec.gone
// +informer:index=Func,func=Nodes
type Thing struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ThingSpec   `json:"spec"`
	Status ThingStatus `json:"status,omitempty"`
}

func (t *Thing) Nodes() []string { return nil }

type ThingSpec struct {
	// +informer:index
	Node       NodeName `json:"node,omitempty"`
	Gone       string   `json:"gone"`
	Disks      []Disk   `json:"disks,omitempty"`
	Ports      *[]*Port `json:"ports,omitempty"`
	Labels     map[string]string
	Limits     map[string]int64    `json:"limits"`
	Table      map[string]Size     `json:"table"`
	Owner      *Owner              `json:"owner,omitempty"`
	Deep       *Deep               `json:"deep,omitempty"`
	When       *metav1.Time        `json:"when,omitempty"`
	Raw        map[string][]byte   `json:"raw,omitempty"`
	Any        map[string]any      `json:"any,omitempty"`
	Quantities corev1.ResourceList `json:"quantities,omitempty"`
	Inlined    `json:",inline"`
}

type NodeName string

type Disk struct {
	Name string            `json:"name"`
	Size resource.Quantity `json:"size"`
}

type Port struct {
	Number int32  `json:"number"`
	Name   string `json:"name"`
}

type Size struct{ Width, Height int }

type Owner struct {
	Names []string `json:"names"`
}

type Deep struct {
	Er struct {
		Est  *string `json:"est"`
		Rest string  `json:"rest"`
	} `json:"er"`
}

type Inlined struct {
	Is  bool `json:"inlined"`
	Not bool `json:"not"`
}

type ThingStatus struct {
	Conditions []metav1.Condition `json:"conditions"`
}

// Whole has all of its metadata.
//
// +genclient
// +genclient:nonNamespaced
type Whole struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec struct {
		Node string `json:"node"`
	} `json:"spec"`
	Items []corev1.PodTemplate `json:"items"`
}

// Bare has no lister, because nobody asks for its labels.
//
// +genclient
type Bare struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec *ThingSpec `json:"spec"`
}
