package recovery

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
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

// accepts makes the server refuse all tokens but one.
func accepts(w world.World, token string) {
	w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Authorization") == "Bearer "+token {
			return false
		}
		watchcache.WriteError(rw, r, apierrors.NewUnauthorized("the token is revoked"))
		return true
	})
}

// withToken returns a configuration of a client with that token.
func withToken(w world.World, token string) *rest.Config {
	config := w.Server.Config()
	config.BearerToken = token
	return config
}

// update updates a client.
func update(w world.World, client *informer.Client, config *rest.Config) {
	w.Helper()
	if err := client.Update(config); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

// podsOf returns a running informer that has the pods A and B, and its recorder.
func podsOf(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) (*informer.Informer[*corev1.Pod], *testkit.Recorder[*corev1.Pod]) {
	w.Helper()
	w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
	inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
	rec := &testkit.Recorder[*corev1.Pod]{}
	inf.Subscribe(rec)
	world.Start(w.T, inf)
	synctest.Wait()
	rec.Want(w.T, world.Added...)
	w.Server.ResetRequests()
	return inf, rec
}

// A watch that is open when the client gets other credentials resumes with them at its version. Nothing is listed, no handler is called, and it
// is no failure.
// Guarantees: R13
func TestUpdateResumesTheWatch(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		update(w, client, withToken(w, "old"))
		inf, rec := podsOf(w, client, config)
		began := time.Now()
		update(w, client, withToken(w, "new"))
		for _, r := range w.Server.Requests() {
			if got := r.Header.Get("Authorization"); got != "Bearer new" {
				w.Errorf("%s %s has %q", r.Verb, r.Path, got)
			}
		}
		w.WantRequests(fmt.Sprintf(world.Watches, w.Server.ResourceVersion()))
		s := world.StatusOf(inf)
		if !s.WatchOpen || s.LastError != nil || s.Failures != 0 || s.Traffic.WatchesBy[status.ReasonUpdated] != 1 || time.Since(began) > 0 {
			w.Errorf("after %v: %+v", time.Since(began), s)
		}
		rec.Want(w.T)
		w.Relabel("ns", "b", "2")
		world.EqualsServer(w, inf)
		synctest.Wait()
		rec.Want(w.T, world.Updated...)
	})
}

// An informer that waits after a 401 for the old credentials tries again at once when the client gets new ones, whether it has objects or not. It
// forgets the failures.
// Guarantees: R13
func TestUpdateEndsTheBackoff(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		update(w, client, withToken(w, "old"))
		inf, rec := podsOf(w, client, config)
		accepts(w, "new")
		w.Server.EndWatches()
		fresh := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Run(w, fresh)()
		<-time.After(10 * time.Minute)
		synctest.Wait()
		for _, i := range []*informer.Informer[*corev1.Pod]{inf, fresh} {
			if s := world.StatusOf(i); s.State != status.ReflectorBackoff || s.Failures < 5 {
				w.Errorf("%+v", s)
			}
		}
		w.Server.ResetRequests()
		began := time.Now()
		update(w, client, withToken(w, "new"))
		for _, i := range []*informer.Informer[*corev1.Pod]{inf, fresh} {
			if s := world.StatusOf(i); !s.WatchOpen || s.Failures != 0 || !i.HasSynced() || time.Since(began) > 0 {
				w.Errorf("after %v: %+v", time.Since(began), s)
			}
		}
		if s := world.StatusOf(inf); s.Traffic.Lists != 1 {
			w.Errorf("%d lists", s.Traffic.Lists)
		}
		rec.Want(w.T)
		world.EqualsServer(w, inf)
		world.EqualsServer(w, fresh)
	})
}

