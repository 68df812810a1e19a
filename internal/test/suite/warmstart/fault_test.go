package warmstart

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// refuse answers with a status code and a Status.
func refuse(code int) world.Answer {
	return func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", world.JSONType)
		rw.WriteHeader(code)
		fmt.Fprintf(rw, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"reason":%q,"message":"no"}`, code, map[int]string{403: "Forbidden", 503: "ServiceUnavailable"}[code])
		return true
	}
}

// countCalls counts the calls of do.
func countCalls(do world.Answer) (world.Answer, *atomic.Int64) {
	var calls atomic.Int64
	return func(rw http.ResponseWriter, r *http.Request) bool {
		calls.Add(1)
		return do(rw, r)
	}, &calls
}

// bookmark sends a bookmark with the resource version from which the watch r begins.
func bookmark(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", world.JSONType)
	fmt.Fprintf(rw, `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":%q}}}`, r.URL.Query().Get("resourceVersion"))
	rw.(http.Flusher).Flush()
}

func asksForCluster(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/namespaces/kube-system")
}

func asksForCurrent(r *http.Request) bool {
	return !world.AsksToWatch(r) && r.URL.Query().Get("limit") == "1"
}

// warmAfter saves a state, changes what change does, and starts an informer whose requests that match get the answer.
// It returns that informer, and how long its start took, at most two minutes.
func warmAfter(w world.World, change func(), match func(*http.Request) bool, do world.Answer) (inf *informer.Informer[*corev1.Pod], took time.Duration, stop func()) {
	w.Helper()
	config := saving(w.T)
	w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
	live(w, w.Client(), pods, config).stop()
	change()
	w.Answer(func(rw http.ResponseWriter, r *http.Request) bool { return match(r) && do(rw, r) })
	inf, _ = w.PodInformer(config)
	stop = world.Run(w, inf)
	wait, cancelWait := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancelWait()
	began := time.Now()
	if err := inf.WaitSynced(wait); err != nil {
		w.Errorf("not synced: %v; %v", err, world.StatusOf(inf).LastError)
	} else {
		world.EqualsServer(w, inf)
	}
	return inf, time.Since(began), stop
}

// If the requests that check a saved state fail, the informer lists and says why.
// Guarantees: S4
func TestWarmStartThatCannotBeCheckedLists(t *testing.T) {
	notJSON := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", world.JSONType)
		fmt.Fprint(rw, "<html>")
		return true
	}
	for _, test := range []struct {
		name  string
		match func(*http.Request) bool
		do    world.Answer
		tries int64
	}{
		{"a list is forbidden", asksForCurrent, refuse(403), 1},
		{"a list fails", asksForCurrent, refuse(500), 1},
		{"a list is not JSON", asksForCurrent, notJSON, 3},
		{"a list times out at a proxy", asksForCurrent, refuse(504), 3},
		{"kube-system fails", asksForCluster, refuse(500), 1},
		{"kube-system is a bad request", asksForCluster, refuse(400), 1},
		{"kube-system is unavailable", asksForCluster, refuse(503), 3},
		{"kube-system is not JSON", asksForCluster, notJSON, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				do, tries := countCalls(test.do)
				inf, took, stop := warmAfter(w, func() { w.Relabel("ns", "a", "2") }, test.match, do)
				s := world.StatusOf(inf)
				if n := tries.Load(); n != test.tries {
					t.Errorf("the saved state was tried %d times, want %d", n, test.tries)
				}
				if s.WarmStart.Loaded || s.WarmStart.LoadError == nil || !strings.Contains(s.WarmStart.LoadError.Error(), "cannot be checked") {
					t.Errorf("%+v", s.WarmStart)
				}
				if test.tries == 1 && took > 0 || took > 10*time.Second {
					t.Errorf("synced after %v", took)
				}
				stop()
			})
		})
	}
}

