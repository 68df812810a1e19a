package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
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
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// Guarantees: R12, L2
func TestConnectionRefused(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		var dials atomic.Int32
		refuse := atomic.Bool{}
		refuse.Store(true)
		client := w.Client(func(c *rest.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				dials.Add(1)
				if refuse.Load() {
					return nil, errors.New("connection refused")
				}
				return dial(ctx, network, address)
			}
		})
		w.Create(world.NewPod("ns", "a"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
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
		// Full jitter up to 30 s means 15 s on average, so about 45 connections in 10 minutes; the first waits are shorter.
		if n := dials.Load(); n < 25 || n > 90 {
			w.Errorf("%d connections in 10 minutes", n)
		}
		refuse.Store(false)
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Error(err)
		}
		refuse.Store(true)
		w.Server.CloseConnections()
		<-time.After(time.Minute) // in backoff now
		began := time.Now()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) != 0 {
			w.Errorf("Run: %v after %v", err, time.Since(began))
		}
	})
}

// Guarantees: R13
func TestWaitSyncedTellsWhy(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Server.Inject(informertest.Fault{Error: world.Forbidden})
		inf := w.QuietInformer()
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

// An informer that ended before it had synced has no state. The error says that its Run has ended, and the last failure.
// Guarantees: R13
func TestWaitSyncedAfterRunTellsThatItEnded(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Server.Inject(informertest.Fault{Error: world.Forbidden})
		inf := w.QuietInformer()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if err := inf.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("Run: %v", err)
		}
		err := inf.WaitSynced(w.Context())
		if !errors.Is(err, informer.ErrStopped) || !apierrors.IsForbidden(err) {
			w.Fatalf("WaitSynced: %v", err)
		}
		if text := err.Error(); !strings.Contains(text, "not synced: Run has ended after: ") || strings.Contains(text, "Idle") {
			w.Errorf("WaitSynced: %v", err)
		}
	})
}

// Guarantees: R14
func TestAbsentResource(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: gvr}, world.Quiet[*corev1.ConfigMap]())
		config := world.Quiet[*corev1.ConfigMap]()
		config.AbsentIsSynced = true
		content := informer.New(w.Client(), informer.Resource{GroupVersionResource: gvr}, config)
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go inf.Run(ctx)
		defer world.Start(w.T, content)()
		short, cancelShort := context.WithTimeout(ctx, time.Minute)
		defer cancelShort()
		if err := inf.WaitSynced(short); err == nil || !strings.Contains(err.Error(), "Absent") {
			w.Errorf("WaitSynced: %v", err)
		}
		served := informertest.Register[*corev1.ConfigMap](w.Server, informertest.Resource{GroupVersionResource: gvr})
		if _, err := served.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}); err != nil {
			w.Fatal(err)
		}
		if err := inf.WaitSynced(ctx); err != nil || inf.Store().Len() != 1 {
			w.Errorf("%v, %d objects", err, inf.Store().Len())
		}
	})
}

// A change between the initial events counts. Only the bookmark completes the list.
// Guarantees: R16
func TestInitialEventsDoNotMoveTheVersion(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf, rec := w.PodInformer(informer.Config[*corev1.Pod]{})
		frame := func(event, name, rv, v string) string {
			return fmt.Sprintf(`{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"ns","name":%q,"uid":%q,"resourceVersion":%q,"labels":{"v":%q}}}}`+"\n", event, name, name, rv, v)
		}
		goOn := make(chan struct{})
		var requests atomic.Int32
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			rw.Header().Set("Content-Type", "application/json")
			switch requests.Add(1) {
			case 1: // ends before the bookmark: it has no effect, and the next request starts again
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
			w.Errorf("before the bookmark: resource version %q, %d objects", rv, inf.Store().Len())
		}
		goOn <- struct{}{}
		rec.Want(w.T, "add ns/a 2 initial=true", "add ns/b 1 initial=true", "add ns/d 1 initial=true")
		goOn <- struct{}{}
		if err := inf.WaitForResourceVersion(ctx, "96"); err != nil {
			w.Fatal(err)
		}
		rec.Want(w.T, "update ns/b 1->2")
		w.WantRequests(world.Streams, world.Streams, "watch resourceVersion=96")
	})
}

