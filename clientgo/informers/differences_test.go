package informers_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgo "k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/informers"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
)

// The tests of this file run the informers of client-go and those of this module. Each tests a difference that the
// documentation of package clientgo lists.

// impls are the factories of client-go and of this package.
var impls = map[string]func(kubernetes.Interface, options) informers.SharedInformerFactory{
	"client-go": func(client kubernetes.Interface, o options) informers.SharedInformerFactory {
		return clientgo.NewSharedInformerFactoryWithOptions(client, o.resync, clientgo.WithTweakListOptions(o.tweak),
			clientgo.WithTransform(o.transform), clientgo.WithInformerName(o.name))
	},
	"here": func(client kubernetes.Interface, o options) informers.SharedInformerFactory {
		return informers.NewSharedInformerFactoryWithOptions(client, o.resync, informers.WithTweakListOptions(o.tweak),
			informers.WithTransform(o.transform), informers.WithInformerName(o.name))
	},
}

// options are those that a test passes to both factories. The zero value means none.
type options struct {
	resync    time.Duration
	tweak     func(*metav1.ListOptions)
	transform clientcache.TransformFunc
	name      *clientcache.InformerName
}

// metricsMade counts the metrics that informers of client-go request.
type metricsMade struct {
	mu     sync.Mutex // protects by
	counts map[informerID]int
}

// informerID identifies an informer in metrics.
type informerID struct{ name, resource string }

func (m *metricsMade) count(id clientcache.InformerNameAndResource) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[informerID{id.Name(), id.GroupVersionResource().Resource}]++
}

func (m *metricsMade) of(name, resource string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[informerID{name, resource}]
}

func (m *metricsMade) NewQueuedItemMetric(id clientcache.InformerNameAndResource) clientcache.GaugeMetric {
	m.count(id)
	return metric{}
}

func (m *metricsMade) NewProcessingLatencyMetric(id clientcache.InformerNameAndResource) clientcache.HistogramMetric {
	m.count(id)
	return metric{}
}

func (m *metricsMade) NewStoreResourceVersionMetric(id clientcache.InformerNameAndResource) clientcache.GaugeMetric {
	m.count(id)
	return metric{}
}

type metric struct{}

func (metric) Set(float64)     {}
func (metric) Observe(float64) {}

// The informers have no metrics of client-go, even if the factory has a name. A function that InformerFor only tries
// requests none either. A function whose informer the factory keeps has its metrics.
func TestMetrics(t *testing.T) {
	made := &metricsMade{counts: map[informerID]int{}}
	clientcache.SetInformerMetricsProvider(made) // only the first call in a process has an effect
	for impl, create := range impls {
		name, err := clientcache.NewInformerName("metrics of " + impl)
		if err != nil {
			t.Fatal(err)
		}
		w := world.New(t)
		w.Pod("a", "one")
		f := create(w.Clientset(), options{name: name})
		f.Core().V1().Pods().Informer()
		f.InformerFor(&corev1.Node{}, func(client kubernetes.Interface, _ time.Duration) clientcache.SharedIndexInformer {
			i := coreinformers.NewNodeInformerWithOptions(client, internalinterfaces.InformerOptions{
				InformerName: f.InformerName(),
			})
			if err := i.SetTransform(rename); err != nil { // keeps client-go's informer
				t.Error(err)
			}
			return i
		})
		start(t, f)
		if n := made.of(name.Name(), "pods"); (n > 0) != (impl == "client-go") {
			t.Errorf("%s: %d metrics of pods", impl, n)
		}
		if n := made.of(name.Name(), "nodes"); n == 0 {
			t.Errorf("%s: no metrics of nodes", impl)
		}
	}
}

// detectorOf is the environment variable that names the informers of a process with client-go's mutation detector.
const detectorOf = "TEST_MUTATION_DETECTOR_OF"

// KUBE_CACHE_MUTATION_DETECTOR has no effect here. With client-go's informers, a handler that writes to an object
// crashes the process.
func TestMutationDetector(t *testing.T) {
	if impl := os.Getenv(detectorOf); impl != "" {
		mutate(t, impl)
		return
	}
	for impl := range impls {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMutationDetector$", "-test.count=1")
		cmd.Env = append(os.Environ(), detectorOf+"="+impl, "KUBE_CACHE_MUTATION_DETECTOR=true")
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		crashed := errors.As(err, &exit) && strings.Contains(string(out), "cache *v1.Pod modified")
		if err != nil && !crashed || crashed != (impl == "client-go") {
			t.Errorf("%s: %v\n%s", impl, err, out)
		}
	}
}

