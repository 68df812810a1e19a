package cluster_test

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/cluster"
)

// inBubble runs test with a new cluster in a bubble.
func inBubble(t *testing.T, test func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset)) {
	synctest.Test(t, func(t *testing.T) {
		server := cluster.New(informertest.Options{InMemory: true})
		defer server.Close()
		clients, err := kubernetes.NewForConfig(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		test(t, server, clients)
	})
}

// notServed are the methods of stable clients for kinds without objects of their own, or served in a newer version.
var notServed = []string{"AutoscalingV1.HorizontalPodAutoscalers", "CoreV1.ComponentStatuses", "PolicyV1.Evictions",
	"AuthenticationV1", "AuthorizationV1"}

// The methods of the clientset show which resources exist, and which are in namespaces: those take a namespace.
func TestEveryResourceOfTheClientsetIsServed(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		served := map[string]bool{} // by version and resource: whether it is cluster-scoped
		for _, r := range server.Resources() {
			served[r.Version+"."+r.Resource] = r.ClusterScoped
		}
		stable := regexp.MustCompile(`^[A-Za-z]+(V\d+)$`)
		count := 0
		for group := range reflect.TypeFor[kubernetes.Interface]().Methods() {
			version := stable.FindStringSubmatch(group.Name)
			if version == nil || slices.Contains(notServed, group.Name) {
				continue
			}
			for method := range group.Type.Out(0).Methods() {
				if method.Name == "RESTClient" || slices.Contains(notServed, group.Name+"."+method.Name) {
					continue
				}
				count++
				name := strings.ToLower(version[1] + "." + method.Name)
				clusterScoped, ok := served[name]
				if !ok || clusterScoped != (method.Type.NumIn() == 0) {
					t.Errorf("%s.%s: served %v, cluster-scoped %v", group.Name, method.Name, ok, clusterScoped)
				}
			}
		}
		if count < 50 {
			t.Errorf("the clientset has only %d resources", count)
		}
	})
}

func TestANewClusterHasNamespacesAndAService(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		var names []string
		namespaces, err := clients.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{FieldSelector: "status.phase=Active"})
		if err != nil {
			t.Fatal(err)
		}
		for _, namespace := range namespaces.Items {
			names = append(names, namespace.Name)
		}
		if got := fmt.Sprint(names); got != "[default kube-node-lease kube-public kube-system]" {
			t.Errorf("the namespaces are %s", got)
		}
		if _, err := clients.CoreV1().Services("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// own is a type that a program adds to client-go's scheme, for its clients.
type own struct{ corev1.ConfigMap }

// A program may add its own types to client-go's scheme. These are not built in.
func TestTypesOfTheProgramAreNotServed(t *testing.T) {
	scheme.Scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Own"}, &own{})
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		for _, r := range server.Resources() {
			if r.Group == "example.com" {
				t.Errorf("%v is served", r.GroupVersionResource)
			}
		}
	})
}

func TestApplyOfBuiltInTypes(t *testing.T) {
	inBubble(t, func(t *testing.T, server *informertest.Server, clients *kubernetes.Clientset) {
		apply := func(manager string, port int32) error {
			service := corev1apply.Service("a", "default").WithSpec(corev1apply.ServiceSpec().WithPorts(
				corev1apply.ServicePort().WithName(manager).WithPort(port).WithProtocol(corev1.ProtocolTCP)))
			_, err := clients.CoreV1().Services("default").Apply(t.Context(), service, metav1.ApplyOptions{FieldManager: manager})
			return err
		}
		for manager, port := range map[string]int32{"one": 1, "two": 2} {
			if err := apply(manager, port); err != nil {
				t.Fatal(err)
			}
		}
		if err := apply("three", 1); !apierrors.IsConflict(err) {
			t.Errorf("got %v, want a conflict", err)
		}
		services, ok := informertest.CollectionOf[*corev1.Service](server, corev1.SchemeGroupVersion.WithResource("services"))
		if !ok {
			t.Fatal("there are no services")
		}
		if service, _ := services.Get(informer.Key{Namespace: "default", Name: "a"}); len(service.Spec.Ports) != 2 {
			t.Errorf("got %+v", service.Spec)
		}
	})
}
