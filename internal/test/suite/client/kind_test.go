package client

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// encodeEvents returns the frames of events of a watch.
func encodeEvents(w world.World, media, event string, objects ...runtime.Object) (stream []byte) {
	w.Helper()
	for _, obj := range objects {
		stream = append(stream, world.Frame(media, event, w.Encoded(media, obj))...)
	}
	return stream
}

// strangers are what a server sends that mistakes one collection for another.
var strangers = map[string]struct {
	verb string // of the request: list, page, stream or watch
	sent func(w world.World, media string) []byte
	want string // a part of the error
}{
	"list of nodes": {"list", func(w world.World, media string) []byte {
		return w.Encoded(media, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "900"}, Items: []corev1.Node{*newNode("n")}})
	}, `a NodeList: the server sent another kind than requested: "Node" instead of "Pod"`},
	"empty list of nodes": {"list", func(w world.World, media string) []byte {
		return w.Encoded(media, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "900"}})
	}, "a NodeList"},
	"page of nodes": {"page", func(w world.World, media string) []byte {
		return w.Encoded(media, &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: "900"}, Items: []corev1.Node{*newNode("n")}})
	}, "a NodeList"},
	"initial event of a node": {"stream", func(w world.World, media string) []byte {
		return encodeEvents(w, media, "ADDED", newNode("n"))
	}, `"Node" instead of "Pod"`},
	"event of a node": {"watch", func(w world.World, media string) []byte {
		return encodeEvents(w, media, "ADDED", newNode("n"))
	}, `"Node" instead of "Pod"`},
	"secret of a pod's name": {"watch", func(w world.World, media string) []byte {
		return encodeEvents(w, media, "MODIFIED", newSecret())
	}, `"Secret" instead of "Pod"`},
	"deletion of a secret of a pod's name": {"watch", func(w world.World, media string) []byte {
		return encodeEvents(w, media, "DELETED", newSecret())
	}, `"Secret" instead of "Pod"`},
	"bookmark of nodes": {"watch", func(w world.World, media string) []byte {
		return encodeEvents(w, media, "BOOKMARK", &corev1.Node{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "900"}})
	}, `"Node" instead of "Pod"`},
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "u", ResourceVersion: "800"}}
}

func newSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "u", ResourceVersion: "800"}}
}

// A list, page, event or bookmark of another kind is an error that names both kinds. The store keeps its objects, and no
// handler sees anything. The informer recovers when the server does.
// Guarantees: R22
func TestAnotherKindChangesNothing(t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		for name, c := range strangers {
			t.Run(name+"/"+strings.TrimPrefix(media, "application/"), func(t *testing.T) {
				world.Bubble(t, func(w world.World) { anotherKind(w, media, c.verb, c.sent(w, media), c.want) })
			})
		}
	}
}

// anotherKind runs an informer that has two pods when sent answers one of its requests.
func anotherKind(w world.World, media, verb string, sent []byte, want string) {
	w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
	config := world.Quiet[*corev1.Pod]()
	config.PagedList, config.PageSize = verb == "list" || verb == "page", 1
	rec := &testkit.Recorder[*corev1.Pod]{}
	inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = media }), informer.Resource{GroupVersionResource: world.PodGVR}, config)
	inf.Subscribe(rec)
	defer world.Start(w.T, inf)()
	synctest.Wait()
	rec.Take()
	var expired, once atomic.Bool
	w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		parts := map[string]bool{"list": !q.Has("watch") && !q.Has("continue"), "page": q.Has("continue"),
			"stream": world.AsksToStream(r), "watch": world.AsksToWatch(r) && !world.AsksToStream(r)}
		if verb != "watch" && parts["watch"] && !expired.Swap(true) { // a list follows
			http.Error(rw, "expired", http.StatusGone)
			return true
		}
		if r.URL.Path != "/api/v1/pods" || !parts[verb] || once.Swap(true) {
			return false
		}
		world.Write(rw, media, sent)
		if verb == "stream" || verb == "watch" {
			<-r.Context().Done() // only the error ends this watch
		}
		return true
	})
	w.Server.EndWatches()
	<-time.After(2 * time.Minute)
	if !once.Load() {
		w.Fatal("the bad response was not sent")
	}
	rec.Want(w.T)
	world.EqualsServer(w, inf)
	if err := inf.Status().Reflectors[0].LastError; err == nil || !strings.Contains(err.Error(), want) {
		w.Errorf("LastError: %v, want %s", err, want)
	}
	w.Relabel("ns", "a", "2")
	world.EqualsServer(w, inf)
	rec.Want(w.T, "update ns/a 1->2")
}

