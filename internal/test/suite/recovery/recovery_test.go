// Package recovery tests what an informer does when something goes wrong, request by request.
package recovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

func TestMain(m *testing.M) { leak.Main(m) }

// recovery is one failure, and exactly how an informer handles it. The server has pods a and b from the start, at resource
// versions 2 and 3.
type recovery struct {
	name string
	// atStart injects the fault before the informer starts. Otherwise the fault hits an open watch, and the table has the
	// requests and events from then on.
	atStart bool
	// paged uses paged lists, here with one object a page, instead of streaming lists.
	paged bool
	fault informertest.Fault
	// does, if not nil, then runs. Otherwise the open watches end, and pod b gets v=2.
	does func(o *outage)
	// requests are the informer's requests until it reaches the server's version. Each begins with the wait since the one
	// before: "0s", or from..to.
	requests []string
	events   []string
	// status has the counters that are not zero; "failures=some" stands for any number.
	status string
}

func at(wait, request string, rv ...any) string { return wait + " " + fmt.Sprintf(request, rv...) }

// The waits after the first, second and third failure.
const first, second, third = "0s..800ms", "0s..1.6s", "0s..3.2s"

func fromVersion3(r informertest.Request) bool {
	return r.Query.Get("resourceVersion") == "3" && r.Query.Has("resourceVersionMatch")
}

var (
	watchOn  = []string{at("0s", world.Watches, "3"), at(first, world.Watches, "3")}
	restream = []string{at("0s", world.Watches, "3"), at(first, world.StreamsFrom, "3")}
	relist   = []string{at("0s", world.Watches, "3"), at(first, world.ListsFrom, "3"), at("0s", world.NextPage), at("0s", world.Watches, "3")}
	fallback = []string{at("0s", world.Streams), at("0s", world.Lists), at("0s", world.Watches, "3")}
	silence  = []string{at("0s", world.Streams), at("10s", world.Lists), at("0s", world.Watches, "3")}
)

