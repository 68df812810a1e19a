// Package v1 is an API.
//
// +groupName=shop.example.com
package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer/codegen/testdata/deepcopy/parts"
)

// These do not compile without the generated methods.
var _, _, _ runtime.Object = &Widget{}, &WidgetList{}, &Config{}

// Widget is a resource.
//
// +genclient
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec    `json:"spec"`
	Status *WidgetStatus `json:"status,omitempty"`
}

// WidgetList is a list without a marker.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Widget `json:"items"`
}

// Config is an object, but no resource.
//
// +kubebuilder:object:root=true
type Config struct {
	metav1.TypeMeta `json:",inline"`

	Names []string `json:"names,omitempty"`
}

// WidgetSpec has all kinds of fields.
type WidgetSpec struct {
	Name      string                 `json:"name"`
	Labels    map[string]string      `json:"labels,omitempty"`
	Lists     map[string][]string    `json:"lists,omitempty"`
	Replicas  *int32                 `json:"replicas,omitempty"`
	Parts     []parts.Part           `json:"parts,omitempty"`
	ByName    map[string]Inner       `json:"byName,omitempty"`
	Pointers  []*Inner               `json:"pointers,omitempty"`
	Template  corev1.PodTemplateSpec `json:"template"`
	Resources corev1.ResourceList    `json:"resources,omitempty"`
	Raw       *runtime.RawExtension  `json:"raw,omitempty"`
	Object    runtime.Object         `json:"-"`
	Any       any                    `json:"any,omitempty"`
	Matrix    [2][]int               `json:"matrix"`
	Selector  *metav1.LabelSelector  `json:"selector,omitempty"`
	Embedded  `json:",inline"`
	Tree      *Tree  `json:"tree,omitempty"`
	Hand      ByHand `json:"hand"`
	hidden    []string
}

// Embedded embeds a type with a DeepCopyInto, and needs its own.
type Embedded struct {
	metav1.LabelSelector `json:",inline"`
	More                 []string `json:"more,omitempty"`
}

// Inner is in a map and behind pointers.
type Inner struct {
	Values []string `json:"values,omitempty"`
}

// Tree is recursive.
type Tree struct {
	Children []Tree `json:"children,omitempty"`
	Parent   *Tree  `json:"-"`
}

// WidgetStatus has nothing to copy deeply.
type WidgetStatus struct {
	Phase string      `json:"phase,omitempty"`
	Since metav1.Time `json:"since"`
}

// ByHand copies itself.
type ByHand struct {
	Shared chan int `json:"-"`
}

// DeepCopyInto shares the channel.
func (in *ByHand) DeepCopyInto(out *ByHand) { *out = *in }

// Unused is in no object.
type Unused struct{ Names []string }

// Wanted is in no object, and has a marker.
//
// +k8s:deepcopy-gen=true
type Wanted struct{ Names []string }

// Hide sets the unexported field of a widget.
func (w *Widget) Hide(names ...string) { w.Spec.hidden = names }

// Hidden returns the unexported field of a widget.
func (w *Widget) Hidden() []string { return w.Spec.hidden }
