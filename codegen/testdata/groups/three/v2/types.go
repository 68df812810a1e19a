package v2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/codegen/testdata/groups/group"
)

const version = "v2"

var SchemeGroupVersion = schema.GroupVersion{Group: group.Name, Version: version}

// +genclient
type Thing struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}
