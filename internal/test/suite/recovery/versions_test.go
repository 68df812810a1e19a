package recovery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
	"github.com/typedinformer/informer/watchcache"
)

// change changes the parameters of a request.
func change(r *http.Request, do func(url.Values)) {
	q := r.URL.Query()
	do(q)
	r.URL.RawQuery = q.Encode()
}

// paged makes the server send pages also for a list of any version.
func paged(q url.Values) {
	if q.Get("resourceVersion") == "0" {
		q.Del("resourceVersion")
	}
}

// Events may be older than the resource version before them, if a bookmark has overtaken them. They are applied at once,
// and no server was restored. If a watch ends in between, its events are lost: an audit finds that.
// Guarantees: R6, R23
func TestBookmarkThatOvertakesEvents(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		w.Server.Inject(informertest.Fault{Verb: "watch", Rewrite: world.EarlyBookmarks(2)})
		defer world.Start(w.T, inf)()
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") { // an audit would wait for the overtaken events
				watchcache.WriteError(rw, r, world.Unavailable)
				return true
			}
			change(r, func(q url.Values) { q.Set("timeoutSeconds", "100000") }) // else it ends right after a bookmark
			return false
		})
		w.Server.EndWatches()
		synctest.Wait()
		overtake := func() {
			if err := inf.WaitForResourceVersion(w.Context(), world.Later(w.Server.ResourceVersion(), 2)); err != nil {
				w.Fatal(err)
			}
		}
		const rounds = 100
		for range rounds {
			overtake()
			for _, name := range []string{"a", "b"} {
				pod := w.Relabel("ns", name, w.Server.ResourceVersion())
				synctest.Wait()
				if held := world.Held(inf)[name]; held.ResourceVersion != pod.ResourceVersion {
					w.Fatalf("%s is at %s in the store, %s on the server", name, held.ResourceVersion, pod.ResourceVersion)
				}
			}
		}
		if s := world.StatusOf(inf); s.Restored != 0 || s.Traffic.Late != rounds || s.Traffic.Lists != 1 {
			w.Errorf("status %+v", s)
		}
		overtake()
		w.Answer(nil)
		w.Server.Inject(informertest.Fault{Verb: "watch", Times: 1, Error: world.Unavailable})
		w.Server.EndWatches()
		synctest.Wait() // else the watch that ends may still send the events
		w.Relabel("ns", "a", "lost")
		w.Relabel("ns", "b", "lost")
		<-time.After(time.Minute)
		world.EqualsServer(w, inf)
		if a := inf.Status().Audit; a.Different != 1 { // the events were lost, and the audit found that
			w.Errorf("audits %+v", a)
		}
	})
}

// A deletion may carry an older version than the list, as those of an API server on SQL do.
// Guarantees: R6
func TestDeletionWithALoweredVersion(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		b, _ := w.Pods.Get(world.KeyB)
		lowered := world.Rewritten(world.KeyB, func(p *corev1.Pod) { p.ResourceVersion = b.ResourceVersion })
		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Rewrite: lowered})
		defer world.Start(w.T, inf)()
		rec.Want(w.T, world.Added...)
		<-time.After(10 * time.Second)
		w.Server.EndWatches() // the streaming list is over
		synctest.Wait()
		a := w.Relabel("ns", "a", "2")
		synctest.Wait()
		w.Delete("ns", "b")
		rec.Want(w.T, "update ns/a 1->2", "delete ns/b 1 final=true")
		if s := world.StatusOf(inf); s.Restored != 0 || s.Traffic.Late != 1 || s.ResourceVersion != a.ResourceVersion || s.LastError != nil {
			w.Errorf("status %+v", s)
		}
	})
}

