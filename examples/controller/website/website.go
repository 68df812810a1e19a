package website

import (
	_ "embed"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// GroupVersion is the API that CRD defines.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// Resource is that of websites.
var Resource = GroupVersion.WithResource("websites")

// CRD is the definition of Website, to be applied to a cluster.
//
//go:embed crd.yaml
var CRD []byte

// Website asks for a Deployment of Image, and for a Service before it that is Host's.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is what the user asks for.
type Spec struct {
	// Host is the name under which the website is reached. Each belongs to one website.
	Host string `json:"host"`
	// Image is what its containers run.
	Image string `json:"image"`
	// Replicas is how many there are. Nil means 1; 0 means that the website is off, and has no Service.
	Replicas *int32 `json:"replicas,omitempty"`
}

// Status is what the controller has made of it.
type Status struct {
	// ObservedGeneration is that of the Spec that the rest is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Host is the name that the website has. It keeps it until its Spec asks for another.
	Host string `json:"host,omitempty"`
	// AvailableReplicas is how many serve.
	AvailableReplicas int32 `json:"availableReplicas"`
	// Conditions are Accepted and Ready.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a Website.
const (
	// Accepted says whether the Spec is valid and Host is this website's.
	Accepted = "Accepted"
	// Ready says whether all replicas of the present Spec serve.
	Ready = "Ready"
)

// GroupKind is the kind of Website, as owner references have it.
var GroupKind = schema.GroupKind{Group: GroupVersion.Group, Kind: "Website"}

func (w *Website) replicas() int32 {
	if w.Spec.Replicas == nil {
		return 1
	}
	return *w.Spec.Replicas
}

// validate returns what the schema of the CRD cannot say.
func (w *Website) validate() error {
	if problems := validation.IsDNS1123Subdomain(w.Spec.Host); len(problems) > 0 {
		return fmt.Errorf("spec.host %q: %s", w.Spec.Host, problems[0])
	}
	if problems := validation.IsDNS1035Label(w.Name); len(problems) > 0 { // it is that of the Service too
		return fmt.Errorf("metadata.name %q: %s", w.Name, problems[0])
	}
	if w.Spec.Image == "" || w.replicas() < 0 {
		return fmt.Errorf("spec.image is empty, or spec.replicas negative")
	}
	return nil
}

// DeepCopy returns a copy that shares nothing with w.
func (w *Website) DeepCopy() *Website {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	if w.Spec.Replicas != nil {
		c.Spec.Replicas = new(*w.Spec.Replicas)
	}
	c.Status.Conditions = slices.Clone(w.Status.Conditions) // structs without pointers
	return &c
}

// DeepCopyObject makes a Website a runtime.Object.
func (w *Website) DeepCopyObject() runtime.Object { return w.DeepCopy() }
