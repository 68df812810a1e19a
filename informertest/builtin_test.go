package informertest_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/watchcache"
)

// builtinKinds returns all object kinds of k8s.io/api.
func builtinKinds() (kinds []schema.GroupVersionKind) {
	for kind, t := range scheme.Scheme.AllKnownTypes() {
		if _, object := reflect.New(t).Interface().(metav1.Object); object && kind.Version != runtime.APIVersionInternal {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// resourceOf returns a namespaced resource of a kind, with a simple plural and a status.
func resourceOf(kind schema.GroupVersionKind) informertest.Resource {
	return informertest.Resource{
		GroupVersionResource: kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s"),
		Kind:                 kind.Kind,
		StatusSubresource:    true,
	}
}

// typed registers some kinds as their Go types.
var typed = map[schema.GroupVersionKind]func(*informertest.Server) (create func(runtime.Object) error){
	corev1.SchemeGroupVersion.WithKind("Pod"):               register[*corev1.Pod],
	corev1.SchemeGroupVersion.WithKind("Node"):              register[*corev1.Node],
	corev1.SchemeGroupVersion.WithKind("Event"):             register[*corev1.Event],
	eventsv1.SchemeGroupVersion.WithKind("Event"):           register[*eventsv1.Event],
	appsv1.SchemeGroupVersion.WithKind("Deployment"):        register[*appsv1.Deployment],
	batchv1.SchemeGroupVersion.WithKind("Job"):              register[*batchv1.Job],
	resourcev1.SchemeGroupVersion.WithKind("ResourceSlice"): register[*resourcev1.ResourceSlice],
}

func register[T interface {
	watchcache.Object
	runtime.Object
}](server *informertest.Server) (create func(runtime.Object) error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T))
	if err != nil {
		panic(err)
	}
	c := informertest.Register[T](server, resourceOf(kinds[0]))
	return func(obj runtime.Object) error {
		_, err := c.Create(obj.(T))
		return err
	}
}

// registerDynamic registers a kind as unstructured objects.
func registerDynamic(server *informertest.Server, kind schema.GroupVersionKind) (create func(runtime.Object) error) {
	c := informertest.Register[*unstructured.Unstructured](server, resourceOf(kind))
	return func(obj runtime.Object) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err == nil {
			_, err = c.Create(&unstructured.Unstructured{Object: content})
		}
		return err
	}
}

// forEachRepresentation runs test with a server of kinds, once as unstructured objects, and once with the kinds in
// typed as Go types.
func forEachRepresentation(t *testing.T, kinds []schema.GroupVersionKind, test func(t *testing.T, server *informertest.Server, create map[schema.GroupVersionKind]func(runtime.Object) error)) {
	for _, representation := range []string{"unstructured", "typed"} {
		t.Run(representation, func(t *testing.T) {
			server := informertest.NewServer(informertest.Options{InMemory: true})
			t.Cleanup(server.Close)
			create := map[schema.GroupVersionKind]func(runtime.Object) error{}
			for _, kind := range kinds {
				if asType, ok := typed[kind]; ok && representation == "typed" {
					create[kind] = asType(server)
				} else {
					create[kind] = registerDynamic(server, kind)
				}
			}
			test(t, server, create)
		})
	}
}

// selectable are the selectable fields of each kind in kube-apiserver v1.36, from its AddFieldLabelConversionFunc
// calls. Other kinds have metadata.name and metadata.namespace.
var selectable = map[schema.GroupKind]string{
	{Kind: "Pod"}: "metadata.name metadata.namespace spec.nodeName spec.restartPolicy spec.schedulerName spec.serviceAccountName " +
		"spec.hostNetwork status.phase status.podIP status.podIPs status.nominatedNodeName spec.host",
	{Kind: "Node"}:                  "metadata.name spec.unschedulable",
	{Kind: "ReplicationController"}: "metadata.name metadata.namespace status.replicas",
	{Kind: "Event"}: "involvedObject.kind involvedObject.namespace involvedObject.name involvedObject.uid involvedObject.apiVersion " +
		"involvedObject.resourceVersion involvedObject.fieldPath reason reportingComponent source type metadata.namespace metadata.name",
	{Kind: "Namespace"}: "status.phase metadata.name",
	{Kind: "Secret"}:    "type metadata.namespace metadata.name",
	{Kind: "Service"}:   "metadata.namespace metadata.name spec.clusterIP spec.type",
	{Group: "events.k8s.io", Kind: "Event"}: "reason regarding.kind regarding.namespace regarding.name regarding.uid regarding.apiVersion " +
		"regarding.resourceVersion regarding.fieldPath reportingController type metadata.namespace metadata.name",
	{Group: "batch", Kind: "Job"}:                                     "metadata.name metadata.namespace status.successful",
	{Group: "certificates.k8s.io", Kind: "CertificateSigningRequest"}: "metadata.name spec.signerName",
	{Group: "certificates.k8s.io", Kind: "ClusterTrustBundle"}:        "metadata.name spec.signerName",
	{Group: "certificates.k8s.io", Kind: "PodCertificateRequest"}:     "metadata.name spec.signerName spec.podName spec.nodeName",
	{Group: "resource.k8s.io", Kind: "ResourceSlice"}:                 "metadata.name spec.nodeName spec.driver",
}

