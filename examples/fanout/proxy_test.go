package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
	"github.com/typedinformer/informer/watchcache"
)

var (
	pods    = corev1.SchemeGroupVersion.WithResource("pods")
	widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
)

// rig is an API server, a proxy that follows it, and a server of the proxy.
type rig struct {
	*testing.T
	upstream *informertest.Server
	pods     *informertest.Collection[*corev1.Pod]
	widgets  *informertest.Collection[*unstructured.Unstructured]
	traffic  traffic // between proxy and upstream
	proxy    *proxy
	server   *httptest.Server
	logs     *testkit.Log
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, upstream: informertest.NewServer(informertest.Options{}), logs: &testkit.Log{}}
	t.Cleanup(r.upstream.Close)
	r.pods = informertest.Register[*corev1.Pod](r.upstream, informertest.Resource{GroupVersionResource: pods})
	r.widgets = informertest.Register[*unstructured.Unstructured](r.upstream, informertest.Resource{GroupVersionResource: widgets, Kind: "Widget"})
	config := r.upstream.Config()
	config.BearerToken = "upstream-secret"
	config.Dial = r.traffic.dial
	var err error
	r.proxy, err = newProxy(t.Context(), config, []schema.GroupVersionResource{widgets, pods}, 0, r.logs.Logger(), newMetrics())
	r.must(err)
	g, err := newGuard(options{listen: "127.0.0.1:0", limits: limits{requestsPerUser: 1000, userQPS: 1000, ipQPS: 1000, bandwidth: 1000, userBandwidth: 1000}}, slog.New(slog.DiscardHandler), r.proxy.metrics)
	r.must(err)
	r.server = httptest.NewServer(g.handler(r.proxy))
	t.Cleanup(r.server.Close)
	t.Cleanup(r.server.CloseClientConnections) // the watches
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// run runs the proxy until the end of the test, and waits until it is ready.
func (r *rig) run() {
	r.Helper()
	r.background(r.proxy.run)
	client := &http.Client{Transport: patient{http.DefaultTransport}}
	for _, c := range r.proxy.collections {
		response, err := client.Get(r.server.URL + "/api" + map[bool]string{true: "/", false: "s/" + c.Group + "/"}[c.Group == ""] + c.Version + "/" + c.Resource + "?resourceVersion=0")
		r.must(err)
		response.Body.Close()
	}
}

// background runs something until the end of the test.
func (r *rig) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			r.Error(err)
		}
	}()
	r.Cleanup(func() { cancel(); <-done })
}

func (r *rig) set(name, value string) {
	r.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{"value": value}}}
	write := r.pods.Create
	if _, exists := r.pods.Get(informer.KeyOf(pod)); exists {
		write = r.pods.Update
	}
	_, err := write(pod)
	r.must(err)
}

// synced starts an informer of a server and waits for its initial sync.
func synced[T watchcache.Object](r *rig, config *rest.Config, gvr schema.GroupVersionResource) *informer.Informer[T] {
	r.Helper()
	config.QPS = -1
	client, err := informer.NewClient(config)
	r.must(err)
	i := informer.New(client, informer.Resource{GroupVersionResource: gvr}, informer.Config[T]{
		KeepManagedFields: true,
		Logger:            r.logs.Logger(),
	})
	r.background(i.Run)
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	r.must(i.WaitSynced(ctx))
	return i
}

// equal waits until an informer has caught up with the upstream, and compares them.
func equal[T interface {
	comparable
	watchcache.Object
}](r *rig, i *informer.Informer[T], want *informertest.Collection[T]) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	for obj := range want.All() {
		r.must(i.WaitForObject(ctx, obj))
	}
	for obj := range i.Store().All() {
		if _, ok := want.Get(informer.KeyOf(obj)); !ok { // deleted upstream
			var none T
			_, err := i.Await(ctx, informer.KeyOf(obj), func(obj T) bool { return obj == none })
			r.must(err)
		}
	}
	store := i.Store().Snapshot()
	for obj := range want.All() {
		got, ok := store.Get(informer.KeyOf(obj))
		if !ok || got.GetResourceVersion() != obj.GetResourceVersion() || got.GetUID() != obj.GetUID() ||
			fmt.Sprint(got.GetAnnotations()) != fmt.Sprint(obj.GetAnnotations()) {
			r.Errorf("downstream has %v, want %v", got, obj)
		}
	}
	if store.Len() != want.Len() {
		r.Errorf("downstream has %d objects, want %d", store.Len(), want.Len())
	}
}

