// Package v1 is an API.
//
// +groupName=shop.example.com
package v1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/typedinformer/informer/codegen/testdata/apply/parts"
)

// Widget is a resource.
//
// +genclient
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   WidgetSpec   `json:"spec"`
	Status WidgetStatus `json:"status,omitempty"`
}

// Depot is of the cluster, and has a field with the name of one of the metadata.
//
// +genclient
// +genclient:nonNamespaced
type Depot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Labels []string     `json:"tags,omitempty"`
	Client *DepotClient `json:"client,omitempty"`
}

// DepotClient has the name that the client of depots would have.
type DepotClient struct {
	Name string `json:"name"`
}

// WidgetSpec has all kinds of fields.
type WidgetSpec struct {
	Name      string                  `json:"name"`
	Replicas  *int32                  `json:"replicas,omitempty"`
	Color     Color                   `json:"color,omitempty"`
	Labels    map[string]string       `json:"labels,omitempty"`
	Tags      []string                `json:"tags,omitempty"`
	Digest    []byte                  `json:"digest,omitempty"`
	Inner     *Inner                  `json:"inner,omitempty"`
	Inners    []Inner                 `json:"inners,omitempty"`
	Pointers  []*Inner                `json:"pointers,omitempty"`
	ByName    map[string]Inner        `json:"byName,omitempty"`
	Parts     []parts.Part            `json:"parts,omitempty"`
	Template  *corev1.PodTemplateSpec `json:"template,omitempty"`
	Selector  *metav1.LabelSelector   `json:"selector,omitempty"`
	Size      resource.Quantity       `json:"size,omitempty"`
	Port      intstr.IntOrString      `json:"port,omitempty"`
	Since     *metav1.Time            `json:"since,omitempty"`
	Resources corev1.ResourceList     `json:"resources,omitempty"`
	Raw       runtime.RawExtension    `json:"raw,omitempty"`
	Matrix    [][]Inner               `json:"matrix,omitempty"`
	Empty     struct{}                `json:"empty,omitempty"`
	Any       any                     `json:"any,omitempty"`
	Own       *Own                    `json:"own,omitempty"`
	Shared    `json:",inline"`
	Hidden    string `json:"-"`
}

// Color is an enumeration.
type Color string

// Shared is inlined.
type Shared struct {
	// Name is hidden by the name of the widget.
	Name string `json:"name,omitempty"`

	Note string `json:"note,omitempty"`
}

// Inner is recursive.
type Inner struct {
	Value string  `json:"value,omitempty"`
	More  []Inner `json:"more,omitempty"`
}

// Own has metadata of its own.
type Own struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Value string `json:"value,omitempty"`
}

// WidgetStatus has conditions.
type WidgetStatus struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
