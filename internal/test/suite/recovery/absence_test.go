package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
	"github.com/typedinformer/informer/watchcache"
)

// isDiscovery reports whether a request is for a discovery document.
func isDiscovery(r *http.Request) bool {
	switch parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); parts[0] {
	case "api":
		return len(parts) <= 2
	case "apis":
		return len(parts) <= 3
	}
	return false
}

// documents answers requests for discovery documents, by path. All other requests, and documents that are missing, get the page of a
// proxy.
func documents(bodies map[string]string) world.Answer {
	return func(w http.ResponseWriter, r *http.Request) bool {
		body, ok := bodies[r.URL.Path]
		if !ok || !isDiscovery(r) {
			http.NotFound(w, r)
			return true
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(body, "<") {
			w.Header().Set("Content-Type", "text/html")
		}
		io.WriteString(w, body)
		return true
	}
}

const (
	coreVersions   = `{"kind":"APIVersions","versions":["v1"]}`
	createOnlyPods = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true,"verbs":["create"]}]}`
	coreNodes      = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes"}]}`
	corePods       = `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","namespaced":true}]}`
)

// A 404 without discovery that shows the absence is a failure like a 5xx: the objects stay, handlers get nothing, the status and
// WaitSynced have the error, and afterwards the watch resumes without a list.
// Guarantees: R14
func TestNotFoundAloneKeepsTheObjects(t *testing.T) {
	failing := func(err error) world.Answer {
		return func(w http.ResponseWriter, r *http.Request) bool { watchcache.WriteError(w, r, err); return true }
	}
	unlessDiscovery := func(discovery world.Answer) world.Answer {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if isDiscovery(r) {
				return discovery(w, r)
			}
			http.NotFound(w, r)
			return true
		}
	}
	for n, c := range []struct {
		name    string
		answers world.Answer
		want    string // in the error
	}{
		{"a proxy's page", documents(nil), "GET /api: the server could not find"},
		{"a Status", failing(world.Absent), "GET /api: pods"},
		{"pages in place of discovery", documents(map[string]string{"/api": "<html>"}), "text/html"},
		{"JSON of another kind", documents(map[string]string{"/api": `{"status":"ok"}`}), "/api: the document is of the kind"},
		{"a version without its document", documents(map[string]string{"/api": coreVersions}), "GET /api/v1: the server could not find"},
		{"the resource is listed", documents(map[string]string{"/api": coreVersions, "/api/v1": corePods}), "discovery lists it"},
		{"another version has it", documents(map[string]string{"/api": `{"kind":"APIVersions","versions":["v2"]}`, "/api/v2": strings.Replace(corePods, "v1", "v2", 1)}),
			"serves it in version v2: use that as Resource.Version"},
		{"discovery is down", unlessDiscovery(failing(world.Unavailable)), "GET /api: down"},
		{"discovery is forbidden", unlessDiscovery(failing(world.Forbidden)), "bind the ClusterRole system:discovery"},
		{"discovery is unauthorized", unlessDiscovery(failing(apierrors.NewUnauthorized("who?"))), "GET /api: who?"},
		{"discovery breaks off", unlessDiscovery(func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }), "EOF"},
		{"discovery hangs", unlessDiscovery(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }), "no progress"},
		{"discovery in protobuf", unlessDiscovery(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", world.ProtobufType)
			io.WriteString(w, coreVersions)
			return true
		}), "did not send JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			world.ForMode(t, n, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
				var failures atomic.Int64 // calls of OnFailure
				config.OnFailure = func(error) { failures.Add(1) }
				w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				rec := &testkit.Recorder[*corev1.Pod]{}
				inf.Subscribe(rec)
				defer world.Start(w.T, inf)()
				rec.Want(w.T, world.Added...)
				fails := func(when string, during func()) {
					w.Helper()
					failures.Store(0)
					w.Answer(c.answers)
					during()
					<-time.After(10 * time.Minute)
					s := inf.Status().Reflectors[0]
					if s.LastError == nil || !strings.Contains(s.LastError.Error(), c.want) || !strings.Contains(s.LastError.Error(), "this does not show that the resource is gone") {
						w.Errorf("%s: LastError %v, want %s", when, s.LastError, c.want)
					}
					if s.State == status.ReflectorAbsent || s.Failures < 5 || failures.Load() < 5 || s.Traffic.ListsBy[status.ReasonAbsent] > 0 {
						w.Errorf("%s: %d failures, status %+v", when, failures.Load(), s)
					}
					if n := inf.Store().Len(); n != 2 {
						w.Errorf("%s: %d objects", when, n)
					}
					rec.Want(w.T)
					late, cancel := context.WithTimeout(w.Context(), time.Second)
					defer cancel()
					if err := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config).WaitSynced(late); err == nil {
						w.Errorf("%s: an informer that does not run is synced", when)
					}
					w.Answer(func(http.ResponseWriter, *http.Request) bool { return false })
					w.Server.ResetRequests()
					<-time.After(3 * time.Minute)
				}
				fails("the watch", w.Server.EndWatches)
				// no list, but the audit after a time without a watch
				w.WantRequests("watch resourceVersion=3", "list resourceVersion=3 resourceVersionMatch=Exact limit=7")
				w.Relabel("ns", "b", "2")
				rec.Want(w.T, world.Updated...)

				w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: world.Expired})
				fails("the list", w.Server.EndWatches)
				rec.Want(w.T)
				world.EqualsServer(w, inf)
				w.Relabel("ns", "b", "3")
				rec.Want(w.T, "update ns/b 2->3")

				atFirst := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				w.Answer(c.answers)
				ctx, cancel := context.WithCancel(w.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); atFirst.Run(ctx) }()
				short, cancelShort := context.WithTimeout(ctx, 10*time.Minute)
				defer cancelShort()
				if err := atFirst.WaitSynced(short); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "Backoff") && !strings.Contains(err.Error(), "Listing") {
					w.Errorf("WaitSynced: %v", err)
				}
				cancel()
				<-ended
			})
		})
	}
}

