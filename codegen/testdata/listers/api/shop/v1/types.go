// +groupName=shop.example.com
package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// +genclient
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (w *Widget) DeepCopyObject() runtime.Object { return &Widget{w.TypeMeta, *w.DeepCopy()} }

// +genclient
// +genclient:nonNamespaced
type Warehouse struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (w *Warehouse) DeepCopyObject() runtime.Object { return &Warehouse{w.TypeMeta, *w.DeepCopy()} }

// +genclient
// +genclient:skipVerbs=get
type Ticket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// Review is a type that clients only create. lister-gen writes a lister of it, all the same.
//
// +genclient
// +genclient:noVerbs
// +genclient:nonNamespaced
type Review struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (r *Review) DeepCopyObject() runtime.Object { return &Review{r.TypeMeta, *r.DeepCopy()} }

// +genclient
// +genclient:skipVerbs=watch
type Status struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

func (s *Status) DeepCopyObject() runtime.Object { return &Status{s.TypeMeta, *s.DeepCopy()} }
