package crcache_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer/crcache"
)

func TestTypedReads(t *testing.T) {
	w := newWorld(t, false)
	for _, key := range [][2]string{{"a", "x"}, {"a", "y"}, {"b", "x"}} {
		w.pod(key[0], key[1])
	}
	c := w.started(cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}, crcache.Options{})
	key := client.ObjectKey{Namespace: "a", Name: "x"}
	pod, err := crcache.Get[*corev1.Pod](t.Context(), c, key)
	if err != nil || pod.Spec.NodeName != "node-x" {
		t.Fatal(pod, err)
	}
	if again, _ := crcache.Get[*corev1.Pod](t.Context(), c, key); again != pod {
		t.Error("Get copies")
	}
	ctx := t.Context()
	if all, err := crcache.List[*corev1.Pod](ctx, c); err != nil || len(all) != 3 { // waits for both namespaces
		t.Error(all, err)
	}
	if n := testing.AllocsPerRun(1000, func() { _, _ = crcache.Get[*corev1.Pod](ctx, c, key) }); n > 0 {
		t.Errorf("Get allocates %v times", n)
	}
	if _, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "z"}); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if _, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "c", Name: "x"}); err == nil || apierrors.IsNotFound(err) {
		t.Errorf("a namespace that the cache does not follow: %v", err)
	}
	pods, err := crcache.List[*corev1.Pod](t.Context(), c, client.MatchingLabels{"name": "x"}, client.Limit(2))
	if err != nil || len(pods) != 2 || pods[0] != pod || pods[1].Namespace != "b" {
		t.Error(pods, err)
	}
	if _, err := crcache.Get[*unstructured.Unstructured](t.Context(), c, key); err == nil || !strings.Contains(err.Error(), "stands for every kind") {
		t.Error("unstructured objects have no kind")
	}
	if _, err := crcache.Get[*corev1.Pod](t.Context(), struct{ cache.Cache }{}, key); err == nil {
		t.Error("the cache is of another package")
	}
}

func TestIndex(t *testing.T) {
	for _, namespaces := range []map[string]cache.Config{nil, {"a": {}, "b": {}}} {
		w := newWorld(t, false)
		c := w.cache(cache.Options{DefaultNamespaces: namespaces}, crcache.Options{})
		byNode, err := crcache.NewIndex(t.Context(), c, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		if err != nil {
			t.Fatal(err)
		}
		w.pod("a", "x")
		w.pod("a", "y")
		last := w.pod("b", "x")
		w.start(c)
		if err := crcache.WaitForObject(t.Context(), c, last); err != nil {
			t.Fatal(err)
		}
		var got []string
		for pod := range byNode.Lookup("node-x") {
			got = append(got, pod.Namespace+"/"+pod.Name)
		}
		if !slices.Equal(got, []string{"a/x", "b/x"}) || byNode.Count("node-x") != 2 || len(byNode.List("node-y")) != 1 {
			t.Errorf("%v", got)
		}
	}
}

// WaitForObject makes a write visible to reads, in each form.
func TestWaitForObject(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	c := w.started(cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}}}, crcache.Options{})
	for _, obj := range []client.Object{&corev1.Pod{}, &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}} {
		for _, value := range []string{"1", "2", "3"} {
			written := w.relabel("a", "x", "v", value)
			obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			obj.SetNamespace("a")
			obj.SetName("x")
			obj.SetResourceVersion(written.ResourceVersion)
			if err := crcache.WaitForObject(t.Context(), c, obj); err != nil {
				t.Fatal(err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(written), obj); err != nil || obj.GetLabels()["v"] != value {
				t.Errorf("%T: %v, %v", obj, err, obj.GetLabels())
			}
		}
	}
	if err := crcache.WaitForObject(t.Context(), c, w.pod("b", "x")); err != nil {
		t.Errorf("a namespace that the cache does not follow: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	future := w.relabel("a", "x", "v", "4").DeepCopy()
	future.ResourceVersion = "1000000"
	if err := crcache.WaitForObject(ctx, c, future); err != context.Canceled {
		t.Error(err)
	}
}
