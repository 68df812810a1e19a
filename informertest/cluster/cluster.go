// Package cluster makes a server of package informertest look like a cluster: it serves every built-in type, and
// contains the namespaces and the Service of a new cluster.
//
//	server := cluster.New(informertest.Options{})
//	defer server.Close()
//	pods, _ := informertest.CollectionOf[*corev1.Pod](server, corev1.SchemeGroupVersion.WithResource("pods"))
//
// The package is separate from informertest because it links every type of Kubernetes.
package cluster

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/informertest"
)

// New starts a server that serves every type of k8s.io/api that kube-apiserver serves by default, in its newest stable
// version, with server-side apply; and the reviews of authentication and authorization. New creates the namespaces
// default, kube-node-lease, kube-public and kube-system, and the Service kubernetes. No controllers run but those of
// options.Controllers. kubectl get shows the columns of kube-apiserver for the kinds that people look at most.
//
// For the kinds that programs write most, the server validates names as kube-apiserver does. It also validates the
// containers of Pods and of pod templates, their restartPolicy, the selectors and replicas of workloads, the ports of
// Services, the access modes and sizes of PersistentVolumeClaims, the data of ConfigMaps and Secrets, roles and their
// bindings, the bounds and targets of HorizontalPodAutoscalers, configurations of webhooks (but not whether their matchConditions compile),
// that a PodDisruptionBudget has one bound and a CronJob a schedule, and fields that may not change: selectors, most of
// the spec of a Pod, StatefulSet, Job or PersistentVolumeClaim, the role of a binding, the type of a Secret, and
// immutable ConfigMaps and Secrets. The stringData of a Secret become its data, and its default type is Opaque. Other
// fields get no defaults; where a field that may not change can have one, clients may set it if it is empty, and clear
// it.
//
// Events of v1 and of events.k8s.io/v1 are separate objects. HorizontalPodAutoscalers are of autoscaling/v2 only. If
// options.TypeConverter is nil, New sets it. New panics if it cannot listen.
func New(options informertest.Options) *informertest.Server {
	if options.TypeConverter == nil {
		options.TypeConverter = newLazyConverter(managedfields.TypeConverter.ObjectToTyped)
	}
	server := informertest.NewServer(options)
	for _, kind := range kinds() {
		informertest.RegisterType(server, resourceOf(kind), reflect.PointerTo(builtin().AllKnownTypes()[kind]))
	}
	informertest.RegisterReviews(server)
	populate(server)
	return server
}

// builtin contains the types of k8s.io/api. client-go's own scheme may contain more, because programs add theirs to it.
var builtin = sync.OnceValue(func() *runtime.Scheme {
	types := runtime.NewScheme()
	if err := scheme.AddToScheme(types); err != nil {
		panic(fmt.Sprintf("cluster: the scheme of client-go: %v", err))
	}
	return types
})

// stable matches the versions that the server serves.
var stable = regexp.MustCompile(`^v\d+$`)

// transient are the stable kinds with metadata that the server does not serve as resources, such as those of
// subresources.
var transient = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Binding"},
	{Version: "v1", Kind: "ComponentStatus"},
	{Version: "v1", Kind: "PodStatusResult"},
	{Version: "v1", Kind: "RangeAllocation"},
	{Group: "autoscaling", Version: "v1", Kind: "HorizontalPodAutoscaler"}, // served in v2
	{Group: "autoscaling", Version: "v1", Kind: "Scale"},
	{Group: "policy", Version: "v1", Kind: "Eviction"},
}

// clusterScoped are the stable kinds that are not in namespaces.
var clusterScoped = []string{
	"CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ClusterTrustBundle", "CSIDriver", "CSINode",
	"DeviceClass", "DeviceTaintRule", "FlowSchema", "IPAddress", "IngressClass", "MutatingAdmissionPolicy",
	"MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node", "PersistentVolume", "PriorityClass",
	"PriorityLevelConfiguration", "ResourceSlice", "RuntimeClass", "ServiceCIDR", "StorageClass", "StorageVersionMigration",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment",
	"VolumeAttributesClass",
}