// TestEveryBuiltinKindIsListedByItsFields lists each kind of k8s.io/api by each selectable field, and by others.
// TestBuiltinFieldsAreThere of package watchcache checks the Go types.
//
// Guarantees: W4, W10
func TestEveryBuiltinKindIsListedByItsFields(t *testing.T) {
	forEachRepresentation(t, builtinKinds(), func(t *testing.T, server *informertest.Server, create map[schema.GroupVersionKind]func(runtime.Object) error) {
		client, err := dynamic.NewForConfig(server.Config())
		must(t, err)
		for kind := range create {
			api := client.Resource(resourceOf(kind).GroupVersionResource)
			labels := "metadata.name metadata.namespace"
			if some, ok := selectable[kind.GroupKind()]; ok {
				labels = some
			}
			for label := range strings.FieldsSeq(labels) {
				if _, err := api.List(t.Context(), metav1.ListOptions{FieldSelector: label + "=x"}); err != nil {
					t.Errorf("%v by %s: %v", kind, label, err)
				}
			}
			for _, label := range []string{"metadata.namespace", "metadata.uid", "spec.replicas", "status.replicas", "status.succeeded", "spec"} {
				if slices.Contains(strings.Fields(labels), label) {
					continue
				}
				if _, err := api.List(t.Context(), metav1.ListOptions{FieldSelector: label + "=x"}); !apierrors.IsBadRequest(err) {
					t.Errorf("%v by %s: %v", kind, label, err)
				}
			}
		}
	})
}

// Guarantees: W4, W10
func TestFieldSelectorsReadTheFieldsThatKubeAPIServerReads(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "ns", Name: "a"}
	node := "n1"
	for _, test := range []struct {
		object   runtime.Object
		selected string
		others   string
	}{
		{&batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Succeeded: 2}}, "status.successful=2", "status.successful=0"},
		{&batchv1.Job{ObjectMeta: meta}, "status.successful=0", "status.successful="},
		{&corev1.Pod{ObjectMeta: meta}, "spec.hostNetwork=false status.podIP= status.podIPs=", "spec.hostNetwork=true spec.hostNetwork="},
		{&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: node, HostNetwork: true, ServiceAccountName: "s"}, Status: corev1.PodStatus{PodIP: "1.2.3.4"}},
			"spec.nodeName=n1 spec.host=n1 spec.hostNetwork=true status.podIP=1.2.3.4 spec.serviceAccountName=s", "spec.host=n2 status.podIPs=1.2.3.4"},
		{&corev1.Node{ObjectMeta: meta}, "spec.unschedulable=false", "spec.unschedulable="},
		{&corev1.ReplicationController{ObjectMeta: meta}, "status.replicas=0", "status.replicas=1"},
		{&corev1.Event{ObjectMeta: meta, ReportingController: "r", InvolvedObject: corev1.ObjectReference{Kind: "Pod", FieldPath: "x"}, Reason: "R", Type: "T"},
			"reportingComponent=r source=r involvedObject.kind=Pod involvedObject.fieldPath=x reason=R type=T", "source=s involvedObject.name=Pod"},
		{&corev1.Event{ObjectMeta: meta, ReportingController: "r", Source: corev1.EventSource{Component: "s"}}, "reportingComponent=r source=s", "source=r"},
		{&eventsv1.Event{ObjectMeta: meta, ReportingController: "r", Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "ns", Name: "a", UID: "u", APIVersion: "v1", ResourceVersion: "3", FieldPath: "x"}, Reason: "R", Type: "T"},
			"reportingController=r regarding.kind=Pod regarding.namespace=ns regarding.name=a regarding.uid=u regarding.apiVersion=v1 regarding.resourceVersion=3 regarding.fieldPath=x reason=R type=T", "regarding.name=b"},
		{&resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{Driver: "d"}}, "spec.nodeName= spec.driver=d", "spec.nodeName=n1"},
		{&resourcev1.ResourceSlice{ObjectMeta: meta, Spec: resourcev1.ResourceSliceSpec{NodeName: &node}}, "spec.nodeName=n1", "spec.nodeName="},
		{&certificatesv1beta1.PodCertificateRequest{ObjectMeta: meta, Spec: certificatesv1beta1.PodCertificateRequestSpec{SignerName: "s", PodName: "p", NodeName: "n1"}},
			"spec.signerName=s spec.podName=p spec.nodeName=n1", "spec.podName=q"},
		{&certificatesv1beta1.ClusterTrustBundle{ObjectMeta: meta, Spec: certificatesv1beta1.ClusterTrustBundleSpec{SignerName: "s"}}, "spec.signerName=s", "spec.signerName="},
	} {
		kinds, _, err := scheme.Scheme.ObjectKinds(test.object)
		must(t, err)
		forEachRepresentation(t, kinds, func(t *testing.T, server *informertest.Server, create map[schema.GroupVersionKind]func(runtime.Object) error) {
			must(t, create[kinds[0]](test.object))
			client, err := dynamic.NewForConfig(server.Config())
			must(t, err)
			for selectors, want := range map[string]int{test.selected: 1, test.others: 0} {
				for selector := range strings.FieldsSeq(selectors) {
					list, err := client.Resource(resourceOf(kinds[0]).GroupVersionResource).List(t.Context(), metav1.ListOptions{FieldSelector: selector})
					if err != nil || len(list.Items) != want {
						t.Errorf("%v: %s: %v, %v", kinds[0], selector, list, err)
					}
				}
			}
		})
	}
}