// Config.OnFailure receives each failure of a list or a watch, even if it ends its goroutine.
func TestOnFailureReceivesEachFailure(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		remove := w.Server.Inject(informertest.Fault{Error: apierrors.NewForbidden(world.PodGVR.GroupResource(), "", errors.New("no"))})
		var failures []error
		third := make(chan struct{})
		config.OnFailure = func(err error) {
			if failures = append(failures, err); len(failures) == 3 {
				close(third)
			}
			runtime.Goexit()
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		<-third
		remove()
		if err := inf.WaitSynced(ctx); err != nil {
			w.Error(err)
		}
		if last := inf.Status().Reflectors[0].LastError; failures[len(failures)-1] != last || !apierrors.IsForbidden(last) {
			w.Errorf("%v, last of the status: %v", failures, last)
		}
		cancel()
		<-ended
	})
}

// Guarantees: R17, R20
func TestDecodeAndTransformErrorsAreOfOneObject(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			var failed []string
			var raw, copied [][]byte
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
					case "name":
						p.Name = "other"
					case "namespace":
						p.Namespace = "other"
					case "uid":
						p.UID = "other"
					case "resourceVersion":
						p.ResourceVersion = "7"
					}
					p.Spec = corev1.PodSpec{}
					return p, nil
				},
				OnDecodeError: func(err *informer.DecodeError) {
					failed = append(failed, err.Error())
					raw, copied = append(raw, err.Raw), append(copied, bytes.Clone(err.Raw))
				},
			}
			world.Bubble(t, func(w world.World) {
				inf, rec := w.PodInformer(config)
				w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=bad"), world.NewPod("ns", "c", "v=1"))
				defer world.Start(w.T, inf)()
				rec.Want(w.T, "add ns/a 1 initial=true", "add ns/c 1 initial=true")
				for _, v := range []string{"bad", "nil", "name", "namespace", "uid", "resourceVersion"} {
					w.Relabel("ns", "a", v)
				}
				if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
					w.Fatal(err)
				}
				rec.Want(w.T)
				if p, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "a"}); p == nil || testkit.VersionOf(p) != "1" || p.Spec.NodeName != "" {
					w.Errorf("stored %+v", p)
				}
				w.Relabel("ns", "a", "2")
				rec.Want(w.T, "update ns/a 1->2")
				w.Relabel("ns", "b", "1")
				rec.Want(w.T, "add ns/b 1 initial=false")
				w.Relabel("ns", "c", "bad") // its deletion cannot be decoded, but counts
				w.Delete("ns", "c")
				rec.Want(w.T, "delete ns/c 1 final=false")
				const changed = "decode pods ns/a: transform: it changed the object's namespace, name, uid or resourceVersion"
				want := []string{
					"decode pods ns/b: transform: bad pod",
					"decode pods ns/a: transform: bad pod",
					"decode pods ns/a: transform: it returned nil and no error",
					changed, changed, changed, changed,
					"decode pods ns/c: transform: bad pod",
					"decode pods ns/c: transform: bad pod",
				}
				if diff := cmp.Diff(want, failed); diff != "" {
					w.Errorf("errors (-want +got):\n%s", diff)
				}
				if !slices.EqualFunc(raw, copied, bytes.Equal) {
					w.Error("DecodeError.Raw has changed since OnDecodeError")
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

// An undecodable object is identified by its name, however JSON spells it. Without a name, it may be any object.
// Guarantees: R17
func TestUndecodableObjectIsKnownHoweverItsNameIsWritten(t *testing.T) {
	plain := strings.NewReplacer(`\u0026`, "&") // the server may or may not escape it
	for name, as := range map[string]*strings.Replacer{
		"escaped name":             strings.NewReplacer(`a&b`, `a\u0026b`),
		"escaped namespace":        strings.NewReplacer(`"namespace":"ns"`, `"namespace":"n\u0073"`),
		"escaped members":          strings.NewReplacer(`"metadata":`, `"met\u0061data":`, `"name":`, `"n\u0061me":`, `"namespace":`, `"n\u0061mespace":`),
		"metadata in two parts":    strings.NewReplacer(`"metadata":{`, `"metadata":{"namespace":"other"},"metadata":{`),
		"namespace in second part": strings.NewReplacer(`"namespace":"ns",`, ``, `"metadata":{`, `"metadata":{"namespace":"ns","name":"c"},"metadata":{`),
		"name twice":               strings.NewReplacer(`"name":"a&b"`, `"name":"c","name":"a&b"`),
		"invalid namespace":        strings.NewReplacer(`"namespace":"ns"`, `"namespace":"\x"`),
		"namespace and no name":    strings.NewReplacer(`"name":"a&b",`, ``),
	} {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,paged=%v", name, paged), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					config := world.Quiet[*corev1.Pod]()
					config.PagedList = paged
					inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = "application/json" }), informer.Resource{GroupVersionResource: world.PodGVR}, config)
					w.Create(world.NewPod("ns", "a&b", "v=1"), world.NewPod("ns", "c", "v=1"))
					defer world.Start(w.T, inf)()
					synctest.Wait()
					w.Server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
						if key.Name != "a&b" {
							return object
						}
						return []byte(`{"spec":7,` + as.Replace(plain.Replace(string(object)))[1:])
					}})
					<-time.After(10 * time.Second) // a short empty watch counts as a failure
					w.Server.EndWatches()
					synctest.Wait()
					w.Relabel("ns", "a&b", "2")
					w.Relabel("ns", "c", "2")
					if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
						w.Fatal(err)
					}
					for _, when := range []string{"in a watch", "in a relist"} {
						var got []string
						for pod := range inf.Store().All() {
							got = append(got, pod.Name+" "+testkit.VersionOf(pod))
						}
						if diff := cmp.Diff([]string{"a&b 1", "c 2"}, got); diff != "" {
							w.Errorf("%s (-want +got):\n%s", when, diff)
						}
						if s := inf.Status().Reflectors[0]; s.Stale != 1 {
							w.Errorf("%s: status %+v", when, s)
						}
						w.Server.CloseConnections()
						w.Create(world.NewPod("ns", "d", "v=1"))
						w.Delete("ns", "d")
						w.Server.Compact()
						if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
							w.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// Guarantees: R18
func TestWatchTimeoutsAreSpread(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		<-time.After(5 * time.Hour)
		seen := map[string]bool{}
		for _, r := range w.Server.Requests() {
			timeout := r.Query.Get("timeoutSeconds")
			if n, err := strconv.Atoi(timeout); err != nil || n < 300 || n >= 600 {
				w.Errorf("timeoutSeconds=%q", timeout)
			}
			seen[timeout] = true
		}
		if n := len(w.Server.Requests()); n < 30 || n > 61 || len(seen) < n/2 {
			w.Errorf("%d requests, %d timeouts", n, len(seen))
		}
		if s := inf.Status().Reflectors[0]; s.Traffic.Lists != 1 || s.LastError != nil {
			w.Errorf("status %+v", s)
		}
	})
}