// kinds returns the kinds that the server serves.
func kinds() (all []schema.GroupVersionKind) {
	for kind, t := range builtin().AllKnownTypes() {
		_, hasMetadata := reflect.New(t).Interface().(metav1.Object)
		switch {
		case !hasMetadata, !stable.MatchString(kind.Version), slices.Contains(transient, kind):
		case kind.Group == metav1.GroupName, strings.HasPrefix(kind.Group, "auth"): // authentication.k8s.io and such
		default:
			all = append(all, kind)
		}
	}
	return all
}

func resourceOf(kind schema.GroupVersionKind) informertest.Resource {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	return informertest.Resource{
		GroupVersionResource: plural,
		Kind:                 kind.Kind,
		ClusterScoped:        slices.Contains(clusterScoped, kind.Kind),
		Table:                tables[kind.GroupKind()],
		Warning:              deprecation(kind),
		Hooks:                hooks,
	}
}

// deprecation returns kube-apiserver's warning about a kind that is deprecated, or nothing.
func deprecation(kind schema.GroupVersionKind) string {
	obj, err := builtin().New(kind)
	if err != nil {
		return ""
	}
	deprecated, ok := obj.(interface {
		APILifecycleDeprecated() (major, minor int)
		APILifecycleReplacement() schema.GroupVersionKind
	})
	if !ok {
		return ""
	}
	major, minor := deprecated.APILifecycleDeprecated()
	version, use := kind.GroupVersion(), deprecated.APILifecycleReplacement()
	return fmt.Sprintf("%s %s is deprecated in v%d.%d+; use %s %s", version, kind.Kind, major, minor, use.GroupVersion(), use.Kind)
}

// populate creates the objects of a new cluster.
func populate(server *informertest.Server) {
	namespaces, _ := informertest.CollectionOf[*corev1.Namespace](server,
		corev1.SchemeGroupVersion.WithResource("namespaces"))
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} {
		create(namespaces, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}},
			Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
			Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
		})
	}
	services, _ := informertest.CollectionOf[*corev1.Service](server, corev1.SchemeGroupVersion.WithResource("services"))
	within, single := corev1.ServiceInternalTrafficPolicyCluster, corev1.IPFamilyPolicySingleStack
	create(services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes",
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"}},
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeClusterIP,
			ClusterIP:             "10.0.0.1",
			ClusterIPs:            []string{"10.0.0.1"},
			IPFamilies:            []corev1.IPFamily{corev1.IPv4Protocol},
			IPFamilyPolicy:        &single,
			InternalTrafficPolicy: &within,
			SessionAffinity:       corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443,
				TargetPort: intstr.FromInt32(6443)}},
		},
	})
}

func create[T interface {
	metav1.Object
}](c *informertest.Collection[T], obj T) {
	if _, err := c.Create(obj); err != nil {
		panic(err) // the server is new
	}
}

// typeConverter is managedfields.TypeConverter. Its signatures have types of sigs.k8s.io/structured-merge-diff, whose import path is
// another one from k8s.io/apimachinery 0.38 on. O is typed.ValidationOptions, V *typed.TypedValue.
type typeConverter[O, V any] interface {
	ObjectToTyped(obj runtime.Object, options ...O) (V, error)
	TypedToObject(value V) (runtime.Object, error)
}

// lazyConverter makes client-go's converter at the first use, because that takes a while.
type lazyConverter[O, V any] func() typeConverter[O, V]

// newLazyConverter returns a lazyConverter. The compiler infers its types from those of the method.
func newLazyConverter[O, V any](func(managedfields.TypeConverter, runtime.Object, ...O) (V, error)) managedfields.TypeConverter {
	return any(lazyConverter[O, V](sync.OnceValue(func() typeConverter[O, V] {
		return any(applyconfigurations.NewTypeConverter(builtin())).(typeConverter[O, V])
	}))).(managedfields.TypeConverter)
}

func (c lazyConverter[O, V]) ObjectToTyped(obj runtime.Object, options ...O) (V, error) {
	return c().ObjectToTyped(obj, options...)
}

func (c lazyConverter[O, V]) TypedToObject(value V) (runtime.Object, error) {
	return c().TypedToObject(value)
}
