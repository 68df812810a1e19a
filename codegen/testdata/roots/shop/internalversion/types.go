// Package internalversion has the types that the server uses.
package internalversion

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is group version used to register these objects
var SchemeGroupVersion = schema.GroupVersion{Group: "shop.example.com", Version: runtime.APIVersionInternal}

// +genclient

// Widget is not served.
type Widget struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}