// mutate runs informers whose handler writes to an object, for longer than the mutation detector needs.
func mutate(t *testing.T, impl string) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		w.Pod("a", "one")
		f := impls[impl](w.Clientset(), options{})
		if _, err := f.Core().V1().Pods().Informer().AddEventHandler(clientcache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { obj.(*corev1.Pod).Spec.NodeName = "written" },
		}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer f.Shutdown()
		defer cancel()
		f.StartWithContext(ctx)
		<-ctx.Done()
	})
}

// lines counts the lines of a log by their level. Errors have level -1.
type lines struct {
	mu      sync.Mutex // protects byLevel
	byLevel map[string]int
}

func (l *lines) write(_, line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	level, _, _ := strings.Cut(line, " ")
	if !strings.HasPrefix(level, `"level"=`) {
		level = "error"
	}
	l.byLevel[level]++
}

// A failure is logged at V(0) and a state at V(2), by the logger of the context of Start. client-go logs a failure as
// an error, and its steps at V(2) to V(4).
func TestLog(t *testing.T) {
	for impl, create := range impls {
		t.Run(impl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t)
				defer w.Server.Close()
				for _, verb := range []string{"watch", "list"} {
					w.Server.Inject(informertest.Fault{Verb: verb, Times: 1, Error: apierrors.NewInternalError(errors.New("down"))})
				}
				log := lines{byLevel: map[string]int{}}
				logger := funcr.New(log.write, funcr.Options{Verbosity: 10})
				ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), logger))
				f := create(w.Clientset(), options{})
				f.Core().V1().Pods().Informer()
				f.StartWithContext(ctx)
				synced := f.WaitForCacheSyncWithContext(t.Context())
				cancel()
				f.Shutdown()
				if err := synced.AsError(); err != nil {
					t.Fatal(err)
				}
				want := map[string]bool{"error": true, `"level"=0`: false, `"level"=2`: true, `"level"=3`: true}
				if impl == "here" {
					want = map[string]bool{"error": false, `"level"=0`: true, `"level"=2`: true, `"level"=3`: false}
				}
				for level, logged := range want {
					if (log.byLevel[level] > 0) != logged {
						t.Errorf("%s: lines %v", level, log.byLevel)
					}
				}
			})
		})
	}
}

// A function that tweaks the options is called when an informer is made, and only its selectors and its limit apply.
// client-go calls it for each request, and sends every option that it sets.
func TestTweakedFields(t *testing.T) {
	for impl, create := range impls {
		t.Run(impl, func(t *testing.T) {
			w := world.New(t)
			for n := range 5 {
				w.Pod("a", fmt.Sprint("pod-", n))
			}
			w.Server.Inject(informertest.Fault{ // without streaming lists, the informers list in pages
				Match: func(r informertest.Request) bool { return r.Query.Get("sendInitialEvents") != "" },
				Error: apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "ListOptions"}, "", nil),
			})
			var mu sync.Mutex
			calls := 0
			f := create(w.Clientset(), options{tweak: func(o *metav1.ListOptions) {
				mu.Lock()
				defer mu.Unlock()
				calls++
				timeout := int64(77)
				o.LabelSelector, o.FieldSelector, o.Limit, o.TimeoutSeconds = "name", "metadata.namespace=a", 2, &timeout
			}})
			pods := f.Core().V1().Pods()
			var events world.Recorder
			if _, err := pods.Informer().AddEventHandler(&events); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			before := calls
			mu.Unlock()
			start(t, f)
			w.Pod("a", "last") // arrives by a watch
			events.Next(6)
			limits, timeouts := 0, 0
			for _, req := range w.Server.Requests() {
				q := req.Query
				if q.Get("labelSelector") != "name" || q.Get("fieldSelector") != "metadata.namespace=a" {
					t.Errorf("%s?%s", req.Path, q.Encode())
				}
				if req.Verb == "list" && q.Get("limit") == "2" {
					limits++
				}
				if q.Get("timeoutSeconds") == "77" {
					timeouts++
				}
			}
			if limits == 0 {
				t.Error("no list has the limit")
			}
			mu.Lock()
			defer mu.Unlock()
			if theirs := impl == "client-go"; (timeouts > 0) != theirs || (before == 0) != theirs || (calls > before) != theirs {
				t.Errorf("%d requests have the timeout; %d calls, and %d before the start", timeouts, calls, before)
			}
		})
	}
}