// An update while a watch is open makes the failures before it forgotten, too.
// Guarantees: R13
func TestUpdateForgetsFailures(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		inf, _ := podsOf(w, client, config)
		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 3, Error: world.Unavailable})
		<-time.After(2 * time.Second) // a watch that ends at once is a failure
		w.Server.EndWatches()
		synctest.Wait()
		for !world.StatusOf(inf).WatchOpen {
			<-time.After(100 * time.Millisecond)
		}
		if s := world.StatusOf(inf); s.Failures != 3 {
			w.Fatalf("%+v", s)
		}
		update(w, client, withToken(w, "new"))
		if s := world.StatusOf(inf); s.Failures != 0 || !s.WatchOpen {
			w.Errorf("%+v", s)
		}
	})
}

// An update during a request that then fails for its old credentials counts as well: no backoff follows.
// Guarantees: R13
func TestUpdateDuringTheFailingRequest(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		asked, answer := make(chan struct{}), make(chan struct{})
		client := w.Client(func(c *rest.Config) { c.BearerToken = "old" })
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Authorization") == "Bearer new" {
				return false
			}
			asked <- struct{}{}
			<-answer
			watchcache.WriteError(rw, r, apierrors.NewUnauthorized("the token is revoked"))
			return true
		})
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
		defer world.Run(w, inf)()
		<-asked
		began := time.Now()
		update(w, client, withToken(w, "new"))
		close(answer)
		if err := inf.WaitSynced(w.Context()); err != nil || time.Since(began) > 0 {
			w.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A streaming list that is under way when the client gets other credentials goes on. The watch then resumes with the new ones.
// Guarantees: R13
func TestUpdateDuringAStreamingList(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		hold := w.Server.Hold(informertest.Watches{})
		client := w.Client(func(c *rest.Config) { c.BearerToken = "old" })
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
		defer world.Run(w, inf)()
		synctest.Wait()
		update(w, client, withToken(w, "new"))
		w.WantRequests(world.Streams)
		hold.Release()
		w.WantRequests(fmt.Sprintf(world.Watches, w.Server.ResourceVersion()))
		if s := world.StatusOf(inf); !s.WatchOpen || s.LastError != nil {
			w.Errorf("%+v", s)
		}
		world.EqualsServer(w, inf)
	})
}

// hosts notes the hosts that requests name, and the requests.
type hosts struct {
	mu  sync.Mutex
	all []string
}

func (h *hosts) note(r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := "list"
	if world.AsksToWatch(r) {
		text = "watch"
	}
	if r.URL.Query().Has("continue") {
		text = "page"
	}
	h.all = append(h.all, text+" "+r.Host+" "+r.Header.Get("Authorization"))
}

func (h *hosts) take() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.all = nil }()
	return h.all
}

// A list that is under way goes on, page by page, when the client gets other credentials: the next page has them. It begins again if the client
// gets another address.
// Guarantees: R13
func TestUpdateDuringAPagedList(t *testing.T) {
	for name, moves := range map[string]bool{"credentials": false, "address": true} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				for i := range 3 {
					w.Create(world.NewPod("ns", fmt.Sprint(i)))
				}
				seen, asked, answer := &hosts{}, make(chan struct{}, 1), make(chan struct{})
				first := atomic.Bool{}
				first.Store(true)
				w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
					seen.note(r)
					if first.Swap(false) {
						asked <- struct{}{}
						select {
						case <-answer:
						case <-r.Context().Done():
						}
					}
					return false
				})
				config := world.Paged[*corev1.Pod]()
				config.PageSize = 2
				client := w.Client(func(c *rest.Config) { c.BearerToken, c.Host = "old", "http://one" })
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				defer world.Run(w, inf)()
				<-asked
				renewed := withToken(w, "new")
				renewed.Host = "http://one"
				if moves {
					renewed.Host = "http://two"
				}
				began := time.Now()
				update(w, client, renewed)
				close(answer)
				if err := inf.WaitSynced(w.Context()); err != nil || time.Since(began) > 0 {
					w.Errorf("after %v: %v", time.Since(began), err)
				}
				synctest.Wait()
				want := []string{"list one Bearer old", "watch one Bearer new"}
				if moves {
					want = []string{"list one Bearer old", "list two Bearer new", "watch two Bearer new"}
				}
				if got := seen.take(); !slices.Equal(got, want) {
					w.Errorf("requests %q, want %q", got, want)
				}
				if s := world.StatusOf(inf); s.LastError != nil || s.Failures != 0 {
					w.Errorf("%+v", s)
				}
			})
		})
	}
}