// An instance of the server that is minutes behind is no restored server, as long as it comes closer.
// Guarantees: R6
func TestServerThatIsMinutesBehind(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		<-time.After(10 * time.Second)
		for range 300 {
			w.Relabel("ns", "a", w.Server.ResourceVersion())
		}
		synctest.Wait()
		lists, begun := world.StatusOf(inf).Traffic.Lists, time.Now()
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			rv := r.URL.Query().Get("resourceVersion")
			current := int(time.Since(begun).Seconds()) * 2
			if rv == "" || len(rv) < 3 || current >= 300 {
				return false
			}
			watchcache.WriteError(rw, r, world.TooLargeFor(rv, fmt.Sprint(current), time.Second))
			return true
		})
		w.Server.EndWatches()
		<-time.After(4 * time.Minute)
		w.Relabel("ns", "b", "2")
		world.EqualsServer(w, inf)
		if s := world.StatusOf(inf); s.Restored != 0 || s.Traffic.Lists != lists || s.Traffic.Watches < 100 {
			w.Errorf("status %+v", s)
		}
	})
}

// One bookmark, event or list with a resource version that is no number costs a list.
// Guarantees: R25
func TestVersionThatIsNoNumber(t *testing.T) {
	for _, version := range []string{"abc", "-5"} {
		for key, wait := range map[informer.Key]time.Duration{{}: 2 * time.Minute, world.KeyB: 0} {
			t.Run(fmt.Sprint(key, version), func(t *testing.T) {
				world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
					w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
					inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
					rec := &testkit.Recorder[*corev1.Pod]{}
					inf.Subscribe(rec)
					defer world.Start(w.T, inf)()
					rec.Want(w.T, world.Added...)
					<-time.After(10 * time.Second)
					w.Server.Inject(informertest.Fault{Verb: "watch", Times: 1, Rewrite: podAt(key, version)})
					w.Server.EndWatches()
					<-testkit.After(wait)
					w.Relabel("ns", "b", "2")
					<-time.After(2 * time.Second)
					rec.Want(w.T, world.Updated...)
					world.EqualsServer(w, inf)
					s := world.StatusOf(inf)
					if s.Restored != 0 || s.Traffic.ListsBy[status.ReasonUnclear] != 1 || !strings.Contains(s.LastError.Error(), "not a number: \""+version+`" after `) {
						w.Errorf("status %+v", s)
					}
					for _, r := range w.Requests() {
						if strings.Contains(r, version) {
							w.Errorf("request %q", r)
						}
					}
				})
			})
		}
	}
}

// forEachFormat runs test in JSON and in protobuf.
func forEachFormat(t *testing.T, test func(w world.World, client *informer.Client)) {
	t.Helper()
	for _, media := range []string{world.JSONType, world.ProtobufType} {
		t.Run(strings.TrimPrefix(media, "application/"), func(t *testing.T) {
			world.Bubble(t, func(w world.World) { test(w, w.Client(func(c *rest.Config) { c.ContentType = media })) })
		})
	}
}

// A list without a resource version after lists that had one empties no store.
// Guarantees: R25
func TestListWithoutVersionKeepsTheObjects(t *testing.T) {
	forEachFormat(t, func(w world.World, client *informer.Client) {
		a := w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*corev1.Pod]())
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		rec.Want(w.T, world.Added[0])
		server := &world.ListServer{Watch: http.StatusGone}
		w.Answer(server.Answer)
		w.Server.EndWatches()
		<-time.After(5 * time.Minute)
		rec.Want(w.T)
		s := world.StatusOf(inf)
		if s.ResourceVersion != a.ResourceVersion || !strings.Contains(s.LastError.Error(), "empty after "+a.ResourceVersion) || server.Lists() > 40 {
			w.Errorf("%d lists, status %+v", server.Lists(), s)
		}
		w.Answer(nil)
		w.Relabel("ns", "a", "2")
		<-time.After(time.Minute)
		rec.Want(w.T, "update ns/a 1->2")
	})
}

