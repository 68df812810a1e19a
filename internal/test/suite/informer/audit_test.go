package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// differencesOf describes the differences of a result, sorted.
func differencesOf(r status.AuditResult) []string {
	var texts []string
	for _, d := range r.Differences {
		texts = append(texts, fmt.Sprintf("%s %s", d.Key, d.Kind))
	}
	slices.Sort(texts)
	return texts
}

// wantAudit checks an audit.
func wantAudit(w world.World, inf *informer.Informer[*corev1.Pod], objects int, differences ...string) status.AuditResult {
	w.Helper()
	r, err := inf.Audit(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	if diff := gocmp.Diff(differences, differencesOf(r)); diff != "" || r.Objects != objects || r.Differ != len(differences) {
		w.Errorf("%d objects, %d differ (-want +got):\n%s", r.Objects, r.Differ, diff)
	}
	if r.ResourceVersion != inf.Store().ResourceVersion() && len(differences) == 0 {
		w.Errorf("audited at %s, the store has %s", r.ResourceVersion, inf.Store().ResourceVersion())
	}
	return r
}

// loseEvents makes the next watch lose its first n events, and opens it.
func loseEvents(w world.World, n int) (end func()) {
	end = w.Server.Inject(informertest.Fault{Verb: "watch", Match: world.NotStreamed, LoseEvents: n})
	w.Server.EndWatches()
	time.Sleep(time.Minute) // of the bubble
	synctest.Wait()
	return end
}

// auditConfigs are the configurations that an audit must not depend on.
var auditConfigs = map[string]func(*informer.Config[*corev1.Pod], *informer.Resource){
	"default":  func(*informer.Config[*corev1.Pod], *informer.Resource) {},
	"separate": func(c *informer.Config[*corev1.Pod], _ *informer.Resource) { c.Layout = informer.LayoutSeparate },
	"compact":  func(c *informer.Config[*corev1.Pod], _ *informer.Resource) { c.Layout = informer.LayoutCompact },
	"transform": func(c *informer.Config[*corev1.Pod], _ *informer.Resource) {
		c.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { p.Spec = corev1.PodSpec{}; return p, nil }
	},
	"namespaces": func(_ *informer.Config[*corev1.Pod], r *informer.Resource) { r.Namespaces = []string{"ns", "other"} },
	"selector":   func(_ *informer.Config[*corev1.Pod], r *informer.Resource) { r.LabelSelector = "app=x" },
	"filter": func(c *informer.Config[*corev1.Pod], _ *informer.Resource) {
		c.Filter = func(m *metav1.PartialObjectMetadata) bool { return m.Labels["app"] == "x" }
	},
	"shard of all": func(_ *informer.Config[*corev1.Pod], r *informer.Resource) {
		r.Shard = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<64 - 1}}}
	},
}

// forEachAuditConfig runs test for each of auditConfigs, in both formats, with the pods a to e of app x, and others that selector and
// filter reject.
func forEachAuditConfig(t *testing.T, test func(w world.World, inf *informer.Informer[*corev1.Pod],
	rec *testkit.Recorder[*corev1.Pod], objects int)) {
	for name, change := range auditConfigs {
		for _, media := range []string{world.JSONType, world.ProtobufType} {
			t.Run(name+"/"+strings.TrimPrefix(media, "application/"), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					for _, name := range []string{"a", "b", "c", "d", "e"} {
						w.Create(world.NewPod("ns", name, "app=x", "v=1"))
					}
					w.Create(world.NewPod("other", "o", "app=x", "v=1"), world.NewPod("ns-2", "n", "app=y", "v=1"))
					config, resource := world.Quiet[*corev1.Pod](), pods
					config.PageSize = 2
					change(&config, &resource)
					objects := 7
					if resource.Namespaces != nil || resource.LabelSelector != "" || config.Filter != nil {
						objects = 6
					}
					inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = media }), resource, config)
					rec := &testkit.Recorder[*corev1.Pod]{}
					inf.Subscribe(rec)
					defer world.Run(w, inf)()
					if err := inf.WaitSynced(w.Context()); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
					rec.Take()
					test(w, inf, rec, objects)
				})
			})
		}
	}
}

