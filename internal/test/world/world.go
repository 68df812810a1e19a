// Package world has a server with pods for tests of informers, and the actions of a test on it.
package world

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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/status"
	"github.com/typedinformer/informer/watchcache"
)

// World is a server with pods, and a test's actions on them.
type World struct {
	*testing.T
	Server *informertest.Server
	Pods   *informertest.Collection[*corev1.Pod]
	ctx    context.Context
	first  *atomic.Pointer[Answer] // answers before the server does
}

// Answer answers a request, or returns false.
type Answer func(w http.ResponseWriter, r *http.Request) bool

// Refuse returns an Answer to every request: a Status of err.
func Refuse(err error) Answer {
	return func(w http.ResponseWriter, r *http.Request) bool { watchcache.WriteError(w, r, err); return true }
}

// New starts a server for a test.
func New(t *testing.T, options informertest.Options) World {
	first := &atomic.Pointer[Answer]{}
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
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: PodGVR})
	return World{T: t, Server: server, Pods: pods, ctx: ctx, first: first}
}

// Bubble runs test with its own server in a synctest bubble, where time passes only when all goroutines block.
func Bubble(t *testing.T, test func(w World)) {
	t.Helper()
	BubbleWith(t, informertest.Options{}, test)
}

// BubbleWith is Bubble with options for the server.
func BubbleWith(t *testing.T, options informertest.Options, test func(w World)) {
	t.Helper()
	options.InMemory = true
	testkit.Bubble(t, func(t *testing.T) { test(New(t, options)) })
}

// ModeTest is a test of one mode: the format of client, and the settings of config.
type ModeTest = func(w World, client *informer.Client, config informer.Config[*corev1.Pod])

// Layouts are all layouts.
var Layouts = []informer.Layout{informer.LayoutShared, informer.LayoutSeparate, informer.LayoutCompact}

// ForEachMode runs test for streaming and paged lists, in JSON and in protobuf, with each layout.
func ForEachMode(t *testing.T, test ModeTest) {
	t.Helper()
	ForEachModeWith(t, informertest.Options{}, test)
}

// ForEachModeWith is ForEachMode with options for the server.
func ForEachModeWith(t *testing.T, options informertest.Options, test ModeTest) {
	t.Helper()
	for mode := range modes {
		forMode(t, mode, options, test)
	}
}

// ForMode runs test for one of the modes of ForEachMode, which n determines, or for each if tests run whole. A table of
// many cases covers all modes if each case has an n of its own.
func ForMode(t *testing.T, n int, test ModeTest) {
	t.Helper()
	if testkit.Whole() {
		ForEachMode(t, test)
		return
	}
	forMode(t, n%modes, informertest.Options{}, test)
}

// modes is the number of modes.
const modes = 2 * 2 * 3

func forMode(t *testing.T, mode int, options informertest.Options, test ModeTest) {
	t.Helper()
	layout, paged, media := Layouts[mode%3], mode/3%2 != 0, JSONType
	if mode/6 != 0 {
		media = ProtobufType
	}
	name := fmt.Sprintf("%s,paged=%v,%s", strings.TrimPrefix(media, "application/"), paged, layout)
	t.Run(name, func(t *testing.T) {
		BubbleWith(t, options, func(w World) {
			config := Quiet[*corev1.Pod]()
			config.PagedList, config.PageSize, config.Layout = paged, 7, layout
			test(w, w.Client(func(c *rest.Config) { c.ContentType = media }), config)
		})
	})
}

// Context returns a context that ends after a week of bubble time, so that a wait that would never end fails.
func (w World) Context() context.Context { return w.ctx }

// Client returns a client of the server.
func (w World) Client(change ...func(*rest.Config)) *informer.Client {
	w.Helper()
	config := w.Server.Config()
	for _, c := range change {
		c(config)
	}
	client, err := informer.NewClient(config)
	if err != nil {
		w.Fatal(err)
	}
	return client
}

// WithContext returns w with another context.
func (w World) WithContext(ctx context.Context) World {
	w.ctx = ctx
	return w
}

// Answer makes do answer later requests before the server does. Nil leaves them to the server.
func (w World) Answer(do Answer) {
	if do == nil {
		w.first.Store(nil)
		return
	}
	w.first.Store(&do)
}

// Create creates pods. It returns the last one.
func (w World) Create(pods ...*corev1.Pod) (created *corev1.Pod) {
	w.Helper()
	for _, p := range pods {
		var err error
		if created, err = w.Pods.Create(p); err != nil {
			w.Fatal(err)
		}
	}
	return created
}

// Relabel sets a pod's label "v".
func (w World) Relabel(namespace, name, value string) *corev1.Pod {
	w.Helper()
	return w.Label(namespace, name, "v", value)
}

