package recovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
	"github.com/typedinformer/informer/watchcache"
)

// The last initial event of an object counts. If it decodes, the object is not stale; if it is a deletion, the object is gone,
// even if an earlier version could not be decoded.
// Guarantees: R16, R17
func TestLastInitialEventOfAnObjectCounts(t *testing.T) {
	const a1, b1 = "ADDED a 1", "ADDED b 1"
	for name, c := range map[string]struct {
		relist []string // initial events of the second list; pod b with v=bad cannot be decoded
		events []string
		stale  int
	}{
		"decoded in the end":               {[]string{a1, "ADDED b bad", "MODIFIED b 2"}, []string{"update ns/b 1->2"}, 0},
		"decoded before":                   {[]string{a1, "ADDED b 2", "MODIFIED b bad"}, []string{"update ns/b 1->2"}, 1},
		"deleted in the end":               {[]string{a1, "ADDED b bad", "DELETED b 2"}, []string{"delete ns/b 1 final=false"}, 0},
		"deletion not decoded":             {[]string{a1, "ADDED b bad", "DELETED b bad"}, []string{"delete ns/b 1 final=false"}, 0},
		"added again":                      {[]string{a1, "ADDED b 2", "DELETED b 2", "ADDED b 3"}, []string{"update ns/b 1->3"}, 0},
		"never decoded":                    {[]string{a1, "ADDED b bad", "MODIFIED b bad"}, nil, 1},
		"decoded between two that are not": {[]string{a1, "ADDED b bad", "MODIFIED b 2", "MODIFIED b bad"}, []string{"update ns/b 1->2"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				inf, rec := w.PodInformer(informer.Config[*corev1.Pod]{})
				rv, lists := 10, 0
				send := func(rw http.ResponseWriter, event, metadata string) {
					rv++
					fmt.Fprintf(rw, `{"type":%q,"object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"%d",%s}}}`+"\n", event, rv, metadata)
				}
				w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
					rw.Header().Set("Content-Type", "application/json")
					if !r.URL.Query().Has("sendInitialEvents") {
						rw.WriteHeader(http.StatusGone)
						return true
					}
					events := []string{a1, b1}
					if lists++; lists > 1 {
						events = c.relist
					}
					for _, e := range events {
						event, pod, _ := strings.Cut(e, " ")
						name, v, _ := strings.Cut(pod, " ")
						labels := fmt.Sprintf(`{"v":%q}`, v)
						if v == "bad" {
							labels = `"bad"`
						}
						send(rw, event, fmt.Sprintf(`"namespace":"ns","name":%q,"uid":%q,"labels":%s`, name, name, labels))
					}
					send(rw, "BOOKMARK", `"annotations":{"k8s.io/initial-events-end":"true"}`)
					http.NewResponseController(rw).Flush()
					if lists > 1 {
						<-r.Context().Done()
					}
					<-time.After(5 * time.Second) // a watch that ends sooner is not reopened at once
					return true
				})
				defer world.Start(w.T, inf)()
				rec.Want(w.T, "add ns/a 1 initial=true", "add ns/b 1 initial=true")
				<-time.After(10 * time.Second)
				rec.Want(w.T, append([]string{"update ns/a 1->1"}, c.events...)...)
				if s := inf.Status().Reflectors[0]; s.Stale != c.stale || lists != 2 {
					w.Errorf("after %d lists: status %+v", lists, s)
				}
			})
		})
	}
}

