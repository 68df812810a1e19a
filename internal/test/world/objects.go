package world

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/object"
)

// Resources of tests. No server has gadgets unless the test registers them.
var (
	PodGVR    = corev1.SchemeGroupVersion.WithResource("pods")
	NodeGVR   = corev1.SchemeGroupVersion.WithResource("nodes")
	GadgetGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
)

// Keys of pods.
var (
	KeyA = informer.Key{Namespace: "ns", Name: "a"}
	KeyB = informer.Key{Namespace: "ns", Name: "b"}
)

// Lines of a recorder.
var (
	Added   = []string{"add ns/a 1 initial=true", "add ns/b 1 initial=true"} // when the pods A and B, both v=1, are listed
	Updated = []string{"update ns/b 1->2"}                                   // when B gets v=2
)

// NewPod returns a pod with labels of the form key=value.
func NewPod(namespace, name string, labels ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:     namespace,
			Name:          name,
			Labels:        map[string]string{},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate}},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		pod.Labels[key] = value
	}
	return pod
}

// InQuarter gives pod a random UID whose hash is in that quarter of all hashes, from 0 to 3, and returns it. So a shard
// of a test is never empty by chance.
func InQuarter(quarter int, pod *corev1.Pod) *corev1.Pod {
	for pod.UID == "" || informer.HashOf(pod.UID)>>62 != uint64(quarter) {
		pod.UID = uuid.NewUUID()
	}
	return pod
}

// Names returns the keys of objects, with spaces between them.
func Names[T informer.Object](list []T) string {
	var b strings.Builder
	for _, obj := range list {
		b.WriteString(informer.KeyOf(obj).String() + " ")
	}
	return strings.TrimSpace(b.String())
}

// AnyObject is an interface that every API type implements, like controller-runtime's client.Object.
type AnyObject interface {
	metav1.Object
	runtime.Object
}

// SlimPod has only the fields of a pod that some controller needs, and embeds no other type.
type SlimPod struct {
	Metadata struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

func (p *SlimPod) GetNamespace() string { return p.Metadata.Namespace }

func (p *SlimPod) GetName() string { return p.Metadata.Name }

func (p *SlimPod) GetUID() types.UID { return p.Metadata.UID }

func (p *SlimPod) GetResourceVersion() string { return p.Metadata.ResourceVersion }

func (p *SlimPod) GetLabels() map[string]string { return p.Metadata.Labels }

func (p *SlimPod) SetLabels(labels map[string]string) { p.Metadata.Labels = labels }

// Held returns the pods in inf's store, by name.
func Held(inf *informer.Informer[*corev1.Pod]) map[string]*corev1.Pod {
	pods := map[string]*corev1.Pod{}
	for pod := range inf.Store().All() {
		pods[pod.Name] = pod
	}
	return pods
}

// Nameless returns a Fault.Rewrite that removes all content, also the metadata, from those pods.
func Nameless(keys ...informer.Key) func(informer.Key, []byte) []byte {
	return func(k informer.Key, object []byte) []byte {
		if !slices.Contains(keys, k) {
			return object
		}
		return Encode(&corev1.Pod{}, object)
	}
}

// Encode encodes pod in the format of like.
func Encode(pod *corev1.Pod, like []byte) []byte {
	var b []byte
	var err error
	if bytes.HasPrefix(like, []byte("{")) {
		b, err = json.Marshal(pod)
	} else {
		b, err = pod.Marshal()
	}
	if err != nil {
		panic(err)
	}
	return b
}

// IsGone is a condition for Await: the object does not exist.
func IsGone[T informer.Object](obj T) bool {
	return object.IsNil(obj)
}

// SeenAs returns a pod of the server as an informer of T holds it, which is how client-go decodes it.
func SeenAs[T informer.Object](pod *corev1.Pod, keepManagedFields bool) T {
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{}
	pod.CreationTimestamp = metav1.NewTime(pod.CreationTimestamp.Local().Truncate(time.Second))
	if !keepManagedFields {
		pod.ManagedFields = nil
	}
	var seen any = pod
	switch any(*new(T)).(type) {
	case *metav1.PartialObjectMetadata:
		seen = &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}
	case *unstructured.Unstructured:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			panic(err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion("v1")
		u.SetKind("Pod")
		seen = u
	case *SlimPod:
		slim := &SlimPod{}
		m := &slim.Metadata
		m.Namespace, m.Name, m.UID, m.ResourceVersion = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion
		m.Labels = pod.Labels
		slim.Spec.NodeName = pod.Spec.NodeName
		seen = slim
	}
	return seen.(T)
}
