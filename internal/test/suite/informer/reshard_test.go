package informer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// A change of the shard is one step. What stays raises no event, what goes is deleted, and what comes is added. When a handler is
// called, the store has the whole step.
// Guarantees: S2
func TestSetShardIsOneStep(t *testing.T) {
	for _, filters := range []bool{false, true} {
		t.Run(fmt.Sprintf("filters=%v", filters), func(t *testing.T) { testSetShardIsOneStep(t, filters) })
	}
}

func testSetShardIsOneStep(t *testing.T, filters bool) {
	world.ForEachModeWith(t, informertest.Options{Shards: filters}, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		manyPods(w, 30)
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, config)
		var mu sync.Mutex
		now := lower
		var events []string
		note := func(format string, pod *corev1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, pod.Name))
			for pod := range inf.Store().All() {
				if !now.Has(pod) {
					w.Errorf("a handler is called while the store has %s of the shard before", pod.Name)
				}
			}
		}
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
			AddFunc:    func(pod *corev1.Pod, _ bool) { note("+%s", pod) },
			UpdateFunc: func(_, pod *corev1.Pod) { note("~%s", pod) },
			DeleteFunc: func(pod *corev1.Pod, final bool) { note(fmt.Sprintf("-%%s %v", final), pod) },
		})
		defer world.Start(w.T, inf)()
		synctest.Wait()
		events = nil
		before := lower
		for _, next := range []informer.Shard{most, upper, {}, lower, lower} {
			var want []string
			for pod := range w.Pods.All() {
				switch {
				case next.Has(pod) && !before.Has(pod):
					want = append(want, "+"+pod.Name)
				case before.Has(pod) && !next.Has(pod):
					want = append(want, "-"+pod.Name+" false")
				}
			}
			mu.Lock()
			now = next
			mu.Unlock()
			if err := inf.SetShard(w.Context(), next); err != nil {
				w.Fatal(err)
			}
			holdsShard(w, next.String(), inf, next)
			slices.Sort(events)
			if slices.Sort(want); !slices.Equal(events, want) {
				w.Errorf("%v: events %q, want %q", next, events, want)
			}
			events, before = nil, next
		}
		w.Create(world.NewPod("a", "late", "v=1"))
		for i := range 20 {
			w.Create(world.NewPod("a", fmt.Sprintf("late%d", i), "v=1"))
		}
		holdsShard(w, "changes afterwards", inf, lower)
		s := inf.Status().Reflectors[0]
		if lists, watches := s.Traffic.ListsBy[status.ReasonShard], s.Traffic.WatchesBy[status.ReasonShard]; lists != 3 || watches < 2 {
			w.Errorf("%d lists and %d watches", lists, watches)
		}
	})
}

// A part of the shard needs no list: the informer drops the rest, and resumes the watch at its resource version. No change before or
// after is lost, also if the server no longer has the changes since that version.
// Guarantees: S2, R1
func TestSmallerShardNeedsNoList(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		manyPods(w, 40)
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		lists := func() int { return inf.Status().Reflectors[0].Traffic.Lists }
		set := func(when string, shard informer.Shard) {
			w.Helper()
			w.Server.ResetRequests()
			if err := inf.SetShard(w.Context(), shard); err != nil {
				w.Fatal(err)
			}
			for pod := range inf.Store().All() {
				if !shard.Has(pod) {
					w.Errorf("%s: the store has %s, which is outside", when, pod.Name)
				}
			}
		}
		before := lists()
		changeMany(w, "1")
		set("while changes come", most)
		holdsShard(w, "while changes come", inf, most)
		changeMany(w, "2")
		holdsShard(w, "after changes", inf, most)
		toldAll(w, inf, rec, "after changes")

		w.Server.CloseConnections()
		changeMany(w, "3")
		set("while the watch is broken", upper)
		<-time.After(time.Hour)
		holdsShard(w, "while the watch is broken", inf, upper)
		toldAll(w, inf, rec, "while the watch is broken")
		if n := lists() - before; n != 0 {
			w.Errorf("%d lists", n)
		}

		w.Server.Stop()
		synctest.Wait()
		changeMany(w, "4")
		w.Server.Compact()
		w.Server.Start()
		third := informer.Shard{Ranges: []informer.HashRange{{First: middle + 1, Last: math.MaxUint64 / 4 * 3}}}
		set("before 410 Expired", third)
		<-time.After(time.Hour)
		holdsShard(w, "after 410 Expired", inf, third)
		toldAll(w, inf, rec, "after 410 Expired")
		if lists := inf.Status().Reflectors[0].Traffic.ListsBy; lists[status.ReasonExpired] != 1 || lists[status.ReasonShard] != 0 {
			w.Errorf("lists %v", lists)
		}
	})
}

