package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
)

// events is a handler that hands over what it is told, one by one.
type events[T informer.Object] chan informer.Event[T]

// newEvents has room for all that a test makes happen: a handler that waits would have changes fold.
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
		t.Fatal("the handler was told of nothing")
		panic("unreachable")
	}
}

// want checks that the next event is exactly that.
func (e events[T]) want(t *testing.T, want informer.Event[T]) {
	t.Helper()
	if got := e.next(t); !reflect.DeepEqual(got, want) {
		t.Fatalf("event differs (-want +got):\n%s", diff(want, got))
	}
}

// none checks that nothing was told. Only after a wait for something that comes later.
func (e events[T]) none(t *testing.T) {
	t.Helper()
	select {
	case event := <-e:
		t.Errorf("the handler was told also: %s %s at %s", event.Type, informer.KeyOf(event.Object), event.Object.GetResourceVersion())
	default:
	}
}

// writer writes to the pods of one namespace, by client-go.
type writer struct {
	*testing.T
	namespace string
}

func newWriter(t *testing.T) writer {
	t.Helper()
	return writer{t, newNamespace(t)}
}

// create creates a pod with a label. A finalizer holds it when it is deleted, until release: so that the server tells
// of a deletion in two steps, with as much time between them as one likes.
func (w writer) create(name, label string) *corev1.Pod {
	w.Helper()
	pod := cluster.NewPod(w.namespace, name)
	pod.Labels = map[string]string{"v": label}
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

// lifecycle takes a pod from its creation to its end, and checks that the handler is told of each step, in order, with
// old and new as client-go reads them: get returns the pod as it is now.
func lifecycle[T informer.Object](t *testing.T, contentType string, config informer.Config[T], get func(w writer, name string) T) *requests {
	w := newWriter(t)
	w.create("there", "0")
	there := get(w, "there")
	record := requests{keepBodies: true}
	inf := informer.New(newClient(t, contentType, &record), informer.Resource{GroupVersionResource: podsResource, Namespaces: []string{w.namespace}}, config)
	told := newEvents[T]()
	inf.Subscribe(told)
	start(t, inf)
	told.want(t, informer.Event[T]{Type: informer.Added, Object: there, Initial: true})

	w.create("pod", "1")
	states := []T{get(w, "pod")}
	told.want(t, informer.Event[T]{Type: informer.Added, Object: states[0]})
	for _, write := range []func(){
		func() { w.label("pod", "2") },
		func() { w.phase("pod", corev1.PodRunning) },
		func() { w.delete("pod") },
	} {
		write()
		states = append(states, get(w, "pod"))
		told.want(t, informer.Event[T]{Type: informer.Updated, Old: states[len(states)-2], Object: states[len(states)-1]})
	}
	w.release("pod")
	event, before := told.next(t), states[len(states)-1]
	if event.Type != informer.Deleted || !event.Final || event.Object.GetUID() != before.GetUID() || !newer(event.Object, before) {
		t.Errorf("the handler was told %s of %s at %s, final=%v; want the final state, deleted after %s",
			event.Type, event.Object.GetUID(), event.Object.GetResourceVersion(), event.Final, before.GetResourceVersion())
	}
	w.release("there")
	w.delete("there")
	for event = told.next(t); event.Type != informer.Deleted; event = told.next(t) {
		if event.Type != informer.Updated || event.Old != there && event.Old.GetResourceVersion() != there.GetResourceVersion() {
			t.Errorf("the handler was told %s at %s after %s", event.Type, event.Object.GetResourceVersion(), there.GetResourceVersion())
		}
		there = event.Object
	}
	told.none(t)
	if inf.Store().Len() != 0 {
		t.Errorf("store has %d pods, want none", inf.Store().Len())
	}
	return &record
}

// newer compares resource versions as KEP-5504 says: as decimal numbers without leading zeros.
func newer(a, b informer.Versioned) bool {
	x, y := a.GetResourceVersion(), b.GetResourceVersion()
	return len(x) > len(y) || len(x) == len(y) && x > y
}

func TestH1H2_EventsOfATypedPod(t *testing.T) {
	forEachMode(t, func(t *testing.T, m mode) {
		config := logged[*corev1.Pod](t)
		config.PagedList = m.paged
		lifecycle(t, m.contentType, config, func(w writer, name string) *corev1.Pod {
			pod, err := clientset(t, m.contentType).CoreV1().Pods(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return bare(pod)
		})
	})
}

func TestH1H2_EventsOfAnUnstructuredPod(t *testing.T) {
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	forEachMode(t, func(t *testing.T, m mode) {
		config := logged[*unstructured.Unstructured](t)
		config.PagedList = m.paged
		// Protobuf can be asked for, and is not had for such a type.
		record := lifecycle(t, m.contentType, config, func(w writer, name string) *unstructured.Unstructured {
			obj, err := client.Resource(podsResource).Namespace(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return bare(obj)
		})
		for _, r := range record.all() {
			if r.ContentType != runtime.ContentTypeJSON {
				t.Errorf("the server answered with %q", r.ContentType)
			}
		}
	})
}

func TestH1H2_EventsOfMetadataOnly(t *testing.T) {
	forEachMode(t, func(t *testing.T, m mode) {
		restConfig := server.Config()
		restConfig.ContentType, restConfig.AcceptContentTypes = m.contentType, m.contentType
		client, err := metadata.NewForConfig(restConfig)
		if err != nil {
			t.Fatal(err)
		}
		config := logged[*metav1.PartialObjectMetadata](t)
		config.PagedList = m.paged
		record := lifecycle(t, m.contentType, config, func(w writer, name string) *metav1.PartialObjectMetadata {
			obj, err := client.Resource(podsResource).Namespace(w.namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return bare(obj)
		})
		for _, r := range record.all() {
			if !strings.HasPrefix(r.ContentType, m.contentType) {
				t.Errorf("the server answered with %q, want %s", r.ContentType, m.contentType)
			}
		}
		if record.count("PartialObjectMetadata") == 0 || record.count("example.invalid/main") != 0 {
			t.Errorf("the server sent PartialObjectMetadata %d times, and %d images of containers; want metadata only",
				record.count("PartialObjectMetadata"), record.count("example.invalid/main"))
		}
	})
}

// slimPod is a pod as someone may declare it who needs no more of it.
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

func TestH1H2_EventsOfASlimPod(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			config := logged[*slimPod](t)
			config.PagedList = paged
			lifecycle(t, "", config, func(w writer, name string) *slimPod {
				raw, err := clientset(t, runtime.ContentTypeJSON).CoreV1().RESTClient().Get().
					Namespace(w.namespace).Resource("pods").Name(name).DoRaw(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				pod := &slimPod{}
				if err := json.Unmarshal(raw, pod); err != nil {
					t.Fatal(err)
				}
				return pod
			})
		})
	}
}

func TestLabelSelectorEnteringIsAddLeavingIsDelete(t *testing.T) {
	forEachMode(t, func(t *testing.T, m mode) {
		w := newWriter(t)
		in := w.create("in", "yes")
		w.create("out", "no")
		config := logged[*corev1.Pod](t)
		config.PagedList = m.paged
		inf := informer.New(newClient(t, m.contentType, nil), informer.Resource{
			GroupVersionResource: podsResource, Namespaces: []string{w.namespace}, LabelSelector: "v in (yes, maybe)",
		}, config)
		told := newEvents[*corev1.Pod]()
		inf.Subscribe(told)
		start(t, inf)
		told.want(t, informer.Event[*corev1.Pod]{Type: informer.Added, Object: in, Initial: true})
		told.none(t)

		w.label("out", "never")
		out := w.label("out", "maybe")
		told.want(t, informer.Event[*corev1.Pod]{Type: informer.Added, Object: out})
		inside := w.label("out", "yes")
		told.want(t, informer.Event[*corev1.Pod]{Type: informer.Updated, Old: out, Object: inside})
		left := w.label("out", "no")
		wantLeft(t, told.next(t), inside, left)
		back := w.label("out", "yes")
		told.want(t, informer.Event[*corev1.Pod]{Type: informer.Added, Object: back})
		told.none(t)
		storeEquals(t, inf, []*corev1.Pod{in, back})

		// A write that the selector leaves out is nothing to wait for.
		if err := inf.WaitForObject(within(t, patience), w.label("in", "no")); err != nil {
			t.Error(err)
		}
	})
}

// wantLeft checks the event of an object that a write made leave the selector: the server sends the last state inside,
// at the version of that write.
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
		config := logged[*corev1.Pod](t)
		config.PagedList = m.paged
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

func TestSeveralNamespacesInOneInformer(t *testing.T) {
	forEachMode(t, func(t *testing.T, m mode) {
		a, b, other := newWriter(t), newWriter(t), newWriter(t)
		config := logged[*corev1.Pod](t)
		config.PagedList = m.paged
		var record requests
		inf := informer.New(newClient(t, m.contentType, &record), informer.Resource{
			GroupVersionResource: podsResource, Namespaces: []string{a.namespace, b.namespace},
		}, config)
		byLabel := informer.NewIndex(inf, func(p *corev1.Pod) []string { return []string{p.Labels["v"]} })
		inA, inB := a.create("pod", "1"), b.create("pod", "1")
		outside := other.create("pod", "1")
		told := newEvents[*corev1.Pod]()
		sub := inf.Subscribe(told)
		start(t, inf)
		if err := sub.WaitSynced(within(t, patience)); err != nil {
			t.Fatal(err)
		}
		initial := map[string]informer.Event[*corev1.Pod]{}
		for range 2 {
			e := told.next(t)
			initial[e.Object.Namespace] = e
		}
		want := map[string]informer.Event[*corev1.Pod]{
			a.namespace: {Type: informer.Added, Object: inA, Initial: true},
			b.namespace: {Type: informer.Added, Object: inB, Initial: true},
		}
		if diff := gocmp.Diff(want, initial); diff != "" {
			t.Errorf("initial events (-want +got):\n%s", diff)
		}
		storeEquals(t, inf, sorted([]*corev1.Pod{inA, inB}))

		for _, w := range []writer{b, a, b} {
			before, _ := inf.Store().Get(informer.Key{Namespace: w.namespace, Name: "pod"})
			other.label("pod", before.ResourceVersion)
			after := w.label("pod", before.ResourceVersion)
			told.want(t, informer.Event[*corev1.Pod]{Type: informer.Updated, Old: before, Object: after})
			if got := byLabel.List(before.ResourceVersion); !reflect.DeepEqual(got, []*corev1.Pod{after}) {
				t.Errorf("index has %v, want just the pod of %s", got, w.namespace)
			}
		}
		told.none(t)
		if err := inf.WaitForObject(within(t, patience), outside); err != nil { // C9: nothing to wait for
			t.Error(err)
		}
		for _, r := range record.all() {
			if ns := strings.Split(r.Path, "/")[4]; ns != a.namespace && ns != b.namespace {
				t.Errorf("the informer asked for %s", r.Path)
			}
		}
		if got := len(inf.Status().Reflectors); got != 2 {
			t.Errorf("%d reflectors, want one for each namespace", got)
		}
	})
}

func TestC9_ReadYourOwnWrites(t *testing.T) {
	forEachMode(t, func(t *testing.T, m mode) {
		w := newWriter(t)
		config := logged[*corev1.Pod](t)
		config.PagedList = m.paged
		inf := informer.New(newClient(t, m.contentType, nil), informer.Resource{GroupVersionResource: podsResource}, config)
		start(t, inf)
		ctx := within(t, patience)
		wait := func(pod *corev1.Pod, wait func() error) {
			t.Helper()
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			if got, _ := inf.Store().Get(informer.KeyOf(pod)); !reflect.DeepEqual(got, pod) {
				t.Fatalf("read something else than was written (-written +read):\n%s", diff(pod, got))
			}
		}
		for i := range 20 {
			name := fmt.Sprintf("pod-%d", i)
			pod := w.create(name, "1")
			wait(pod, func() error { return inf.WaitFor(ctx, pod.ResourceVersion) })
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
		if err := inf.WaitForObject(ctx, pod); err != nil { // gone at a newer version
			t.Error(err)
		}
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		future := pod.DeepCopy()
		future.ResourceVersion += "0"
		if err := inf.WaitForObject(canceled, future); err == nil {
			t.Error("a version that is not there was waited for")
		}
	})
}