var recoveries = []recovery{
	// The watch ends.
	{name: "R8 reset inside a frame", fault: informertest.Fault{Times: 1, AfterBytes: 20, Drop: true}, requests: watchOn, events: world.Updated, status: "failures=1"},
	{name: "R8 end inside a frame", fault: informertest.Fault{Times: 1, AfterBytes: 20, End: true}, requests: watchOn, events: world.Updated, status: "failures=1"},

	// The server answers with an error.
	{name: "R8 503 on the list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, Error: world.Unavailable}, events: world.Added, status: "failures=1",
		requests: []string{at("0s", world.Lists), at(first, world.Lists), at("0s", world.Watches, "3")}},
	{name: "R9 410 on the streaming list", atStart: true, fault: informertest.Fault{Match: world.Streamed, Times: 2, Error: world.Expired}, events: world.Added, status: "failures=1",
		requests: []string{at("0s", world.Streams), at("0s", world.Streams), at(first, world.Streams)}},
	{name: "R14 404 at first, but listed", atStart: true, fault: informertest.Fault{Verb: "watch", Times: 2, Error: world.Absent}, events: world.Added, status: "failures=2",
		requests: []string{at("0s", world.Streams), at("0s", world.Versions), at("0s", world.Resources), at(first, world.Streams), at("0s", world.Versions), at("0s", world.Resources), at(second, world.Streams)}},
	{name: "R14 404 at first, but listed, paged", atStart: true, paged: true, fault: informertest.Fault{Verb: "list", Times: 1, Error: world.Absent}, events: world.Added, status: "failures=1",
		requests: []string{at("0s", world.Lists), at("0s", world.Versions), at("0s", world.Resources), at(first, world.Lists), at("0s", world.Watches, "3")}},
	{name: "R14 404 in the stream, but listed", fault: informertest.Fault{Verb: "watch", Times: 1, AfterHeaders: true, Error: world.Absent}, events: world.Updated, status: "failures=1",
		requests: []string{at("0s", world.Watches, "3"), at("0s", world.Versions), at("0s", world.Resources), at(first, world.Watches, "3")}},
	{name: "R14 404 of a relist, but listed", fault: informertest.Fault{Match: world.Streamed, Times: 1, Error: world.Absent}, does: (*outage).expireWatch, events: world.Updated, status: "failures=2",
		requests: append(restream, at("0s", world.Versions), at("0s", world.Resources), at(second, world.StreamsFrom, "3"))},
	{name: "R14 404 of a relist, but listed, paged", paged: true, fault: informertest.Fault{Verb: "list", Times: 1, Error: world.Absent}, does: (*outage).expireWatch, events: world.Updated, status: "failures=2",
		requests: append(relist[:2:2], at("0s", world.Versions), at("0s", world.Resources), at(second, world.ListsFrom, "3"), at("0s", world.NextPage), at("0s", world.Watches, "4"))},

	// The streaming list does not complete.
	{name: "R2 422", atStart: true, fault: informertest.Fault{Match: world.Streamed, Error: apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", nil)}, requests: fallback, events: world.Added},
	{name: "R2 clean end without bookmark", atStart: true, fault: informertest.Fault{Match: world.Streamed, AfterEvents: 2, End: true}, requests: fallback, events: world.Added},
	{name: "R2 ordinary bookmark", atStart: true, fault: informertest.Fault{Match: world.Streamed, Rewrite: bookmarkAt("3")}, requests: fallback, events: world.Added},
	{name: "R2 silence in place of an answer", atStart: true, fault: informertest.Fault{Match: world.Streamed, Hang: true}, requests: silence, events: world.Added},
	{name: "R2 no bookmark behind the initial events", atStart: true, fault: informertest.Fault{OmitInitialEventsEnd: true}, requests: silence, events: world.Added},
	{name: "R2 sendInitialEvents ignored", atStart: true, fault: informertest.Fault{IgnoreSendInitialEvents: true}, requests: silence, events: world.Added},

	// Other failed lists.
	{name: "silence in place of a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, Hang: true}, events: world.Added, status: "failures=1",
		requests: []string{at("0s", world.Lists), at("90s..90.8s", world.Lists), at("0s", world.Watches, "3")}},
	{name: "silence in a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, AfterBytes: 20, Hang: true}, events: world.Added, status: "failures=1",
		requests: []string{at("0s", world.Lists), at("90s..90.8s", world.Lists), at("0s", world.Watches, "3")}},
	{name: "reset in a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, AfterBytes: 300, Drop: true}, events: world.Added, status: "failures=1",
		requests: []string{at("0s", world.Lists), at(first, world.Lists), at("0s", world.Watches, "3")}},
	{name: "R5 410 on the list", paged: true, fault: informertest.Fault{Match: fromVersion3, Error: world.Expired}, does: (*outage).expireWatch, events: world.Updated, status: "failures=1",
		requests: append(relist[:2:2], at("0s", world.ListsLatest), at("0s", world.NextPage), at("0s", world.Watches, "4"))},
	{name: "R5 too large resource version on the list", paged: true, fault: informertest.Fault{Match: fromVersion3, Error: world.TooLarge}, does: (*outage).expireWatch, events: world.Updated, status: "failures=1",
		requests: append(relist[:2:2], at("0s", world.ListsLatest), at("0s", world.NextPage), at("0s", world.Watches, "4"))},

	// The server goes back in time, so resource version 4 has other content than before.
	{name: "R6 list goes back, paged", paged: true, fault: informertest.Fault{Times: 1, Error: world.Expired}, does: (*outage).restore, events: restored, status: "restored=1 failures=2",
		requests: []string{at("0s", world.Watches, "5"), at(first, world.ListsFrom, "5"), at("3s", world.ListsLatest), at("0s", world.NextPage), at(second, world.ListsLatest), at("0s", world.NextPage), at("0s", world.Watches, "4")}},
	{name: "R6 watch from the future", fault: informertest.Fault{Match: world.NotStreamed, Error: world.TooLargeFor("5", "4", 10*time.Second)}, does: (*outage).restore, events: restored, status: "restored=1 failures=5",
		requests: []string{at("0s", world.Watches, "5"), at("10s..11s", world.Watches, "5"), at("10s..11s", world.Watches, "5"), at("10s..11s", world.Watches, "5"), at("10s..11s", world.Streams), at("100ms..12.8s", world.Streams)}},
	{name: "R6 silence in a watch of a server that is as far", fault: informertest.Fault{Times: 1, OmitBookmarks: true}, events: world.Updated,
		does: func(o *outage) {
			o.Server.EndWatches()
			<-time.After(10*time.Minute + time.Second) // the first watch has ended, the second has not
			o.Relabel("ns", "b", "2")
		},
		requests: []string{at("0s", world.Watches, "3"), at("5m0s..10m0s", "list resourceVersion=3 resourceVersionMatch=NotOlderThan limit=1"), at("0s", world.Watches, "3")}},
	{name: "R6 watch from the future, and another failure between", fault: informertest.Fault{Times: 2, Error: world.TooLarge}, events: world.Updated, status: "failures=4",
		does: func(o *outage) {
			o.Server.Inject(informertest.Fault{Skip: 2, Times: 1, Error: world.Unavailable})
			o.Server.Inject(informertest.Fault{Skip: 3, Times: 1, Error: world.TooLarge})
			o.endWatches()
			<-time.After(10 * time.Second)
		},
		requests: []string{at("0s", world.Watches, "3"), at("1s..1.1s", world.Watches, "3"), at("1s..1.1s", world.Watches, "3"), at(third, world.Watches, "3"), at("1s..1.1s", world.Watches, "3")}},
	{name: "R6 watch from the future, twice for a while", fault: informertest.Fault{Times: 2, Error: world.TooLarge}, events: world.Updated, status: "failures=2",
		does: func(o *outage) {
			o.endWatches()
			<-time.After(10 * time.Second)
			o.Server.Inject(informertest.Fault{Times: 2, Error: world.TooLarge})
			o.Server.EndWatches()
			<-time.After(10 * time.Second)
		},
		requests: []string{at("0s", world.Watches, "3"), at("1s..1.1s", world.Watches, "3"), at("1s..1.1s", world.Watches, "3"),
			at("7.8s..8s", world.Watches, "4"), at("1s..1.1s", world.Watches, "4"), at("1s..1.1s", world.Watches, "4")}},

	// An object cannot be decoded.
	{name: "R17 corrupt in a list", atStart: true, paged: true, fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{world.KeyB}}, events: world.Added[:1], status: "stale=1 errors=1",
		requests: []string{at("0s", world.Lists), at("0s", world.Watches, "3")}},
	{name: "R17 corrupt in a relist", fault: informertest.Fault{Match: world.Streamed, Corrupt: []informer.Key{world.KeyB}}, does: (*outage).expireWatch, requests: restream, status: "failures=1 stale=1 errors=1"},
	{name: "R17 corrupt in a relist, paged", paged: true, fault: informertest.Fault{Verb: "list", Corrupt: []informer.Key{world.KeyB}}, does: (*outage).expireWatch, status: "failures=1 stale=1 errors=1",
		requests: append(relist[:3:3], at("0s", world.Watches, "4"))},
	{name: "R17 corrupt ADDED", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{{Namespace: "ns", Name: "c"}}}, requests: watchOn[:1], status: "stale=1 errors=1",
		does: func(o *outage) { o.Server.EndWatches(); synctest.Wait(); o.Create(world.NewPod("ns", "c", "v=1")) }},
	{name: "R17 corrupt DELETED", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{world.KeyB}}, requests: watchOn[:1], events: []string{"delete ns/b 1 final=false"}, status: "errors=1",
		does: func(o *outage) { o.Server.EndWatches(); synctest.Wait(); o.Delete("ns", "b") }},
	{name: "R17 corrupt MODIFIED, then a good list", fault: informertest.Fault{Times: 1, Corrupt: []informer.Key{world.KeyB}}, events: world.Updated, status: "failures=1 errors=1",
		does: func(o *outage) {
			o.endWatches()
			o.wantStatus("stale=1 errors=1")
			o.Server.Inject(informertest.Fault{Verb: "watch", Times: 1, Error: world.Expired})
			o.Server.EndWatches()
			<-time.After(time.Second)
		},
		requests: []string{at("0s", world.Watches, "3"), at("0s", world.Watches, "4"), at(first, world.StreamsFrom, "4")}},
	{name: "R17 nameless in a relist", fault: informertest.Fault{Match: world.Streamed, Rewrite: world.Nameless(world.KeyA, world.KeyB)}, does: (*outage).expireWatch, requests: restream, status: "failures=1 stale=2 errors=2"},
	{name: "R17 nameless in a relist, paged", paged: true, fault: informertest.Fault{Verb: "list", Rewrite: world.Nameless(world.KeyA, world.KeyB)}, does: (*outage).expireWatch, status: "failures=1 stale=2 errors=2",
		requests: append(relist[:3:3], at("0s", world.Watches, "4"))},
	{name: "R17 nameless MODIFIED", fault: informertest.Fault{Times: 1, Rewrite: world.Nameless(world.KeyB)}, requests: watchOn[:1], status: "stale=1 errors=1"},
	{name: "R17 nameless DELETED", fault: informertest.Fault{Times: 1, Rewrite: world.Nameless(world.KeyB)}, events: []string{"delete ns/b 1 final=false"}, status: "failures=1 errors=1",
		does: func(o *outage) {
			o.Server.EndWatches()
			synctest.Wait()
			o.Delete("ns", "b")
			<-time.After(time.Second)
		},
		requests: []string{at("0s", world.Watches, "3"), at(first, world.StreamsFrom, "3")}},
}

