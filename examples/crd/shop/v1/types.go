// Package v1 is the API of this example.
//
// +groupName=shop.example.com
package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Widget is something to be made.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=wd
// +kubebuilder:subresource:status
// +informer:index=Phase,path=status.phase
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

// WidgetSpec is what is wanted.
type WidgetSpec struct {
	// Factory is where the widget is made.
	// +informer:index
	Factory string `json:"factory"`
	// Parts are what it is made of.
	Parts []Part `json:"parts,omitempty"`
}

// Part is a kind of thing that widgets are made of.
type Part struct {
	// +informer:index=Part
	Name  string `json:"name"`
	Count int32  `json:"count"`
}

// WidgetStatus is how far it is.
type WidgetStatus struct {
	Phase Phase `json:"phase,omitempty"`
}

// Phase is a step in the making of a widget.
type Phase string

// The phases.
const (
	Ordered Phase = "Ordered"
	Made    Phase = "Made"
)