// An audit of a store that equals the server finds nothing, also after changes of all kinds.
//
// Guarantees: R23
func TestEqualStoreHasNoDifference(t *testing.T) {
	forEachAuditConfig(t, func(w world.World, inf *informer.Informer[*corev1.Pod], _ *testkit.Recorder[*corev1.Pod], objects int) {
		r := wantAudit(w, inf, objects)
		if r.Bytes == 0 || r.Time.IsZero() || r.Unclear != 0 {
			w.Errorf("%+v", r)
		}
		w.Relabel("ns", "a", "2")
		w.Delete("ns", "b")
		w.Create(world.NewPod("ns", "f", "app=x"))
		w.Label("ns", "c", "app", "y") // out of the selector and of the filter
		synctest.Wait()
		if objects == 6 && inf.Resource().Namespaces == nil {
			objects--
		}
		wantAudit(w, inf, objects)
		if s := inf.Status().Audit; s.Equal != 2 || s.Different+s.Failed+s.Differ > 0 || s.LastError != nil ||
			s.LastEqual.IsZero() || s.Last.Objects != objects || !s.Next.IsZero() {
			w.Errorf("%+v", s)
		}
	})
}

// An audit finds what a watch has lost: an addition, an update, a deletion, and a deletion with a new object of the same
// name. One list repairs the store. Handlers receive the changes in the chain of each key.
//
// Guarantees: R23, H2, H5
func TestLostEventsAreFoundAndRepaired(t *testing.T) {
	forEachAuditConfig(t, func(w world.World, inf *informer.Informer[*corev1.Pod], rec *testkit.Recorder[*corev1.Pod], objects int) {
		end := loseEvents(w, 5)
		w.Relabel("ns", "a", "2")
		w.Delete("ns", "b")
		w.Delete("ns", "c")
		w.Create(world.NewPod("ns", "c", "app=x", "v=3"), world.NewPod("ns", "f", "app=x", "v=1"))
		w.Relabel("ns", "e", "2") // arrives, so the store has passed the version of the others
		synctest.Wait()
		end()
		rec.Want(w.T, "update ns/e 1->2")
		wantAudit(w, inf, objects, "ns/a outdated", "ns/b superfluous", "ns/c recreated", "ns/f missing")
		synctest.Wait()
		got := rec.Take()
		slices.Sort(got)
		if diff := gocmp.Diff([]string{"add ns/c 3 initial=false", "add ns/f 1 initial=false", "delete ns/b 1 final=false",
			"delete ns/c 1 final=false", "update ns/a 1->2"}, got); diff != "" {
			w.Errorf("repair (-want +got):\n%s", diff)
		}
		if n := rec.Broken(); n > 0 {
			w.Errorf("%d broken chains", n)
		}
		wantAudit(w, inf, objects)
		s := inf.Status()
		lists := 0
		for _, r := range s.Reflectors {
			lists += r.Traffic.ListsBy[status.ReasonAudit]
			if r.Restored > 0 {
				w.Error("counted as a restored server")
			}
		}
		if s.Audit.Different != 1 || s.Audit.Differ != 4 || s.Audit.Equal != 1 || lists != 1 {
			w.Errorf("%+v, %d lists", s.Audit, lists)
		}
	})
}

// A difference is logged with the keys, and reported by Config.OnFailure and the status, with nothing of the objects.
//
// Guarantees: R23
func TestDifferenceIsReported(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "secret=content"))
		config, log := world.Logged()
		var failures []error
		config.OnFailure = func(err error) { failures = append(failures, err) }
		inf := informer.New(w.Client(), pods, config)
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		end := loseEvents(w, 1)
		w.Relabel("ns", "a", "2")
		time.Sleep(2 * time.Minute) // a bookmark
		end()
		log.Take()
		wantAudit(w, inf, 1, "ns/a outdated")
		synctest.Wait()
		var failed *informer.AuditError
		if len(failures) != 1 || !errors.As(failures[0], &failed) || failed.Result.Differ != 1 {
			t.Fatalf("failures: %v", failures)
		}
		text := strings.Join(log.Take(), "")
		if !strings.Contains(text, "the store differs from the server") || !strings.Contains(text, "ns/a is outdated") ||
			strings.Contains(text, "content") {
			t.Errorf("log: %s", text)
		}
		if s := world.StatusOf(inf); !errors.As(s.LastError, &failed) {
			t.Errorf("last error: %v", s.LastError)
		}
	})
}

// An object that arrived with another resource version than it has is found and repaired.
//
// Guarantees: R23
func TestWrongVersionIsFoundAndRepaired(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		w.Relabel("ns", "a", "2")
		end := w.Server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
			if key != world.KeyA {
				return object
			}
			pod, _ := w.Pods.Get(key)
			pod = pod.DeepCopy()
			pod.ResourceVersion, pod.Labels["v"] = "1", "1"
			return world.Encode(pod, object)
		}})
		inf := informer.New(client, pods, config)
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		end()
		wantAudit(w, inf, 2, "ns/a outdated")
		synctest.Wait()
		world.EqualsServer(w, inf)
	})
}

