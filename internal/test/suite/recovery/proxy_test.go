package recovery

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// behind returns an informer of pods behind a proxy, which has not started.
func behind(w world.World, p *world.Proxy, config informer.Config[*corev1.Pod]) *informer.Informer[*corev1.Pod] {
	return informer.New(w.Client(p.Wrap), informer.Resource{GroupVersionResource: world.PodGVR}, config)
}

// delays measures how long after a change of pod ns/a the informer reports it.
type delays struct {
	world.World
	changed time.Time
	events  int
	longest time.Duration
}

// measure begins to measure.
func (d *delays) measure(inf *informer.Informer[*corev1.Pod]) {
	inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) {
		d.events++
		d.longest = max(d.longest, time.Since(d.changed))
	}})
}

// change changes the pod, and waits.
func (d *delays) change(value string, wait time.Duration) {
	synctest.Wait()
	d.changed = time.Now()
	d.Relabel("ns", "a", value)
	<-time.After(wait)
	synctest.Wait()
}

// A proxy that cuts each watch that is silent for a while delays no event by more than 2 s. After two cuts, the informer
// asks for watches that the server ends before, so neither the log nor the server notices the proxy any more.
// Guarantees: R12
func TestProxyThatCutsIdleWatchesDelaysNothing(t *testing.T) {
	for name, p := range map[string]world.Proxy{
		"reset":          {Idle: 50 * time.Second, Cut: world.ErrReset},
		"unexpected EOF": {Idle: 50 * time.Second, Cut: io.ErrUnexpectedEOF},
		"EOF":            {Idle: 50 * time.Second, Cut: io.EOF},
		"524":            {Idle: 50 * time.Second, Cut: world.ErrReset, Hold: time.Hour},
	} {
		for _, bookmarks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s,bookmarks=%v", name, bookmarks), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					if !bookmarks {
						w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, OmitBookmarks: true})
					}
					w.Create(world.NewPod("ns", "a", "v=1"))
					config, log := world.Logged()
					inf := behind(w, &p, config)
					d := &delays{World: w}
					d.measure(inf)
					defer world.Start(w.T, inf)()
					for i := range 50 {
						d.change(fmt.Sprint(i), 71*time.Second+time.Duration(i)*137*time.Millisecond)
					}
					if d.events != 50 || d.longest > 2*time.Second {
						w.Errorf("%d of 50 events, up to %v late", d.events, d.longest)
					}
					failures := strings.Count(log.String(), "reflector: Backoff")
					if failures > 3 {
						w.Errorf("%d failures in %d requests:\n%s", failures, len(w.Server.Requests()), log)
					}
					if n := len(w.Server.Requests()); n > 120 {
						w.Errorf("%d requests", n)
					}
					if n := strings.Count(log.String(), "cuts watches"); n != 1 && p.Cut != io.EOF {
						w.Errorf("the log explains it %d times:\n%s", n, log)
					}
					if limit := world.StatusOf(inf).Traffic.CutAfter; (limit-p.Idle).Abs() > time.Second && p.Cut != io.EOF {
						w.Errorf("the learned limit is %v", limit)
					}
					w.Logf("%d events, up to %v late; %d failures, %d requests", d.events, d.longest, failures, len(w.Server.Requests()))
				})
			})
		}
	}
}

// A server that was restored, and is behind, is noticed behind a proxy, too, although each watch is short.
// Guarantees: R6, R12
func TestRestoredServerBehindAProxyIsNoticed(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, OmitBookmarks: true})
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := behind(w, &world.Proxy{Idle: 50 * time.Second, Cut: world.ErrReset}, world.Quiet[*corev1.Pod]())
		defer world.Start(w.T, inf)()
		<-time.After(10 * time.Minute)
		backup := w.Server.Snapshot()
		w.Relabel("ns", "a", "ahead")
		synctest.Wait()
		w.Server.Restore(backup)
		<-time.After(7 * time.Minute)
		if p, _ := inf.Store().Get(world.KeyA); p.Labels["v"] != "1" || world.StatusOf(inf).Restored != 1 {
			w.Errorf("the store has %v, status %+v", p.Labels, world.StatusOf(inf))
		}
	})
}

