package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// Helpers that several test files of package informer_test share.

// recorder is a handler that records its calls: see helpers_internal_test.go.
type recorder[T informer.Object] = informer.Recorder[T]

// durations returns a histogram of all.
func durations(all ...time.Duration) (h informer.Durations) {
	bounds := informer.DurationBounds()
	for _, d := range all {
		h.Count++
		h.Sum += d
		h.Max = max(h.Max, d)
		if b := slices.IndexFunc(bounds, func(bound time.Duration) bool { return d <= bound }); b >= 0 {
			h.Buckets[b]++
		}
	}
	return h
}

// world is a server with pods, and a test's actions on them.
type world struct {
	*testing.T
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	ctx    context.Context
	first  *atomic.Pointer[answer] // answers before the server does
}

// answer answers a request, or returns false.
type answer func(w http.ResponseWriter, r *http.Request) bool

// newWorld starts a server for a test.
func newWorld(t *testing.T, options informertest.Options) world {
	first := &atomic.Pointer[answer]{}
	options.Middleware = func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if do := first.Load(); do == nil || !(*do)(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}
	server := informertest.NewServer(options)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 7*24*time.Hour)
	t.Cleanup(cancel)
	return world{t, server, informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podGVR}), ctx, first}
}

// bubble runs test with its own server in a synctest bubble, where time passes only when all goroutines block.
func bubble(t *testing.T, test func(w world)) {
	t.Helper()
	bubbleWith(t, informertest.Options{}, test)
}

// bubbleWith is bubble with options for the server.
func bubbleWith(t *testing.T, options informertest.Options, test func(w world)) {
	t.Helper()
	options.InMemory = true
	informer.Bubble(t, func(t *testing.T) { test(newWorld(t, options)) })
}

// forEachMode runs test for streaming and paged lists, in JSON and in protobuf, with and without Compact.
func forEachMode(t *testing.T, test func(w world, client *informer.Client, config informer.Config[*corev1.Pod])) {
	t.Helper()
	forEachModeWith(t, informertest.Options{}, test)
}

// forEachModeWith is forEachMode with options for the server.
func forEachModeWith(t *testing.T, options informertest.Options, test func(w world, client *informer.Client, config informer.Config[*corev1.Pod])) {
	t.Helper()
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		for _, paged := range []bool{false, true} {
			for _, compact := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s,paged=%v,compact=%v", strings.TrimPrefix(media, "application/"), paged, compact), func(t *testing.T) {
					bubbleWith(t, options, func(w world) {
						config := quiet[*corev1.Pod]()
						config.PagedList, config.PageSize, config.Compact = paged, 7, compact
						test(w, w.client(func(c *rest.Config) { c.ContentType = media }), config)
					})
				})
			}
		}
	}
}

var podGVR = corev1.SchemeGroupVersion.WithResource("pods")

func newPod(namespace, name string, labels ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:     namespace,
			Name:          name,
			Labels:        map[string]string{},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "test", Operation: metav1.ManagedFieldsOperationUpdate}},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		pod.Labels[key] = value
	}
	return pod
}

// Context returns a context that ends after a week of bubble time, so that a wait that would never end fails.
func (w world) Context() context.Context { return w.ctx }

func (w world) client(change ...func(*rest.Config)) *informer.Client {
	w.Helper()
	config := w.server.Config()
	for _, c := range change {
		c(config)
	}
	client, err := informer.NewClient(config)
	if err != nil {
		w.Fatal(err)
	}
	return client
}

func (w world) create(pods ...*corev1.Pod) (created *corev1.Pod) {
	w.Helper()
	for _, p := range pods {
		var err error
		if created, err = w.pods.Create(p); err != nil {
			w.Fatal(err)
		}
	}
	return created
}

// relabel sets a pod's label "v".
func (w world) relabel(namespace, name, value string) *corev1.Pod {
	w.Helper()
	return w.label(namespace, name, "v", value)
}