// An ingress that answers 404 for 10 s changes nothing.
// Guarantees: R14
func TestShortOutageOfAProxyIsNoDeletion(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		for i := range 7 {
			w.Create(world.NewPod("ns", fmt.Sprint("p", i), "v=1"))
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		synctest.Wait()
		rec.Take()
		w.Answer(documents(nil))
		w.Server.CloseConnections()
		<-time.After(10 * time.Second)
		w.Answer(func(http.ResponseWriter, *http.Request) bool { return false })
		<-time.After(time.Minute)
		rec.Want(w.T)
		if n := inf.Store().Len(); n != 7 {
			w.Errorf("%d objects", n)
		}
	})
}

// A resource is absent once discovery has shown it for ten seconds, whatever request got the 404. Without objects, it is absent at once.
// Guarantees: R14
func TestAbsenceThatDiscoveryShows(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		rec.Want(w.T, world.Added...)
		<-time.After(10 * time.Second)
		w.Pods.Unregister()
		<-time.After(9900 * time.Millisecond)
		if s := inf.Status().Reflectors[0]; inf.Store().Len() != 2 || s.State == status.ReflectorAbsent || !strings.Contains(s.LastError.Error(), "discovery has not listed it for") {
			w.Errorf("before ten seconds: %d objects, %+v", inf.Store().Len(), s)
		}
		<-time.After(30 * time.Second)
		rec.Want(w.T, "delete ns/a 1 final=false", "delete ns/b 1 final=false")
		if s := inf.Status().Reflectors[0]; s.State != status.ReflectorAbsent || s.ResourceVersion != "" || !apierrors.IsNotFound(s.LastError) {
			w.Errorf("afterwards: %+v", s)
		}
		late := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); late.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		synctest.Wait()
		if s := late.Status().Reflectors[0]; s.State != status.ReflectorAbsent {
			w.Errorf("at first: %+v", s)
		}
		w.Pods = informertest.Register[*corev1.Pod](w.Server, informertest.Resource{GroupVersionResource: world.PodGVR})
		w.Create(world.NewPod("ns", "a", "v=2"))
		<-time.After(30 * time.Second)
		rec.Want(w.T, "add ns/a 2 initial=false")
		world.EqualsServer(w, late)
	})
}

