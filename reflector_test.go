package informer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// fault is a middleware that a test can put in the way. do returns whether it has answered.
type fault struct {
	do atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

func (f *fault) set(do func(w http.ResponseWriter, r *http.Request) bool) { f.do.Store(&do) }

func (f *fault) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if do := f.do.Load(); do == nil || !(*do)(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// faulty runs test with a fault to set, an informer of pods that has not started, and its recorder.
func faulty(t *testing.T, config informer.Config[*corev1.Pod], test func(w world, f *fault, inf *informer.Informer[*corev1.Pod], rec *recorder[*corev1.Pod])) {
	t.Helper()
	f := &fault{}
	bubble(t, informertest.Options{Middleware: f.middleware}, func(w world) {
		config.Logger = quiet[*corev1.Pod]().Logger
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, config)
		rec := &recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		test(w, f, inf, rec)
	})
}

func (w world) wantRequests(want ...string) {
	w.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, w.requests()); diff != "" {
		w.Errorf("requests (-want +got):\n%s", diff)
	}
	w.server.ResetRequests()
}

func TestR12L2_ConnectionRefused(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		var dials atomic.Int32
		refuse := atomic.Bool{}
		refuse.Store(true)
		client := w.client(func(c *rest.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				if refuse.Load() {
					return nil, errors.New("connection refused")
				}
				return dial(ctx, network, address)
			}
		})
		w.create(newPod("ns", "a"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		wait, cancelWait := context.WithTimeout(ctx, 10*time.Minute)
		defer cancelWait()
		err := inf.WaitSynced(wait)
		var unsynced *informer.NotSyncedError
		if !errors.As(err, &unsynced) || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "v1 pods") {
			w.Errorf("WaitSynced: %v", err)
		}
		// Full jitter up to 30 s makes 15 s on average, so some 45 in 10 minutes; the first are quicker.
		if n := dials.Load(); n < 25 || n > 90 {
			w.Errorf("%d connections in 10 minutes", n)
		}
		refuse.Store(false)
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Error(err)
		}
		refuse.Store(true)
		w.server.CloseConnections()
		<-time.After(time.Minute) // in backoff now
		began := time.Now()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			w.Errorf("Run: %v after %v", err, time.Since(began))
		}
	})
}

func TestR13_WaitSyncedTellsWhy(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		w.server.Inject(informertest.Fault{Error: forbidden})
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		if err := inf.WaitSynced(ctx); !apierrors.IsForbidden(err) {
			w.Errorf("WaitSynced: %v", err)
		}
		<-ended
		if err := inf.Status().Reflectors[0].LastError; !apierrors.IsForbidden(err) {
			w.Errorf("LastError: %v", err)
		}
	})
}

func TestR14_AbsentResource(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: gvr}, quiet[*corev1.ConfigMap]())
		config := quiet[*corev1.ConfigMap]()
		config.AbsentIsSynced = true
		content := informer.New(w.client(), informer.Resource{GroupVersionResource: gvr}, config)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go inf.Run(ctx)
		defer start(w.T, content)()
		short, cancelShort := context.WithTimeout(ctx, time.Minute)
		defer cancelShort()
		if err := inf.WaitSynced(short); err == nil || !strings.Contains(err.Error(), "Absent") {
			w.Errorf("WaitSynced: %v", err)
		}
		served := informertest.Register[*corev1.ConfigMap](w.server, informertest.Resource{GroupVersionResource: gvr})
		if _, err := served.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}); err != nil {
			w.Fatal(err)
		}
		if err := inf.WaitSynced(ctx); err != nil || inf.Store().Len() != 1 {
			w.Errorf("%v, %d objects", err, inf.Store().Len())
		}
	})
}

