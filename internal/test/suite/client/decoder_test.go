package client

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/test/world"
)

// A Transform may write to its whole object, even with LayoutShared: the object shares no memory with others or older versions.
// Guarantees: R20, D2
func TestTransformWritesToItsObjectOnly(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Labels["mine"] = p.Name
			if p.Labels["v"] == "2" {
				p.Spec.NodeSelector["x"] = "changed"
				p.Spec.Containers[0].Image = "changed"
			}
			return p, nil
		}
		names := []string{"a"}
		const pods = 300 // a decoder starts to share after some dozen
		for i := range pods {
			names = append(names, fmt.Sprint("p", i))
		}
		for _, name := range names { // equal except for the name
			pod := world.NewPod("ns", name, "v=1")
			pod.Spec.NodeSelector = map[string]string{"x": "y"}
			w.Create(pod)
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		before := world.Held(inf)
		w.Relabel("ns", "a", "2")
		synctest.Wait()
		check := func(p *corev1.Pod, x, image string) {
			if p.Labels["mine"] != p.Name || p.Spec.NodeSelector["x"] != x || p.Spec.Containers[0].Image != image {
				w.Errorf("%s: labels %v, node selector %v, containers %v", p.Name, p.Labels, p.Spec.NodeSelector, p.Spec.Containers)
			}
		}
		for _, p := range before {
			check(p, "y", "i")
		}
		check(world.Held(inf)["a"], "changed", "changed")
	})
}

// With LayoutShared, objects share what Transform left as it was, also with new versions.
// Guarantees: R20, D2
func TestShareBesidesTransform(t *testing.T) {
	// Each decoder has its own memory of values to share, and there is one for each goroutine that decodes. The race
	// detector makes a pool forget some, and a collection all: so there is one processor, and no collection.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		if config.Layout != informer.LayoutShared {
			return
		}
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			delete(p.Labels, "v")
			p.Spec.Volumes = nil
			return p, nil
		}
		const pods = 300 // a decoder starts to share after some dozen
		for i := range pods {
			pod := world.NewPod("ns", fmt.Sprint("p", i), "v=1")
			pod.Spec.NodeSelector = map[string]string{"x": "y"}
			pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
			w.Create(pod)
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		sharing := map[*corev1.Container]int{}
		check := func(p *corev1.Pod) {
			sharing[&p.Spec.Containers[0]]++
			if len(p.Spec.Volumes) > 0 || p.Labels["v"] != "" || p.Spec.NodeSelector["x"] != "y" {
				w.Errorf("%s: labels %v, node selector %v, volumes %v", p.Name, p.Labels, p.Spec.NodeSelector, p.Spec.Volumes)
			}
		}
		before := world.Held(inf)
		for _, p := range before {
			check(p)
		}
		if len(sharing) > pods/3 {
			w.Errorf("%d objects have %d containers", pods, len(sharing))
		}
		w.Relabel("ns", "p7", "2")
		synctest.Wait()
		check(world.Held(inf)["p7"])
		if now := world.Held(inf)["p7"]; now == before["p7"] || &now.Spec.Containers[0] != &before["p7"].Spec.Containers[0] {
			w.Error("a new version shares nothing with the one before")
		}
	})
}

// A new version of an object shares its unchanged parts with the version before, from a watch and from a list.
func TestNewVersionKeepsWhatDidNotChange(t *testing.T) {
	// With LayoutCompact, nobody holds the new version until the test reads it. A collection in between would free it, and the
	// read would decode it without the version before.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		check := func(before *corev1.Pod, version string) *corev1.Pod {
			now := world.Held(inf)["a"]
			if now == before || now.Labels["v"] != version || before.Labels["v"] == version {
				w.Fatalf("labels %v after %v, want v=%s", now.Labels, before.Labels, version)
			}
			if &now.Spec.Containers[0] != &before.Spec.Containers[0] {
				w.Errorf("version %s does not share its containers", version)
			}
			return now
		}
		first := world.Held(inf)["a"]
		w.Relabel("ns", "a", "2")
		synctest.Wait()
		second := check(first, "2")

		w.Server.Stop()
		w.Relabel("ns", "a", "3")
		w.Server.Compact()
		w.Server.Start()
		<-time.After(5 * time.Minute)
		if lists := inf.Status().Reflectors[0].Traffic.Lists; lists != 2 {
			w.Errorf("listed %d times, want 2", lists)
		}
		check(second, "3")
	})
}