// Label sets a label of a pod.
func (w World) Label(namespace, name, key, value string) *corev1.Pod {
	w.Helper()
	pod, ok := w.Pods.Get(informer.Key{Namespace: namespace, Name: name})
	if !ok {
		w.Fatalf("no pod %s/%s", namespace, name)
	}
	pod = pod.DeepCopy()
	pod.Labels[key] = value
	pod, err := w.Pods.Update(pod)
	if err != nil {
		w.Fatal(err)
	}
	return pod
}

// Delete deletes a pod.
func (w World) Delete(namespace, name string) {
	w.Helper()
	if _, err := w.Pods.Delete(informer.Key{Namespace: namespace, Name: name}); err != nil {
		w.Fatal(err)
	}
}

// ChangeElsewhere changes an object of another resource, which raises the resource version of the server.
func (w World) ChangeElsewhere() {
	w.Helper()
	resource := informertest.Resource{GroupVersionResource: NodeGVR, ClusterScoped: true}
	nodes := informertest.Register[*corev1.Node](w.Server, resource)
	defer nodes.Unregister()
	if _, err := nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
		w.Fatal(err)
	}
}

// QuietInformer returns an informer of pods without a log and without a handler, which has not started.
func (w World) QuietInformer() *informer.Informer[*corev1.Pod] {
	w.Helper()
	return informer.New(w.Client(), informer.Resource{GroupVersionResource: PodGVR}, Quiet[*corev1.Pod]())
}

// PodInformer returns an informer of pods that has not started, and its recorder.
func (w World) PodInformer(
	config informer.Config[*corev1.Pod],
) (*informer.Informer[*corev1.Pod], *testkit.Recorder[*corev1.Pod]) {
	config.Logger = Quiet[*corev1.Pod]().Logger
	inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: PodGVR}, config)
	rec := &testkit.Recorder[*corev1.Pod]{}
	inf.Subscribe(rec)
	return inf, rec
}

// EqualsServer checks that the informer's store equals the server, except for managedFields.
func EqualsServer(w World, inf *informer.Informer[*corev1.Pod]) {
	w.Helper()
	if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
		w.Fatal(err)
	}
	var want []*corev1.Pod
	for p := range w.Pods.All() {
		want = append(want, SeenAs[*corev1.Pod](p, false))
	}
	if got := slices.Collect(inf.Store().All()); !reflect.DeepEqual(got, want) {
		w.Errorf("store differs from server (-server +store):\n%s", cmp.Diff(want, got))
	}
}

// AuditAgrees checks that an audit finds no difference between the informer's store and the server. The informer must
// run.
func AuditAgrees(w World, inf *informer.Informer[*corev1.Pod]) {
	w.Helper()
	if r, err := inf.Audit(w.Context()); err != nil || r.Differ > 0 || r.Objects != w.Pods.Len() {
		w.Errorf("audit: %+v, %v", r, err)
	}
}

// Quiet returns a Config without a log.
func Quiet[T informer.Object]() informer.Config[T] {
	return informer.Config[T]{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// Paged returns a Config without a log and without streaming lists.
func Paged[T informer.Object]() informer.Config[T] {
	config := Quiet[T]()
	config.PagedList = true
	return config
}

// Run runs an informer or a group of them until stop, which waits for its end.
func Run(w World, it interface{ Run(context.Context) error }) (stop func()) {
	w.Helper()
	return runIn(w.Context(), w.T, it.Run)
}

// runIn calls run until stop, which waits for its end.
func runIn(ctx context.Context, t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		ended <- context.Canceled
	}
}

// Start runs inf until the test ends, and waits until it is synced.
func Start[T informer.Object](t *testing.T, inf *informer.Informer[T]) (stop func()) {
	t.Helper()
	stop = runIn(t.Context(), t, inf.Run)
	wait, cancelWait := context.WithTimeout(t.Context(), time.Minute)
	defer cancelWait()
	if err := inf.WaitSynced(wait); err != nil {
		stop()
		t.Fatal(err)
	}
	return stop
}

// WaitsForHandlers checks that run, which runs inf or what has inf, waits for a handler call under way. The server must
// have an object for inf.
func WaitsForHandlers(w World, inf *informer.Informer[*corev1.Pod], run func(context.Context) error) {
	w.Helper()
	gate := make(chan struct{})
	inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{AddFunc: func(*corev1.Pod, bool) { <-gate }})
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	synctest.Wait()
	cancel()
	synctest.Wait()
	if len(ended) > 0 {
		w.Error("Run returned while a handler was being called")
	}
	close(gate)
	if err := <-ended; !errors.Is(err, context.Canceled) {
		w.Error(err)
	}
}

// Durations returns a histogram of all.
func Durations(all ...time.Duration) (h status.Durations) {
	bounds := status.DurationBounds()
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
