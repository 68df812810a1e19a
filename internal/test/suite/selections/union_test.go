package selections

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

var three = selection{LabelSelector: "v=3"}

// requestsOf matches the requests of a selection with that label selector.
func requestsOf(s selection) func(informertest.Request) bool {
	return func(r informertest.Request) bool { return r.Query.Get("labelSelector") == s.LabelSelector }
}

// fail makes the requests of a selection fail, until end.
func fail(w world.World, s selection, err error) (end func()) {
	return w.Server.Inject(informertest.Fault{Match: requestsOf(s), Error: err})
}

// unasked makes the questions fail whether an object is gone.
func unasked(w world.World) (end func()) {
	asked := func(r informertest.Request) bool {
		return strings.Contains(r.Query.Get("fieldSelector"), "metadata.name=")
	}
	return w.Server.Inject(informertest.Fault{Match: asked, Error: world.Unavailable})
}

// waitsFor reports whether wait has not ended after a second.
func waitsFor(w world.World, wait func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	return errors.Is(wait(ctx), context.DeadlineExceeded)
}

// While one selection lags behind another's list, the store claims no version that it does not show, although both
// selections have reached it: the list does not show when an object left.
// Guarantees: U6
func TestStoreClaimsWhatItShows(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"))
		inf, rec, stop := started(w, client, config, versionOne, two)
		defer stop()
		defer unasked(w)()
		end := fail(w, versionOne, world.Unavailable)
		w.Server.EndWatches()
		time.Sleep(10 * time.Second)
		hold := w.Server.Hold(informertest.Watches{Match: requestsOf(two)})
		w.Delete("a", "x")
		deleted := w.Server.ResourceVersion()
		w.Create(world.NewPod("a", "y", "v=2"), world.NewPod("a", "z", "v=2"))
		synctest.Wait()
		w.Server.Compact()
		end()
		time.Sleep(2 * time.Minute) // the first selection lists
		hold.Deliver(func(e informertest.HeldEvent) bool { return e.Key.Name == "y" })
		synctest.Wait()
		rec.Want(w.T, "add a/y 2 initial=false")
		if _, has := inf.Store().Get(informer.Key{Namespace: "a", Name: "x"}); !has {
			w.Fatal("the test has no object that is deleted")
		}
		if !waitsFor(w, func(ctx context.Context) error { return inf.WaitForResourceVersion(ctx, deleted) }) {
			w.Errorf("the store claims %s, and has an object that was deleted at %s", inf.Store().ResourceVersion(), deleted)
		}
		hold.Release()
		if err := inf.WaitForResourceVersion(w.Context(), deleted); err != nil {
			w.Error(err)
		}
		rec.Want(w.T, "add a/z 2 initial=false", "delete a/x 1 final=false")
	})
}

// While two selections list for the first time, an object moves from the one that lists later to the other. The store
// claims no version before it shows the object.
// Guarantees: U6
func TestFirstListsClaimWhatTheStoreShows(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x", "v=1"))
		listed := w.Server.ResourceVersion()
		end := fail(w, versionOne, world.Unavailable)
		inf := informer.New(w.Client(), selected(versionOne, two), world.Quiet[*corev1.Pod]())
		rec := &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Run(w, inf)()
		synctest.Wait()
		hold := w.Server.Hold(informertest.Watches{Match: requestsOf(two)})
		w.Relabel("a", "x", "2")
		synctest.Wait()
		end()
		if err := inf.WaitSynced(w.Context()); err != nil || inf.Store().Len() != 0 {
			w.Fatal(err, inf.Store().Len())
		}
		if !waitsFor(w, func(ctx context.Context) error { return inf.WaitForResourceVersion(ctx, listed) }) {
			w.Errorf("the store claims %s, and has no object", inf.Store().ResourceVersion())
		}
		hold.Release()
		if err := inf.WaitForResourceVersion(w.Context(), listed); err != nil {
			w.Error(err)
		}
		rec.Want(w.T, "add a/x 2 initial=false")
	})
}