// An event that comes between the initial ones counts, and only the bookmark makes the list a list.
func TestR16_InitialEventsDoNotMoveTheVersion(t *testing.T) {
	faulty(t, informer.Config[*corev1.Pod]{}, func(w world, f *fault, inf *informer.Informer[*corev1.Pod], rec *recorder[*corev1.Pod]) {
		frame := func(event, name, rv, v string) string {
			return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns","name":%q,"uid":%q,"resourceVersion":%q,"labels":{"v":%q}}}}`+"\n", event, name, name, rv, v)
		}
		goOn := make(chan struct{})
		var requests atomic.Int32
		f.set(func(rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			switch requests.Add(1) {
			case 1: // breaks before the bookmark: nothing of it counts, and the next one begins anew
				fmt.Fprint(rw, frame("ADDED", "x", "50", "1"), `{"type":"ADD`)
			case 2:
				fmt.Fprint(rw, frame("ADDED", "a", "5", "1"), frame("ADDED", "b", "90", "1"), frame("ADDED", "c", "7", "1"))
				fmt.Fprint(rw, frame("MODIFIED", "a", "91", "2"), frame("DELETED", "c", "92", "1"), frame("ADDED", "d", "93", "1"))
				http.NewResponseController(rw).Flush()
				<-goOn
				fmt.Fprint(rw, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"95","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
				http.NewResponseController(rw).Flush()
				<-goOn
				fmt.Fprint(rw, frame("MODIFIED", "b", "96", "2"))
			default:
				<-r.Context().Done()
			}
			return true
		})
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go inf.Run(ctx)
		<-time.After(5 * time.Second)
		if rv := inf.Status().Reflectors[0].ResourceVersion; rv != "" || inf.Store().Len() != 0 {
			w.Errorf("before the bookmark: rv %q, %d objects", rv, inf.Store().Len())
		}
		goOn <- struct{}{}
		rec.want(w.T, "add ns/a 2 initial=true", "add ns/b 1 initial=true", "add ns/d 1 initial=true")
		goOn <- struct{}{}
		if err := inf.WaitFor(ctx, "96"); err != nil {
			w.Fatal(err)
		}
		rec.want(w.T, "update ns/b 1->2")
		w.wantRequests(streams, streams, "watch resourceVersion=96")
	})
}

func TestR17R20_DecodeAndTransformErrorsAreOfOneObject(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			var failed []string
			calls := map[string]int{}
			config := informer.Config[*corev1.Pod]{
				PagedList: paged,
				Transform: func(p *corev1.Pod) (*corev1.Pod, error) {
					calls[p.Name+p.ResourceVersion]++
					switch p.Labels["v"] {
					case "bad":
						return nil, errors.New("bad pod")
					case "nil":
						return nil, nil
					case "renamed":
						p.Name = "other"
					}
					p.Spec = corev1.PodSpec{}
					return p, nil
				},
				OnDecodeError: func(err *informer.DecodeError) { failed = append(failed, err.Error()) },
			}
			faulty(t, config, func(w world, f *fault, inf *informer.Informer[*corev1.Pod], rec *recorder[*corev1.Pod]) {
				w.create(newPod("ns", "a", "v=1"), newPod("ns", "b", "v=bad"), newPod("ns", "c", "v=1"))
				defer start(w.T, inf)()
				rec.want(w.T, "add ns/a 1 initial=true", "add ns/c 1 initial=true")
				for _, v := range []string{"bad", "nil", "renamed"} {
					w.relabel("ns", "a", v)
				}
				if err := inf.WaitFor(w.Context(), w.server.RV()); err != nil {
					w.Fatal(err)
				}
				rec.want(w.T)
				if p, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "a"}); p == nil || version(p) != "1" || p.Spec.NodeName != "" {
					w.Errorf("stored %+v", p)
				}
				w.relabel("ns", "a", "2")
				rec.want(w.T, "update ns/a 1->2")
				w.relabel("ns", "b", "1")
				rec.want(w.T, "add ns/b 1 initial=false")
				w.relabel("ns", "c", "bad") // its deletion cannot be read, and counts
				w.delete("ns", "c")
				rec.want(w.T, "delete ns/c 1 final=false")
				want := []string{
					"decode pods ns/b: transform: bad pod",
					"decode pods ns/a: transform: bad pod",
					"decode pods ns/a: transform: it returned nil and no error",
					"decode pods ns/a: transform: it changed the object's namespace, name, uid or resourceVersion",
					"decode pods ns/c: transform: bad pod",
					"decode pods ns/c: transform: bad pod",
				}
				if diff := cmp.Diff(want, failed); diff != "" {
					w.Errorf("errors (-want +got):\n%s", diff)
				}
				for version, n := range calls {
					if n != 1 {
						w.Errorf("transformed %s %d times", version, n)
					}
				}
				if got := inf.Status().Reflectors[0].DecodeErrors; got != len(want) {
					w.Errorf("%d decode errors counted", got)
				}
			})
		})
	}
}

func TestR18_WatchTimeoutsAreSpread(t *testing.T) {
	bubble(t, informertest.Options{}, func(w world) {
		inf := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		defer start(w.T, inf)()
		<-time.After(5 * time.Hour)
		seen := map[string]bool{}
		for _, r := range w.server.Requests() {
			timeout := r.Query.Get("timeoutSeconds")
			if n, err := strconv.Atoi(timeout); err != nil || n < 300 || n >= 600 {
				w.Errorf("timeoutSeconds=%q", timeout)
			}
			seen[timeout] = true
		}
		if n := len(w.server.Requests()); n < 30 || n > 61 || len(seen) < n/2 {
			w.Errorf("%d requests, %d timeouts", n, len(seen))
		}
		if s := inf.Status().Reflectors[0]; s.Lists != 1 || s.LastError != nil {
			w.Errorf("status %+v", s)
		}
	})
}