// A server that filters sends only what comes to the shard, exactly at the version of the store. The watch resumes there: no change is
// lost, also none that was made while the watch was broken. If the server no longer has that version, it sends the whole shard.
// Guarantees: S2
func TestLargerShardListsWhatComes(t *testing.T) {
	world.ForEachModeWith(t, informertest.Options{Shards: true}, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		manyPods(w, 60)
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		synctest.Wait()
		set := func(when string, shard informer.Shard, missing string) {
			w.Helper()
			version := inf.Store().ResourceVersion()
			w.Server.ResetRequests()
			if err := inf.SetShard(w.Context(), shard); err != nil {
				w.Fatal(when, err)
			}
			for pod := range inf.Store().All() {
				if !shard.Has(pod) {
					w.Errorf("%s: the store has %s, which is outside", when, pod.Name)
				}
			}
			pages := 0
			for _, r := range w.Server.Requests() {
				if r.Verb != "list" {
					continue
				}
				if pages++; r.Query.Get("shardSelector") != missing || pages == 1 && (r.Query.Get("resourceVersion") != version || r.Query.Get("resourceVersionMatch") != "Exact") {
					w.Errorf("%s: a list with %v, want one of %s at %s", when, r.Query, missing, version)
				}
			}
			if pages == 0 || pages == 1 && config.PageSize > 0 {
				w.Errorf("%s: %d pages", when, pages)
			}
		}
		changeMany(w, "1")
		synctest.Wait()
		set("while changes come", most, upper.String())
		changeMany(w, "2")
		synctest.Wait()
		holdsShard(w, "after changes", inf, most)
		toldAll(w, inf, rec, "after changes")

		w.Server.CloseConnections()
		changeMany(w, "3")
		set("while the watch is broken", informer.Shard{}, informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64/4 - 1}}}.String())
		<-time.After(time.Hour)
		holdsShard(w, "while the watch is broken", inf, informer.Shard{})
		toldAll(w, inf, rec, "while the watch is broken")
		if s := inf.Status().Reflectors[0]; s.Traffic.ListsBy[status.ReasonShard] != 2 || s.Traffic.ListsBy[status.ReasonExpired]+s.Failures > 0 {
			w.Errorf("lists %v, %d failures", s.Traffic.ListsBy, s.Failures)
		}

		if err := inf.SetShard(w.Context(), lower); err != nil {
			w.Fatal(err)
		}
		w.Server.Stop()
		synctest.Wait()
		changeMany(w, "4")
		w.Server.Compact()
		w.Server.Start()
		if err := inf.SetShard(w.Context(), most); err != nil {
			w.Fatal(err)
		}
		<-time.After(time.Hour)
		holdsShard(w, "after 410 Expired", inf, most)
		toldAll(w, inf, rec, "after 410 Expired")
	})
}

func exactly(r informertest.Request) bool { return r.Query.Get("resourceVersionMatch") == "Exact" }