// A server that was restored from a backup, and that other writes have moved past the version of the store, is found
// after it was away for a minute.
//
// Guarantees: R6, R23
func TestServerRestoredPastTheStoreIsFound(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		backup := w.Server.Snapshot()
		w.Relabel("ns", "a", "2")
		w.Create(world.NewPod("ns", "b", "v=1"))
		inf := informer.New(client, pods, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		w.Server.Stop()
		w.Server.Restore(backup)
		for i := range 20 {
			w.Create(world.NewPod("ns", fmt.Sprintf("other%d", i), "v=1"))
		}
		time.Sleep(2 * time.Minute)
		w.Server.Start()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		world.EqualsServer(w, inf)
		if n := rec.Broken(); n > 0 {
			w.Errorf("%d broken chains", n)
		}
		if s := inf.Status(); s.Audit.Different != 1 && s.Reflectors[0].Traffic.ListsBy[status.ReasonExpired] == 0 {
			w.Errorf("%+v", s.Audit)
		}
	})
}

// Without AuditEvery, an outage of less than a minute is followed by no audit, and a longer one by one audit within half
// a minute.
//
// Guarantees: R23
func TestAuditAfterAnOutage(t *testing.T) {
	for outage, audits := range map[time.Duration]int{20 * time.Second: 0, 3 * time.Minute: 1} {
		world.Bubble(t, func(w world.World) {
			w.Create(world.NewPod("ns", "a"))
			inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{})
			defer world.Run(w, inf)()
			if err := inf.WaitSynced(w.Context()); err != nil {
				t.Fatal(err)
			}
			w.Server.Stop()
			time.Sleep(outage)
			w.Server.Start()
			time.Sleep(2 * time.Minute)
			if s := inf.Status().Audit; s.Equal != audits || s.Failed+s.Different > 0 {
				t.Errorf("outage of %v: %+v", outage, s)
			}
		})
	}
}

// AuditEvery audits in each period, with a jitter of a tenth.
//
// Guarantees: R23
func TestAuditEvery(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{AuditEvery: time.Hour})
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if next := time.Until(inf.Status().Audit.Next); next <= 0 || next > time.Hour {
			t.Errorf("first audit in %v", next)
		}
		time.Sleep(10 * time.Hour)
		if n := inf.Status().Audit.Equal; n < 9 || n > 11 {
			t.Errorf("%d audits in 10 hours", n)
		}
	})
}

// If the server no longer has the version of the store, the audit takes the next one of the store.
//
// Guarantees: R23
func TestExpiredVersionIsFollowedByTheNext(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{})
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		version := inf.Store().ResourceVersion()
		remove := w.Server.Inject(informertest.Fault{Verb: "list", Error: world.Expired,
			Match: func(r informertest.Request) bool { return r.Query.Get("resourceVersion") == version }})
		defer remove()
		done := make(chan struct{})
		go func() {
			defer close(done)
			r, err := inf.Audit(w.Context())
			if err != nil || r.ResourceVersion == version || r.Objects != 2 || r.Differ > 0 {
				t.Errorf("%+v, %v", r, err)
			}
		}()
		synctest.Wait()
		w.Create(world.NewPod("ns", "b"))
		<-done
	})
}

// An audit whose version has expired while its watch is down blocks no audit of another informer of its client.
//
// Guarantees: U10, R23
func TestAuditThatWaitsBlocksNoOther(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"), world.NewPod("other", "b"))
		client := w.Client()
		var all []*informer.Informer[*corev1.Pod]
		for _, namespace := range []string{"ns", "other"} {
			inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{namespace}}, world.Quiet[*corev1.Pod]())
			defer world.Start(w.T, inf)()
			all = append(all, inf)
		}
		defer w.Server.Inject(informertest.Fault{Verb: "watch", Namespace: "ns", Error: world.Unavailable})()
		w.Server.EndWatches()
		time.Sleep(time.Minute)
		w.Create(world.NewPod("ns", "c"))
		w.Server.Compact()
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
		defer cancel()
		waits := make(chan error, 1)
		go func() {
			_, err := all[0].Audit(ctx)
			waits <- err
		}()
		synctest.Wait()
		began := time.Now()
		r, err := all[1].Audit(w.Context())
		if took := time.Since(began); err != nil || r.Differ != 0 || took > 2*time.Minute {
			t.Errorf("%+v, %v after %v", r, err, took)
		}
		if len(waits) > 0 {
			t.Errorf("the first audit does not wait: %v", <-waits)
		} else if err := <-waits; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// Objects that cannot be decoded are no differences while the store knows their versions, and are when it has missed a