func TestR21_ManagedFields(t *testing.T) {
	forEachMode(t, func(w world, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.create(newPod("ns", "a", "v=1"))
		keep := config
		keep.KeepManagedFields = true
		dropped := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		kept := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, keep)
		defer start(w.T, dropped)()
		defer start(w.T, kept)()
		w.create(newPod("ns", "b", "v=1"))
		synctest.Wait()
		for _, name := range []string{"a", "b"} {
			key := informer.Key{Namespace: "ns", Name: name}
			if p, _ := dropped.Store().Get(key); p.ManagedFields != nil {
				w.Errorf("%s has %v", name, p.ManagedFields)
			}
			if p, _ := kept.Store().Get(key); len(p.ManagedFields) != 1 || p.ManagedFields[0].Manager != "test" {
				w.Errorf("%s has %v", name, p.ManagedFields)
			}
		}
	})
}

func TestR22_NotAListOrWatch(t *testing.T) {
	for name, c := range map[string]struct{ contentType, body, want string }{
		"Table":        {"application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"rows":[]}`, "the server sent a Table instead of a list"},
		"object":       {"application/json", `{"kind":"Pod","metadata":{"name":"a"}}`, "the server sent a Pod instead of a list"},
		"no items":     {"application/json", `{}`, "the server sent an object without items instead of a list"},
		"array":        {"application/json", `[]`, `JSON: '[' where '{' is expected`},
		"cut":          {"application/json", `{"kind":"PodList","items":[{"metadata":`, "unexpected EOF"},
		"HTML":         {"text/html", `<html>`, `the server sent content type "text/html"; it was asked for JSON or protobuf`},
		"not protobuf": {"application/vnd.kubernetes.protobuf", `{"kind":"PodList"}`, `malformed protobuf: it begins with "{\"ki" instead of "k8s\x00"`},
	} {
		t.Run(name, func(t *testing.T) {
			faulty(t, informer.Config[*corev1.Pod]{PagedList: true}, func(w world, f *fault, inf *informer.Informer[*corev1.Pod], rec *recorder[*corev1.Pod]) {
				f.set(func(rw http.ResponseWriter, r *http.Request) bool {
					rw.Header().Set("Content-Type", c.contentType)
					fmt.Fprint(rw, c.body)
					return true
				})
				ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
				defer cancel()
				go inf.Run(ctx)
				if err := inf.WaitSynced(ctx); err == nil || !strings.Contains(err.Error(), c.want) {
					w.Errorf("WaitSynced: %v", err)
				}
			})
		})
	}
}

// What Config.Filter refuses is not decoded, and as good as not there: in a list, in a watch, and in a relist.
func TestFilterByMetadata(t *testing.T) {
	forEachMode(t, func(w world, client *informer.Client, config informer.Config[*corev1.Pod]) {
		for i := range 20 { // several pages
			w.create(newPod("ns", fmt.Sprintf("p%02d", i), fmt.Sprintf("v=%d", i%2)))
		}
		config.Filter = func(meta *metav1.PartialObjectMetadata) bool {
			if meta.ManagedFields != nil || meta.UID == "" {
				w.Errorf("metadata are %+v", meta)
			}
			return meta.Labels["v"] == "1"
		}
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Labels["v"] != "1" {
				w.Errorf("%s was decoded", p.Name)
			}
			return p, nil
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		rec := &recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer start(w.T, inf)()
		synctest.Wait()
		rec.take()
		w.relabel("ns", "p01", "0") // leaves
		w.relabel("ns", "p02", "1") // enters
		w.relabel("ns", "p04", "2") // stays outside
		w.create(newPod("ns", "q", "v=0"))
		w.delete("ns", "q")
		last := w.relabel("ns", "p06", "0")
		if err := inf.WaitFor(w.Context(), last.ResourceVersion); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		rec.want(w.T, "delete ns/p01 1 final=false", "add ns/p02 1 initial=false")
		w.server.CloseConnections()
		w.server.Compact()
		w.relabel("ns", "p05", "0")
		last = w.relabel("ns", "p06", "1")
		if err := inf.WaitFor(w.Context(), last.ResourceVersion); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for p := range inf.Store().All() {
			got = append(got, p.Name)
		}
		want := []string{"p02", "p03", "p06", "p07", "p09", "p11", "p13", "p15", "p17", "p19"}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("store (-want +got):\n%s", diff)
		}
	})
}