// When the client gets another address of the cluster, the watch resumes there. An audit follows within a minute, and finds nothing. Other
// credentials are no reason for an audit.
// Guarantees: R13, R23
func TestUpdateOfTheAddressIsAudited(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		inf, rec := podsOf(w, client, config)
		update(w, client, withToken(w, "new"))
		<-time.After(3 * time.Minute)
		if a := inf.Status().Audit; a.Equal != 0 {
			w.Errorf("other credentials are audited: %+v", a)
		}
		seen := &hosts{}
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool { seen.note(r); return false })
		moved := withToken(w, "new")
		moved.Host = "http://other"
		update(w, client, moved)
		if got := seen.take(); !slices.Equal(got, []string{"watch other Bearer new"}) {
			w.Errorf("requests %q", got)
		}
		if got := client.Status().Host; got != "other" {
			w.Errorf("host %q", got)
		}
		<-time.After(time.Minute)
		if a := inf.Status().Audit; a.Equal != 1 || a.Different != 0 || a.Failed != 0 {
			w.Errorf("audits: %+v", a)
		}
		rec.Want(w.T)
	})
}

// An address of another cluster is a mistake that the audit finds: the store then equals that cluster.
// Guarantees: R13, R23
func TestUpdateToAnotherClusterIsFound(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		client := w.Client()
		inf, _ := podsOf(w, client, world.Quiet[*corev1.Pod]())
		other := world.New(w.T, informertest.Options{InMemory: true})
		other.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "c", "v=1")) // the same versions, other objects
		config := other.Server.Config()
		config.Host = "http://other"
		update(w, client, config)
		<-time.After(5 * time.Minute)
		synctest.Wait()
		if a := inf.Status().Audit; a.Different != 1 {
			w.Errorf("audits: %+v", a)
		}
		world.EqualsServer(other, inf)
	})
}

// A client follows its server to another certificate authority, over HTTP/2 and HTTP/1.1. The connections to the old one are closed. A
// configuration that is invalid changes nothing.
// Guarantees: R13
func TestUpdateOfTheCertificateAuthority(t *testing.T) {
	for _, streams := range []int{100, 0} {
		for _, media := range []string{world.JSONType, world.ProtobufType} {
			t.Run(fmt.Sprintf("%s,streams=%d", media, streams), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					before, after := w.Front(streams), w.Front(streams)
					config := rest.CopyConfig(before.Config)
					config.ContentType = media
					client, err := informer.NewClient(config)
					if err != nil {
						t.Fatal(err)
					}
					inf, rec := podsOf(w, client, world.Quiet[*corev1.Pod]())
					pods := informer.NewTypedClient[*corev1.Pod](client, world.PodGVR)
					if _, err := pods.Get(w.Context(), world.KeyA, metav1.GetOptions{}); err != nil {
						t.Fatal(err)
					}
					w.Server.ResetRequests()

					for name, change := range map[string]func(*rest.Config){
						"authority": func(c *rest.Config) { c.CAData = []byte("none") },
						"address":   func(c *rest.Config) { c.Host = "http://%" },
						"key":       func(c *rest.Config) { c.CertData, c.KeyData = []byte("none"), []byte("none") },
					} {
						wrong := rest.CopyConfig(after.Config)
						change(wrong)
						if err := client.Update(wrong); err == nil {
							t.Errorf("an invalid %s is no error", name)
						}
					}
					if client.Update(nil) == nil {
						t.Error("nil is no error")
					}
					w.WantRequests()
					if n, _ := after.Connections(); n != 0 || !world.StatusOf(inf).WatchOpen {
						t.Errorf("%d connections to the other front", n)
					}

					update(w, client, after.Config)
					w.WantRequests(fmt.Sprintf(world.Watches, w.Server.ResourceVersion()))
					<-time.After(5 * time.Second)
					if _, open := before.Connections(); open != 0 {
						t.Errorf("%d connections to the old front are open", open)
					}
					if _, err := pods.Get(w.Context(), world.KeyA, metav1.GetOptions{}); err != nil {
						t.Error(err)
					}
					w.Relabel("ns", "b", "2")
					world.EqualsServer(w, inf)
					synctest.Wait()
					rec.Want(t, world.Updated...)
					if s := world.StatusOf(inf); s.LastError != nil {
						t.Error(s.LastError)
					}
				})
			})
		}
	}
}