// sendsJSON returns a handler that rejects streaming lists, sends list for lists, and sends watch and stays open for watches.
func sendsJSON(list, watch string) func(http.ResponseWriter, *http.Request) bool {
	return func(rw http.ResponseWriter, r *http.Request) bool {
		rw.Header().Set("Content-Type", "application/json")
		switch q := r.URL.Query(); {
		case q.Has("sendInitialEvents"):
			rw.WriteHeader(http.StatusBadRequest)
		case q.Has("watch"):
			fmt.Fprint(rw, watch)
			http.NewResponseController(rw).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(rw, list)
		}
		return true
	}
}

// A list item without a kind gets the kind that the list names. An item with a kind keeps it. A watched object has only
// the kind that it states.
func TestKindOfAnItemIsItsOwnOrTheListsOne(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Answer(sendsJSON(
			`{"kind":"GadgetList","apiVersion":"x/v1","metadata":{"resourceVersion":"5"},"items":[
				{"metadata":{"name":"a","uid":"a","resourceVersion":"1"}},
				{"kind":"Gadget","apiVersion":"x/v2","metadata":{"name":"b","uid":"b","resourceVersion":"2"}}]}`,
			`{"type":"ADDED","object":{"metadata":{"name":"c","uid":"c","resourceVersion":"6"}}}`+"\n",
		))
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*unstructured.Unstructured]())
		defer world.Start(w.T, inf)()
		synctest.Wait()
		var got []string
		for u := range inf.Store().All() {
			got = append(got, fmt.Sprintf("%s: %s %s", u.GetName(), u.GetAPIVersion(), u.GetKind()))
		}
		if diff := cmp.Diff([]string{"a: x/v1 Gadget", "b: x/v2 Gadget", "c:  "}, got); diff != "" {
			w.Errorf("kinds (-want +got):\n%s", diff)
		}
	})
}

// managed has a field named managedFields in its spec, not in its metadata.
type managed struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ManagedFields []string `json:"managedFields"`
		Size          int      `json:"size"`
	} `json:"spec"`
}

// Only managedFields in metadata are dropped.
// Guarantees: R21
func TestManagedFieldsBesideMetadataStay(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		object := func(name, rv string) string {
			return fmt.Sprintf(`{"metadata":{"name":%q,"uid":"u","resourceVersion":%q,"managedFields":[{"manager":"m"}]},"spec":{"managedFields":["x","y"],"size":1}}`, name, rv)
		}
		w.Answer(sendsJSON(
			`{"kind":"GadgetList","metadata":{"resourceVersion":"5"},"items":[`+object("a", "1")+`]}`,
			`{"type":"ADDED","object":`+object("b", "6")+"}\n",
		))
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*managed]())
		defer world.Start(w.T, inf)()
		synctest.Wait()
		if inf.Store().Len() != 2 {
			w.Errorf("%d objects", inf.Store().Len())
		}
		for g := range inf.Store().All() {
			if len(g.Spec.ManagedFields) != 2 || g.Spec.Size != 1 || g.ManagedFields != nil {
				w.Errorf("%+v", g)
			}
		}
	})
}

