package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"
	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// share makes an informer of resource, which are pods, a member of g. It has no log.
func share(w world.World, g *informer.Group, resource informer.Resource) (inf *informer.Informer[*corev1.Pod], release func()) {
	w.Helper()
	inf, release, err := informer.Shared(g, resource, world.Quiet[*corev1.Pod]())
	if err != nil {
		w.Fatal(err)
	}
	return inf, release
}

// Guarantees: L3
func TestGroupSharesAndStops(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("b", "y", "v=1"))
		g := informer.NewGroup(w.Client())
		all, releaseAll := share(w, g, pods)
		if again, release := share(w, g, pods); again != all {
			w.Error("not shared")
		} else {
			release()
			release() // has no effect
		}
		two, releaseTwo := share(w, g, informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"b", "a"}})
		if again, release := share(w, g, informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"a", "b"}}); again != two {
			w.Error("not shared when the namespaces are in another order")
		} else {
			defer release()
		}
		selected, _ := share(w, g, informer.Resource{GroupVersionResource: world.PodGVR, LabelSelector: "v=2"})
		metadata, _, err := informer.Shared(g, pods, informer.Config[*metav1.PartialObjectMetadata]{})
		if err != nil {
			w.Fatal(err)
		}
		if len(w.Requests()) != 0 {
			w.Error("requests before Run")
		}

		stop := world.Run(w, g)
		if err := g.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		if all.Store().Len() != 2 || two.Store().Len() != 2 || selected.Store().Len() != 0 || metadata.Store().Len() != 2 {
			w.Errorf("%d, %d, %d, %d objects", all.Store().Len(), two.Store().Len(), selected.Store().Len(), metadata.Store().Len())
		}
		synctest.Wait()
		if n := w.Pods.Watchers(); n != 5 { // one for each of the two namespaces
			w.Errorf("%d watches", n)
		}

		releaseTwo() // one user remains
		synctest.Wait()
		if n := w.Pods.Watchers(); n != 5 {
			w.Errorf("%d watches", n)
		}
		releaseAll() // the others keep running
		synctest.Wait()
		if n := w.Pods.Watchers(); n != 4 {
			w.Errorf("%d watches after the last user let go", n)
		}
		if err := all.WaitForResourceVersion(w.Context(), "99"); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitForResourceVersion of a stopped informer: %v", err)
		}
		fresh, _ := share(w, g, pods)
		if err := g.WaitSynced(w.Context()); err != nil || fresh == all || fresh.Store().Len() != 2 {
			w.Errorf("shared again: %v, %d objects", err, fresh.Store().Len())
		}
		if n := len(g.Status()); n != 4 {
			w.Errorf("%d informers", n)
		}
		stop()
		if _, _, err := informer.Shared(g, pods, world.Quiet[*corev1.Pod]()); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("Shared after the end: %v", err)
		}
		if err := g.Run(w.Context()); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("second Run: %v", err)
		}
	})
}

// Guarantees: L1
func TestGroupWaitsForItsHandlers(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x"))
		g := informer.NewGroup(w.Client())
		inf, _ := share(w, g, pods)
		world.WaitsForHandlers(w, inf, g.Run)
	})
}

// Many users share and release informers concurrently. A user's informer syncs fully, and WaitSynced of the group does not
// fail because of informers that others release.
// Guarantees: L3, L5
func TestGroupConcurrently(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x"), world.NewPod("b", "y"))
		g := informer.NewGroup(w.Client())
		ctx, stop := w.Context(), world.Run(w, g)
		var users sync.WaitGroup
		for n := range 6 {
			users.Go(func() {
				for i := range 20 {
					resource := informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{string("ab"[(n+i)%2])}}
					inf, release, err := informer.Shared(g, resource, world.Quiet[*corev1.Pod]())
					if err == nil && i%3 > 0 {
						err = inf.WaitSynced(ctx)
					}
					if err == nil && i%3 > 0 && inf.Store().Len() != 1 {
						err = fmt.Errorf("%d objects", inf.Store().Len())
					}
					if err = errors.Join(err, g.WaitSynced(ctx)); err != nil {
						w.Error(err)
					}
					g.Status()
					release()
				}
			})
		}
		users.Wait()
		synctest.Wait()
		if len(g.Status()) != 0 || w.Pods.Watchers() != 0 {
			w.Errorf("%d informers and %d watches remain", len(g.Status()), w.Pods.Watchers())
		}
		stop()
	})
}