// A collection that can be listed and not watched is listed each half minute. Unchanged objects raise no event, with
// resource versions or without.
// Guarantees: R24
func TestCollectionThatCannotBeWatched(t *testing.T) {
	const refused = http.StatusMethodNotAllowed
	pod := func(name, version, label string) *corev1.Pod {
		p := world.NewPod("ns", name, "v="+label)
		p.ResourceVersion = version
		return p
	}
	for name, c := range map[string]struct {
		watch   int
		list    string
		version func(string) string // of an object
	}{
		"405":                     {refused, "7", func(v string) string { return v }},
		"501":                     {http.StatusNotImplemented, "7", func(v string) string { return v }},
		"watch ignored":           {0, "7", func(v string) string { return v }},
		"no version":              {refused, "", func(v string) string { return v }},
		"no version, and ignored": {0, "", func(v string) string { return v }},
		"no versions at all":      {refused, "", func(string) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			forEachFormat(t, func(w world.World, client *informer.Client) {
				server := &world.ListServer{Watch: c.watch}
				server.Set(c.list, pod("a", c.version("3"), "1"), pod("b", c.version("4"), "1"))
				w.Answer(server.Answer)
				for _, layout := range world.Layouts {
					config := world.Quiet[*corev1.Pod]()
					config.Layout = layout
					inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
					rec := &testkit.Recorder[*corev1.Pod]{}
					inf.Subscribe(rec)
					stop := world.Start(w.T, inf)
					rec.Want(w.T, world.Added...)
					before := server.Lists()
					<-time.After(10 * time.Minute)
					rec.Want(w.T)
					if n := server.Lists() - before; n < 19 || n > 20 {
						w.Errorf("%d lists in 10 minutes", n)
					}
					s := world.StatusOf(inf)
					if s.State != status.ReflectorPolled || s.Failures != 0 || s.Traffic.ListsBy[status.ReasonPolled] != server.Lists()-before {
						w.Errorf("status %+v", s)
					}
					server.Set(strings.Replace(c.list, "7", "9", 1), pod("b", c.version("8"), "2"), pod("c", c.version("9"), "1"))
					<-time.After(30 * time.Second)
					rec.Want(w.T, "delete ns/a 1 final=false", "update ns/b 1->2", "add ns/c 1 initial=false")
					server.Set(c.list, pod("a", c.version("3"), "1"), pod("b", c.version("4"), "1"))
					stop()
				}
			})
		})
	}
}

// With PollEvery below zero, a collection that cannot be watched is an error of WaitSynced and Run.
// Guarantees: R24, L4
func TestCollectionThatMustBeWatched(t *testing.T) {
	for list, watch := range map[string]int{"7": http.StatusMethodNotAllowed, "": 0} {
		forEachFormat(t, func(w world.World, client *informer.Client) {
			server := &world.ListServer{Watch: watch}
			server.Set(list, world.NewPod("ns", "a"))
			w.Answer(server.Answer)
			config := world.Quiet[*corev1.Pod]()
			config.PollEvery = -1
			inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
			ended := make(chan error, 1)
			go func() { ended <- inf.Run(w.Context()) }()
			if err := inf.WaitSynced(w.Context()); !errors.Is(err, informer.ErrNoWatch) || !errors.Is(err, informer.ErrStopped) {
				w.Errorf("WaitSynced: %v", err)
			}
			if err := <-ended; !errors.Is(err, informer.ErrNoWatch) {
				w.Errorf("Run: %v", err)
			}
			if inf.HasSynced() || inf.Store().Len() > 0 {
				w.Error("the informer has synced")
			}
		})
	}
}