// An update remains one if a transform drops the resource version. client-go takes it for a resync: after the first
// resync of the informer, a handler without one does not receive it.
func TestUpdateWithoutResourceVersion(t *testing.T) {
	for impl, create := range impls {
		t.Run(impl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t)
				defer w.Server.Close()
				w.Pod("a", "one")
				f := create(w.Clientset(), options{resync: time.Hour, transform: func(obj any) (any, error) {
					if pod, ok := obj.(*corev1.Pod); ok {
						pod.ResourceVersion = ""
					}
					return obj, nil
				}})
				var resyncs, events world.Recorder
				pods := f.Core().V1().Pods().Informer()
				if _, err := pods.AddEventHandler(&resyncs); err != nil {
					t.Fatal(err)
				}
				if _, err := pods.AddEventHandlerWithResyncPeriod(&events, 0); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer f.Shutdown()
				defer cancel()
				f.StartWithContext(ctx)
				resyncs.Next(2) // the initial one, and a resync
				events.Next(1)
				w.Relabel("a", "one", "x", "y")
				w.Delete("a", "one")
				want := []string{"delete a/one@"}
				if impl == "here" {
					want = []string{"update a/one@ to a/one@", "delete a/one@"}
				}
				if got := events.Next(len(want)); !slices.Equal(got, want) {
					t.Errorf("events %q", got)
				}
			})
		})
	}
}

// warned counts the warnings of a server.
type warned struct {
	mu sync.Mutex // protects n
	n  int
}

func (w *warned) HandleWarningHeader(int, string, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n++
}

// warning adds a warning to each response.
func warning(next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		out.Header().Set("Warning", `299 - "pods are deprecated"`)
		next.ServeHTTP(out, r)
	})
}

// The warning handler and the content type of a clientset do not apply: warnings are logged, and objects requested in
// protobuf. With WithClient, both apply.
func TestWarningHandlerAndContentType(t *testing.T) {
	for _, impl := range []string{"client-go", "here", "WithClient"} {
		t.Run(impl, func(t *testing.T) {
			server := informertest.NewServer(informertest.Options{InMemory: true, Middleware: warning})
			t.Cleanup(server.Close)
			informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: world.Pods})
			var warnings warned
			config := server.Config()
			config.WarningHandler, config.ContentType = &warnings, "application/json"
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			own, err := informer.NewClient(config)
			if err != nil {
				t.Fatal(err)
			}
			f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithClient(own))
			if create := impls[impl]; create != nil {
				f = create(client, options{})
			}
			f.Core().V1().Pods().Informer()
			start(t, f)
			warnings.mu.Lock()
			defer warnings.mu.Unlock()
			if applies := impl != "here"; (warnings.n > 0) != applies {
				t.Errorf("%d warnings", warnings.n)
			}
			for _, req := range server.Requests() {
				accept := req.Header.Get("Accept")
				if req.Verb != "" && strings.Contains(accept, "protobuf") != (impl == "here") {
					t.Errorf("Accept: %s", accept)
				}
			}
		})
	}
}

// Watches, streaming lists too, do not wait for the rate limit of the clientset.
func TestRateLimitOfWatches(t *testing.T) {
	for impl, create := range impls {
		t.Run(impl, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t)
				defer w.Server.Close()
				config := w.Server.Config()
				config.QPS, config.Burst = 0.02, 1 // one request at once, the next after 50 s
				client, err := kubernetes.NewForConfig(config)
				if err != nil {
					t.Fatal(err)
				}
				f := create(client, options{})
				f.Core().V1().Pods().Informer()
				f.Core().V1().Nodes().Informer()
				ctx, cancel := context.WithCancel(t.Context())
				defer f.Shutdown()
				defer cancel()
				begun := time.Now()
				f.StartWithContext(ctx)
				if err := f.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
					t.Fatal(err)
				}
				if waited := time.Since(begun); waited > 40*time.Second {
					t.Errorf("both synced after %v", waited)
				}
			})
		})
	}
}
