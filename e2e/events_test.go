package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
)

// events is a handler that passes its events to the test, one by one.
type events[T informer.Object] chan informer.Event[T]

// newEvents has room for all events of a test. If the handler blocked, changes would fold.
func newEvents[T informer.Object]() events[T] { return make(events[T], 1000) }

func (e events[T]) OnAdd(obj T, initial bool) {
	e <- informer.Event[T]{Type: informer.Added, Object: obj, Initial: initial}
}

func (e events[T]) OnUpdate(old, new T) {
	e <- informer.Event[T]{Type: informer.Updated, Object: new, Old: old}
}

func (e events[T]) OnDelete(last T, final bool) {
	e <- informer.Event[T]{Type: informer.Deleted, Object: last, Final: final}
}

func (e events[T]) next(t *testing.T) informer.Event[T] {
	t.Helper()
	select {
	case event := <-e:
		return event
	case <-within(t, patience).Done():
		t.Fatal("the handler got no event")
		panic("unreachable")
	}
}

// want checks that the next event is this one.
func (e events[T]) want(t *testing.T, want informer.Event[T]) {
	t.Helper()
	if got := e.next(t); !reflect.DeepEqual(got, want) {
		t.Fatalf("event differs (-want +got):\n%s", diff(want, got))
	}
}

// none checks that there are no more events. It must follow a wait for a later change.
func (e events[T]) none(t *testing.T) {
	t.Helper()
	select {
	case event := <-e:
		t.Errorf("the handler also got: %s %s at %s", event.Type, informer.KeyOf(event.Object), event.Object.GetResourceVersion())
	default:
	}
}

// writer writes to the pods of one namespace with client-go.
type writer struct {
	*testing.T
	namespace string
}

func newWriter(t *testing.T) writer {
	t.Helper()
	return writer{t, newNamespace(t)}
}

// create creates a pod with a label. A finalizer keeps it after a deletion until release. So the server reports a deletion in two
// steps, with any time between them.
func (w writer) create(name, label string) *corev1.Pod {
	w.Helper()
	pod := cluster.NewPod(w.namespace, name)
	pod.Labels = map[string]string{"v": label, "test": w.namespace}
	pod.Finalizers = []string{"example.com/hold"}
	pod, err := clientset(w.T, runtime.ContentTypeProtobuf).CoreV1().Pods(w.namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return bare(pod)
}

func (w writer) patch(name, patch string, subresources ...string) *corev1.Pod {
	w.Helper()
	pods := clientset(w.T, runtime.ContentTypeProtobuf).CoreV1().Pods(w.namespace)
	pod, err := pods.Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresources...)
	if err != nil {
		w.Fatal(err)
	}
	return bare(pod)
}

func (w writer) label(name, label string) *corev1.Pod {
	w.Helper()
	return w.patch(name, `{"metadata":{"labels":{"v":"`+label+`"}}}`)
}

func (w writer) phase(name string, phase corev1.PodPhase) *corev1.Pod {
	w.Helper()
	return w.patch(name, `{"status":{"phase":"`+string(phase)+`"}}`, "status")
}

func (w writer) delete(name string) {
	w.Helper()
	pods := clientset(w.T, runtime.ContentTypeProtobuf).CoreV1().Pods(w.namespace)
	if err := pods.Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		w.Fatal(err)
	}
}

// release removes the finalizer.
func (w writer) release(name string) {
	w.Helper()
	w.patch(name, `{"metadata":{"finalizers":null}}`)
}

// kind is a Go type for pods.
type kind[T informer.Object] struct {
	// get returns the pod as client-go reads it.
	get func(w writer, name string) T
	// withVersion returns a copy with another resource version.
	withVersion func(obj T, resourceVersion string) T
	// answers returns the content type of the server's response to a client that requests contentType.
	answers func(contentType string) string
}

// scope is the part of the pods that an informer follows.
type scope struct {
	namespaces int // 0 for all
	labels     bool
}

// All namespaces are combined with a label, since other tests also have pods.
var scopes = []scope{{1, false}, {2, false}, {2, true}, {0, true}}

func (s scope) String() string {
	name := []string{"all namespaces", "one namespace", "two namespaces"}[s.namespaces]
	if s.labels {
		name += " with labels"
	}
	return name
}