// TestRecovery checks the table of docs/failures.md.
func TestRecovery(t *testing.T) {
	for _, r := range recoveries {
		for _, media := range []string{"json", "vnd.kubernetes.protobuf"} {
			t.Run(r.name+"/"+strings.TrimPrefix(media, "vnd.kubernetes."), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					config := world.Quiet[*corev1.Pod]()
					config.PagedList, config.PageSize = r.paged, 1
					client := w.Client(func(c *rest.Config) { c.ContentType = "application/" + media })
					o := &outage{World: w, recovery: r, inf: informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config), rec: &testkit.Recorder[*corev1.Pod]{}}
					o.inf.Subscribe(o.rec)
					o.run()
				})
			})
		}
	}
}

// Guarantees: R9, R19, R20, H5, H6
func TestRelistDecodesWhatHasChanged(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		decoded := map[string]int{}
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			decoded[p.Name+"@"+p.ResourceVersion]++
			return p, nil
		}
		for i := range 20 {
			w.Create(world.NewPod("ns", fmt.Sprintf("p%02d", i), "v=1"))
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		synctest.Wait()
		rec.Take()
		before := world.Held(inf)

		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: world.Expired})
		w.Server.EndWatches()
		w.Relabel("ns", "p03", "2")
		w.Delete("ns", "p05")
		w.Delete("ns", "p07")
		w.Create(world.NewPod("ns", "p07", "v=another"), world.NewPod("ns", "p99", "v=1"))
		if err := inf.WaitForResourceVersion(w.Context(), w.Server.ResourceVersion()); err != nil {
			w.Fatal(err)
		}
		rec.Want(w.T, "update ns/p03 1->2", "delete ns/p05 1 final=false",
			"delete ns/p07 1 final=false", "add ns/p07 another initial=false", "add ns/p99 1 initial=false")
		for name, pod := range world.Held(inf) {
			if changed := name == "p03" || name == "p07" || name == "p99"; (pod == before[name]) == changed {
				w.Errorf("%s: the stored object is unchanged: %v", name, !changed)
			}
		}
		world.EqualsServer(w, inf)
		world.AuditAgrees(w, inf)
		if len(decoded) != 23 {
			w.Errorf("%d versions decoded", len(decoded))
		}
		for version, times := range decoded {
			if times != 1 {
				w.Errorf("%s decoded %d times", version, times)
			}
		}
		if n := inf.Status().Reflectors[0].Traffic.Lists; n < 2 {
			w.Errorf("%d lists", n)
		}
	})
}