// An object moves to a selection that has not listed yet. It stays.
// Guarantees: U7, U8
func TestMoveToASelectionThatHasNotListed(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"))
		inf, rec, stop := started(w, client, config, versionOne)
		defer stop()
		end := fail(w, two, world.Unavailable)
		changed := make(chan error, 1)
		go func() { changed <- inf.SetSelections(w.Context(), versionOne, two) }()
		synctest.Wait()
		w.Relabel("a", "x", "2")
		w.Relabel("a", "y", "5")
		time.Sleep(5 * time.Second)
		end()
		if err := <-changed; err != nil {
			w.Error(err)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		told := rec.Take()
		if slices.Sort(told); !slices.Equal(told, []string{"delete a/y 1 final=true", "update a/x 1->2"}) { // in any order
			w.Errorf("the handler received %q", told)
		}
		equalsServer(w, inf, []selection{versionOne, two})
	})
}

// After a restored server, what left one selection does not wait until the others reach a version from before.
// Guarantees: U7, U9
func TestLeaveFromBeforeARestore(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"))
		backup := w.Server.Snapshot()
		w.Create(world.NewPod("a", "p", "v=4"), world.NewPod("a", "q", "v=4"))
		inf, rec, stop := started(w, client, config, versionOne, two, three)
		defer stop()
		w.Delete("a", "x")
		synctest.Wait()
		w.Server.Stop()
		w.Server.Restore(backup)
		w.Delete("a", "x")
		endOne, endTwo := fail(w, versionOne, world.Unavailable), fail(w, two, world.Unavailable)
		defer endTwo()
		w.Server.Start()
		time.Sleep(10 * time.Minute) // the third selection has a lower version now
		if err := inf.SetSelections(w.Context(), versionOne, three); err != nil {
			w.Fatal(err)
		}
		endOne()
		time.Sleep(time.Hour)
		rec.Want(w.T, "delete a/x 1 final=true")
		equalsServer(w, inf, []selection{versionOne, three})
		if r, err := inf.Audit(w.Context()); err != nil || r.Differ != 0 {
			w.Errorf("audit: %+v, %v", r, err)
		}
	})
}

// If one selection finds a restored server, the others list it again, too, although other writes have moved it past
// their versions.
// Guarantees: U7
func TestOneSelectionFindsARestoredServer(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"))
		backup := w.Server.Snapshot()
		inf, _, stop := started(w, client, config, versionOne, two)
		defer stop()
		hold := w.Server.Hold(informertest.Watches{Match: requestsOf(versionOne)})
		for range 9 {
			w.Create(world.NewPod("a", "y", "v=2"))
			w.Delete("a", "y")
		}
		synctest.Wait()
		w.Server.Stop()
		w.Server.Restore(backup)
		w.Relabel("a", "x", "5") // at a version that the first selection never saw
		w.Create(world.NewPod("a", "z", "v=2"))
		w.Server.Start()
		time.Sleep(30 * time.Minute)
		hold.Release()
		synctest.Wait()
		equalsServer(w, inf, []selection{versionOne, two})
		for _, r := range inf.Status().Reflectors {
			if r.Restored != 1 {
				w.Errorf("%d restores", r.Restored)
			}
		}
	})
}

// The first list of a new selection finds a restored server, although no other selection has noticed it.
// Guarantees: U7, U9
func TestNewSelectionFindsARestoredServer(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		backup := w.Server.Snapshot()
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"), world.NewPod("a", "z", "v=4"))
		inf, rec, stop := started(w, client, config, versionOne)
		defer stop()
		w.Server.Stop()
		w.Server.Restore(backup)
		w.Create(world.NewPod("a", "y", "v=2"))
		defer fail(w, versionOne, world.Unavailable)()
		w.Server.Start()
		if err := inf.SetSelections(w.Context(), two); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		equalsServer(w, inf, []selection{two})
		ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		if r, err := inf.Audit(ctx); err != nil || r.Differ != 0 {
			w.Errorf("audit: %+v, %v", r, err)
		}
		rec.Want(w.T, "delete a/y 1 final=false", "add a/y 2 initial=false", "delete a/x 1 final=false")
	})
}