// change or the deletion.
//
// Guarantees: R17, R23
func TestUndecodableObjectsAreCompared(t *testing.T) {
	for _, layout := range world.Layouts {
		world.Bubble(t, func(w world.World) {
			w.Create(world.NewPod("ns", "a"), world.NewPod("ns", "b"), world.NewPod("ns", "c"))
			defer w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{world.KeyA, world.KeyB}})()
			inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{Layout: layout})
			defer world.Run(w, inf)()
			if err := inf.WaitSynced(w.Context()); err != nil {
				t.Fatal(err)
			}
			wantAudit(w, inf, 3)
			w.Relabel("ns", "a", "2")
			synctest.Wait()
			wantAudit(w, inf, 3)
			end := loseEvents(w, 2)
			w.Relabel("ns", "a", "3")
			w.Delete("ns", "b")
			w.Relabel("ns", "c", "2")
			synctest.Wait()
			end()
			wantAudit(w, inf, 2, "ns/a outdated", "ns/b superfluous")
			synctest.Wait()
			wantAudit(w, inf, 2)
		})
	}
}

// While a name is unknown, missing and superfluous objects are unclear, not different.
//
// Guarantees: R23
func TestUnknownNamesAreUnclear(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"), world.NewPod("ns", "b"))
		defer w.Server.Inject(informertest.Fault{Rewrite: world.Nameless(world.KeyA)})()
		inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{})
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		r := wantAudit(w, inf, 2)
		if r.Unclear != 1 {
			t.Errorf("%d unclear", r.Unclear)
		}
	})
}

// Audits of one client follow one another, and wait while one of its informers lists.
//
// Guarantees: R23
func TestAuditGivesWayToLists(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		client := w.Client()
		inf := informer.New(client, pods, world.Quiet[*corev1.Pod]())
		defer world.Run(w, inf)()
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		w.Server.Inject(informertest.Fault{Verb: "list", Times: 1, Delay: 30 * time.Second})
		other := informer.New(client, pods, world.Paged[*corev1.Pod]())
		defer world.Run(w, other)()
		synctest.Wait()
		began := time.Now()
		wantAudit(w, inf, 1)
		if took := time.Since(began); took < 30*time.Second {
			t.Errorf("the audit took %v beside a list of 30 s", took)
		}
	})
}

// A program that has not started its informer, or has ended it, gets an error from Audit.
//
// Guarantees: L4
func TestAuditOutsideOfRun(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		inf, _ := w.PodInformer(informer.Config[*corev1.Pod]{})
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if _, err := inf.Audit(ctx); !errors.Is(err, informer.ErrNotStarted) {
			t.Error(err)
		}
		stop := world.Run(w, inf)
		if err := inf.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		stop()
		if _, err := inf.Audit(w.Context()); !errors.Is(err, informer.ErrStopped) {
			t.Error(err)
		}
		invalid := informer.New(w.Client(), pods, informer.Config[*corev1.Pod]{AuditEvery: -1,
			Logger: world.Quiet[*corev1.Pod]().Logger})
		if _, err := invalid.Audit(w.Context()); err == nil || !strings.Contains(err.Error(), "Config.AuditEvery") {
			t.Error(err)
		}
	})
}

// A group audits its informers in the order in which they joined. One that cannot compare is an error, and keeps no other
// from its audit.
//
// Guarantees: R23
func TestAuditOfAGroup(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x"), world.NewPod("b", "x"), world.NewPod("b", "y"))
		g := informer.NewGroup(w.Client())
		for _, namespace := range []string{"b", "c", "a"} {
			if _, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: world.PodGVR,
				Namespaces: []string{namespace}}, world.Quiet[*corev1.Pod]()); err != nil {
				t.Fatal(err)
			}
		}
		audit := func(want ...string) error {
			results, err := g.Audit(w.Context())
			var got []string
			for _, r := range results {
				got = append(got, fmt.Sprintf("%s: %d, %d differ", strings.TrimPrefix(r.Collection, "v1 pods in "), r.Objects, r.Differ))
			}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
			return err
		}
		stop := world.Run(w, g)
		if err := g.WaitSynced(w.Context()); err != nil {
			t.Fatal(err)
		}
		if err := audit("b: 2, 0 differ", "c: 0, 0 differ", "a: 1, 0 differ"); err != nil {
			t.Error(err)
		}
		remove := w.Server.Inject(informertest.Fault{Verb: "list", Namespace: "c", Error: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
		if err := audit("b: 2, 0 differ", "a: 1, 0 differ"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "audit of v1 pods in c") {
			t.Error(err)
		}
		remove()
		stop()
		if err := audit(); !errors.Is(err, informer.ErrStopped) {
			t.Error(err)
		}
	})
}