// Clients that were made from one another are updated together, with the typed clients that use them, whichever is updated. What the update does
// not change remains.
// Guarantees: R13
func TestCopiesOfAClientAreUpdatedTogether(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		client := w.Client(func(c *rest.Config) { c.UserAgent, c.BearerToken = "mine", "old" })
		traced := client.WithTracer(noTracer{})
		inf, _ := podsOf(w, traced, world.Quiet[*corev1.Pod]())
		for _, updated := range []*informer.Client{client, traced} {
			token := fmt.Sprintf("%p", updated)
			w.Server.ResetRequests()
			config := withToken(w, token)
			config.UserAgent = "other"
			update(w, updated, config)
			if !world.StatusOf(inf).WatchOpen {
				t.Error("no watch")
			}
			for _, c := range []*informer.Client{client, traced} {
				if _, err := informer.NewTypedClient[*corev1.Pod](c, world.PodGVR).Get(w.Context(), world.KeyA, metav1.GetOptions{}); err != nil {
					t.Error(err)
				}
			}
			all := w.Server.Requests()
			if len(all) != 3 {
				t.Errorf("%d requests", len(all))
			}
			for _, r := range all {
				if r.Header.Get("Authorization") != "Bearer "+token || r.Header.Get("User-Agent") != "mine" {
					t.Errorf("%s: %v", r.Verb, r.Header)
				}
			}
		}
	})
}

type noTracer struct{}

func (noTracer) Request(ctx context.Context, _ informer.RequestTrace) (context.Context, func(informer.RequestResult)) {
	return ctx, func(informer.RequestResult) {}
}

func (noTracer) Reconcile(ctx context.Context, _ string, _ any) (context.Context, func(error)) {
	return ctx, func(error) {}
}

// Updates may come from any goroutine, at any time. No change is lost.
// Guarantees: R13, L5
func TestUpdatesBesideEverything(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		inf, rec := podsOf(w, client, config)
		pods := informer.NewTypedClient[*corev1.Pod](client.WithTracer(noTracer{}), world.PodGVR)
		var running sync.WaitGroup
		for worker := range 4 {
			running.Go(func() {
				for i := range testkit.Rounds(10, 50) {
					next := withToken(w, fmt.Sprint(worker, i))
					next.Host = fmt.Sprintf("http://%d", i%3)
					if err := client.Update(next); err != nil {
						w.Error(err)
					}
					client.Status()
					inf.Status()
					<-testkit.After(time.Duration(worker) * time.Millisecond)
				}
			})
			running.Go(func() {
				for i := range testkit.Rounds(10, 50) {
					if _, err := pods.Create(w.Context(), world.NewPod("ns", fmt.Sprintf("p%d-%d", worker, i)), metav1.CreateOptions{}); err != nil {
						w.Error(err)
					}
				}
			})
		}
		running.Wait()
		world.EqualsServer(w, inf)
		synctest.Wait()
		if rec.Broken() > 0 {
			w.Errorf("%d calls do not follow from earlier ones", rec.Broken())
		}
		if s := world.StatusOf(inf); s.Traffic.Lists != 1 || s.LastError != nil {
			w.Errorf("%+v", s)
		}
	})
}