// If the watches after a warm start fail, or do not confirm the version of the server, the informer lists.
// Guarantees: S4
func TestWarmStartThatCannotCatchUpLists(t *testing.T) {
	ends := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", world.JSONType)
		return true
	}
	reports := func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.Header().Set("Content-Type", world.JSONType)
		fmt.Fprint(rw, `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,"reason":"InternalError","message":"no"}}`)
		return true
	}
	repeats := func(rw http.ResponseWriter, r *http.Request) bool {
		seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
		for range seconds {
			bookmark(rw, r)
			time.Sleep(time.Second)
		}
		return true
	}
	repeatsAndReports := func(rw http.ResponseWriter, r *http.Request) bool {
		bookmark(rw, r)
		return reports(rw, r)
	}
	noBookmarks := func(_ http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		q.Del("allowWatchBookmarks")
		r.URL.RawQuery = q.Encode()
		return false
	}
	noTimeout := func(_ http.ResponseWriter, r *http.Request) bool {
		q := r.URL.Query()
		q.Del("allowWatchBookmarks")
		q.Set("timeoutSeconds", "3600")
		r.URL.RawQuery = q.Encode()
		return false
	}
	for _, test := range []struct {
		name    string
		do      world.Answer
		watches int64
		max     time.Duration
	}{
		{"forbidden", refuse(403), 1, time.Second},
		{"unavailable", refuse(503), 6, time.Minute},
		{"internal error", refuse(500), 6, time.Minute},
		{"an error event", reports, 6, time.Minute},
		{"an error event after a bookmark of the loaded version", repeatsAndReports, 6, time.Minute},
		{"ends at once", ends, 6, time.Minute},
		{"no bookmarks", noBookmarks, 3, 23 * time.Second},
		{"bookmarks of the loaded version", repeats, 3, 23 * time.Second},
		{"ignores the timeout", noTimeout, 1, 40 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				do, watches := countCalls(test.do)
				nodes := informertest.Register[*corev1.Node](w.Server, informertest.Resource{GroupVersionResource: world.NodeGVR, ClusterScoped: true})
				inf, took, stop := warmAfter(w, func() {
					if _, err := nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); err != nil {
						t.Fatal(err)
					}
				}, func(r *http.Request) bool { return world.AsksToWatch(r) && !world.AsksToStream(r) }, do)
				s := world.StatusOf(inf)
				if n := watches.Load(); n != test.watches {
					t.Errorf("%d watches after the saved state, want %d", n, test.watches)
				}
				if !s.WarmStart.Loaded || s.WarmStart.LoadError == nil || s.Traffic.ListsBy[status.ReasonBehind] != 1 {
					t.Errorf("%+v %v", s.WarmStart, s.Traffic.ListsBy)
				}
				if took > test.max {
					t.Errorf("synced after %v", took)
				}
				stop()
			})
		})
	}
}

// Only consecutive watches without progress count: five that fail, one that ends normally and one more that fails lead
// to no list.
// Guarantees: S4
func TestFailuresAroundANormalEndLeadToNoList(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		fails := refuse(503)
		watches := 0
		inf, took, stop := warmAfter(w, func() { w.Relabel("ns", "a", "2") },
			func(r *http.Request) bool { return world.AsksToWatch(r) && !world.AsksToStream(r) },
			func(rw http.ResponseWriter, r *http.Request) bool {
				rw.Header().Set("Retry-After", "1") // so that all of it is over before the informer lists because of the time
				switch watches++; {
				case watches <= 5 || watches == 7:
					return fails(rw, r)
				case watches == 6:
					bookmark(rw, r)
					time.Sleep(2 * time.Second)
					return true
				}
				return false
			})
		s := world.StatusOf(inf)
		if watches != 8 || !s.WarmStart.Loaded || s.WarmStart.LoadError != nil || len(s.Traffic.ListsBy) > 0 {
			t.Errorf("%d watches in %v, lists %v: %+v", watches, took, s.Traffic.ListsBy, s.WarmStart)
		}
		stop()
	})
}

// While no connection is possible, no failure counts: a list would fail, too.
// Guarantees: S4
func TestUnreachableServerLeadsToNoList(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		fails := refuse(503)
		watches := 0
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		live(w, w.Client(), pods, config).stop()
		w.Relabel("ns", "a", "2")
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			if !world.AsksToWatch(r) {
				return false
			}
			watches++
			if watches == 1 {
				go w.Server.Stop() // it waits for this request
				<-r.Context().Done()
				return true
			}
			return watches == 2 && fails(rw, r)
		})
		inf, _ := w.PodInformer(config)
		stop := world.Run(w, inf)
		time.Sleep(5 * time.Minute)
		if s := world.StatusOf(inf); s.Failures < 7 || !s.WarmStart.Loaded {
			t.Errorf("the server was not unreachable: %+v", s)
		}
		w.Server.Start()
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		if s := world.StatusOf(inf); watches != 3 || s.WarmStart.LoadError != nil || len(s.Traffic.ListsBy) > 0 {
			t.Errorf("%d watches, lists %v: %+v", watches, s.Traffic.ListsBy, s.WarmStart)
		}
		stop()
	})
}