// An object that a refused selection has, too, does not go back to what that had, neither when it is deleted nor when
// the server serves the selection again.
// Guarantees: U8
func TestRefusedSelectionSendsNothingBack(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"), world.NewPod("b", "z", "v=1"))
		all := selection{LabelSelector: "v", Optional: true}
		inf, rec, stop := started(w, client, config, selection{Namespace: "a"}, all)
		defer stop()
		end := fail(w, all, world.Forbidden)
		w.Server.EndWatches()
		time.Sleep(time.Minute)
		for _, v := range []string{"2", "3"} {
			w.Relabel("a", "x", v)
			w.Relabel("a", "y", v)
			synctest.Wait()
		}
		w.Delete("a", "x")
		synctest.Wait()
		rec.Want(w.T, "update a/x 1->2", "update a/y 1->2", "update a/x 2->3", "update a/y 2->3", "delete a/x 3 final=true")
		end()
		time.Sleep(time.Hour)
		rec.Want(w.T)
		equalsServer(w, inf, []selection{all})
	})
}

// While one optional selection is refused, what left another is removed soon, although the refused one had it.
// Guarantees: U7
func TestLeavesWhileASelectionIsRefused(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"))
		all := selection{LabelSelector: "v", Optional: true}
		_, rec, stop := started(w, client, config, versionOne, two, all)
		defer stop()
		defer fail(w, all, world.Forbidden)()
		w.Server.EndWatches()
		time.Sleep(time.Minute)
		w.Relabel("a", "x", "5")
		time.Sleep(3 * time.Second)
		rec.Want(w.T, "delete a/x 1 final=true")
	})
}

// SetSelections({a}), ({b}), ({a}) keeps a, if b has not listed.
// Guarantees: U3
func TestSelectionThatIsWantedAgain(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=2"))
		inf, rec, stop := started(w, client, config, versionOne)
		defer stop()
		end := fail(w, two, world.Unavailable)
		if !waitsFor(w, func(ctx context.Context) error { return inf.SetSelections(ctx, two) }) {
			w.Error("has listed")
		}
		w.Server.ResetRequests()
		if err := inf.SetSelections(w.Context(), versionOne); err != nil {
			w.Error(err)
		}
		end()
		w.Relabel("a", "x", "3")
		w.Relabel("a", "y", "1")
		time.Sleep(time.Minute)
		rec.Want(w.T, "delete a/x 1 final=true", "add a/y 1 initial=false")
		if requests := w.Server.Requests(); len(requests) > 0 {
			w.Errorf("requests %q", w.Requests())
		}
	})
}

// A SetShard that waits for a selection returns when that one is refused, or no longer wanted.
// Guarantees: U4
func TestSetShardWaitsForNoSelectionThatIsGone(t *testing.T) {
	for name, end := range map[string]func(w world.World, inf *informer.Informer[*corev1.Pod], remove func()){
		"refused": func(w world.World, _ *informer.Informer[*corev1.Pod], remove func()) {
			fail(w, selection{LabelSelector: "v=2"}, world.Forbidden)
			remove()
		},
		"dropped": func(w world.World, inf *informer.Informer[*corev1.Pod], _ func()) {
			if err := inf.SetSelections(w.Context(), versionOne); err != nil {
				w.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("a", "x", "v=1"))
				inf, _, stop := started(w, w.Client(), world.Quiet[*corev1.Pod](), versionOne, selection{LabelSelector: "v=2", Optional: true})
				defer stop()
				half := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<63 - 1}}}
				if err := inf.SetShard(w.Context(), half); err != nil {
					w.Fatal(err)
				}
				remove := fail(w, two, world.Unavailable)
				ended := make(chan error, 1)
				go func() { ended <- inf.SetShard(w.Context(), informer.Shard{}) }() // needs a list
				time.Sleep(time.Minute)
				if len(ended) > 0 {
					w.Error("does not wait")
				}
				end(w, inf, remove)
				select {
				case err := <-ended:
					if err != nil {
						w.Error(err)
					}
				case <-time.After(10 * time.Minute):
					w.Error("waits on")
				}
			})
		})
	}
}