func TestGroupWaitSyncedNamesWhatIsMissing(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		g := informer.NewGroup(w.Client())
		quietMaps := world.Quiet[*corev1.ConfigMap]()
		share(w, g, pods)
		gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
		if _, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: gvr, Namespaces: []string{"x"}}, quietMaps); err != nil {
			w.Fatal(err)
		}
		stop := world.Run(w, g)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		err := g.WaitSynced(ctx)
		var unsynced *informer.NotSyncedError
		if !errors.As(err, &unsynced) || unsynced.Resource.Resource != "configmaps" || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("WaitSynced: %v", err)
		}
		if text := err.Error(); strings.Contains(text, "pods") || !strings.Contains(text, "v1 configmaps in x not synced: namespace x: Absent") {
			w.Errorf("WaitSynced: %v", err)
		}
		stop()
	})
}

// HasSynced reports without waiting what WaitSynced waits for: all informers in the group at that time have synced.
func TestGroupHasSyncedWhenEveryMemberHas(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x"))
		g := informer.NewGroup(w.Client())
		want := func(when string, synced bool) {
			w.Helper()
			synctest.Wait()
			if g.HasSynced() != synced {
				w.Errorf("%s: HasSynced returns %t", when, !synced)
			}
			ended, cancel := context.WithCancel(w.Context())
			cancel()
			if err := g.WaitSynced(ended); (err == nil) != synced {
				w.Errorf("%s: WaitSynced returns %v", when, err)
			}
		}
		want("empty", true)
		_, release := share(w, g, pods)
		defer release()
		want("before Run", false)
		stop := world.Run(w, g)
		want("one member", true)
		absent := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("absent")}
		_, releaseAbsent := share(w, g, absent)
		want("a second member that is not served", false)
		releaseAbsent()
		want("the second member is released", true)
		_, releaseAbsent = share(w, g, absent)
		defer releaseAbsent()
		stop()
		want("stopped with a member that has not synced", false)
	})
}

func TestGroupConfigsMustAgree(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		g := informer.NewGroup(w.Client())
		transform := func(p *corev1.Pod) (*corev1.Pod, error) { return p, nil }
		if _, _, err := informer.Shared(g, pods, informer.Config[*corev1.Pod]{PageSize: 7, Transform: transform}); err != nil {
			w.Fatal(err)
		}
		for name, c := range map[string]struct {
			config informer.Config[*corev1.Pod]
			ok     bool
		}{
			"zero":      {informer.Config[*corev1.Pod]{}, true},
			"same":      {informer.Config[*corev1.Pod]{PageSize: 7}, true},
			"logger":    {informer.Config[*corev1.Pod]{PageSize: 7, Logger: slog.New(slog.DiscardHandler)}, true},
			"other":     {informer.Config[*corev1.Pod]{PageSize: 8}, false},
			"transform": {informer.Config[*corev1.Pod]{PageSize: 7, Transform: transform}, false},
		} {
			if _, _, err := informer.Shared(g, pods, c.config); (err == nil) != c.ok {
				w.Errorf("%s: %v", name, err)
			}
		}
		for _, other := range []informer.Resource{
			{LabelSelector: "a=b"}, {FieldSelector: "metadata.name=a"}, {Namespaces: []string{"ns"}},
			{Shard: informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 7}}}},
		} {
			other.GroupVersionResource = world.PodGVR
			if _, _, err := informer.Shared(g, other, informer.Config[*corev1.Pod]{PageSize: 8}); err != nil {
				w.Errorf("%s shares the informer of another selection: %v", other, err)
			}
		}
		if _, _, err := informer.Shared(g, informer.Resource{}, informer.Config[*corev1.Pod]{}); err == nil {
			w.Error("Shared accepted an empty resource")
		}
	})
}