// Guarantees: R21
func TestManagedFields(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		keep := config
		keep.KeepManagedFields = true
		dropped := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		kept := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, keep)
		defer world.Start(w.T, dropped)()
		defer world.Start(w.T, kept)()
		w.Create(world.NewPod("ns", "b", "v=1"))
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

// Guarantees: R22
func TestNotAListOrWatch(t *testing.T) {
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
			world.Bubble(t, func(w world.World) {
				inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{PagedList: true})
				w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
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

// An object that Config.Filter rejects is not decoded, and counts as absent: in a list, in a watch, and in a relist.
func TestFilterByMetadata(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		for i := range 20 { // several pages
			w.Create(world.NewPod("ns", fmt.Sprintf("p%02d", i), fmt.Sprintf("v=%d", i%2)))
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
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		synctest.Wait()
		rec.Take()
		w.Relabel("ns", "p01", "0") // leaves
		w.Relabel("ns", "p02", "1") // enters
		w.Relabel("ns", "p04", "2") // stays outside
		w.Create(world.NewPod("ns", "q", "v=0"))
		w.Delete("ns", "q")
		last := w.Relabel("ns", "p06", "0")
		if err := inf.WaitForResourceVersion(w.Context(), last.ResourceVersion); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		rec.Want(w.T, "delete ns/p01 1 final=false", "add ns/p02 1 initial=false")
		lists := inf.Status().Reflectors[0].Traffic.Lists
		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: apierrors.NewResourceExpired("gone")})
		w.Server.CloseConnections()
		w.Relabel("ns", "p05", "0")
		last = w.Relabel("ns", "p06", "1")
		if err := inf.WaitForResourceVersion(w.Context(), last.ResourceVersion); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for p := range inf.Store().All() {
			got = append(got, p.Name)
		}
		if s := inf.Status(); s.Reflectors[0].Traffic.Lists == lists || s.Undecodable != 0 || s.Reflectors[0].Stale != 0 {
			w.Errorf("%d lists after %d, %d objects are undecodable", s.Reflectors[0].Traffic.Lists, lists, s.Undecodable)
		}
		want := []string{"p02", "p03", "p06", "p07", "p09", "p11", "p13", "p15", "p17", "p19"}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("store (-want +got):\n%s", diff)
		}
	})
}