// A version that the store has is not decoded again, except in a deletion: the handler gets the object as sent.
// Guarantees: R19, H14
func TestSentAgain(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		decoded := 0
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { decoded++; return p, nil }
		created := w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		rec.Want(w.T, "add ns/a 1 initial=true")
		uid, text := created.UID, "sent again"
		w.Server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
			if key != world.KeyA {
				return object
			}
			again := created.DeepCopy()
			again.Labels["v"], again.UID = text, uid
			return world.Encode(again, object)
		}})
		<-time.After(10 * time.Second) // an empty watch that ends sooner is not reopened at once
		w.Server.EndWatches()
		synctest.Wait()
		w.Relabel("ns", "a", "2")
		rec.Want(w.T)
		if decoded != 1 {
			w.Errorf("decoded %d times", decoded)
		}
		uid = "another" // now it is another object
		w.Relabel("ns", "a", "3")
		rec.Want(w.T, "delete ns/a 1 final=false", "add ns/a sent again initial=false")
		text = "at the end"
		w.Delete("ns", "a")
		rec.Want(w.T, "delete ns/a at the end final=true")
	})
}

// A restored server is then followed like any other: unchanged objects are not decoded again, and a second restoration is
// noticed.
// Guarantees: R6, R19
func TestServerIsRestoredTwice(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		decoded := 0
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { decoded++; return p, nil }
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		rec.Want(w.T, world.Added...)
		relist := func(before func()) {
			w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, Times: 1, Error: world.Expired})
			before() // only now: it may end the watch, too
			w.Server.EndWatches()
			<-time.After(3 * time.Minute) // a watch from a future version, an expired one and a list take the three longest backoffs
		}
		for i := range 2 {
			backup := w.Server.Snapshot()
			w.Relabel("ns", "a", "ahead")
			w.Relabel("ns", "b", "ahead")
			synctest.Wait()
			rec.Take()
			relist(func() { w.Server.Restore(backup) })
			rec.Want(w.T, "update ns/a ahead->1", "update ns/b ahead->1")
			if s := inf.Status().Reflectors[0]; s.Restored != i+1 {
				w.Errorf("restored %d times: status %+v", i+1, s)
			}
			before := decoded
			relist(func() {})
			rec.Want(w.T)
			if decoded != before {
				w.Errorf("%d unchanged objects were decoded", decoded-before)
			}
		}
	})
}