func (w world) label(namespace, name, key, value string) *corev1.Pod {
	w.Helper()
	pod, ok := w.pods.Get(informer.Key{Namespace: namespace, Name: name})
	if !ok {
		w.Fatalf("no pod %s/%s", namespace, name)
	}
	pod = pod.DeepCopy()
	pod.Labels[key] = value
	pod, err := w.pods.Update(pod)
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

func (w world) delete(namespace, name string) {
	w.Helper()
	if _, err := w.pods.Delete(informer.Key{Namespace: namespace, Name: name}); err != nil {
		w.Fatal(err)
	}
}

// requests returns the verbs of the requests so far, with the parameters that distinguish them.
func (w world) requests() []string {
	var list []string
	for _, r := range w.server.Requests() {
		text := r.Verb
		if text == "" {
			text = "GET " + r.Path
		}
		for _, param := range []string{"sendInitialEvents", "resourceVersion", "resourceVersionMatch", "limit"} {
			if r.Query.Has(param) {
				text += " " + param + "=" + r.Query.Get(param)
			}
		}
		if r.Query.Has("continue") {
			text += " continue"
		}
		list = append(list, text)
	}
	return list
}

func quiet[T informer.Object]() informer.Config[T] {
	return informer.Config[T]{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// start runs inf until the test ends, and waits until it is synced.
func start[T informer.Object](t *testing.T, inf *informer.Informer[T]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		ended <- context.Canceled
	}
	wait, cancelWait := context.WithTimeout(t.Context(), time.Minute)
	defer cancelWait()
	if err := inf.WaitSynced(wait); err != nil {
		stop()
		t.Fatal(err)
	}
	return stop
}

// equalsServer checks that the store equals the server, except for managedFields.
func equalsServer(w world, inf *informer.Informer[*corev1.Pod]) {
	w.Helper()
	if err := inf.WaitForResourceVersion(w.Context(), w.server.ResourceVersion()); err != nil {
		w.Fatal(err)
	}
	var want []*corev1.Pod
	for p := range w.pods.All() {
		want = append(want, seenAs[*corev1.Pod](p, false))
	}
	if got := slices.Collect(inf.Store().All()); !reflect.DeepEqual(got, want) {
		w.Errorf("store differs from server (-server +store):\n%s", cmp.Diff(want, got))
	}
}

func (w world) wantRequests(want ...string) {
	w.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, w.requests()); diff != "" {
		w.Errorf("requests (-want +got):\n%s", diff)
	}
	w.server.ResetRequests()
}

// ignoresNamespace requests the pods of all namespaces instead of one while ignored is set, as if the server ignored the
// namespace.
type ignoresNamespace struct {
	http.RoundTripper
	ignored *atomic.Bool
}

func (t ignoresNamespace) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.ignored.Load() && strings.Contains(r.URL.Path, "/namespaces/") {
		r = r.Clone(r.Context())
		r.URL.Path = "/api/v1/pods"
	}
	return t.RoundTripper.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport that cancels requests.
func (t ignoresNamespace) WrappedRoundTripper() http.RoundTripper { return t.RoundTripper }

// slimPod has only the fields of a pod that some controller needs, and embeds no other type.
type slimPod struct {
	Metadata struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

func (p *slimPod) GetNamespace() string { return p.Metadata.Namespace }

func (p *slimPod) GetName() string { return p.Metadata.Name }

func (p *slimPod) GetUID() types.UID { return p.Metadata.UID }

func (p *slimPod) GetResourceVersion() string { return p.Metadata.ResourceVersion }

func (p *slimPod) GetLabels() map[string]string { return p.Metadata.Labels }

func (p *slimPod) SetLabels(labels map[string]string) { p.Metadata.Labels = labels }

// accepts returns the Accept headers of the requests so far, each once.
func (w world) accepts() []string {
	var list []string
	for _, r := range w.server.Requests() {
		list = append(list, r.Header.Get("Accept"))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

var gadgetGVR = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}

const protobufType = "application/vnd.kubernetes.protobuf"

func asksToStream(r *http.Request) bool { return r.URL.Query().Has("sendInitialEvents") }

func asksToWatch(r *http.Request) bool { return r.URL.Query().Has("watch") }

const (
	listHead  = `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"2"},"items":[`
	podHead   = `{"metadata":{"namespace":"ns","name":"a","uid":"u","resourceVersion":"2"},`
	frameHead = `{"type":"MODIFIED","object":` + podHead
	// The envelope of a PodList in protobuf, up to the length of the list.
	protoHead = "k8s\x00\x0a\x0d\x0a\x02v1\x12\x07PodList\x12"
	fourGiB   = "\xff\xff\xff\xff\x0f" // as a varint, less a byte
	noEnd     = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
)

func deepConfig[T informer.Object]() informer.Config[T] {
	config := quiet[T]()
	config.PagedList = true
	return config
}

const mediaTypeJSON = "application/json"

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

var nodeGVR = corev1.SchemeGroupVersion.WithResource("nodes")

func names[T informer.Object](list []T) string {
	var b strings.Builder
	for _, obj := range list {
		b.WriteString(informer.KeyOf(obj).String() + " ")
	}
	return strings.TrimSpace(b.String())
}

// seenAs returns a pod of the server as an informer of T holds it, which is how client-go decodes it.
func seenAs[T informer.Object](pod *corev1.Pod, keepManagedFields bool) T {
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{}
	pod.CreationTimestamp = metav1.NewTime(pod.CreationTimestamp.Local().Truncate(time.Second))
	if !keepManagedFields {
		pod.ManagedFields = nil
	}
	var seen any = pod
	switch any(*new(T)).(type) {
	case *metav1.PartialObjectMetadata:
		seen = &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}
	case *unstructured.Unstructured:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			panic(err)
		}
		u := &unstructured.Unstructured{Object: content}
		u.SetAPIVersion("v1")
		u.SetKind("Pod")
		seen = u
	case *slimPod:
		slim := &slimPod{}
		m := &slim.Metadata
		m.Namespace, m.Name, m.UID, m.ResourceVersion, m.Labels = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion, pod.Labels
		slim.Spec.NodeName = pod.Spec.NodeName
		seen = slim
	}
	return seen.(T)
}

// Requests of an informer.
const (
	streams     = "watch sendInitialEvents=true resourceVersionMatch=NotOlderThan"
	streamsFrom = "watch sendInitialEvents=true resourceVersion=%s resourceVersionMatch=NotOlderThan"
	lists       = "list resourceVersion=0 limit=1"
	listsFrom   = "list resourceVersion=%s resourceVersionMatch=NotOlderThan limit=1"
	listsLatest = "list limit=1"
	nextPage    = "list limit=1 continue"
	watches     = "watch resourceVersion=%s"
	versions    = "GET /api"
	resources   = "GET /api/v1"
)

var (
	keyA = informer.Key{Namespace: "ns", Name: "a"}
	keyB = informer.Key{Namespace: "ns", Name: "b"}

	expired     = apierrors.NewResourceExpired("too old resource version")
	unavailable = apierrors.NewServiceUnavailable("down")
	internal    = apierrors.NewInternalError(errors.New("broken"))
	timedOut    = apierrors.NewTimeoutError("slow", 0)
	throttled   = apierrors.NewTooManyRequests("later", 100)
	absent      = apierrors.NewNotFound(podGVR.GroupResource(), "")
	forbidden   = apierrors.NewForbidden(podGVR.GroupResource(), "", errors.New("not you"))
	storeError  = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 500, Reason: metav1.StatusReasonStoreReadError, Message: "corrupt object",
	}}
	tooLarge = &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 504, Reason: metav1.StatusReasonTimeout, Message: "Too large resource version",
		Details: &metav1.StatusDetails{RetryAfterSeconds: 1, Causes: []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}},
	}}
)

func streamed(r informertest.Request) bool { return r.Query.Has("sendInitialEvents") }

func notStreamed(r informertest.Request) bool { return !streamed(r) }

// answer makes do answer later requests before the server does.
func (w world) answer(do answer) { w.first.Store(&do) }

// podInformer returns an informer of pods that has not started, and its recorder.
func (w world) podInformer(config informer.Config[*corev1.Pod]) (*informer.Informer[*corev1.Pod], *recorder[*corev1.Pod]) {
	config.Logger = quiet[*corev1.Pod]().Logger
	inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, config)
	rec := &recorder[*corev1.Pod]{}
	inf.Subscribe(rec)
	return inf, rec
}