// A selection that is added after SetShard lists the new shard only, at the version of the store or later.
// Guarantees: U3, S1
func TestSelectionAddedAfterSetShard(t *testing.T) {
	world.BubbleWith(t, informertest.Options{Shards: true}, func(w world.World) {
		for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			w.Create(world.NewPod("ns", name, "v=1"), world.InQuarter(i%4, world.NewPod("ns", name+name, "v=2")))
		}
		inf, _, stop := started(w, w.Client(), world.Quiet[*corev1.Pod](), versionOne)
		defer stop()
		half := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<63 - 1}}}
		if err := inf.SetShard(w.Context(), half); err != nil {
			w.Fatal(err)
		}
		w.Relabel("ns", "a", "3")
		synctest.Wait()
		version := inf.Store().ResourceVersion()
		w.Server.ResetRequests()
		if err := inf.SetSelections(w.Context(), versionOne, two); err != nil {
			w.Fatal(err)
		}
		for _, r := range w.Server.Requests() {
			if r.Query.Get("shardSelector") != half.String() || r.Query.Get("resourceVersion") != version {
				w.Errorf("request %v, want version %s", r.Query, version)
			}
		}
		for pod := range inf.Store().All() {
			if !half.Has(pod) {
				w.Errorf("%s is not in the shard", pod.Name)
			}
		}
		if !slices.ContainsFunc(inf.Store().List(), func(p *corev1.Pod) bool { return len(p.Name) == 2 }) {
			w.Error("nothing of the new selection")
		}
	})
}

// An audit compares what users read: the store, not what each selection has. It counts an object once, and does not call
// a store equal that has a deleted object because a selection lags.
// Guarantees: U9
func TestAuditComparesTheUnion(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"))
		inf, rec, stop := started(w, client, config, versionOne, two, selection{Namespace: "a", LabelSelector: "v=1"})
		defer stop()
		if r, err := inf.Audit(w.Context()); err != nil || r.Objects != 2 || r.Differ != 0 {
			w.Errorf("%+v, %v", r, err)
		}
		end := unasked(w)
		w.Delete("a", "x")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel()
		if r, err := inf.Audit(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "lags behind") {
			w.Errorf("%+v, %v, while the store has %d objects", r, err, inf.Store().Len())
		}
		rec.Want(w.T)
		end()
		if r, err := inf.Audit(w.Context()); err != nil || r.Objects != 1 || r.Differ != 0 {
			w.Errorf("%+v, %v", r, err)
		}
		rec.Want(w.T, "delete a/x 1 final=true")
	})
}

// An object that two selections have missed is one difference. One that a refused selection has alone is unclear.
// Guarantees: U9, R23
func TestAuditOfOverlappingSelections(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		all := selection{LabelSelector: "v", Optional: true}
		inf, _, stop := started(w, w.Client(), world.Quiet[*corev1.Pod](), versionOne, selection{Namespace: "a"}, all)
		defer stop()
		w.Create(world.NewPod("b", "z", "v=4"))
		time.Sleep(2 * time.Minute)
		defer fail(w, all, world.Forbidden)()
		end := w.Server.Inject(informertest.Fault{Verb: "watch", LoseEvents: 1})
		w.Server.EndWatches()
		time.Sleep(time.Minute)
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"))
		synctest.Wait()
		end()
		if r, err := inf.Audit(w.Context()); err != nil || r.Differ != 1 || len(r.Differences) != 1 || r.Unclear != 1 ||
			r.Differences[0].Kind != status.DifferenceMissing {
			w.Errorf("%+v, %v", r, err)
		}
		time.Sleep(time.Minute)
		if r, err := inf.Audit(w.Context()); err != nil || r.Differ != 0 || r.Objects != 3 || inf.Store().Len() != 3 {
			w.Errorf("%+v, %v", r, err)
		}
	})
}

