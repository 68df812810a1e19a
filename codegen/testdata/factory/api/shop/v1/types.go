// +groupName=shop.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient

type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Widget) DeepCopyObject() runtime.Object {
	return &Widget{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:nonNamespaced

type Warehouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Warehouse) DeepCopyObject() runtime.Object {
	return &Warehouse{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:onlyVerbs=list,watch

type Ticket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Ticket) DeepCopyObject() runtime.Object {
	return &Ticket{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +kubebuilder:resource:scope=Cluster

type Depot struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Depot) DeepCopyObject() runtime.Object {
	return &Depot{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:noStatus
// +kubebuilder:object:root=true

type Shipment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Shipment) DeepCopyObject() runtime.Object {
	return &Shipment{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// The types below get no informer: they have no client with list and watch, or no lister.

// +kubebuilder:object:root=true

type Shelf struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Shelf) DeepCopyObject() runtime.Object {
	return &Shelf{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +kubebuilder:object:root=true

type ShelfList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Shelf `json:"items"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=aisles

type Aisle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Aisle) DeepCopyObject() runtime.Object {
	return &Aisle{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +kubebuilder:object:root=true

type AisleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Aisle `json:"items"`
}

// +genclient
// +genclient:skipVerbs=list,watch

type Order struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Order) DeepCopyObject() runtime.Object {
	return &Order{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:onlyVerbs=create,get

type Invoice struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Invoice) DeepCopyObject() runtime.Object {
	return &Invoice{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:noVerbs

type Receipt struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Receipt) DeepCopyObject() runtime.Object {
	return &Receipt{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:skipVerbs=watch

type Parcel struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Parcel) DeepCopyObject() runtime.Object {
	return &Parcel{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// +genclient
// +genclient:skipVerbs=list

type Basket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Basket) DeepCopyObject() runtime.Object {
	return &Basket{in.TypeMeta, *in.ObjectMeta.DeepCopy()}
}

// A lister selects by labels.
// +genclient

type Plain struct {
	metav1.TypeMeta `json:",inline"`
	Meta            metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (in *Plain) GetNamespace() string       { return in.Meta.Namespace }
func (in *Plain) GetName() string            { return in.Meta.Name }
func (in *Plain) GetUID() types.UID          { return in.Meta.UID }
func (in *Plain) GetResourceVersion() string { return in.Meta.ResourceVersion }
func (in *Plain) DeepCopyObject() runtime.Object {
	return &Plain{in.TypeMeta, *in.Meta.DeepCopy()}
}