func (r *rig) downstream() *rest.Config { return &rest.Config{Host: r.server.URL} }

// get returns the status and body of the proxy's response.
func (r *rig) get(path string) (int, string) {
	r.Helper()
	response, err := http.Get(r.server.URL + path)
	r.must(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	r.must(err)
	return response.StatusCode, string(body)
}

// ready returns the status and body of the readiness probe.
func (r *rig) ready() (int, string) {
	w := httptest.NewRecorder()
	health.Ready(r.proxy.probes()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
	return w.Code, w.Body.String()
}

// traffic counts the connections and bytes of clients that use its dial.
type traffic struct {
	connections, received atomic.Int64
}

func (t *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	t.connections.Add(1)
	return countedConn{conn, t}, nil
}

type countedConn struct {
	net.Conn
	traffic *traffic
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.traffic.received.Add(int64(n))
	return n, err
}

// TestUpstreamLoadIsThatOfOne connects 1, 10 and then 100 informers to the proxy, and logs the load on the API server.
// With -v, it logs the table of BENCHMARKS.md.
func TestUpstreamLoadIsThatOfOne(t *testing.T) {
	const changes, objects = 500, 100
	r := newRig(t)
	content := strings.Repeat("x", 2000)
	for i := range objects {
		r.set(fmt.Sprint("pod-", 1000+i), content)
	}
	r.run()
	var informers []*informer.Informer[*corev1.Pod]
	var first int64
	for _, n := range []int{1, 10, 100} {
		for len(informers) < n {
			informers = append(informers, synced[*corev1.Pod](r, r.downstream(), pods))
		}
		before := r.traffic.received.Load()
		for i := range changes {
			r.set(fmt.Sprint("pod-", 1000+i%objects), fmt.Sprint(content, n, " ", 1000+i))
		}
		for _, i := range informers {
			equal(r, i, r.pods)
		}
		received := r.traffic.received.Load() - before
		lists, watches, probes := 0, 0, 0
		for _, request := range r.upstream.Requests() {
			switch {
			case request.Resource != pods:
			case request.Query.Get("limit") == "1" || request.Query.Get("timeoutSeconds") == "3":
				probes++ // for the newest version, when an informer begins
			case request.Verb == "list":
				lists++
			case request.Verb == "watch":
				watches++
			}
		}
		t.Logf("%3d informers: upstream %d connections, %d lists, %d watches, %d questions for the newest version, %d bytes for %d changes",
			n, r.traffic.connections.Load(), lists, watches, probes, received, changes)
		if n == 1 {
			first = received
		}
		// One connection for the watch of each resource, one for the initial discovery, and two for the newest version.
		if connections := r.traffic.connections.Load(); connections > 5 || lists+watches != 1 {
			t.Errorf("%d informers: %d connections, %d lists and %d watches", n, connections, lists, watches)
		}
		if received < first-first/50 || received > first+first/50 {
			t.Errorf("%d informers: %d bytes from upstream, %d with one", n, received, first)
		}
	}
	if r.pods.Watchers() != 1 {
		t.Errorf("%d watches of pods upstream, want 1", r.pods.Watchers())
	}
}

func TestDownstreamEqualsUpstream(t *testing.T) {
	r := newRig(t)
	widget := func(name, value string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "spec": map[string]any{"value": value}}}
		u.SetNamespace("ns")
		u.SetName(name)
		u.SetAnnotations(map[string]string{"value": value})
		return u
	}
	r.set("a", "1")
	r.set("b", "1")
	_, err := r.widgets.Create(widget("w", "1"))
	r.must(err)
	r.run()

	typed := synced[*corev1.Pod](r, r.downstream(), pods)
	dynamic := synced[*unstructured.Unstructured](r, r.downstream(), widgets)
	r.set("a", "2")
	r.set("c", "1")
	_, err = r.pods.Delete(informer.Key{Namespace: "ns", Name: "b"})
	r.must(err)
	_, err = r.widgets.Update(widget("w", "2"))
	r.must(err)
	_, err = r.widgets.Create(widget("v", "1"))
	r.must(err)
	check := func() {
		t.Helper()
		equal(r, typed, r.pods)
		equal(r, dynamic, r.widgets)
		equal(r, synced[*corev1.Pod](r, r.downstream(), pods), r.pods)
	}
	check()
	if got, ok := dynamic.Store().Get(informer.Key{Namespace: "ns", Name: "w"}); !ok || got.GetKind() != "Widget" || got.GetAPIVersion() != "example.com/v1" {
		t.Errorf("downstream has %v", got)
	}

	// The API server stops, and returns with only one object changed.
	before := typed.Status()
	r.upstream.Stop()
	r.set("a", "3")
	if code, body := r.ready(); code != http.StatusOK {
		t.Errorf("/readyz returns %d %s while the API server is down", code, body)
	}
	if code, _ := r.get("/api/v1/pods?resourceVersion=0"); code != http.StatusOK {
		t.Errorf("a list at any version returns %d while the API server is down", code)
	}
	if code, _ := r.get("/api/v1/pods"); code != http.StatusServiceUnavailable {
		t.Errorf("a list at the newest version returns %d while the API server is down", code)
	}
	r.upstream.Start()
	check()
	if after := typed.Status(); after.Reflectors[0].Traffic.Lists != before.Reflectors[0].Traffic.Lists {
		t.Errorf("downstream listed again, after %d lists %d", before.Reflectors[0].Traffic.Lists, after.Reflectors[0].Traffic.Lists)
	}

	// The API server returns without its history: the proxy lists again, and so do its clients.
	r.upstream.Stop()
	r.set("a", "4")
	_, err = r.pods.Delete(informer.Key{Namespace: "ns", Name: "c"})
	r.must(err)
	r.set("d", "1")
	r.upstream.Compact()
	r.upstream.Start()
	check()
	if after := typed.Status(); after.Reflectors[0].Traffic.Lists == before.Reflectors[0].Traffic.Lists {
		t.Error("downstream did not list again")
	}
	if code, body := r.get("/api/v1/pods?watch=1&resourceVersion=2"); code != http.StatusOK || !strings.Contains(body, `"reason":"Expired","code":410`) {
		t.Errorf("watch from a version before the window: %d %s", code, body)
	}
}