// A read of an object or of a list that gets another kind is an error.
// Guarantees: R22
func TestReadOfAnotherKindFails(t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		world.Bubble(t, func(w world.World) {
			w.Create(world.NewPod("ns", "a", "v=1"))
			pods := informer.NewTypedClient[*corev1.Pod](w.Client(func(c *rest.Config) { c.ContentType = media }), world.PodGVR)
			if pod, err := pods.Get(w.Context(), world.KeyA, metav1.GetOptions{}); err != nil || pod.Name != "a" {
				w.Error(pod, err)
			}
			w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
				obj := runtime.Object(newSecret())
				if r.URL.Path == "/api/v1/namespaces/ns/pods" {
					obj = &corev1.SecretList{Items: []corev1.Secret{*newSecret()}}
				}
				world.Write(rw, media, w.Encoded(media, obj))
				return true
			})
			if _, err := pods.Get(w.Context(), world.KeyA, metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), `"Secret" instead of "Pod"`) {
				w.Errorf("Get: %v", err)
			}
			if list, _, err := pods.List(w.Context(), "ns", metav1.ListOptions{}); err == nil || len(list) > 0 || !strings.Contains(err.Error(), "a SecretList") {
				w.Errorf("List: %v, %v", list, err)
			}
		})
	}
}

// An audit whose response is a list of another kind has failed: it finds no difference, and the store keeps its objects. The
// next one finds the store right.
// Guarantees: R22, R23
func TestAuditOfAnotherKindFails(t *testing.T) {
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		for name, list := range map[string]runtime.Object{
			"nodes":    &corev1.NodeList{Items: []corev1.Node{*newNode("n")}},
			"no nodes": &corev1.NodeList{},
			"a node":   newNode("n"),
		} {
			t.Run(name+"/"+strings.TrimPrefix(media, "application/"), func(t *testing.T) {
				world.Bubble(t, func(w world.World) { auditOfAnotherKind(w, media, list) })
			})
		}
	}
}

// auditOfAnotherKind answers an audit of an informer that has two pods with that object.
func auditOfAnotherKind(w world.World, media string, list runtime.Object) {
	w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
	rec := &testkit.Recorder[*corev1.Pod]{}
	inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = media }), informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
	inf.Subscribe(rec)
	defer world.Start(w.T, inf)()
	synctest.Wait()
	rec.Take()
	list = list.DeepCopyObject()
	if nodes, ok := list.(*corev1.NodeList); ok {
		nodes.ResourceVersion = inf.Store().ResourceVersion()
	}
	w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
		audits := r.URL.Query().Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchExact)
		if audits {
			world.Write(rw, media, w.Encoded(media, list))
		}
		return audits
	})
	_, err := inf.Audit(w.Context())
	if err == nil || !strings.Contains(err.Error(), "Node") || !strings.Contains(err.Error(), "list") {
		w.Errorf("the audit returned %v", err)
	}
	<-time.After(time.Minute)
	rec.Want(w.T)
	if s := inf.Status(); s.Audit.Failed != 1 || s.Audit.Different != 0 || s.Audit.LastError == nil || s.Reflectors[0].Traffic.Lists != 1 {
		w.Errorf("audits %+v, %d lists", s.Audit, s.Reflectors[0].Traffic.Lists)
	}
	w.Answer(nil)
	if r, err := inf.Audit(w.Context()); err != nil || r.Differ != 0 || r.Objects != 2 {
		w.Errorf("the next audit: %+v, %v", r, err)
	}
}