// Waiting for the client's own rate limit does not count as the server's silence.
// Guarantees: R2
func TestOwnRateLimitIsNoSilence(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		client := w.Client(func(c *rest.Config) { c.QPS, c.Burst = 1.0/50, 1 })
		for range 2 {
			inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*corev1.Pod]())
			defer world.Start(w.T, inf)()
		}
		list, watch := "list resourceVersion=0 limit=500", fmt.Sprintf(world.Watches, "2")
		w.WantRequests(list, watch, list, watch)
	})
}

// sinkOf is a sink that records the deltas it gets.
type sinkOf struct{ lines []string }

func (s *sinkOf) Put(_ context.Context, d informer.Delta[*corev1.Pod]) error {
	s.lines = append(s.lines, fmt.Sprintf("%v items=%d rv=%s restored=%v", d.Type, len(d.Items), d.ResourceVersion, d.Restored))
	return nil
}

// A sink gets the absence of a resource once, however often it is found again, and even if the collection was empty before.
// Guarantees: R14
func TestAbsenceIsToldOnce(t *testing.T) {
	for _, absentIsSynced := range []bool{false, true} {
		t.Run(fmt.Sprintf("AbsentIsSynced=%v", absentIsSynced), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				config := world.Quiet[*corev1.Pod]()
				config.AbsentIsSynced = absentIsSynced
				sink := &sinkOf{}
				r, err := informer.NewReflector(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, sink, config)
				if err != nil {
					w.Fatal(err)
				}
				w.Pods.Unregister()
				ctx, cancel := context.WithCancel(w.Context())
				ended := make(chan error)
				go func() { ended <- r.Run(ctx) }()
				defer func() { cancel(); <-ended }()
				want := []string{"Replaced items=0 rv= restored=false"}
				if !absentIsSynced {
					want = nil
				}
				for range 2 {
					<-time.After(10 * time.Minute)
					if s := r.Status(); s.State != status.ReflectorAbsent && s.State != status.ReflectorListing || s.ResourceVersion != "" || s.Failures < 10 || !apierrors.IsNotFound(s.LastError) {
						w.Errorf("status %+v", s)
					}
					w.Pods = informertest.Register[*corev1.Pod](w.Server, informertest.Resource{GroupVersionResource: world.PodGVR})
					<-time.After(time.Minute)
					w.Pods.Unregister()
					want = append(want, "Replaced items=0 rv=1 restored=false", "Replaced items=0 rv= restored=false")
				}
				<-time.After(time.Minute)
				synctest.Wait() // the reflector has put what it puts at this moment
				if !slices.Equal(sink.lines, want) {
					w.Errorf("got %q, want %q", sink.lines, want)
				}
			})
		})
	}
}