// WaitSynced of an informer released by its last user returns ErrStopped, before, during and after the group's Run.
// Guarantees: L3, L4
func TestGroupNobodyWaitsForWhatWasReleased(t *testing.T) {
	newer := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", ResourceVersion: "99"}}
	for _, moment := range []string{"before Run", "during Run", "while it lists", "after the end"} {
		t.Run(moment, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				if moment == "while it lists" {
					defer w.Server.Inject(informertest.Fault{Error: world.Unavailable})()
				}
				g := informer.NewGroup(w.Client())
				inf, release := share(w, g, pods)
				sub := inf.Subscribe(&testkit.Recorder[*corev1.Pod]{})
				synced := moment == "during Run" || moment == "after the end"
				waiting := atomic.Int32{}
				waitAll := func() {
					for name, wait := range map[string]func(context.Context) error{
						"the group":           g.WaitSynced, // which no longer has the informer
						"the informer":        inf.WaitSynced,
						"the subscription":    sub.WaitSynced,
						"a resource version":  func(ctx context.Context) error { return inf.WaitForResourceVersion(ctx, "99") },
						"an object's version": func(ctx context.Context) error { return inf.WaitForObject(ctx, &newer) },
					} {
						waiting.Add(1)
						go func() {
							defer waiting.Add(-1)
							err := wait(w.Context())
							if isNil := name == "the group" || synced && !strings.HasSuffix(name, "version"); isNil != (err == nil) || !isNil && !errors.Is(err, informer.ErrStopped) {
								w.Errorf("waiting for %s: %v", name, err)
							}
						}()
					}
					synctest.Wait()
				}
				var stop func()
				run := func() {
					stop = world.Run(w, g)
					synctest.Wait()
				}
				switch moment {
				case "before Run":
					waitAll()
					release()
					synctest.Wait()
					run()
				case "after the end":
					run()
					waitAll()
					stop()
					synctest.Wait()
					release()
				default:
					run()
					waitAll()
					release()
				}
				synctest.Wait()
				if n := waiting.Load(); n > 0 {
					w.Errorf("%d still wait", n)
				}
				if err := g.WaitSynced(w.Context()); err != nil {
					w.Errorf("WaitSynced of a group without members: %v", err)
				}
				if err := inf.Run(w.Context()); !errors.Is(err, informer.ErrStopped) && !errors.Is(err, informer.ErrRunning) {
					w.Errorf("Run of a released informer: %v", err)
				}
				if err := inf.Subscribe(&testkit.Recorder[*corev1.Pod]{}).Err(); !errors.Is(err, informer.ErrStopped) {
					w.Errorf("Subscribe: %v", err)
				}
				stop()
			})
		})
	}
}

// An informer released before Run never starts, not even when Run follows.
// Guarantees: L3
func TestGroupRunsNothingThatWasReleased(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		g := informer.NewGroup(w.Client())
		_, release := share(w, g, pods)
		release()
		again, _ := share(w, g, informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"a"}})
		ctx, stop := w.Context(), world.Run(w, g)
		if err := errors.Join(g.WaitSynced(ctx), again.WaitSynced(ctx)); err != nil {
			w.Error(err)
		}
		w.WantRequests(world.Streams)
		stop()
	})
}

// WaitSynced of a group that never ran says so. Shared returns an error for an invalid informer, which never becomes a
// member.
// Guarantees: L4
func TestGroupTellsWhatItWaitsFor(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		g := informer.NewGroup(w.Client())
		if _, _, err := informer.Shared(g, informer.Resource{}, world.Quiet[*corev1.Pod]()); err == nil {
			w.Error("Shared accepted an empty resource")
		}
		if err := g.WaitSynced(w.Context()); err != nil || len(g.Status()) != 0 {
			w.Errorf("WaitSynced of an empty group: %v, %d members", err, len(g.Status()))
		}
		share(w, g, pods)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if err := g.WaitSynced(ctx); !errors.Is(err, informer.ErrNotStarted) || !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("WaitSynced: %v", err)
		}
		ended, stop := context.WithCancel(w.Context())
		stop()
		if err := g.Run(ended); !errors.Is(err, context.Canceled) {
			w.Errorf("Run: %v", err)
		}
		if err := g.WaitSynced(w.Context()); !errors.Is(err, informer.ErrStopped) {
			w.Errorf("WaitSynced after the end: %v", err)
		}
	})
}

