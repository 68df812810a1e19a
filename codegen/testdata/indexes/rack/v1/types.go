// +groupName=rack.example.com
package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +informer:index=Phase,path=status.phase
// +informer:index=ByOwner,path=.spec.owner.name
// +informer:index=claim,path={.spec.volumes[*].claim}
// +informer:index=app,path=metadata.labels['app.kubernetes.io/name']
// +informer:index=type,path=spec.type
// +informer:index=UID,path=metadata.uid
// +informer:index=Nested,path=spec.groups[*].members[*]
// +informer:index=Port,path=spec.ports[*].value
// +informer:index=Inlined,path=spec.width
// +informer:index=Even,func=Even
// +informer:index=First,func=FirstVolume
// +informer:index=Ref,func=Refs
// +informer:index=Pair,func=PairOf
// +informer:index=All,func=AllOf

// Machine has indexes.
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec MachineSpec `json:"spec"`
	// +informer:index
	Zone   string        `json:"zone,omitempty"`
	Status MachineStatus `json:"status,omitempty"`
}

type MachineSpec struct {
	Size `json:",inline"`

	// NodeName is where it is.
	// +informer:index=Node
	NodeName string            `json:"nodeName,omitempty"`
	Owner    *Owner            `json:"owner,omitempty"`
	Volumes  []Volume          `json:"volumes,omitempty"`
	Type     string            `json:"type"`
	Groups   map[string]*Group `json:"groups"`
	Ports    []*Port           `json:"ports"`
	Image    *string           `json:"image"` // +informer:index
	Again    *MachineSpec      `json:"again,omitempty"`
}

type Size struct {
	Width int32 `json:"width"`
	// +informer:index
	Height int32 `json:"height"`
}

type Owner struct {
	Name *string `json:"name,omitempty"`
}

type Volume struct {
	Claim string `json:"claim"`
	// +informer:index=Mode
	Modes []corev1.PersistentVolumeAccessMode `json:"modes"`
}

type Group struct {
	Members []types.NamespacedName `json:"members"`
}

type Port struct {
	Value *int64 `json:"value"`
}

type MachineStatus struct {
	Phase Phase `json:"phase"`
}

type Phase string

func (m *Machine) Even() bool                   { return len(m.Name)%2 == 0 }
func (m *Machine) FirstVolume() (Volume1, bool) { return Volume1{}, false }
func (m *Machine) Refs() []types.NamespacedName { return nil }

type Volume1 struct{ A, B string }

func PairOf(m *Machine) [2]string { return [2]string{} }
func AllOf(m *Machine) []Phase    { return nil }

// +genclient
// +genclient:nonNamespaced
// +informer:index=Tall,path=size.height
type Slot struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Size              *Size `json:"size"`
}