// If a list of what comes to a shard is not possible, the informer lists the whole shard. It fails only if that fails.
// Guarantees: S2
func TestLargerShardIsListedWhole(t *testing.T) {
	for name, c := range map[string]struct {
		noFilter bool
		set      func(w world.World, comes informer.Key) // what comes is one object that will come
		whole    bool                                    // want a list of the whole shard
		stale    int
		failures int
	}{
		"filters":         {},
		"does not filter": {noFilter: true}, // the informer does not know that yet
		"refuses the version": {whole: true, set: func(w world.World, _ informer.Key) {
			w.Server.Inject(informertest.Fault{Match: exactly, Error: apierrors.NewBadRequest("no")})
		}},
		"has not reached the version": {whole: true, set: func(w world.World, _ informer.Key) {
			w.Server.Inject(informertest.Fault{Match: exactly, Error: world.TooLarge})
		}},
		"answers at another version": {whole: true, set: func(w world.World, _ informer.Key) {
			w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
				query := r.URL.Query()
				if query.Get("resourceVersionMatch") == "Exact" {
					if _, err := w.Pods.Create(world.NewPod("c", "late", "v=1")); err != nil {
						w.Error(err)
					}
					query.Del("resourceVersion")
					query.Del("resourceVersionMatch")
					r.URL.RawQuery = query.Encode()
				}
				return false
			})
		}},
		"expires between pages": {whole: true, set: func(w world.World, _ informer.Key) {
			w.Server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Query.Has("continue") }, Times: 1, Error: apierrors.NewResourceExpired("gone")})
		}},
		"sends what cannot be decoded": {whole: true, stale: 1, set: func(w world.World, comes informer.Key) {
			w.Server.Inject(informertest.Fault{Resource: "pods", Rewrite: func(key informer.Key, object []byte) []byte {
				if key == comes {
					return bytes.Replace(object, []byte(`"labels":{`), []byte(`"labels":7,"more":{`), 1)
				}
				return object
			}})
		}},
		"fails, as with a version that etcd has not reached": {whole: true, set: func(w world.World, _ informer.Key) {
			w.Server.Inject(informertest.Fault{Match: exactly, Error: world.Internal})
		}},
		"wants fewer requests": {whole: true, failures: 1, set: func(w world.World, _ informer.Key) {
			w.Server.Inject(informertest.Fault{Match: exactly, Error: world.Throttled})
		}},
		"breaks off": {whole: true, failures: 1, set: func(w world.World, _ informer.Key) {
			w.Server.Inject(informertest.Fault{Match: exactly, AfterBytes: 2000, Drop: true})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			world.BubbleWith(t, informertest.Options{Shards: !c.noFilter}, func(w world.World) {
				manyPods(w, 60)
				config := world.Quiet[*corev1.Pod]()
				config.PageSize = 7
				client := w.Client(func(c *rest.Config) { c.ContentType = "application/json" })
				inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
				defer world.Start(w.T, inf)()
				// Without a list of a shard, the informer does not know whether the server filters.
				if err := inf.SetShard(w.Context(), lower); err != nil {
					w.Fatal(err)
				}
				var comes informer.Key
				for pod := range w.Pods.All() {
					if upper.Has(pod) {
						comes = informer.KeyOf(pod)
					}
				}
				if c.set != nil {
					c.set(w, comes)
				}
				w.Server.ResetRequests()
				if err := inf.SetShard(w.Context(), most); err != nil {
					w.Fatal(err)
				}
				s := inf.Status().Reflectors[0]
				tried, whole := 0, 0
				for _, r := range w.Server.Requests() {
					if exactly(r) {
						tried++
					}
					if r.Query.Get("sendInitialEvents") == "true" {
						whole++
					}
				}
				if (whole > 0) != c.whole || tried != 1 || s.Traffic.ListsBy[status.ReasonFailed] != c.failures {
					w.Errorf("%d lists of what comes, %d of everything; lists %v", tried, whole, s.Traffic.ListsBy)
				}
				if s.Stale != c.stale || (s.LastError == nil) != (c.stale+c.failures == 0) {
					w.Errorf("%d objects are stale, last error %v", s.Stale, s.LastError)
				}
				if c.stale == 0 {
					holdsShard(w, name, inf, most)
				} else if _, ok := inf.Store().Get(comes); ok {
					w.Errorf("the store has %v", comes)
				}
				if !c.noFilter {
					return
				}
				w.Server.ResetRequests()
				if err := inf.SetShard(w.Context(), informer.Shard{}); err != nil {
					w.Fatal(err)
				}
				if slices.ContainsFunc(w.Server.Requests(), exactly) {
					w.Error("a server that does not filter is asked for a part again")
				}
			})
		})
	}
}