// If the token of a later page expires, the list starts again. The earlier pages have no effect: neither their objects, nor
// their decode errors, nor their count in Status.
// Guarantees: R4
func TestListBeginsAnewWhenATokenExpires(t *testing.T) {
	for page := 2; page <= 4; page++ {
		t.Run(fmt.Sprintf("page %d", page), func(t *testing.T) {
			pages := 1
			world.Bubble(t, func(w world.World) {
				inf, rec := w.PodInformer(informer.Config[*corev1.Pod]{PagedList: true, PageSize: 2})
				for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
					w.Create(world.NewPod("ns", name, "v=1"))
				}
				defer world.Start(w.T, inf)()
				synctest.Wait()
				rec.Take()
				<-time.After(10 * time.Second) // a watch that ends sooner is not reopened at once
				w.Server.ResetRequests()
				w.Server.Inject(informertest.Fault{Verb: "watch", Times: 1, Error: world.Expired})
				w.Server.Inject(informertest.Fault{Verb: "list", Times: 1, Corrupt: []informer.Key{world.KeyB}})
				w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
					if r.URL.Query().Has("continue") {
						if pages++; pages == page { // compact the token's snapshot away
							w.Delete("ns", "a")
							w.Delete("ns", "b")
							w.Relabel("ns", "c", "2")
							watchcache.WriteError(rw, r, world.Expired) // without another token
							return true
						}
					}
					return false
				})
				w.Server.EndWatches()
				w.Relabel("ns", "b", "2")
				<-time.After(time.Second)
				rec.Want(w.T, "delete ns/a 1 final=false", "delete ns/b 1 final=false", "update ns/c 1->2")
				want := []string{"watch resourceVersion=8", "list resourceVersion=8 resourceVersionMatch=NotOlderThan limit=2"}
				for range page - 1 {
					want = append(want, "list limit=2 continue")
				}
				w.WantRequests(append(want, "list resourceVersion=9 resourceVersionMatch=NotOlderThan", "watch resourceVersion=12")...)
				if s := inf.Status().Reflectors[0]; s.Stale != 0 || s.List.Objects != 5 {
					w.Errorf("status %+v", s)
				}
				world.EqualsServer(w, inf)
			})
		})
	}
}

// http2Body fails as an HTTP/2 body does when its request is cancelled: without the cause.
type http2Body struct {
	io.ReadCloser
	ctx context.Context
}

func (b http2Body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.ctx.Err() != nil {
		err = b.ctx.Err()
	}
	return n, err
}

// A watch that continues after the initial events has the usual deadline: silence there means a dead connection.
// Guarantees: R18
func TestSilenceBehindTheInitialEvents(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		w.Server.Inject(informertest.Fault{Match: world.Streamed, AfterEvents: 2, Hang: true})
		client := w.Client(func(c *rest.Config) {
			c.Wrap(func(next http.RoundTripper) http.RoundTripper {
				return world.RoundTripper(func(r *http.Request) (*http.Response, error) {
					resp, err := next.RoundTrip(r)
					if err == nil {
						resp.Body = http2Body{resp.Body, r.Context()}
					}
					return resp, err
				})
			})
		})
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		opened := w.Server.Requests()[0].Time
		<-time.After(5*time.Minute + 29*time.Second)
		if s := inf.Status().Reflectors[0]; !s.WatchOpen || s.LastError != nil {
			w.Errorf("status before the deadline %+v", s)
		}
		<-time.After(5*time.Minute + 3*time.Second)
		requests := w.Server.Requests()
		w.WantRequests(world.Streams, "watch resourceVersion=2")
		if len(requests) == 2 && requests[1].Time.Sub(opened) > 10*time.Minute+31*time.Second {
			w.Errorf("watched again after %v", requests[1].Time.Sub(opened))
		}
		if s := inf.Status().Reflectors[0]; !errors.Is(s.LastError, informer.ErrNoProgress) || !s.WatchOpen {
			w.Errorf("status %+v", s)
		}
	})
}

// Clients that the server throttled together return at different times, and none too early.
// Guarantees: R11
func TestRetryAfterIsSpread(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		const informers = 20
		w.Server.Inject(informertest.Fault{Times: informers, Error: world.Throttled})
		began := time.Now()
		ctx, cancel := context.WithCancel(w.Context())
		var running sync.WaitGroup
		for range informers {
			inf := w.QuietInformer()
			running.Go(func() { _ = inf.Run(ctx) })
		}
		<-time.After(2 * time.Minute)
		cancel()
		running.Wait()
		times := map[time.Duration]bool{}
		for _, r := range w.Server.Requests()[informers:] {
			after := r.Time.Sub(began)
			if times[after] = true; after < 100*time.Second || after > 110*time.Second {
				w.Errorf("came back after %v", after)
			}
		}
		if len(times) < informers/2 {
			w.Errorf("came back at only %d different times", len(times))
		}
	})
}

