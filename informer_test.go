package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

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

// world is a server with pods in a synctest bubble.
type world struct {
	*testing.T
	server *informertest.Server
	pods   *informertest.Collection[*corev1.Pod]
	ctx    context.Context
}

// Context returns a context that ends before long, as the bubble knows time: what waits in vain shall say so.
func (w world) Context() context.Context { return w.ctx }

// bubble runs test with a server of its own in a synctest bubble, where time passes when nothing else can happen.
func bubble(t *testing.T, options informertest.Options, test func(w world)) {
	t.Helper()
	informer.Bubble(t, func(t *testing.T) {
		options.InMemory = true
		server := informertest.NewServer(options)
		defer server.Close()
		pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podGVR})
		ctx, cancel := context.WithTimeout(t.Context(), 7*24*time.Hour)
		defer cancel()
		test(world{t, server, pods, ctx})
	})
}

// What an informer does not follow is not waited for, as far as that can be told.
func TestC9_WaitForObjectOutside(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		pod := newPod("ns", "a", "v=1")
		pod.ResourceVersion = "7"
		for _, test := range []struct {
			resource informer.Resource
			follows  bool
		}{
			{informer.Resource{}, true},
			{informer.Resource{Namespaces: []string{"other", "ns"}}, true},
			{informer.Resource{Namespaces: []string{"other", "ns2"}}, false},
			{informer.Resource{LabelSelector: "v in (1,2)"}, true},
			{informer.Resource{LabelSelector: "v!=1"}, false},
			{informer.Resource{FieldSelector: "metadata.name=a"}, true},
			{informer.Resource{FieldSelector: "metadata.name=b"}, false},
			{informer.Resource{FieldSelector: "metadata.namespace=ns,metadata.name=a"}, true},
			{informer.Resource{FieldSelector: "metadata.namespace=other,metadata.name=a"}, false},
			{informer.Resource{FieldSelector: "metadata.name!=a"}, true}, // nor is it in the store; but who knows
			{informer.Resource{FieldSelector: "spec.nodeName=n2"}, true},
		} {
			test.resource.GroupVersionResource = podGVR
			inf := informer.New(w.client(), test.resource, quiet[*corev1.Pod]())
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			if err := inf.WaitForObject(ctx, pod); err == nil == test.follows || err != nil && !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("%s: %v", test.resource, err)
			}
			cancel()
		}
	})
}

// A version is reached when each of several namespaces has got there, also the one that has not been listed yet.
func TestC9_WaitForSeveralNamespaces(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		w.create(newPod("a", "x"))
		w.create(newPod("b", "y"))
		end := w.server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Namespace == "b" }, Error: unavailable})
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR, Namespaces: []string{"a", "b"}}, quiet[*corev1.Pod]())
		running, stop := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(running) }()
		defer func() { stop(); <-ended }()
		waits := func() error {
			ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
			defer cancel()
			return inf.WaitFor(ctx, w.server.RV())
		}
		if err := waits(); !errors.Is(err, context.DeadlineExceeded) || inf.Store().Len() != 1 {
			w.Errorf("%v with %d objects", err, inf.Store().Len())
		}
		end()
		if err := waits(); err != nil || inf.Store().Len() != 2 {
			w.Errorf("%v with %d objects", err, inf.Store().Len())
		}
	})
}

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

// requests returns the verbs of the requests so far, with the parameters that tell them apart.
func (w world) requests() []string {
	var list []string
	for _, r := range w.server.Requests() {
		text := r.Verb
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

// recorder notes what a handler is told as lines of text.
type recorder[T informer.Object] struct {
	mu    sync.Mutex // protects lines
	lines []string
}

func (r *recorder[T]) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// told returns the lines since the last take.
func (r *recorder[T]) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// take returns what told does, and begins anew.
func (r *recorder[T]) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	return lines
}

func (r *recorder[T]) OnAdd(obj T, initial bool) {
	r.note("add %s %s initial=%v", informer.KeyOf(obj), version(obj), initial)
}

func (r *recorder[T]) OnUpdate(old, new T) {
	r.note("update %s %s->%s", informer.KeyOf(new), version(old), version(new))
}

func (r *recorder[T]) OnDelete(last T, final bool) {
	r.note("delete %s %s final=%v", informer.KeyOf(last), version(last), final)
}

// version returns an object's label "v", or its resource version.
func version[T informer.Object](obj T) string {
	if l, ok := any(obj).(interface{ GetLabels() map[string]string }); ok && l.GetLabels()["v"] != "" {
		return l.GetLabels()["v"]
	}
	return "@" + obj.GetResourceVersion()
}

func (r *recorder[T]) want(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	if diff := cmp.Diff(lines, r.take()); diff != "" {
		t.Errorf("handler was told (-want +got):\n%s", diff)
	}
}

// forEachMode runs test for streaming and paged lists, in JSON and in protobuf.
func forEachMode(t *testing.T, test func(w world, client *informer.Client, config informer.Config[*corev1.Pod])) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,paged=%v", strings.TrimPrefix(media, "application/"), paged), func(t *testing.T) {
				bubble(t, informertest.Options{}, func(w world) {
					config := quiet[*corev1.Pod]()
					config.PagedList, config.PageSize = paged, 7
					test(w, w.client(func(c *rest.Config) { c.ContentType = media }), config)
				})
			})
		}
	}
}

// equalsServer checks that the store has what the server has, but for managedFields.
func equalsServer(w world, inf *informer.Informer[*corev1.Pod]) {
	w.Helper()
	if err := inf.WaitFor(w.Context(), w.server.RV()); err != nil {
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