// Guarantees: W10
func TestFieldSelectorsAreRefusedWithTheTextOfKubeAPIServer(t *testing.T) {
	forEachRepresentation(t, builtinKinds(), func(t *testing.T, server *informertest.Server, _ map[schema.GroupVersionKind]func(runtime.Object) error) {
		registerWidgets(server)
		for request, want := range map[string]string{
			"/api/v1/pods spec.none":                       "field label not supported: spec.none",
			"/api/v1/nodes metadata.namespace":             "field label not supported: metadata.namespace",
			"/api/v1/configmaps data":                      `"data" is not a known field selector: only "metadata.name", "metadata.namespace"`,
			"/apis/apps/v1/replicasets status.replicas":    `"status.replicas" is not a known field selector: only "metadata.name", "metadata.namespace"`,
			"/apis/batch/v1/jobs status.succeeded":         `field label "status.succeeded" not supported for Job`,
			"/apis/resource.k8s.io/v1/resourceslices spec": "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec",
			"/apis/events.k8s.io/v1/events involvedObject": "field label not supported: involvedObject",
			"/apis/example.com/v1/widgets spec.size":       "field label not supported: spec.size",
		} {
			path, label, _ := strings.Cut(request, " ")
			var status metav1.Status
			must(t, json.Unmarshal([]byte(ask(t, server, path+"?fieldSelector="+url.QueryEscape(label+"=x")).body), &status))
			if status.Code != 400 || status.Message != want {
				t.Errorf("%s: %d %s, want %s", request, status.Code, status.Message, want)
			}
		}
	})
}

// A Go type may lack fields of its kind.
func TestRegisterTakesATypeWithoutTheSelectableFields(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		pods.Unregister()
		informertest.Register[*metav1.PartialObjectMetadata](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
		for selector, want := range map[string]int{"metadata.name=a": 200, "spec.nodeName=a": 400} {
			if a := ask(t, server, "/api/v1/pods?fieldSelector="+url.QueryEscape(selector)); a.code != want {
				t.Errorf("%s: %d %s", selector, a.code, a.body)
			}
		}
		defer func() {
			if fmt.Sprint(recover()) != `watchcache: *v1.ConfigMap has no field "spec.none"` {
				t.Error("no panic for a field that was named and is not there")
			}
		}()
		informertest.Register[*corev1.ConfigMap](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"), SelectableFields: []string{"spec.none"}})
	})
}