// Healthy time starts after the backoff: a failure that follows a long backoff is one more in a row.
// Guarantees: R12
func TestFailuresInARowAfterLongWaits(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Server.Inject(informertest.Fault{Times: 3, Error: apierrors.NewTooManyRequests("later", 300)})
		inf := w.QuietInformer()
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error)
		go func() { ended <- inf.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		for failures := 1; failures <= 3; failures++ {
			<-time.After(time.Second)
			if s := inf.Status().Reflectors[0]; s.Failures != failures || s.State != status.ReflectorBackoff {
				w.Errorf("after %d failures: %+v", failures, s)
			}
			<-time.After(331 * time.Second) // the wait takes 300 to 330 s
		}
		<-time.After(2 * time.Minute)
		if s := inf.Status().Reflectors[0]; s.Failures != 0 || s.State != status.ReflectorWatching {
			w.Errorf("after two healthy minutes: %+v", s)
		}
	})
}

// A resource that is not served has no objects, and so no stale ones.
// Guarantees: R14, R17
func TestAbsentResourceHasNothingStale(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		<-time.After(10 * time.Second)
		w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{world.KeyB}})
		w.Server.EndWatches()
		synctest.Wait()
		w.Relabel("ns", "b", "2")
		synctest.Wait()
		if s := inf.Status().Reflectors[0]; s.Stale != 1 {
			w.Errorf("status %+v", s)
		}
		w.Pods.Unregister()
		<-time.After(5 * time.Minute)
		if s := inf.Status().Reflectors[0]; s.Stale != 0 || s.State != status.ReflectorAbsent || inf.Store().Len() != 0 {
			w.Errorf("%d objects, status %+v", inf.Store().Len(), s)
		}
	})
}

// The same of a reflector with a sink of the user, which does not count its stale objects.
// Guarantees: R14, R17
func TestAbsentResourceHasNothingStaleInASink(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		r, err := informer.NewReflector(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, &sinkOf{}, world.Quiet[*corev1.Pod]())
		if err != nil {
			w.Fatal(err)
		}
		w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{world.KeyB}})
		defer world.Run(w, r)()
		<-time.After(10 * time.Second)
		synctest.Wait()
		if s := r.Status(); s.Stale != 1 {
			w.Errorf("status %+v", s)
		}
		w.Pods.Unregister()
		<-time.After(5 * time.Minute)
		if s := r.Status(); s.Stale != 0 || s.State != status.ReflectorAbsent && s.State != status.ReflectorListing {
			w.Errorf("status %+v", s)
		}
	})
}

// The client closes a useless response at once, even if the server has not ended it, so that unread requests and connections
// do not pile up.
// Guarantees: R22
func TestUselessAnswersAreLetGo(t *testing.T) {
	for name, c := range map[string]struct{ contentType, body string }{
		"content type": {"text/html", "<html>"},
		"no list":      {"application/json", "[]"},
		"no protobuf":  {"application/vnd.kubernetes.protobuf", "nothing"},
	} {
		for _, paged := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, paged=%v", name, paged), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{PagedList: paged})
					var answered, open, most atomic.Int32
					w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
						answered.Add(1)
						if n := open.Add(1); n > most.Load() {
							most.Store(n)
						}
						defer open.Add(-1)
						rw.Header().Set("Content-Type", c.contentType)
						fmt.Fprint(rw, c.body)
						http.NewResponseController(rw).Flush()
						<-r.Context().Done()
						return true
					})
					ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
					defer cancel()
					_ = inf.Run(ctx)
					if answered.Load() < 10 || most.Load() != 1 {
						w.Errorf("%d answers, up to %d open at a time", answered.Load(), most.Load())
					}
				})
			})
		}
	}
}