// SetShard returns only when the store has what the server had after the start: with older objects, another replica
// might already work on one of them.
// Guarantees: S2, S4
func TestSetShardWaitsUntilAWarmStartHasCaughtUp(t *testing.T) {
	for _, loaded := range []bool{false, true} { // whether the saved state was loaded before SetShard
		t.Run(fmt.Sprintf("loaded=%v", loaded), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				config := saving(w.T)
				w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "gone", "v=1"))
				resource := pods
				resource.Shard = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64}}}
				live(w, w.Client(), resource, config).stop()
				w.Delete("ns", "gone")
				w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
					if world.AsksToWatch(r) {
						time.Sleep(20 * time.Second)
					}
					return false
				})
				if !loaded {
					resource.Shard = informer.Shard{}
				}
				inf := informer.New(w.Client(), resource, config)
				ctx, cancel := context.WithCancel(w.Context())
				ended := make(chan struct{})
				run := func() { defer close(ended); inf.Run(ctx) }
				if loaded {
					go run()
					synctest.Wait()
				}
				set := make(chan error, 1)
				go func() {
					set <- inf.SetShard(ctx, informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64}}})
				}()
				synctest.Wait()
				if s := world.StatusOf(inf).WarmStart; s.Loaded != loaded {
					w.Errorf("before SetShard: %+v", s)
				}
				if !loaded {
					go run()
				}
				if err := <-set; err != nil || !inf.HasSynced() || world.Names(inf.Store().List()) != "ns/a" {
					w.Errorf("SetShard returned %v with %s in the store, synced %v", err, world.Names(inf.Store().List()), inf.HasSynced())
				}
				if s := world.StatusOf(inf).WarmStart; !s.Loaded || s.LoadError != nil {
					w.Errorf("%+v", s)
				}
				cancel()
				<-ended
			})
		})
	}
}

// A list after a warm start compares by content: a new API server adds defaults to objects whose resource versions
// stay.
// Guarantees: S4
func TestListAfterAWarmStartComparesContent(t *testing.T) {
	for _, paged := range []bool{false, true} {
		forEachPodLayout(t, fmt.Sprintf("paged=%v", paged), func(w world.World, config informer.Config[*corev1.Pod]) {
			config.PagedList = paged
			w.Create(world.NewPod("ns", "b", "v=1"))
			backup := w.Server.Snapshot()
			w.Relabel("ns", "b", "2")
			live(w, w.Client(), pods, config).stop()
			w.Server.Restore(backup) // the same resource version gets other content
			w.Relabel("ns", "b", "3")
			w.Create(world.NewPod("ns", "c", "v=1"))
			w.Server.Compact()
			l := live(w, w.Client(), pods, config)
			if s := l.status(); !s.Loaded || s.LoadError == nil {
				t.Errorf("%+v", s)
			}
			world.EqualsServer(w, l.Informer)
			l.stop()
		})
	}
}

// Warm starts in a chain end with a list after a day: it shows what a restored server has changed.
// Guarantees: S4
func TestChainOfWarmStartsEndsAfterADay(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		began := time.Now()
		for i := range 60 {
			old := time.Since(began) > 24*time.Hour
			l := live(w, w.Client(), pods, config)
			w.Relabel("ns", "a", fmt.Sprint(i))
			world.EqualsServer(w, l.Informer)
			time.Sleep(30 * time.Minute)
			if s := l.status(); i > 0 && s.Loaded == old {
				t.Fatalf("start %d after %v: %+v", i, time.Since(began), s)
			} else if old {
				if !strings.Contains(s.LoadError.Error(), "the last list of the whole collection was") {
					t.Error(s.LoadError)
				}
				l.stop()
				return
			}
			l.stop()
		}
		t.Error("each start was warm")
	})
}

