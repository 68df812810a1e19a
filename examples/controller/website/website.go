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

// Resource is the resource of websites.
var Resource = GroupVersion.WithResource("websites")

// CRD is the definition of Website, for kubectl apply.
//
//go:embed crd.yaml
var CRD []byte

// Website asks for a Deployment of Image, and for a Service that has Host.
type Website struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// Spec is the desired state.
type Spec struct {
	// Host is the name under which the website is reached. A host belongs to one website.
	Host string `json:"host"`
	// Image is the image of the containers.
	Image string `json:"image"`
	// Replicas is the number of replicas. Nil means 1; 0 means that the website is off, and has no Service.
	Replicas *int32 `json:"replicas,omitempty"`
}

// Status is the observed state.
type Status struct {
	// ObservedGeneration is the generation of the Spec that the status is for.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Host is the name that the website has. It keeps it until its Spec asks for another one.
	Host string `json:"host,omitempty"`
	// AvailableReplicas is the number of available replicas.
	AvailableReplicas int32 `json:"availableReplicas"`
	// Conditions has Accepted and Ready.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Conditions of a Website.
const (
	// Accepted is true if the Spec is valid and Host belongs to this website.
	Accepted = "Accepted"
	// Ready is true if all replicas of the present Spec are available.
	Ready = "Ready"
)

// kind is the kind of Website, for owner references and events.
var kind = GroupVersion.WithKind("Website")

func (w *Website) replicas() int32 {
	if w.Spec.Replicas == nil {
		return 1
	}
	return *w.Spec.Replicas
}

// validate checks rules that the schema of the CRD cannot express.
func (w *Website) validate() error {
	if problems := validation.IsDNS1123Subdomain(w.Spec.Host); len(problems) > 0 {
		return fmt.Errorf("spec.host %q: %s", w.Spec.Host, problems[0])
	}
	if problems := validation.IsDNS1035Label(w.Name); len(problems) > 0 { // also the Service's name
		return fmt.Errorf("metadata.name %q: %s", w.Name, problems[0])
	}
	if w.Spec.Image == "" || w.replicas() < 0 {
		return fmt.Errorf("spec.image is empty, or spec.replicas negative")
	}
	return nil
}

// DeepCopy returns a copy that shares no memory with w.
func (w *Website) DeepCopy() *Website {
	c := *w
	w.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	if w.Spec.Replicas != nil {
		c.Spec.Replicas = new(*w.Spec.Replicas)
	}
	c.Status.Conditions = slices.Clone(w.Status.Conditions) // the structs have no pointers
	return &c
}

// DeepCopyObject makes a Website a runtime.Object.
func (w *Website) DeepCopyObject() runtime.Object { return w.DeepCopy() }