// Between two changes of its documents, a server can lack a version that it is switching on: discovery that shows the absence only
// for a moment is no proof, even if it does so again later.
// Guarantees: R14
func TestMomentWithoutDiscoveryIsNoDeletion(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		<-time.After(time.Minute)
		rec.Want(w.T, "add ns/a 1 initial=true")
		gone := documents(map[string]string{"/api": coreVersions, "/api/v1": coreNodes})
		for name, between := range map[string]world.Answer{
			"served": func(http.ResponseWriter, *http.Request) bool { return false },
			"listed": documents(map[string]string{"/api": coreVersions, "/api/v1": corePods}),
			"down": func(rw http.ResponseWriter, r *http.Request) bool {
				watchcache.WriteError(rw, r, world.Unavailable)
				return true
			},
		} {
			for range 5 {
				w.Answer(gone)
				w.Server.EndWatches()
				<-time.After(8 * time.Second)
				w.Answer(between)
				<-time.After(time.Duration(testkit.Rounds(15, 60)) * time.Minute) // longer than the absence must last
			}
			rec.Want(w.T)
			if inf.Store().Len() != 1 {
				w.Errorf("%s between: %d objects", name, inf.Store().Len())
			}
			w.Answer(func(http.ResponseWriter, *http.Request) bool { return false })
			<-time.After(time.Minute)
		}
	})
}

// A version that is switched off while another serves the resource is a failure that names the other one.
// Guarantees: R14
func TestVersionIsSwitchedOff(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		register := func(version string) *informertest.Collection[*corev1.ConfigMap] {
			gvr := world.GadgetGVR
			gvr.Version = version
			return informertest.Register[*corev1.ConfigMap](w.Server, informertest.Resource{GroupVersionResource: gvr, Kind: "Gadget"})
		}
		alpha, stable := register("v1alpha1"), register("v1")
		_, err := alpha.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}})
		if err != nil {
			w.Fatal(err)
		}
		gvr := world.GadgetGVR
		gvr.Version = "v1alpha1"
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: gvr}, world.Quiet[*corev1.ConfigMap]())
		defer world.Start(w.T, inf)()
		<-time.After(time.Minute)
		alpha.Unregister()
		<-time.After(time.Hour)
		if s := inf.Status().Reflectors[0]; inf.Store().Len() != 1 || s.State == status.ReflectorAbsent || !strings.Contains(s.LastError.Error(), "in version v1: use that") {
			w.Errorf("%d objects, %+v", inf.Store().Len(), s)
		}
		stable.Unregister()
		<-time.After(2 * time.Minute)
		if s := inf.Status().Reflectors[0]; inf.Store().Len() != 0 || s.State != status.ReflectorAbsent {
			w.Errorf("%d objects, %+v", inf.Store().Len(), s)
		}
	})
}