// When a server is replaced by one that filters, the informer notices that with the next list of a whole shard.
// Guarantees: S2
func TestServerBeginsToFilter(t *testing.T) {
	world.BubbleWith(t, informertest.Options{Shards: true}, func(w world.World) {
		manyPods(w, 60)
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool { // like an older server
			query := r.URL.Query()
			query.Del("shardSelector")
			r.URL.RawQuery = query.Encode()
			return false
		})
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		set := func(when string, shard informer.Shard, part bool) {
			w.Helper()
			w.Server.ResetRequests()
			if err := inf.SetShard(w.Context(), shard); err != nil {
				w.Fatal(err)
			}
			holdsShard(w, when, inf, shard)
			if got := slices.ContainsFunc(w.Server.Requests(), exactly); got != part {
				w.Errorf("%s: a list of what comes: %v", when, got)
			}
		}
		set("an older server", most, false)
		w.Answer(nil)
		w.Server.EndWatches()
		<-time.After(time.Minute)
		set("the first list of a server that filters", informer.Shard{}, false)
		set("a part", lower, false)
		set("later", most, true)
	})
}

// A server that was restored from a backup has other objects at the versions that the store has seen. However the shard changes, the store
// ends up with what the server has.
// Guarantees: S2, R6
func TestSetShardAfterARestore(t *testing.T) {
	for name, shard := range map[string]informer.Shard{"larger": most, "smaller": {Ranges: []informer.HashRange{{First: 0, Last: middle / 2}}}, "the same": lower} {
		for _, fault := range []informertest.Fault{{}, {Match: exactly, Error: world.Internal}} { // kube-apiserver sends 500 for a version that etcd has not reached
			t.Run(fmt.Sprintf("%s/%v", name, fault.Error), func(t *testing.T) {
				world.BubbleWith(t, informertest.Options{Shards: true}, func(w world.World) {
					manyPods(w, 60)
					inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, world.Quiet[*corev1.Pod]())
					rec := &testkit.Recorder[*corev1.Pod]{}
					inf.Subscribe(rec)
					defer world.Start(w.T, inf)()
					backup := w.Server.Snapshot()
					changeMany(w, "1")
					synctest.Wait()
					if fault.Error != nil {
						w.Server.Inject(fault)
					}
					w.Server.Stop()
					w.Server.Restore(backup)
					changed := make(chan error, 1)
					go func() { changed <- inf.SetShard(w.Context(), shard) }()
					synctest.Wait()
					w.Server.Start()
					if err := <-changed; err != nil {
						w.Fatal(err)
					}
					<-time.After(time.Hour)
					holdsShard(w, name, inf, shard)
					toldAll(w, inf, rec, name)
				})
			})
		}
	}
}

// A watch that has been silent for minutes may be of a server that went back in time. Only a list shows that, so a change of the shard
// then lists everything, even if the shard becomes smaller.
// Guarantees: S2
func TestSetShardAfterSilenceLists(t *testing.T) {
	world.BubbleWith(t, informertest.Options{Shards: true}, func(w world.World) {
		manyPods(w, 60)
		w.Server.Inject(informertest.Fault{Verb: "watch", OmitBookmarks: true})
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, informer.Config[*corev1.Pod]{PagedList: true, Logger: world.Quiet[*corev1.Pod]().Logger})
		defer world.Start(w.T, inf)()
		lists := func() int { return inf.Status().Reflectors[0].Traffic.ListsBy[status.ReasonShard] }
		for i, c := range []struct {
			after time.Duration
			shard informer.Shard
			lists int
		}{
			{4 * time.Minute, most, 0},
			{2 * time.Minute, upper, 1},
		} {
			<-time.After(c.after)
			if err := inf.SetShard(w.Context(), c.shard); err != nil {
				w.Fatal(err)
			}
			holdsShard(w, c.shard.String(), inf, c.shard)
			if n := lists(); n != c.lists {
				w.Errorf("change %d: %d lists, want %d", i, n, c.lists)
			}
		}
	})
}