// A change of a filtered object is attributed to that object, however JSON spells its name. It needs no list.
func TestFilterKnowsEscapedNames(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := world.Quiet[*corev1.Pod]()
		config.Filter = func(meta *metav1.PartialObjectMetadata) bool { return meta.Labels["v"] == "1" }
		w.Server.Inject(informertest.Fault{Rewrite: func(_ informer.Key, object []byte) []byte {
			return []byte(strings.NewReplacer("a&b", `a\u0026b`, `"name":`, `"nam\u0065":`).Replace(string(object)))
		}})
		inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = "application/json" }), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		w.Create(world.NewPod("ns", "a&b", "v=1"))
		defer world.Start(w.T, inf)()
		rec.Want(w.T, "add ns/a&b 1 initial=true")
		for _, v := range []string{"2", "3", "4"} {
			w.Relabel("ns", "a&b", v)
			if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
				w.Fatal(err)
			}
		}
		rec.Want(w.T, "delete ns/a&b 1 final=false")
		w.Relabel("ns", "a&b", "1")
		rec.Want(w.T, "add ns/a&b 1 initial=false")
		if s := inf.Status().Reflectors[0]; s.Traffic.Lists != 1 || s.Failures != 0 {
			w.Errorf("status %+v", s)
		}
	})
}

// keeper is a sink that stores its objects and returns them by Get.
type keeper struct {
	informer.StoreWriter[*corev1.Pod]
	store *informer.Store[*corev1.Pod]
}

func (k keeper) Put(_ context.Context, d informer.Delta[*corev1.Pod]) error {
	return k.Apply(d)
}

func (k keeper) Get(key informer.Key) (*corev1.Pod, bool) { return k.store.Get(key) }

// A reflector whose sink returns its objects decodes only new versions, even without an informer.
// Guarantees: R19
func TestReflectorSkipsWhatItsSinkHolds(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for i := range 10 {
			w.Create(world.NewPod("ns", fmt.Sprint(i), "v=1"))
		}
		decoded := 0
		config := world.Quiet[*corev1.Pod]()
		config.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) { decoded++; return pod, nil }
		store, writer := informer.NewStore[*corev1.Pod]()
		r, err := informer.NewReflector(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, keeper{writer, store}, config)
		if err != nil {
			w.Fatal(err)
		}
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error)
		go func() { ended <- r.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		<-time.After(time.Second)
		before, _ := store.Get(informer.Key{Namespace: "ns", Name: "3"})
		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: world.Expired})
		w.Server.EndWatches()
		w.Relabel("ns", "5", "2")
		<-time.After(time.Minute)
		after, _ := store.Get(informer.Key{Namespace: "ns", Name: "3"})
		changed, _ := store.Get(informer.Key{Namespace: "ns", Name: "5"})
		if s := r.Status(); decoded != 11 || before == nil || before != after || changed.Labels["v"] != "2" || s.Traffic.Lists < 2 {
			w.Errorf("decoded %d objects, want 10 and one that changed; status %+v", decoded, s)
		}
	})
}