// Anyone may call /readyz, so it names no object and repeats no message of the API server.
func TestReadySaysOnlyWhetherItIs(t *testing.T) {
	r := newRig(t)
	want := func(when string, wantCode int, wantBody string) {
		t.Helper()
		if code, body := r.ready(); code != wantCode || body != wantBody {
			t.Errorf("%s: %d %q, want %d %q", when, code, body, wantCode, wantBody)
		}
	}
	want("before run", http.StatusInternalServerError, "readyz check failed\n")
	if code, _ := r.get("/api/v1/pods"); code != http.StatusTooManyRequests {
		t.Errorf("list before run: %d", code)
	}

	// The API server rejects the pods, with a message, until the proxy has retried twice.
	refusals, again := 0, make(chan struct{})
	heal := r.upstream.Inject(informertest.Fault{
		Resource: "pods",
		Error:    apierrors.NewForbidden(pods.GroupResource(), "merger-with-acme", errors.New("ask alice@acme.example")),
		Match: func(informertest.Request) bool {
			if refusals++; refusals == 3 { // a streaming list, a list, and the next attempt after both failed
				close(again)
			}
			return true
		},
	})
	r.background(r.proxy.run)
	<-again
	for _, c := range r.proxy.collections {
		if status := c.status(); c.Resource == "pods" && (status.LastError == nil || !strings.Contains(status.LastError.Error(), "merger-with-acme")) {
			t.Fatalf("the failure is %v", status.LastError)
		}
	}
	want("while refused", http.StatusInternalServerError, "readyz check failed\n")
	heal()
	synced[*corev1.Pod](r, r.downstream(), pods)
	synced[*unstructured.Unstructured](r, r.downstream(), widgets)
	want("after sync", http.StatusOK, "ok")
}

func TestDiscovery(t *testing.T) {
	r := newRig(t)
	client, err := discovery.NewDiscoveryClientForConfig(r.downstream())
	r.must(err)
	_, lists, err := client.ServerGroupsAndResources()
	r.must(err)
	var got []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			got = append(got, fmt.Sprint(list.GroupVersion, " ", resource.Name, " ", resource.Kind, " ", resource.Verbs))
		}
	}
	if got, want := strings.Join(got, "\n"), "v1 pods Pod [get list watch]\nexample.com/v1 widgets Widget [get list watch]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, err := client.ServerVersion(); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"/", "/api/v2", "/apis/none.example.com/v1", "/api/v1/secrets", "/api/v1/namespaces/ns/pods/a/log", "/metrics"} {
		if code, _ := r.get(path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}