// A retry while the resource is absent is one request. Discovery is asked again after five minutes. If it then proves nothing, the
// absence is no longer certain.
// Guarantees: R14
func TestRetriesOfAnAbsentResourceAreCheap(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.NodeGVR}, world.Quiet[*corev1.Node]())
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); inf.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		var lists, discovered atomic.Int32
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if isDiscovery(r) {
				discovered.Add(1)
			} else {
				lists.Add(1)
			}
			return false
		})
		<-time.After(time.Hour)
		if n, m := lists.Load(), discovered.Load(); n < 150 || m < 18 || m > 2*13 {
			w.Errorf("%d lists, %d discovery documents in an hour", n, m)
		}
		state := func() status.ReflectorState { return inf.Status().Reflectors[0].Transitions[15].State }
		w.Answer(documents(nil))
		<-time.After(10 * time.Minute)
		if s := inf.Status().Reflectors[0]; s.State == status.ReflectorAbsent || s.LastError == nil || !strings.Contains(s.LastError.Error(), "GET /api") {
			w.Errorf("a proxy's page for ten minutes: %v, %+v", state(), s)
		}
		w.Answer(func(http.ResponseWriter, *http.Request) bool { return false })
		<-time.After(time.Minute)
		if s := inf.Status().Reflectors[0]; s.State != status.ReflectorAbsent && s.State != status.ReflectorListing {
			w.Errorf("afterwards: %+v", s)
		}
	})
}

// A cancelled context ends a request for discovery, and its rate limit, at once.
// Guarantees: R14, L2
func TestDiscoveryEndsWithTheContext(t *testing.T) {
	for name, change := range map[string]func(*rest.Config){
		"hangs":      func(*rest.Config) {},
		"rate limit": func(c *rest.Config) { c.QPS, c.Burst = 0.001, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
					if isDiscovery(r) {
						<-r.Context().Done()
					}
					http.NotFound(rw, r)
					return true
				})
				inf := informer.New(w.Client(change), informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*corev1.Pod]())
				ctx, cancel := context.WithCancel(w.Context())
				ended := make(chan error, 1)
				go func() { ended <- inf.Run(ctx) }()
				<-time.After(time.Second) // less than the time limit of a document
				s := inf.Status().Reflectors[0]
				if want := map[string]status.Awaiting{"hangs": status.AwaitingResponse, "rate limit": status.AwaitingRateLimit}[name]; s.Awaits != want || s.LastError != nil {
					w.Errorf("awaits %v, want %v; %+v", s.Awaits, want, s)
				}
				cancel()
				synctest.Wait()
				select {
				case err := <-ended:
					if !errors.Is(err, context.Canceled) {
						w.Errorf("Run: %v", err)
					}
				default:
					w.Error("Run has not ended")
					<-ended
				}
				if s := inf.Status().Reflectors[0]; s.LastError != nil {
					w.Errorf("the end is no failure: %v", s.LastError)
				}
			})
		})
	}
}

// The Retry-After of a discovery document counts.
// Guarantees: R11, R14
func TestThrottledDiscoveryIsNotRepeatedSooner(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.NodeGVR}, world.Quiet[*corev1.Node]())
		remove := w.Server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Verb == "" }, Error: world.Throttled})
		defer remove()
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); inf.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		<-time.After(90 * time.Second)
		if n := len(w.Requests()); n != 2 {
			w.Errorf("%d requests: %q", n, w.Requests())
		}
		if s := inf.Status().Reflectors[0]; s.State != status.ReflectorBackoff || !apierrors.IsTooManyRequests(s.LastError) {
			w.Errorf("%+v", s)
		}
	})
}

// A server behind a path has its discovery there, too.
// Guarantees: R14
func TestDiscoveryBelowAPath(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		var asked atomic.Pointer[[]string]
		asked.Store(&[]string{})
		proxied := func(rt http.RoundTripper) http.RoundTripper {
			return world.RoundTripper(func(r *http.Request) (*http.Response, error) {
				rest, ok := strings.CutPrefix(r.URL.Path, "/clusters/one")
				if !ok {
					return nil, fmt.Errorf("%s is outside the path", r.URL.Path)
				}
				if isDiscovery(&http.Request{URL: r.URL.JoinPath("..")}) {
					return nil, errors.New("not reached")
				}
				r = r.Clone(r.Context())
				r.URL.Path = rest
				if isDiscovery(r) {
					all := append(slices.Clone(*asked.Load()), rest)
					asked.Store(&all)
				}
				return rt.RoundTrip(r)
			})
		}
		client := w.Client(func(c *rest.Config) { c.Host += "/clusters/one"; c.Wrap(proxied) })
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		informertest.Register[*corev1.Node](w.Server, informertest.Resource{GroupVersionResource: world.NodeGVR, ClusterScoped: true})
		w.Pods.Unregister()
		<-time.After(time.Minute)
		if s := inf.Status().Reflectors[0]; inf.Store().Len() != 0 || s.State != status.ReflectorAbsent || !slices.Equal((*asked.Load())[:2], []string{"/api", "/api/v1"}) {
			w.Errorf("asked for %q; %d objects, %+v", *asked.Load(), inf.Store().Len(), s)
		}
	})
}