// A change of the shard that another one interrupts has not happened: the next one lists all that the store lacks.
// Guarantees: S2
func TestLargerShardIsInterrupted(t *testing.T) {
	world.ForEachModeWith(t, informertest.Options{Shards: true}, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		manyPods(w, 60)
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		resume := w.Server.Inject(informertest.Fault{Verb: "list", Skip: 1, Hang: true}) // the second page
		ended := make(chan error, 1)
		go func() { ended <- inf.SetShard(w.Context(), most) }()
		<-time.After(time.Second)
		holdsShard(w, "during the list", inf, lower)
		changeMany(w, "1")
		resume()
		w.Server.ResetRequests()
		third := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64 / 4 * 3}}}
		if err := inf.SetShard(w.Context(), third); err != nil {
			w.Fatal(err)
		}
		for _, r := range w.Server.Requests() {
			if list := r.Verb == "list" && !r.Query.Has("continue"); world.Streamed(r) || list && !exactly(r) {
				w.Errorf("after the interruption: %s with %v, want a list of the rest", r.Verb, r.Query)
			}
		}
		if err := <-ended; err != nil {
			w.Error(err)
		}
		<-time.After(time.Minute)
		holdsShard(w, "after the interruption", inf, third)
		toldAll(w, inf, rec, "after the interruption")
		if s := inf.Status().Reflectors[0]; s.Traffic.ListsBy[status.ReasonShard] != 2 || s.Traffic.ListsBy[status.ReasonExpired] != 0 {
			w.Errorf("lists %v", s.Traffic.ListsBy)
		}
	})
}

// While an object cannot be decoded, even a smaller shard needs a list: only that shows whether the object is in it.
// Guarantees: S2, R17
func TestSmallerShardWithStaleObjectsIsListed(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		manyPods(w, 10)
		client := w.Client(func(c *rest.Config) { c.ContentType = "application/json" })
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		var broken informer.Key
		for pod := range w.Pods.All() {
			if upper.Has(pod) {
				broken = informer.KeyOf(pod)
			}
		}
		defer w.Server.Inject(informertest.Fault{Resource: "pods", Rewrite: func(key informer.Key, object []byte) []byte {
			if key == broken {
				return bytes.Replace(object, []byte(`"labels":{`), []byte(`"labels":7,"more":{`), 1)
			}
			return object
		}})()
		w.Server.EndWatches()
		<-time.After(time.Minute)
		w.Relabel(broken.Namespace, broken.Name, "2")
		synctest.Wait()
		if s := inf.Status().Reflectors[0]; s.Stale != 1 {
			w.Fatalf("%d stale objects", s.Stale)
		}
		if err := inf.SetShard(w.Context(), lower); err != nil {
			w.Fatal(err)
		}
		if s := inf.Status().Reflectors[0]; s.Stale != 0 || s.Traffic.ListsBy[status.ReasonShard] != 1 {
			w.Errorf("%d stale objects after lists %v", s.Stale, s.Traffic.ListsBy)
		}
		holdsShard(w, "after the list", inf, lower)
	})
}

// SetShard works at any time: before Run, while the server is down, for an absent resource, and again before the last change has
// come.
// Guarantees: S2
func TestSetShardAtAnyTime(t *testing.T) {
	for _, filters := range []bool{false, true} {
		t.Run(fmt.Sprintf("filters=%v", filters), func(t *testing.T) { testSetShardAtAnyTime(t, filters) })
	}
}

