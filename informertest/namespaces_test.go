package informertest_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/informertest"
)

// A namespace that a Collection creates has the same lifecycle as one of a client.
func TestNamespaces_OfACollectionGoWhenTheyAreEmpty(t *testing.T) {
	withControllers(t, informertest.Controllers{Namespaces: true}, func(m managed) {
		must(t, m.clients.CoreV1().Namespaces().Delete(m.Context(), "ns", metav1.DeleteOptions{}))
		synctest.Wait()
		created, err := m.namespaces.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
		must(t, err)
		if created.Status.Phase != corev1.NamespaceActive || fmt.Sprint(created.Spec.Finalizers) != "[kubernetes]" ||
			created.Labels["kubernetes.io/metadata.name"] != "ns" {
			m.Errorf("created %+v", created)
		}
		m.configMap("held")
		m.hold("held")
		api := m.clients.CoreV1().Namespaces()
		for range 2 {
			must(t, api.Delete(m.Context(), "ns", metav1.DeleteOptions{}))
			synctest.Wait()
		}
		namespace, err := api.Get(m.Context(), "ns", metav1.GetOptions{})
		must(t, err)
		namespace.Annotations = map[string]string{"a": "b"}
		_, err = api.Update(m.Context(), namespace, metav1.UpdateOptions{})
		must(t, err)
		synctest.Wait()
		m.wantConfigMaps("held(example.com/hold)")
		if m.namespaces.Len() != 1 {
			t.Error("the namespace is gone, but not what is in it")
		}
		m.dropFinalizers("held")
		synctest.Wait()
		if m.namespaces.Len() != 0 {
			t.Error("the namespace is still there")
		}
	})
}

func TestNamespaces_KeepTheLabelWithTheirName(t *testing.T) {
	withControllers(t, informertest.Controllers{Namespaces: true}, func(m managed) {
		api := m.clients.CoreV1().Namespaces()
		for name, write := range map[string]func(*corev1.Namespace) (*corev1.Namespace, error){
			"update": func(n *corev1.Namespace) (*corev1.Namespace, error) {
				return api.Update(m.Context(), n, metav1.UpdateOptions{})
			},
			"status": func(n *corev1.Namespace) (*corev1.Namespace, error) {
				return api.UpdateStatus(m.Context(), n, metav1.UpdateOptions{})
			},
		} {
			namespace, err := api.Get(m.Context(), "ns", metav1.GetOptions{})
			must(t, err)
			namespace.Labels = map[string]string{"by": name}
			namespace, err = write(namespace)
			must(t, err)
			if got := namespace.Labels; got["kubernetes.io/metadata.name"] != "ns" || got["by"] != name {
				t.Errorf("%s: the labels are %v", name, got)
			}
		}
	})
}

// As with kube-apiserver, nothing else is deleted, or reported, while there are pods.
func TestNamespaces_PodsGoFirst(t *testing.T) {
	withControllers(t, informertest.Controllers{Namespaces: true, GracefulPods: true}, func(m managed) {
		m.configMap("a")
		_, err := m.pods.Create(newPod("ns", "p"))
		must(t, err)
		must(t, m.clients.CoreV1().Namespaces().Delete(m.Context(), "ns", metav1.DeleteOptions{}))
		m.wantConfigMaps("a")
		namespace, err := m.clients.CoreV1().Namespaces().Get(m.Context(), "ns", metav1.GetOptions{})
		must(t, err)
		for _, c := range namespace.Status.Conditions {
			if c.Status != corev1.ConditionFalse {
				t.Errorf("the condition %s is %s: %s", c.Type, c.Status, c.Message)
			}
		}
		must(t, m.deletePod(0))
		m.wantConfigMaps()
		if n := m.namespaces.Len(); n != 0 {
			t.Errorf("there are %d namespaces", n)
		}
	})
}

// A webhook takes its time, and the namespace is gone when it is done.
func TestNamespaces_RefuseAnObjectThatComesTooLate(t *testing.T) {
	h := newHooksOf(t, informertest.Options{Controllers: informertest.Controllers{Namespaces: true}})
	namespaces := informertest.Register[*corev1.Namespace](h.server, informertest.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("namespaces"), ClusterScoped: true})
	_, err := namespaces.Create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})
	must(t, err)
	h.validating("v", func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if err := h.clients.CoreV1().Namespaces().Delete(t.Context(), "ns", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
		if err := h.server.Settle(t.Context(), func() bool { return namespaces.Len() == 0 }); err != nil {
			t.Error(err)
		}
		return allow(r)
	})
	_, err = h.clients.CoreV1().Pods("ns").Create(t.Context(), newPod("ns", "p"), metav1.CreateOptions{})
	if !apierrors.IsNotFound(err) || !strings.Contains(err.Error(), `namespaces "ns" not found`) {
		t.Errorf("got %v, want that the namespace is gone", err)
	}
	if n := h.pods.Len(); n != 0 {
		t.Errorf("there are %d pods in no namespace", n)
	}
}