// A server that accepts each watch and kills it at once gets fewer and fewer of them, also after watches that worked.
// Guarantees: R12
func TestWatchesThatAreKilledAtOnceBackOff(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		<-time.After(time.Hour)
		w.Server.Inject(informertest.Fault{Verb: "watch", AfterHeaders: true, Drop: true})
		w.Server.EndWatches()
		w.Server.ResetRequests()
		<-time.After(10 * time.Minute)
		if n := len(w.Server.Requests()); n < 30 || n > 90 {
			w.Errorf("%d watches in ten minutes", n)
		}
		if s := world.StatusOf(inf); s.Failures < 20 {
			w.Errorf("status %+v", s)
		}
	})
}

// A proxy that holds back the header of a watch without events causes no failure, and no long time without a watch.
// Guarantees: R18
func TestProxyThatHoldsEmptyResponsesIsNoFailure(t *testing.T) {
	for _, bookmarks := range []bool{true, false} {
		t.Run(fmt.Sprintf("bookmarks=%v", bookmarks), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				if !bookmarks {
					w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, OmitBookmarks: true})
				}
				w.Create(world.NewPod("ns", "a", "v=1"))
				inf := behind(w, &world.Proxy{Hold: 100 * time.Second}, world.Paged[*corev1.Pod]())
				d := &delays{World: w}
				d.measure(inf)
				defer world.Start(w.T, inf)()
				for i := range 240 {
					<-time.After(15 * time.Second)
					s := world.StatusOf(inf)
					if s.LastError != nil || s.State != status.ReflectorWatching || !s.WatchOpen && time.Since(s.NoWatchSince) > 101*time.Second {
						w.Fatalf("after %v: status %+v", time.Duration(i)*15*time.Second, s)
					}
				}
				w.Server.EndWatches()
				<-time.After(95 * time.Second)
				d.change("2", time.Second) // also while the header is held back
				if d.events != 1 || d.longest > 0 {
					w.Errorf("%d events, %v late", d.events, d.longest)
				}
			})
		})
	}
}

// silent is the longest silence of a watch of a server that sends a bookmark each minute.
const silent = 150 * time.Second

// A watch that stays open and dead ends soon if the server had sent bookmarks: in that watch, or in the one before.
// Guarantees: R18
func TestDeadWatchIsNoticedByItsBookmarks(t *testing.T) {
	for name, c := range map[string]struct {
		fault     informertest.Fault
		endsFirst bool // a watch with bookmarks
		dead      time.Duration
	}{
		"after two bookmarks":   {informertest.Fault{AfterEvents: 2, Hang: true}, false, 2*time.Minute + silent},
		"from the start":        {informertest.Fault{AfterHeaders: true, Hang: true}, true, silent},
		"without an answer":     {informertest.Fault{Hang: true}, true, silent},
		"after three bookmarks": {informertest.Fault{AfterEvents: 3, Hang: true}, true, 3*time.Minute + silent},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("ns", "a", "v=1"))
				inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*corev1.Pod]())
				c.fault.Verb, c.fault.Times = "watch", 1
				if !c.endsFirst {
					w.Server.Inject(c.fault)
				}
				defer world.Start(w.T, inf)()
				if c.endsFirst {
					<-time.After(4*time.Minute + time.Second)
					w.Server.Inject(c.fault)
					w.Server.EndWatches()
				}
				began := time.Now()
				<-time.After(c.dead - time.Second)
				w.Server.ResetRequests()
				w.Relabel("ns", "a", "2")
				if s := world.StatusOf(inf); s.LastError != nil {
					w.Errorf("too early: status %+v", s)
				}
				<-time.After(3 * time.Second)
				isAudit := func(r string) bool { return strings.HasPrefix(r, "list ") } // begins at a random time
				if got := slices.DeleteFunc(w.Requests(), isAudit); !slices.Equal(got, []string{"watch resourceVersion=2"}) {
					w.Errorf("requests %q", got)
				}
				if p, _ := inf.Store().Get(world.KeyA); p.Labels["v"] != "2" {
					w.Errorf("%v later, the store has %v", time.Since(began), p.Labels)
				}
			})
		})
	}
}

// A server that sends no bookmarks any more is not taken for dead again and again.
// Guarantees: R18
func TestServerThatStopsSendingBookmarks(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		config := world.Paged[*corev1.Pod]()
		failures := 0
		config.OnFailure = func(error) { failures++ }
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		<-time.After(4*time.Minute + time.Second)
		w.Server.Inject(informertest.Fault{Verb: "watch", OmitBookmarks: true})
		w.Server.EndWatches()
		<-time.After(5 * time.Hour)
		if failures != 1 {
			w.Errorf("%d failures", failures)
		}
	})
}