// Without resource versions, a wait ends with the next list: nothing else can show that the store has a write.
// Guarantees: R24, C9
func TestWaitWithoutVersions(t *testing.T) {
	forEachFormat(t, func(w world.World, client *informer.Client) {
		server := &world.ListServer{Watch: http.StatusMethodNotAllowed}
		pod := world.NewPod("ns", "a")
		pod.ResourceVersion = "3"
		server.Set("", pod)
		w.Answer(server.Answer)
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		<-time.After(10 * time.Second)
		for name, c := range map[string]struct {
			wait func(ctx context.Context) error
			most time.Duration
		}{
			"the version that the store has": {func(ctx context.Context) error { return inf.WaitForObject(ctx, pod) }, 0},
			"a deleted object": {func(ctx context.Context) error {
				gone := world.NewPod("ns", "gone")
				gone.ResourceVersion = "5"
				return inf.WaitForObject(ctx, gone)
			}, 30 * time.Second},
			"a version": {func(ctx context.Context) error { return inf.WaitForResourceVersion(ctx, "5") }, 30 * time.Second},
		} {
			begun := time.Now()
			if err := c.wait(w.Context()); err != nil || time.Since(begun) > c.most || (time.Since(begun) > 0) != (c.most > 0) {
				w.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
		}
	})
}

// If a continue token expires, and the server offers another one, the list goes on at a later version. Nothing is cut
// off, nothing is deleted that exists, and no object goes back to an older version.
// Guarantees: R4
func TestListContinuesAtALaterVersion(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprintf("compacted=%v", compacted), func(t *testing.T) {
			forEachFormat(t, func(w world.World, client *informer.Client) {
				for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
					w.Create(world.NewPod("ns", name, "v=1"))
				}
				expired := false
				w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
					change(r, paged)
					if r.URL.Query().Has("watch") {
						<-time.After(time.Second) // else the backlog may combine an event with the addition before it
					}
					if expired || !r.URL.Query().Has("continue") {
						return false
					}
					expired = true
					w.Delete("ns", "a")         // was on the first page
					w.Relabel("ns", "b", "2")   // the same
					w.Relabel("ns", "c", "mid") // comes at its newest version
					w.Relabel("ns", "c", "2")
					w.Delete("ns", "d") // and is made again
					w.Create(world.NewPod("ns", "d", "v=2"))
					w.Delete("ns", "e")
					if compacted {
						w.Server.Compact()
					}
					world.ExpireToken(rw, r)
					return true
				})
				config := world.Paged[*corev1.Pod]()
				config.PageSize = 2
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				rec := &testkit.Recorder[*corev1.Pod]{}
				inf.Subscribe(rec)
				defer world.Start(w.T, inf)()
				<-time.After(time.Minute)
				got := rec.Take()
				initial := []string{"add ns/a 1 initial=true", "add ns/b 1 initial=true", "add ns/c 2 initial=true", "add ns/d 2 initial=true", "add ns/f 1 initial=true"}
				if len(got) < len(initial) || !slices.Equal(got[:5], initial) {
					w.Fatalf("initial events %q, status %+v", got, world.StatusOf(inf))
				}
				then := []string{"delete ns/a 1 final=true", "update ns/b 1->2"}
				if compacted {
					then = []string{"delete ns/a 1 final=false", "update ns/b 1->2"}
				}
				if !slices.Equal(got[5:], then) {
					w.Errorf("later events %q, want %q", got[5:], then)
				}
				world.EqualsServer(w, inf)
				if s := world.StatusOf(inf); s.Restored != 0 || s.Traffic.Late != 0 || s.Traffic.ListsBy[status.ReasonExpired] > 1 {
					w.Errorf("status %+v", s)
				}
			})
		})
	}
}

// If continue tokens always expire, each try begins anew once, and then waits for the backoff.
// Guarantees: R4, R12
func TestTokensThatAlwaysExpire(t *testing.T) {
	forEachFormat(t, func(w world.World, client *informer.Client) {
		for _, name := range []string{"a", "b", "c"} {
			w.Create(world.NewPod("ns", name, "v=1"))
		}
		tokens := 0
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			change(r, paged)
			query := r.URL.Query()
			switch {
			case query.Has("continue"):
				watchcache.WriteError(rw, r, world.Expired)
				return true
			case !query.Has("limit") && !world.AsksToWatch(r): // pages all the same, with other tokens
				tokens++
				world.WritePods(rw, r, "9", fmt.Sprint("token", tokens), world.NewPod("ns", "a"))
				return true
			}
			return false
		})
		config := world.Paged[*corev1.Pod]()
		config.PageSize = 2
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Run(w, inf)()
		<-time.After(10 * time.Minute)
		s := world.StatusOf(inf)
		if n := len(w.Server.Requests()); n > 250 || s.Failures < 10 || !strings.Contains(s.LastError.Error(), "a continue token has expired again") {
			w.Errorf("%d requests, status %+v", n, s)
		}
		w.Answer(nil)
		<-time.After(time.Minute)
		world.EqualsServer(w, inf)
	})
}