func testSetShardAtAnyTime(t *testing.T, filters bool) {
	world.BubbleWith(t, informertest.Options{Shards: filters}, func(w world.World) {
		manyPods(w, 30)
		resource := informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"a", "b"}}
		inf := informer.New(w.Client(), resource, world.Quiet[*corev1.Pod]())
		soon, cancelSoon := context.WithTimeout(w.Context(), time.Second)
		defer cancelSoon()
		if err := inf.SetShard(soon, lower); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("before Run: %v", err)
		}
		stop := world.Start(w.T, inf)
		holdsShard(w, "set before Run", inf, lower)

		w.Server.Stop()
		changed := make(chan error, 2)
		go func() { changed <- inf.SetShard(w.Context(), upper) }()
		<-time.After(time.Hour)
		if len(changed) > 0 {
			w.Error("the shard has changed without a server")
		}
		go func() { changed <- inf.SetShard(w.Context(), most) }()
		synctest.Wait()
		w.Server.Start()
		for range 2 {
			if err := <-changed; err != nil {
				w.Error(err)
			}
		}
		holdsShard(w, "changed twice while the server was down", inf, most)

		w.Pods.Unregister()
		<-time.After(time.Hour)
		if err := inf.SetShard(w.Context(), lower); err != nil || inf.Store().Len() != 0 {
			w.Errorf("an absent resource: %v, %d objects", err, inf.Store().Len())
		}
		w.Pods = informertest.Register[*corev1.Pod](w.Server, informertest.Resource{GroupVersionResource: world.PodGVR})
		manyPods(w, 30)
		<-time.After(time.Hour)
		holdsShard(w, "after the absence", inf, lower)

		if err := inf.SetShard(w.Context(), informer.Shard{Ranges: []informer.HashRange{{First: 2, Last: 1}}}); err == nil || !strings.Contains(err.Error(), "Shard.Ranges[0]") {
			w.Errorf("a range that ends before it begins: %v", err)
		}
		w.Answer(func(http.ResponseWriter, *http.Request) bool { <-w.Context().Done(); return true })
		go func() { changed <- inf.SetShard(w.Context(), upper) }()
		synctest.Wait()
		stop()
		if err := <-changed; !errors.Is(err, informer.ErrStopped) {
			w.Errorf("after the end: %v", err)
		}
	})
}

// A change of the shard does not cut the wait short that the server has asked for.
// Guarantees: S2, R11
func TestSetShardRespectsRetryAfter(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		manyPods(w, 10)
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		w.Server.Inject(informertest.Fault{Times: 1, Error: world.Throttled}) // for 100 s
		w.Server.EndWatches()
		<-time.After(5 * time.Second)
		w.Server.ResetRequests()
		changed := make(chan error, 10)
		for i := range 10 {
			<-time.After(time.Second)
			shard := []informer.Shard{lower, upper}[i%2]
			go func() { changed <- inf.SetShard(w.Context(), shard) }()
		}
		synctest.Wait()
		if n := len(w.Server.Requests()); n > 0 {
			w.Errorf("%d requests before the server wants one", n)
		}
		for range 10 {
			if err := <-changed; err != nil {
				w.Error(err)
			}
		}
		holdsShard(w, "after the wait", inf, upper)
	})
}

// A change of the shard ends although the server does not serve the resource: an empty store has every shard.
// Guarantees: S2, R14
func TestSetShardWhileTheResourceIsAbsent(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		manyPods(w, 10)
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR, Shard: lower}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		<-time.After(10 * time.Second)
		w.Pods.Unregister()
		<-time.After(5 * time.Minute)
		for _, shard := range []informer.Shard{most, upper} {
			ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
			if err := inf.SetShard(ctx, shard); err != nil {
				w.Errorf("%v: %v", err, world.StatusOf(inf))
			}
			cancel()
		}
		w.Pods = informertest.Register[*corev1.Pod](w.Server, informertest.Resource{GroupVersionResource: world.PodGVR})
		manyPods(w, 10)
		<-time.After(5 * time.Minute)
		holdsShard(w, "when the resource is served again", inf, upper)
	})
}