// A frame of a watch may span several lines, broken anywhere.
// Guarantees: R22
func TestFramesOfSeveralLines(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Answer(sendsJSON(`{"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[]}`,
			`{"type":"ADDED","object":{"metadata":{"name":"a","uid":"a","resourceVersion":"6"}`+"\n"+`,"spec":{"nodeName":"n"}}}`+"\n"+
				`{"type":"ADDED","object":{"metadata":{"name":"b","uid":"b","resourceVersion":"7"}`+"\n\n"+`}`+"\n"+`}`+"\n"+
				`{"type":"ADDED","object":{"metadata":{"name":"c","uid":"c","resourceVersion":"8","labels":{"x":"y"}`+"\n"+`}}}`+"\n"+
				`{"type":"ADDED","object":{"metadata":{"name":"d","uid":"d","resourceVersion":"9"},"spec":{"containers":[{"name":"1"}`+"\n"+`,`+"\n"+`{"name":"2"}]}}}`+"\n",
		))
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		synctest.Wait()
		var got []string
		for p := range inf.Store().All() {
			got = append(got, fmt.Sprintf("%s %s %v %d", p.Name, p.Spec.NodeName, p.Labels, len(p.Spec.Containers)))
		}
		if diff := cmp.Diff([]string{"a n map[] 0", "b  map[] 0", "c  map[x:y] 0", "d  map[] 2"}, got); diff != "" {
			w.Errorf("objects (-want +got):\n%s", diff)
		}
		if s := inf.Status().Reflectors[0]; s.DecodeErrors != 0 || s.Failures != 0 || s.Traffic.Watches != 2 {
			w.Errorf("status %+v", s)
		}
	})
}

// Protobuf allows a field to occur twice; the decoder merges the two. Objects decode as in client-go, whichever decoder
// accepts them.
func TestProtobufFieldsTwice(t *testing.T) {
	metadata := func(object []byte) []byte { // the object's first field
		size, n := binary.Uvarint(object[1:])
		return object[:1+n+int(size)]
	}
	for name, rewrite := range map[string]func(object []byte) []byte{
		"all":             func(object []byte) []byte { return slices.Concat(object, object) },
		"metadata":        func(object []byte) []byte { return slices.Concat(metadata(object), object) },
		"metadata behind": func(object []byte) []byte { return slices.Concat(object, metadata(object)) },
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				want := &corev1.Pod{}
				w.Server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
					if key != world.KeyA {
						return object
					}
					object = rewrite(object)
					if err := want.Unmarshal(object); err != nil {
						w.Error(err)
					}
					want.ManagedFields = nil
					return object
				}})
				pod := world.NewPod("ns", "a", "v=1")
				pod.Finalizers = []string{"x/y"}
				w.Create(pod)
				client := w.Client(func(c *rest.Config) { c.ContentType = "application/vnd.kubernetes.protobuf" })
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
				defer world.Start(w.T, inf)()
				got, _ := inf.Store().Get(world.KeyA)
				if diff := cmp.Diff(want, got); diff != "" {
					w.Errorf("decoded (-client-go +informer):\n%s", diff)
				}
			})
		})
	}
}

// slow is a field whose decoding calls decodes.
type slow struct{}

var decodes atomic.Pointer[func()]

func (*slow) UnmarshalJSON([]byte) error { (*decodes.Load())(); return nil }

// slowPod is a pod whose spec takes time.
type slowPod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              *slow `json:"spec"`
}

// An informer decodes four objects at a time, however many namespaces it has, and calls one of its configuration's functions
// at a time. Decoding continues meanwhile.
func TestInformerOfManyNamespacesDecodesFourAtOnce(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		const perNamespace = 20
		var namespaces []string
		for i := range 10 {
			namespaces = append(namespaces, fmt.Sprint("ns-", i))
			for j := range perNamespace {
				w.Create(world.NewPod(namespaces[i], fmt.Sprint(j)))
			}
		}
		config := world.Paged[*slowPod]()
		var calls, decoded atomic.Int32
		config.Transform = func(pod *slowPod) (*slowPod, error) {
			if calls.Add(1) > 1 {
				t.Error("Transform runs twice at once")
			}
			time.Sleep(100 * time.Millisecond)
			calls.Add(-1)
			decoded.Add(1)
			return pod, nil
		}
		var decoding, most atomic.Int32
		wait := func() {
			n := decoding.Add(1)
			for have := most.Load(); n > have && !most.CompareAndSwap(have, n); have = most.Load() {
			}
			time.Sleep(100 * time.Millisecond)
			decoding.Add(-1)
		}
		decodes.Store(&wait)
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: namespaces}, config)
		defer world.Start(w.T, inf)()
		if most.Load() != run.MaxWorkers || decoded.Load() != perNamespace*10 || inf.Store().Len() != perNamespace*10 {
			t.Errorf("%d objects were decoded at once, want %d; %d in all", most.Load(), run.MaxWorkers, decoded.Load())
		}
	})
}
