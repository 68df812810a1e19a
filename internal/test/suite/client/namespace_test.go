package client

import (
	"context"
	"fmt"
	"net/http"
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
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

func wantStored(w world.World, inf *informer.Informer[*corev1.Pod], want ...string) {
	w.Helper()
	var got []string
	for pod := range inf.Store().All() {
		got = append(got, informer.KeyOf(pod).String()+" "+testkit.VersionOf(pod))
		if same, ok := inf.Store().Get(informer.KeyOf(pod)); !ok || same != pod {
			w.Errorf("All has %s, Get has %v", got[len(got)-1], same)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("stored (-want +got):\n%s", diff)
	}
}

// A list with an object of another namespace than requested is an error that names the object. The store gets nothing of the
// list.
//
// Guarantees: R22
func TestListWithAForeignNamespaceFailsAndStoresNothing(t *testing.T) {
	for _, filtered := range []bool{false, true} {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprintf("paged=%v,filtered=%v", paged, filtered), func(t *testing.T) {
				config := informer.Config[*corev1.Pod]{PagedList: paged}
				if filtered { // a filtered object also reveals a server that answers for another namespace
					config.Filter = func(meta *metav1.PartialObjectMetadata) bool { return meta.Namespace == "a" }
				}
				world.Bubble(t, func(w world.World) {
					inf, rec, ignored := namespaced(w, config)
					ignored.Store(true)
					ctx, cancel := context.WithCancel(w.Context())
					defer cancel()
					ended := make(chan error)
					go func() { ended <- inf.Run(ctx) }()
					short, cancelShort := context.WithTimeout(ctx, 5*time.Minute)
					defer cancelShort()
					err := inf.WaitSynced(short)
					if err == nil || !strings.Contains(err.Error(), "b/y instead of one of a") || !strings.Contains(err.Error(), "a/x instead of one of b") {
						w.Errorf("WaitSynced: %v", err)
					}
					wantStored(w, inf)
					rec.Want(w.T)
					ignored.Store(false)
					if err := inf.WaitSynced(w.Context()); err != nil {
						w.Fatal(err)
					}
					if filtered {
						wantStored(w, inf, "a/x 1")
					} else {
						wantStored(w, inf, "a/x 1", "b/y 1")
					}
					cancel()
					<-ended
				})
			})
		}
	}
}

// A watch event with an object of another namespace is an error that names the object, and a list follows. The object is not
// stored. If the other namespace is followed too, the object is neither changed nor deleted there.
//
// Guarantees: R22
func TestWatchWithAForeignNamespaceFailsAndLists(t *testing.T) {
	const object = `"uid":"u","resourceVersion":"50","labels":{"v":"2"}}`
	for name, frame := range map[string]string{
		"added":                      `{"type":"ADDED","object":{"metadata":{"namespace":"c","name":"z",` + object + `}}`,
		"modified":                   `{"type":"MODIFIED","object":{"metadata":{"namespace":"b","name":"y",` + object + `}}`,
		"deleted":                    `{"type":"DELETED","object":{"metadata":{"namespace":"b","name":"y",` + object + `}}`,
		"deleted and malformed":      `{"type":"DELETED","object":{"metadata":{"namespace":"b","name":"y",` + object + `,"spec":7}}`,
		"modified and malformed":     `{"type":"MODIFIED","object":{"metadata":{"namespace":"b","name":"y",` + object + `,"spec":7}}`,
		"none":                       `{"type":"ADDED","object":{"metadata":{"name":"y",` + object + `}}`,
		"none, deleted":              `{"type":"DELETED","object":{"metadata":{"name":"y",` + object + `}}`,
		"none, deleted, malformed":   `{"type":"DELETED","object":{"metadata":{"name":"y",` + object + `,"spec":7}}`,
		"behind one that is its own": `{"type":"MODIFIED","object":{"metadata":{"namespace":"a","name":"x","uid":"u","resourceVersion":"4","labels":{"v":"2"}}}}` + "\n" + `{"type":"DELETED","object":{"metadata":{"namespace":"b","name":"y",` + object + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				inf, rec, _ := namespaced(w, informer.Config[*corev1.Pod]{PagedList: true})
				defer world.Start(w.T, inf)()
				synctest.Wait()
				rec.Take() // in either order
				wantStored(w, inf, "a/x 1", "b/y 1")
				w.Server.ResetRequests()
				var once atomic.Bool
				w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
					if !world.AsksToWatch(r) || !strings.Contains(r.URL.Path, "/namespaces/a/") || once.Swap(true) {
						return false
					}
					rw.Header().Set("Content-Type", "application/json")
					fmt.Fprintln(rw, frame)
					http.NewResponseController(rw).Flush()
					<-r.Context().Done() // only the error ends this watch
					return true
				})
				w.Server.EndWatches()
				<-time.After(time.Minute)
				status := inf.Status().Reflectors[0]
				object := "b/y"
				switch {
				case name == "added":
					object = "c/z"
				case strings.HasPrefix(name, "none"):
					object = "/y"
				}
				if err := status.LastError; err == nil || !strings.Contains(err.Error(), "another namespace than requested: "+object+" instead of one of a") {
					w.Errorf("LastError: %v", err)
				}
				if status.Traffic.Lists != 2 || !status.WatchOpen || status.Stale != 0 {
					w.Errorf("no new list and watch: %+v", status)
				}
				if name == "behind one that is its own" { // its change counts until the list
					rec.Want(w.T, "delete a/x 1 final=false", "add a/x 2 initial=false", "delete a/x 2 final=false", "add a/x 1 initial=false")
				}
				rec.Want(w.T)
				wantStored(w, inf, "a/x 1", "b/y 1")
				w.Relabel("a", "x", "3")
				w.Relabel("b", "y", "3")
				if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
					w.Fatal(err)
				}
				wantStored(w, inf, "a/x 3", "b/y 3")
			})
		})
	}
}

// namespaced returns an informer of namespaces a and b, not yet started, and its recorder. While ignored is set, the server
// ignores the requested namespace and returns all. The server has pods a/x, b/y and c/z.
func namespaced(w world.World, config informer.Config[*corev1.Pod]) (inf *informer.Informer[*corev1.Pod], rec *testkit.Recorder[*corev1.Pod], ignored *atomic.Bool) {
	w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("b", "y", "v=1"), world.NewPod("c", "z", "v=1"))
	config.Logger = world.Quiet[*corev1.Pod]().Logger
	ignored = &atomic.Bool{}
	client := w.Client(func(c *rest.Config) {
		c.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return world.IgnoresNamespace{RoundTripper: next, Ignored: ignored}
		})
	})
	inf = informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"a", "b"}}, config)
	rec = &testkit.Recorder[*corev1.Pod]{}
	inf.Subscribe(rec)
	return inf, rec, ignored
}
