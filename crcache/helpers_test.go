package crcache_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) {
	// The second handler waits until some time after the last error: in a bubble, whose clock is decades behind, for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	leak.Main(m)
}

// world is an API server with pods and nodes.
type world struct {
	*testing.T
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	nodes  *informertest.Collection[*corev1.Node]
}

// newWorld starts a server. Within a bubble of testing/synctest, it must be in memory.
func newWorld(t *testing.T, inMemory bool) *world {
	server := informertest.NewServer(informertest.Options{InMemory: inMemory})
	t.Cleanup(server.Close)
	return &world{
		T:      t,
		server: server,
		pods:   informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}),
		nodes:  informertest.Register[*corev1.Node](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true}),
	}
}

// mapper knows the resources of a world.
func mapper() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	m.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	m.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace) // which no world serves
	// As mappers from discovery do, for controller-runtime's cache.
	m.Add(corev1.SchemeGroupVersion.WithKind("PodList"), meta.RESTScopeNamespace)
	m.Add(corev1.SchemeGroupVersion.WithKind("NodeList"), meta.RESTScopeRoot)
	return m
}

// pod creates a pod. Its name is also its node's and that of a label.
func (w *world) pod(namespace, name string) *corev1.Pod {
	w.Helper()
	pod, err := w.pods.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:     namespace,
			Name:          name,
			Labels:        map[string]string{"name": name},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test"}},
		},
		Spec: corev1.PodSpec{NodeName: "node-" + name, Containers: []corev1.Container{{Name: "c", Image: "i"}}, SecurityContext: &corev1.PodSecurityContext{RunAsUser: ptr(int64(7))}},
	})
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

// relabel sets a label of a pod.
func (w *world) relabel(namespace, name, label, value string) *corev1.Pod {
	w.Helper()
	pod, ok := w.pods.Get(client.ObjectKey{Namespace: namespace, Name: name})
	if !ok {
		w.Fatalf("no pod %s/%s", namespace, name)
	}
	pod = pod.DeepCopy()
	pod.Labels[label] = value
	pod, err := w.pods.Update(pod)
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

func (w *world) delete(namespace, name string) {
	w.Helper()
	if _, err := w.pods.Delete(client.ObjectKey{Namespace: namespace, Name: name}); err != nil {
		w.Fatal(err)
	}
}

// config returns a configuration without a rate limit.
func (w *world) config() *rest.Config {
	config := w.server.Config()
	config.QPS = -1
	return config
}

// cache creates a cache that is not started.
func (w *world) cache(opts cache.Options, options crcache.Options) cache.Cache {
	w.Helper()
	if opts.Mapper == nil {
		opts.Mapper = mapper()
	}
	c, err := crcache.New(options)(w.config(), opts)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// started creates a cache and starts it until the test ends.
func (w *world) started(opts cache.Options, options crcache.Options) cache.Cache {
	w.Helper()
	c := w.cache(opts, options)
	w.start(c)
	return c
}

// caches are the caches that tests compare.
var caches = []namedCache{
	{controllerRuntime, cache.New},
	{"crcache", crcache.New(crcache.Options{NoMetrics: true})},
	{"Separate", crcache.New(crcache.Options{NoMetrics: true, Layout: informer.LayoutSeparate})},
	{"Compact", crcache.New(crcache.Options{NoMetrics: true, Layout: informer.LayoutCompact})},
}

// layouts are all layouts.
var layouts = []informer.Layout{informer.LayoutShared, informer.LayoutSeparate, informer.LayoutCompact}

// controllerRuntime is the name of controller-runtime's own cache in caches.
const controllerRuntime = "controller-runtime"

// namedCache is a way to create a cache.
type namedCache struct {
	name string
	new  cache.NewCacheFunc
}

// create creates a cache that is not started.
func (n namedCache) create(w *world, opts cache.Options) cache.Cache {
	w.Helper()
	if opts.Mapper == nil {
		opts.Mapper = mapper()
	}
	c, err := n.new(w.config(), opts)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// indexerOf returns the indexer of an informer.
func indexerOf(i cache.Informer) toolscache.Indexer {
	return i.(interface{ GetIndexer() toolscache.Indexer }).GetIndexer()
}

// start starts c until the test ends, or until stop is called.
func (w *world) start(c cache.Cache) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			w.Error(err)
		}
	}
	w.Cleanup(stop)
	if !c.WaitForCacheSync(w.Context()) {
		w.Fatal("the cache has not synced")
	}
	return stop
}

// names returns the names of the pods that opts select, in order.
func (w *world) names(c client.Reader, opts ...client.ListOption) []string {
	w.Helper()
	var list corev1.PodList
	if err := c.List(w.Context(), &list, opts...); err != nil {
		w.Fatal(err)
	}
	var names []string
	for _, pod := range list.Items {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return names
}

func (w *world) wantNames(c client.Reader, want []string, opts ...client.ListOption) {
	w.Helper()
	if got := w.names(c, opts...); !slices.Equal(got, want) {
		w.Errorf("list: %v, want %v", got, want)
	}
}

// informerOf returns the informer of pods.
func (w *world) informerOf(c cache.Cache) cache.Informer {
	w.Helper()
	i, err := c.GetInformer(w.Context(), &corev1.Pod{})
	if err != nil {
		w.Fatal(err)
	}
	return i
}

// recorder records the events of a handler.
type recorder struct{ events chan string }

func (r recorder) want(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if got := <-r.events; got != w {
			t.Errorf("event %q, want %q", got, w)
		}
	}
}

// countedTransport counts requests.
type countedTransport struct {
	next     http.RoundTripper
	requests chan string
}

func (c countedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case c.requests <- r.URL.Path:
	default:
	}
	return c.next.RoundTrip(r)
}

// contextWithTimeout returns a context for a bubble, where a minute takes no time.
func contextWithTimeout(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), time.Minute)
}

func ptr[T any](v T) *T { return &v }