// Each namespace is on its own: a 404 for one changes nothing in the others.
// Guarantees: R14
func TestNotFoundForOneNamespace(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("x", "a", "v=1"), world.NewPod("y", "b", "v=1"))
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"x", "y"}}, world.Quiet[*corev1.Pod]())
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		synctest.Wait()
		rec.Take()
		<-time.After(time.Minute)
		w.Server.Inject(informertest.Fault{Namespace: "x", Error: world.Absent})
		w.Server.EndWatches()
		<-time.After(time.Hour)
		w.Relabel("y", "b", "2")
		rec.Want(w.T, "update y/b 1->2")
		for _, s := range inf.Status().Reflectors {
			if failing := s.State == status.ReflectorBackoff || s.Failures > 0; failing != (s.Namespace == "x") {
				w.Errorf("%+v", s)
			}
		}
		if inf.Store().Len() != 2 {
			w.Errorf("%d objects", inf.Store().Len())
		}
	})
}

// A cluster-scoped resource has no URL in a namespace. The error says what to change.
// Guarantees: R14
func TestNamespacesOfAClusterScopedResource(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		informertest.Register[*corev1.Node](w.Server, informertest.Resource{GroupVersionResource: world.NodeGVR, ClusterScoped: true})
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.NodeGVR, Namespaces: []string{"x"}}, world.Quiet[*corev1.Node]())
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		ended := make(chan struct{})
		go func() { defer close(ended); inf.Run(ctx) }()
		if err := inf.WaitSynced(ctx); err == nil || !strings.Contains(err.Error(), "cluster-scoped: leave Resource.Namespaces empty") {
			w.Errorf("WaitSynced: %v", err)
		}
		<-ended
	})
}

// A document without an end is read up to the limit.
// Guarantees: R14
func TestEndlessDiscovery(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		var sent atomic.Int64
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if !isDiscovery(r) {
				http.NotFound(rw, r)
				return true
			}
			rw.Header().Set("Content-Type", "application/json")
			for sent.Store(0); r.Context().Err() == nil; {
				n, err := rw.Write(make([]byte, 1<<16))
				if err != nil {
					break
				}
				sent.Add(int64(n))
			}
			return true
		})
		w.Server.EndWatches()
		<-time.After(5 * time.Second)
		if s := inf.Status().Reflectors[0]; !errors.Is(s.LastError, informer.ErrTooLarge) || s.State == status.ReflectorAbsent || inf.Store().Len() != 1 || sent.Load() > 6<<20 {
			w.Errorf("%d bytes sent, %d objects, %+v", sent.Load(), inf.Store().Len(), s)
		}
	})
}

// A sink's own error ends the reflector, even if it is a 404.
// Guarantees: R14
func TestNotFoundOfASinkIsNotTheServers(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		r, err := informer.NewReflector(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, failingSink{world.Absent}, world.Quiet[*corev1.Pod]())
		if err != nil {
			w.Fatal(err)
		}
		if err := r.Run(w.Context()); err != error(world.Absent) {
			w.Errorf("Run: %v", err)
		}
		w.WantRequests(world.Streams)
	})
}

type failingSink struct{ err error }

func (s failingSink) Put(context.Context, informer.Delta[*corev1.Pod]) error { return s.err }