// To an informer behind the proxy, an unfollowed resource is absent. Another version of a followed resource is a
// failure that names the right version.
func TestInformerOfAResourceThatIsNotFollowed(t *testing.T) {
	r := newRig(t)
	r.run()
	config := r.downstream()
	config.QPS = -1
	client, err := informer.NewClient(config)
	r.must(err)
	inform := func(gvr schema.GroupVersionResource) status.Reflector {
		failed := make(chan error, 1)
		i := informer.New(client, informer.Resource{GroupVersionResource: gvr}, informer.Config[*metav1.PartialObjectMetadata]{
			AbsentIsSynced: true,
			Logger:         slog.New(slog.DiscardHandler),
			OnFailure: func(err error) {
				select {
				case failed <- err:
				default:
				}
			},
		})
		ctx, cancel := context.WithTimeout(r.Context(), time.Minute)
		defer cancel()
		r.background(func(ctx context.Context) error { return i.Run(ctx) })
		select {
		case err := <-failed:
			if !apierrors.IsNotFound(err) {
				r.Errorf("%v: %v", gvr, err)
			}
		case <-ctx.Done():
			r.Fatalf("%v: no failure", gvr)
		}
		if !strings.HasPrefix(gvr.Version, "v9") {
			r.must(i.WaitSynced(ctx))
		}
		return i.Status().Reflectors[0]
	}
	for _, gvr := range []schema.GroupVersionResource{pods.GroupVersion().WithResource("secrets"), widgets.GroupVersion().WithResource("gadgets"), {Group: "none.example.com", Version: "v1", Resource: "x"}} {
		if s := inform(gvr); s.ResourceVersion != "" || strings.Contains(s.LastError.Error(), "does not show") {
			t.Errorf("%v: %+v", gvr, s)
		}
	}
	for _, gvr := range []schema.GroupVersionResource{{Version: "v9", Resource: "pods"}, {Group: widgets.Group, Version: "v9", Resource: widgets.Resource}} {
		if s := inform(gvr); s.State == status.ReflectorAbsent || !strings.Contains(s.LastError.Error(), "in version v1: use that") {
			t.Errorf("%v: %+v", gvr, s)
		}
	}
}

func TestUnknownResource(t *testing.T) {
	r := newRig(t)
	for _, gvr := range []schema.GroupVersionResource{pods.GroupVersion().WithResource("secrets"), {Group: "none.example.com", Version: "v1", Resource: "x"}} {
		if _, err := newProxy(t.Context(), r.upstream.Config(), []schema.GroupVersionResource{gvr}, 0, slog.New(slog.DiscardHandler), newMetrics()); err == nil {
			t.Errorf("%v: no error", gvr)
		}
	}
}

func TestCredentialsStayHere(t *testing.T) {
	r := newRig(t)
	r.set("a", "1")
	r.run()
	config := r.downstream()
	config.BearerToken = "downstream-secret"
	equal(r, synced[*corev1.Pod](r, config, pods), r.pods)
	for _, path := range []string{"/api/v1/pods", "/api/v1/namespaces/ns/pods/a", "/api", "/version", "/nothing"} {
		response, err := http.Get(r.server.URL + path)
		r.must(err)
		var answer bytes.Buffer
		r.must(response.Write(&answer))
		response.Body.Close()
		if strings.Contains(answer.String(), "secret") {
			t.Errorf("%s: %s", path, &answer)
		}
	}
	for _, request := range r.upstream.Requests() {
		if got := request.Header.Get("Authorization"); got != "Bearer upstream-secret" {
			t.Errorf("upstream %s %s: Authorization: %q", request.Verb, request.Path, got)
		}
	}
	if logs := r.logs.String(); strings.Contains(logs, "secret") {
		t.Errorf("logs: %s", logs)
	}
}

func TestRun(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, out := io.Pipe()
	done := make(chan error)
	go func() {
		done <- run(ctx, strings.Fields("-listen 127.0.0.1:0 -pods 100 -rate 200 -report 0"), out, os.Stderr)
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	what, url, _ := strings.Cut(strings.TrimSpace(line), " at ")
	if !strings.HasPrefix(what, "serving v1/pods of http://127.0.0.1:") {
		t.Errorf("it prints %q", line)
	}
	client, err := informer.NewClient(&rest.Config{Host: url})
	if err != nil {
		t.Fatal(err)
	}
	i := informer.New(client, informer.Resource{GroupVersionResource: pods}, informer.Config[*corev1.Pod]{})
	informing, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); i.Run(informing) }()
	updated := make(chan struct{})
	var once sync.Once
	i.Subscribe(informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) { once.Do(func() { close(updated) }) }})
	<-updated
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	stop()
	<-ended
}