// An object that moves to a selection in which it cannot be decoded stays in its last good version, as without
// selections. It is known to be undecodable, the version of the store goes on, and an audit finds no difference.
// Guarantees: R17, U6
func TestUndecodableObjectStaysWhenItMoves(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		config.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
			if pod.Labels["bad"] == "yes" {
				return nil, errors.New("bad")
			}
			return pod, nil
		}
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"))
		inf, rec, stop := started(w, client, config, versionOne, two)
		defer stop()
		good, _ := inf.Store().Get(informer.Key{Namespace: "a", Name: "x"})
		for range 2 {
			w.Label("a", "x", "bad", "yes")
			w.Relabel("a", "x", "2")
			last := w.Relabel("a", "y", "2")
			time.Sleep(time.Minute)
			synctest.Wait()
			if pod, ok := inf.Store().Get(informer.KeyOf(good)); !ok || pod.ResourceVersion != good.ResourceVersion || inf.Store().Undecodable(informer.KeyOf(good)) == nil {
				w.Errorf("the store has %v, %v; want version %s", pod, inf.Store().Undecodable(informer.KeyOf(good)), good.ResourceVersion)
			}
			if got := inf.Store().ResourceVersion(); got != last.ResourceVersion {
				w.Errorf("the store is at %s, want %s", got, last.ResourceVersion)
			}
			if r, err := inf.Audit(w.Context()); err != nil || r.Differ != 0 {
				w.Errorf("%+v, %v", r, err)
			}
			w.Label("a", "x", "bad", "")
			time.Sleep(time.Minute)
			equalsServer(w, inf, []selection{versionOne, two})
			good = w.Relabel("a", "x", "1")
			w.Relabel("a", "y", "1")
			time.Sleep(time.Minute)
			equalsServer(w, inf, []selection{versionOne, two})
		}
		w.Label("a", "x", "bad", "yes")
		w.Relabel("a", "x", "2")
		time.Sleep(time.Minute)
		rec.Take()
		w.Delete("a", "x")
		time.Sleep(time.Minute)
		synctest.Wait()
		if told := rec.Take(); len(told) != 1 || !strings.HasPrefix(told[0], "delete") || rec.Broken() > 0 {
			w.Errorf("the handler was told %q, %d do not follow", told, rec.Broken())
		}
		equalsServer(w, inf, []selection{versionOne, two})
	})
}

// An object that stays because it cannot be decoded leaves with the shard.
// Guarantees: R17, U6
func TestUndecodableObjectLeavesWithTheShard(t *testing.T) {
	for _, shards := range []bool{false, true} {
		world.BubbleWith(t, informertest.Options{Shards: shards}, func(w world.World) {
			config := world.Quiet[*corev1.Pod]()
			config.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
				if pod.Labels["bad"] == "yes" {
					return nil, errors.New("bad")
				}
				return pod, nil
			}
			w.Create(world.InQuarter(0, world.NewPod("a", "x", "v=1")), world.InQuarter(2, world.NewPod("a", "y", "v=1")))
			inf, rec, stop := started(w, w.Client(), config, versionOne, two)
			defer stop()
			reshape := func(first, last uint64) {
				if err := inf.SetShard(w.Context(), informer.Shard{Ranges: []informer.HashRange{{First: first, Last: last}}}); err != nil {
					w.Fatal(err)
				}
			}
			reshape(0, 3<<62-1)
			w.Label("a", "x", "bad", "yes")
			w.Relabel("a", "x", "2")
			time.Sleep(time.Minute)
			if inf.Store().Len() != 2 {
				w.Errorf("%d objects before the change of the shard, want 2", inf.Store().Len())
			}
			reshape(1<<63, 3<<62-1) // without x
			time.Sleep(time.Minute)
			synctest.Wait()
			if told := rec.Take(); inf.Store().Len() != 1 || len(told) != 1 || !strings.HasPrefix(told[0], "delete") {
				w.Errorf("%d objects, the handler was told %q", inf.Store().Len(), told)
			}
		})
	}
}
