package cache_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
)

// belowPath removes the path of a host from requests, as a proxy before the server does.
type belowPath struct {
	path string
	next http.RoundTripper
}

func (b belowPath) RoundTrip(req *http.Request) (*http.Response, error) {
	path, ok := strings.CutPrefix(req.URL.Path, b.path)
	if !ok {
		return nil, apierrors.NewNotFound(world.Pods.GroupResource(), req.URL.Path)
	}
	req = req.Clone(req.Context())
	req.URL.Path = path
	return b.next.RoundTrip(req)
}

// An informer over a ListWatch of this package finds its collection on a host with a path, and the limit that the
// function sets is the size of a page.
// Guarantees: P1
func TestListWatchOfHostWithPath(t *testing.T) {
	w := world.New(t)
	for _, name := range []string{"one", "two", "three"} {
		w.Pod("a", name)
	}
	w.Server.Inject(informertest.Fault{ // without streaming lists, the informer lists in pages
		Match: func(r informertest.Request) bool { return r.Query.Get("sendInitialEvents") != "" },
		Error: apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil),
	})
	config := w.Server.Config()
	config.Host += "/api/proxy"
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return belowPath{"/api/proxy", next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	lw := cache.NewFilteredListWatchFromClient(client.CoreV1().RESTClient(), "pods", "a",
		func(o *metav1.ListOptions) { o.Limit = 2 })
	i, err := cache.Over(lw, &corev1.Pod{}, clientcache.SharedIndexInformerOptions{}, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, i)()
	if keys := i.GetStore().ListKeys(); len(keys) != 3 {
		t.Errorf("keys %q", keys)
	}
	var limits []string
	for _, r := range w.Server.Requests() {
		if r.Verb == "list" && r.Query.Get("sendInitialEvents") == "" {
			limits = append(limits, r.Query.Get("limit"))
		}
	}
	if len(limits) == 0 || slices.ContainsFunc(limits, func(l string) bool { return l != "2" }) {
		t.Errorf("limits %q", limits)
	}
}

// Index returns each object once, although it shares several values, and ListIndexFuncValues each value once, although
// several objects and parts have it.
// Guarantees: P1
func TestIndexesReturnEachOnce(t *testing.T) {
	w := world.New(t)
	for _, namespace := range []string{"a", "b"} {
		w.Pod(namespace, "one")
		w.Pod(namespace, "two")
	}
	i := ofParts(t, cache.Config{Object: &corev1.Pod{}, Indexers: clientcache.Indexers{
		"both": func(any) ([]string, error) { return []string{"x", "y"}, nil }, clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc,
	}}, part(w, "a"), part(w, "b"))
	defer run(t, i)()
	x := i.GetIndexer()
	list, err := x.Index("both", world.StrangePod("any", "any"))
	var keys []string
	for _, obj := range list {
		keys = append(keys, clientcache.MetaObjectToName(obj.(*corev1.Pod)).String())
	}
	slices.Sort(keys)
	if want := []string{"a/one", "a/two", "b/one", "b/two"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("Index: %q, %v", keys, err)
	}
	if values := x.ListIndexFuncValues("both"); !slices.Equal(values, []string{"x", "y"}) {
		t.Errorf("values %q", values)
	}
	if values := x.ListIndexFuncValues(clientcache.NamespaceIndex); !slices.Equal(values, []string{"a", "b"}) {
		t.Errorf("namespaces %q", values)
	}
}