// An informer that ends by itself ends its group. Otherwise the group would have a member that never syncs.
// Guarantees: L3, L4
func TestGroupEndsWithAMember(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(w world.World, inf *informer.Informer[*corev1.Pod])
		want  string
	}{
		"run by somebody else": {func(w world.World, inf *informer.Informer[*corev1.Pod]) {
			go inf.Run(w.Context())
			synctest.Wait()
		}, "already started"},
		"index that exits": {func(w world.World, inf *informer.Informer[*corev1.Pod]) {
			informer.NewIndex(inf, func(*corev1.Pod) []string { runtime.Goexit(); return nil })
		}, "called runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				ctx, cancel := context.WithCancel(w.Context())
				defer cancel()
				w = w.WithContext(ctx)
				w.Create(world.NewPod("a", "x"))
				g := informer.NewGroup(w.Client())
				inf, _ := share(w, g, pods)
				share(w, g, informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: []string{"a"}})
				c.spoil(w, inf)
				if err := g.Run(ctx); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "v1 pods") {
					w.Errorf("Run: %v", err)
				}
				if _, _, err := informer.Shared(g, pods, world.Quiet[*corev1.Pod]()); !errors.Is(err, informer.ErrStopped) {
					w.Errorf("Shared: %v", err)
				}
				cancel()
				synctest.Wait()
			})
		})
	}
}

func TestGroupJoinTakesAllOrNone(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		t := w.T
		informertest.Register[*corev1.Node](w.Server, informertest.Resource{GroupVersionResource: world.NodeGVR, ClusterScoped: true})
		w.Create(world.NewPod("a", "x"))
		g := informer.NewGroup(w.Client())
		var set struct {
			pods  *informer.Informer[*corev1.Pod]
			nodes *informer.Informer[*corev1.Node]
		}
		joinPods := informer.SharedInto(&set.pods, pods)
		joinNodes := informer.SharedInto(&set.nodes, informer.Resource{GroupVersionResource: world.NodeGVR})

		// One invalid informer: the group keeps none of them.
		var wrong *informer.Informer[*corev1.Pod]
		if _, err := g.Join(joinPods, joinNodes, informer.SharedInto(&wrong, informer.Resource{})); err == nil || !strings.Contains(err.Error(), "Resource.Resource is empty") {
			t.Errorf("error %v", err)
		}
		if n := len(g.Status()); n != 0 {
			t.Errorf("%d informers stay", n)
		}

		// The returned function releases each member once.
		released := 0
		release, err := g.Join(func(*informer.Group) (func(), error) { return func() { released++ }, nil })
		if err != nil {
			t.Fatal(err)
		}
		release()
		release()
		if released != 1 {
			t.Errorf("released %d times", released)
		}

		// One informer is already in the group, with its own Config.
		configured := world.Quiet[*corev1.Pod]()
		configured.Transform = func(p *corev1.Pod) (*corev1.Pod, error) { p.Spec = corev1.PodSpec{}; return p, nil }
		shared, releaseShared, err := informer.Shared(g, pods, configured)
		if err != nil {
			t.Fatal(err)
		}
		release, err = g.Join(joinPods, joinNodes)
		if err != nil {
			t.Fatal(err)
		}
		if set.pods != shared {
			t.Error("not the informer already in the group")
		}
		stop := world.Run(w, g)
		if err := g.WaitSynced(w.Context()); err != nil {
			t.Error(err)
		}
		if pod, _ := set.pods.Store().Get(informer.Key{Namespace: "a", Name: "x"}); pod == nil || pod.Spec.NodeName != "" {
			t.Errorf("pod %v", pod)
		}
		release()
		release() // has no effect
		var left []string
		for _, s := range g.Status() {
			left = append(left, s.Resource.Resource)
		}
		if diff := cmp.Diff([]string{"pods"}, left); diff != "" {
			t.Errorf("informers after the release (-want +got):\n%s", diff)
		}
		releaseShared()
		if n := len(g.Status()); n != 0 {
			t.Errorf("%d informers remain", n)
		}
		stop()
	})
}

// A group runs once at a time.
// Guarantees: L4
func TestGroupRunsOnce(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		g := informer.NewGroup(w.Client())
		stop := world.Run(w, g)
		synctest.Wait()
		again, cancelAgain := context.WithTimeout(w.Context(), time.Second)
		defer cancelAgain()
		if err := g.Run(again); !errors.Is(err, informer.ErrRunning) {
			w.Errorf("a second Run: %v", err)
		}
		stop()
	})
}
