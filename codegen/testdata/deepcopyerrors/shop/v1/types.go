// +groupName=shop.example.com
package v1

import (
	"io"
	"math/big"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec WidgetSpec `json:"spec"`
}

type WidgetSpec struct {
	Events chan int      `json:"-"`
	Sizes  []big.Int     `json:"sizes,omitempty"`
	Reader io.Reader     `json:"-"`
	Call   func() string `json:"-"`
}
