package crcache_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer/crcache"
)

// Whatever selects the objects, List returns copies that the caller may write to, unless UnsafeDisableDeepCopy says otherwise.
func TestListReturnsCopies(t *testing.T) {
	label, field := client.MatchingLabels{"name": "x"}, client.MatchingFields{"node": "node-x"}
	for _, test := range []struct {
		name string
		opts []client.ListOption
	}{
		{"all", nil},
		{"namespace", []client.ListOption{client.InNamespace("a")}},
		{"labels", []client.ListOption{label}},
		{"field", []client.ListOption{field}},
		{"field and namespace", []client.ListOption{field, client.InNamespace("a")}},
		{"field and labels", []client.ListOption{field, label}},
		{"two fields", []client.ListOption{client.MatchingFields{"node": "node-x", "namespace": "a"}}},
		{"two fields, labels and namespace", []client.ListOption{client.MatchingFields{"node": "node-x", "namespace": "a"}, label, client.InNamespace("a")}},
	} {
		for _, layout := range layouts {
			for _, namespaces := range []map[string]cache.Config{nil, {"a": {}}} {
				t.Run(fmt.Sprintf("%s,%s,namespaces=%d", test.name, layout, len(namespaces)), func(t *testing.T) {
					w := newWorld(t, false)
					w.pod("a", "x")
					c := w.cache(cache.Options{DefaultNamespaces: namespaces}, crcache.Options{Layout: layout})
					for field, extract := range map[string]client.IndexerFunc{
						"node":      func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} },
						"namespace": func(obj client.Object) []string { return []string{obj.GetNamespace()} },
					} {
						if err := c.IndexField(t.Context(), &corev1.Pod{}, field, extract); err != nil {
							t.Fatal(err)
						}
					}
					w.start(c)
					held, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "x"})
					if err != nil {
						t.Fatal(err)
					}
					list := func(opts ...client.ListOption) *corev1.Pod {
						t.Helper()
						var pods corev1.PodList
						if err := c.List(t.Context(), &pods, append(opts, test.opts...)...); err != nil || len(pods.Items) != 1 {
							t.Fatalf("%d pods, %v", len(pods.Items), err)
						}
						return &pods.Items[0]
					}
					got := list()
					if got.Kind != "Pod" {
						t.Errorf("a copy has the kind %q", got.Kind)
					}
					got.Labels["name"], got.Spec.Containers[0].Image = "written", "written"
					if got := list(); got.Labels["name"] != "x" || got.Spec.Containers[0].Image != "i" {
						t.Errorf("another List returns what the caller of the first has written: %v %v", got.Labels, got.Spec.Containers)
					}
					if held.Labels["name"] != "x" || held.Spec.Containers[0].Image != "i" {
						t.Errorf("the cache has what the caller has written: %v %v", held.Labels, held.Spec.Containers)
					}
					if shared := list(client.UnsafeDisableDeepCopy); &shared.Spec.Containers[0] != &held.Spec.Containers[0] {
						t.Error("UnsafeDisableDeepCopy copies")
					}
				})
			}
		}
	}
}

// Get finds a cluster-scoped object with any namespace in the key. A List of a namespace does not find it.
func TestClusterScopedReads(t *testing.T) {
	w := newWorld(t, false)
	if _, err := w.nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	c := w.started(cache.Options{}, crcache.Options{})
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "n"}, &corev1.Node{}); err != nil {
		t.Error(err)
	}
	for namespace, want := range map[string]int{"": 1, "a": 0} {
		var list corev1.NodeList
		if err := c.List(t.Context(), &list, client.InNamespace(namespace)); err != nil || len(list.Items) != want {
			t.Errorf("%d nodes in namespace %q, %v", len(list.Items), namespace, err)
		}
	}
}

// A list has everything up to its limit, and cannot be continued.
func TestListCannotBeContinued(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	w.pod("b", "x")
	c := w.started(cache.Options{}, crcache.Options{})
	var list corev1.PodList
	if err := c.List(t.Context(), &list, client.Limit(1)); err != nil || len(list.Items) != 1 || list.Continue != "continue-not-supported" {
		t.Errorf("%d pods, continue %q, %v", len(list.Items), list.Continue, err)
	}
	if err := c.List(t.Context(), &list, client.Limit(1), client.Continue(list.Continue)); err == nil || !strings.Contains(err.Error(), "continue") {
		t.Error(err)
	}
}

// wrapped has the form of unstructured objects, and is another Go type.
type wrapped struct{ unstructured.Unstructured }

// Get into another Go type than the cache has is an error.
func TestGetIntoAnotherType(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	c := w.started(cache.Options{}, crcache.Options{})
	out := &wrapped{}
	out.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "x"}, out); err == nil || !strings.Contains(err.Error(), "not a *crcache_test.wrapped") {
		t.Error(err)
	}
}

// A cache whose field selector names one namespace requests that namespace only, and has no objects in others.
func TestFieldSelectorOfOneNamespace(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	w.pod("b", "x")
	c := w.cache(cache.Options{DefaultFieldSelector: fields.OneTermEqualSelector("metadata.namespace", "b")}, crcache.Options{})
	node := func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
	if err := c.IndexField(t.Context(), &corev1.Pod{}, "node", node); err != nil {
		t.Fatal(err)
	}
	w.start(c)
	field := client.MatchingFields{"node": "node-x"}
	w.wantNames(c, []string{"b/x"}, field)
	w.wantNames(c, []string{"b/x"}, field, client.InNamespace("b"))
	w.wantNames(c, nil, field, client.InNamespace("a"))
	for _, r := range w.server.Requests() {
		if r.Namespace != "b" {
			t.Errorf("a request for namespace %q: %s", r.Namespace, r.Path)
		}
	}
}