// A server that was restored and has passed the version of the saved state shows in the audit that follows a warm start,
// also if the objects are filtered, transformed or in a shard.
// Guarantees: R23, S4
func TestRestoredServerShowsInTheAudit(t *testing.T) {
	for _, change := range []func(*informer.Config[*corev1.Pod], *informer.Resource){
		func(*informer.Config[*corev1.Pod], *informer.Resource) {},
		func(c *informer.Config[*corev1.Pod], _ *informer.Resource) {
			c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
			c.WarmStart.Revision = "1"
		},
		func(c *informer.Config[*corev1.Pod], _ *informer.Resource) {
			c.Filter = func(*metav1.PartialObjectMetadata) bool { return true }
			c.WarmStart.Revision = "1"
		},
		func(_ *informer.Config[*corev1.Pod], r *informer.Resource) {
			r.Shard = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<64 - 1}}}
		},
	} {
		forEachPodLayout(t, "restored", func(w world.World, config informer.Config[*corev1.Pod]) {
			resource := pods
			change(&config, &resource)
			w.Create(world.NewPod("ns", "b", "v=1"))
			backup := w.Server.Snapshot()
			w.Create(world.NewPod("ns", "lost", "v=1"))
			w.Relabel("ns", "lost", "2")
			live(w, w.Client(), resource, config).stop()
			w.Server.Restore(backup)
			w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "c", "v=1"), world.NewPod("ns", "d", "v=1"))
			repaired(w, live(w, w.Client(), resource, config), 3) // lost, and a and c, whose versions the store has passed
		})
	}
}

// repaired checks that a warm start is followed by one audit that finds differences, by a repair, and by one audit that
// finds none.
func repaired(w world.World, l life, differ int) {
	w.Helper()
	if s := l.status(); !s.Loaded {
		w.Errorf("%+v", s)
	}
	time.Sleep(3 * time.Minute)
	if s := l.Status().Audit; s.Different != 1 || s.Differ != differ || s.Equal != 1 {
		w.Errorf("%+v", s)
	}
	world.EqualsServer(w, l.Informer)
	l.stop()
}

// A server that was restored may give another object the name and the version of one in the saved state: the UID
// differs.
// Guarantees: R23, S4
func TestRestoredServerShowsInTheUIDOfAnObject(t *testing.T) {
	forEachPodLayout(t, "restored", func(w world.World, config informer.Config[*corev1.Pod]) {
		backup := w.Server.Snapshot()
		first := world.NewPod("ns", "a", "v=1")
		first.UID = "first"
		w.Create(first)
		version := w.Server.ResourceVersion()
		live(w, w.Client(), pods, config).stop()
		w.Server.Restore(backup)
		w.Create(world.NewPod("ns", "a", "v=again"))
		if w.Server.ResourceVersion() != version {
			t.Fatal("the versions differ")
		}
		repaired(w, live(w, w.Client(), pods, config), 1)
	})
}

// A request for kube-system that hangs delays a start by a few seconds, not each namespace by as much.
// Guarantees: S4
func TestHangingIdentificationDelaysStartsOnce(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if asksForCluster(r) {
				<-r.Context().Done()
				return true
			}
			return false
		})
		resource := pods
		resource.Namespaces = []string{"ns", "a", "b", "c", "d"}
		inf := informer.New(w.Client(), resource, config)
		began := time.Now()
		stop := world.Start(w.T, inf)
		if d := time.Since(began); d > 10*time.Second {
			t.Errorf("synced after %v", d)
		}
		stop()
	})
}

// A 404 of a proxy does not show for ever that the server cannot be identified: the next save asks again, so the next
// start is warm.
// Guarantees: S4, R14
func TestServerIsIdentifiedAfterAPageThatIsNotFound(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := saving(t)
		w.Create(world.NewPod("ns", "a", "v=1"))
		page, calls := countCalls(func(rw http.ResponseWriter, _ *http.Request) bool {
			http.NotFound(rw, nil)
			return true
		})
		w.Answer(func(rw http.ResponseWriter, r *http.Request) bool {
			return asksForCluster(r) && calls.Load() == 0 && page(rw, r)
		})
		l := live(w, w.Client(), pods, config)
		<-time.After(time.Hour)
		l.stop()
		if s := l.status(); calls.Load() != 1 || s.SaveError != nil || s.Saves < 2 {
			t.Errorf("%d pages, %+v", calls.Load(), s)
		}
		l = live(w, w.Client(), pods, config)
		if s := l.status(); !s.Loaded {
			t.Errorf("the start was not warm: %v", s.LoadError)
		}
		l.stop()
	})
}