// conform takes pods through all possible changes, in each mode and scope. It checks that a handler, the iterator and a late
// handler get each step, in order, with old and new as client-go reads them, and that the store and an index have it.
func conform[T informer.Object](t *testing.T, k kind[T]) {
	for _, s := range scopes {
		t.Run(s.String(), func(t *testing.T) {
			forEachMode(t, func(t *testing.T, m mode) { life(t, k, s, m) })
		})
	}
}

func life[T informer.Object](t *testing.T, k kind[T], s scope, m mode) {
	a, b, other := newWriter(t), newWriter(t), newWriter(t)
	resource := informer.Resource{GroupVersionResource: podsResource}
	switch s.namespaces {
	case 1:
		b = a
		fallthrough
	case 2:
		resource.Namespaces = slices.Compact([]string{a.namespace, b.namespace})
	}
	if s.labels {
		resource.LabelSelector = fmt.Sprintf("v notin (no, never), test in (%s, %s)", a.namespace, b.namespace)
	}
	a.create("there", "0")
	there := k.get(a, "there")
	outside := other.create("pod", "0")

	record := requests{keepBodies: true}
	config := configOf[T](t, m)
	inf := informer.New(newClient(t, m.contentType, &record), resource, config)
	byVersion := informer.NewIndex(inf, func(obj T) []string { return []string{obj.GetResourceVersion()} })
	told := []events[T]{newEvents[T](), newEvents[T]()}
	inf.Subscribe(told[0])
	ctx, cancel := context.WithCancel(t.Context())
	var iterating sync.WaitGroup
	iterating.Go(func() {
		for e := range inf.Changes(ctx) {
			told[1] <- e
		}
	})
	defer iterating.Wait()
	defer cancel()
	start(t, inf)
	want := func(e informer.Event[T]) {
		t.Helper()
		for _, told := range told {
			told.want(t, e)
		}
	}
	// wrote checks that the informer reads the written object.
	wrote := func(obj *corev1.Pod) T {
		t.Helper()
		if err := inf.WaitForObject(within(t, patience), obj); err != nil {
			t.Fatal(err)
		}
		now := k.get(b, obj.Name)
		if got, _ := inf.Store().Get(informer.KeyOf(obj)); !reflect.DeepEqual(got, now) {
			t.Fatalf("the object read differs from the written one (-written +read):\n%s", diff(now, got))
		}
		if got := byVersion.List(obj.ResourceVersion); !reflect.DeepEqual(got, []T{now}) {
			t.Fatalf("the index has %v at %s, want the written object", got, obj.ResourceVersion)
		}
		return now
	}
	want(informer.Event[T]{Type: informer.Added, Object: there, Initial: true})

	pod := wrote(b.create("pod", "1"))
	want(informer.Event[T]{Type: informer.Added, Object: pod})
	change := func(written *corev1.Pod) {
		t.Helper()
		old := pod
		pod = wrote(written)
		want(informer.Event[T]{Type: informer.Updated, Old: old, Object: pod})
	}
	change(b.label("pod", "2"))
	other.label("pod", "2")
	change(b.phase("pod", corev1.PodRunning))

	if s.labels {
		left := b.label("pod", "no")
		// The server sends the last state in the selector, with the version of the write that left it.
		want(informer.Event[T]{Type: informer.Deleted, Object: k.withVersion(pod, left.ResourceVersion), Final: true})
		if err := inf.WaitForObject(within(t, patience), left); err != nil { // C9: nothing to wait for
			t.Error(err)
		}
		storeEquals(t, inf, []T{there})
		b.label("pod", "never")
		pod = wrote(b.label("pod", "3"))
		want(informer.Event[T]{Type: informer.Added, Object: pod})
	}

	// H7: a late subscription.
	late := newEvents[T]()
	inf.Subscribe(late)
	present := []T{there, pod}
	slices.SortFunc(present, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	for _, obj := range present {
		late.want(t, informer.Event[T]{Type: informer.Added, Object: obj, Initial: true})
	}
	told = append(told, late)
	storeEquals(t, inf, present)

	b.delete("pod") // a finalizer holds it
	marked := k.get(b, "pod")
	want(informer.Event[T]{Type: informer.Updated, Old: pod, Object: marked})
	pod = marked
	deleted := func() {
		t.Helper()
		for i, told := range told {
			e, pod := told.next(t), pod
			if e.Type == informer.Updated && reflect.DeepEqual(e.Old, pod) { // the server marks a pod before the deletion
				e, pod = told.next(t), e.Object
			}
			if e.Type != informer.Deleted || !e.Final || e.Object.GetUID() != pod.GetUID() || !newer(e.Object, pod) {
				t.Errorf("follower %d got %s of %s at %s, final=%v; want the final state, deleted after %s",
					i, e.Type, e.Object.GetUID(), e.Object.GetResourceVersion(), e.Final, pod.GetResourceVersion())
			}
		}
	}
	b.release("pod")
	deleted()

	// Another pod with the same name, deleted at once.
	gone := pod
	pod = wrote(b.create("pod", "1"))
	if pod.GetUID() == gone.GetUID() {
		t.Errorf("the new pod has the UID of the old one")
	}
	want(informer.Event[T]{Type: informer.Added, Object: pod})
	b.release("pod")
	old := pod
	pod = k.get(b, "pod")
	want(informer.Event[T]{Type: informer.Updated, Old: old, Object: pod})
	b.delete("pod")
	deleted()

	if err := inf.WaitForObject(within(t, patience), outside); err != nil { // C9: nothing to wait for
		t.Error(err)
	}
	storeEquals(t, inf, []T{there})
	for _, told := range told {
		told.none(t)
	}
	if got, want := len(inf.Status().Reflectors), max(1, len(resource.Namespaces)); got != want {
		t.Errorf("%d reflectors, want one for each namespace, %d", got, want)
	}
	for _, r := range record.all() {
		if got, want := r.ContentType, k.answers(m.contentType); got != want && got != want+";stream=watch" {
			t.Errorf("the server responded with %q, want %s", got, want)
		}
		if parts := strings.Split(r.Path, "/"); s.namespaces > 0 && !slices.Contains(resource.Namespaces, parts[4]) {
			t.Errorf("the informer requested %s", r.Path)
		}
	}
	if _, only := any(pod).(*metav1.PartialObjectMetadata); only == (record.count("example.invalid/main") > 0) {
		t.Errorf("the server sent %d container images; metadata only is %v", record.count("example.invalid/main"), only)
	}
}

// newer compares resource versions as in KEP-5504: as decimal numbers without leading zeros.
func newer(a, b informer.Versioned) bool {
	x, y := a.GetResourceVersion(), b.GetResourceVersion()
	return len(x) > len(y) || len(x) == len(y) && x > y
}

// asAsked is for types that exist in both formats.
func asAsked(contentType string) string { return contentType }

// asJSON is for types whose client may request protobuf, but gets JSON.
func asJSON(string) string { return runtime.ContentTypeJSON }

// withVersion returns a copy of client-go's object with another resource version.
func withVersion[T interface {
	DeepCopy() T
	SetResourceVersion(string)
}](obj T, resourceVersion string) T {
	obj = obj.DeepCopy()
	obj.SetResourceVersion(resourceVersion)
	return obj
}

// Guarantees: H1, H2, H7, C9
func TestATypedPod(t *testing.T) {
	conform(t, kind[*corev1.Pod]{
		get: func(w writer, name string) *corev1.Pod {
			pod, err := clientset(w.T, runtime.ContentTypeProtobuf).CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
			if err != nil {
				w.Fatal(err)
			}
			return bare(pod)
		},
		withVersion: withVersion[*corev1.Pod],
		answers:     asAsked,
	})
}

// Guarantees: H1, H2, H7, C9
func TestAnUnstructuredPod(t *testing.T) {
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	conform(t, kind[*unstructured.Unstructured]{
		get: func(w writer, name string) *unstructured.Unstructured {
			obj, err := client.Resource(podsResource).Namespace(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
			if err != nil {
				w.Fatal(err)
			}
			return bare(obj)
		},
		withVersion: withVersion[*unstructured.Unstructured],
		answers:     asJSON,
	})
}

// Guarantees: H1, H2, H7, C9
func TestMetadataOnly(t *testing.T) {
	client := metadataClient(t)
	conform(t, kind[*metav1.PartialObjectMetadata]{
		get: func(w writer, name string) *metav1.PartialObjectMetadata {
			obj, err := client.Resource(podsResource).Namespace(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
			if err != nil {
				w.Fatal(err)
			}
			return bare(obj)
		},
		withVersion: withVersion[*metav1.PartialObjectMetadata],
		answers:     asAsked,
	})
}

// slimPod is a pod type with only the fields that some user needs.
type slimPod struct {
	Metadata struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Deleted         *metav1.Time      `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Containers []struct {
			Image string `json:"image"`
		} `json:"containers"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

func (p *slimPod) GetNamespace() string       { return p.Metadata.Namespace }
func (p *slimPod) GetName() string            { return p.Metadata.Name }
func (p *slimPod) GetUID() types.UID          { return p.Metadata.UID }
func (p *slimPod) GetResourceVersion() string { return p.Metadata.ResourceVersion }

// Guarantees: H1, H2, H7, C9
func TestASlimPod(t *testing.T) {
	conform(t, kind[*slimPod]{
		get: func(w writer, name string) *slimPod {
			raw, err := clientset(w.T, runtime.ContentTypeJSON).CoreV1().RESTClient().Get().
				Namespace(w.namespace).Resource("pods").Name(name).DoRaw(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			pod := &slimPod{}
			if err := json.Unmarshal(raw, pod); err != nil {
				w.Fatal(err)
			}
			return pod
		},
		withVersion: func(pod *slimPod, resourceVersion string) *slimPod {
			other := *pod
			other.Metadata.ResourceVersion = resourceVersion
			return &other
		},
		answers: asJSON,
	})
}

// wantLeft checks the event of an object that left the selector by a write: the server sends the last state in the selector,
// with the version of that write.
func wantLeft(t *testing.T, got informer.Event[*corev1.Pod], last, left *corev1.Pod) {
	t.Helper()
	last = last.DeepCopy()
	last.ResourceVersion = left.ResourceVersion
	want := informer.Event[*corev1.Pod]{Type: informer.Deleted, Object: last, Final: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("event differs (-want +got):\n%s", diff(want, got))
	}
}

func TestFieldSelectorEnteringIsAddLeavingIsDelete(t *testing.T) {
	forEachMode(t, func(t *testing.T, m mode) {
		w := newWriter(t)
		w.create("a", "1")
		w.create("b", "1")
		config := configOf[*corev1.Pod](t, m)
		inf := informer.New(newClient(t, m.contentType, nil), informer.Resource{
			GroupVersionResource: podsResource, Namespaces: []string{w.namespace}, FieldSelector: "status.phase=Running,metadata.name!=b",
		}, config)
		told := newEvents[*corev1.Pod]()
		inf.Subscribe(told)
		start(t, inf)
		told.none(t)

		w.phase("b", corev1.PodRunning)
		running := w.phase("a", corev1.PodRunning)
		told.want(t, informer.Event[*corev1.Pod]{Type: informer.Added, Object: running})
		labeled := w.label("a", "2")
		told.want(t, informer.Event[*corev1.Pod]{Type: informer.Updated, Old: running, Object: labeled})
		left := w.phase("a", corev1.PodFailed)
		wantLeft(t, told.next(t), labeled, left)
		told.none(t)
		storeEquals(t, inf, nil)
	})
}

// Guarantees: C9
func TestReadYourOwnWrites(t *testing.T) {
	forEachMode(t, func(t *testing.T, m mode) {
		w := newWriter(t)
		config := configOf[*corev1.Pod](t, m)
		inf := informer.New(newClient(t, m.contentType, nil), informer.Resource{GroupVersionResource: podsResource}, config)
		start(t, inf)
		ctx := within(t, patience)
		wait := func(pod *corev1.Pod, wait func() error) {
			t.Helper()
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			if got, _ := inf.Store().Get(informer.KeyOf(pod)); !reflect.DeepEqual(got, pod) {
				t.Fatalf("the object read differs from the written one (-written +read):\n%s", diff(pod, got))
			}
		}
		for i := range 20 {
			name := fmt.Sprintf("pod-%d", i)
			pod := w.create(name, "1")
			wait(pod, func() error { return inf.WaitForResourceVersion(ctx, pod.ResourceVersion) })
			pod = w.label(name, "2")
			wait(pod, func() error { return inf.WaitForObject(ctx, pod) })
			pod = w.phase(name, corev1.PodRunning)
			wait(pod, func() error {
				_, err := inf.Await(ctx, informer.KeyOf(pod), func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
				return err
			})
		}
		pod := w.label("pod-0", "3")
		w.delete("pod-0")
		w.release("pod-0")
		gone := func(p *corev1.Pod) bool { return p == nil }
		if _, err := inf.Await(ctx, informer.KeyOf(pod), gone); err != nil {
			t.Error(err)
		}
		if err := inf.WaitForObject(ctx, pod); err != nil { // deleted at a newer version
			t.Error(err)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		future := pod.DeepCopy()
		future.ResourceVersion += "0"
		if err := inf.WaitForObject(canceled, future); err == nil {
			t.Error("WaitForObject returned nil for a version that does not exist")
		}
	})
}
