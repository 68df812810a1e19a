// Package selections tests informers whose resource has Selections.
package selections

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

type selection = informer.Selection

var (
	versionOne = selection{LabelSelector: "v=1"}
	two        = selection{LabelSelector: "v=2"}
)

// selected returns the resource of pods with these selections.
func selected(selections ...selection) informer.Resource {
	return informer.Resource{GroupVersionResource: world.PodGVR, Selections: selections}
}

// matches reports whether one of the selections has pod.
func matches(pod *corev1.Pod, selections []selection) bool {
	return slices.ContainsFunc(selections, func(s selection) bool {
		selector, err := labels.Parse(s.LabelSelector)
		return err == nil && selector.Matches(labels.Set(pod.Labels)) && (s.Namespace == "" || s.Namespace == pod.Namespace) &&
			(s.FieldSelector == "" || s.FieldSelector == "metadata.name="+pod.Name)
	})
}

// equalsServer checks that the store of inf has the pods of the server that one of the selections has.
func equalsServer(w world.World, inf *informer.Informer[*corev1.Pod], selections []selection) {
	w.Helper()
	var want []*corev1.Pod
	for p := range w.Pods.All() {
		if matches(p, selections) {
			want = append(want, world.SeenAs[*corev1.Pod](p, false))
		}
	}
	if got := slices.Collect(inf.Store().All()); len(got) != len(want) || len(got) > 0 && !reflect.DeepEqual(got, want) {
		w.Errorf("%v: store differs from server (-server +store):\n%s", selections, cmp.Diff(want, got))
	}
}

// started returns an informer of selections that has synced, and what a handler has seen since.
func started(w world.World, client *informer.Client, config informer.Config[*corev1.Pod], selections ...selection) (
	inf *informer.Informer[*corev1.Pod], rec *testkit.Recorder[*corev1.Pod], stop func()) {
	w.Helper()
	inf, rec = informer.New(client, selected(selections...), config), &testkit.Recorder[*corev1.Pod]{}
	inf.Subscribe(rec)
	stop = world.Start(w.T, inf)
	synctest.Wait()
	rec.Take()
	return inf, rec, stop
}

// The store has what at least one selection has, and a handler sees each object once.
// Guarantees: U1
func TestUnionOfSelections(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=2"), world.NewPod("a", "z", "v=3"), world.NewPod("b", "x", "v=3"), world.NewPod("b", "y", "v=1"))
		all := []selection{versionOne, two, {Namespace: "b"}, {Namespace: "b", LabelSelector: "v=1"}, {FieldSelector: "metadata.name=x"}}
		inf, rec := informer.New(client, selected(all...), config), &testkit.Recorder[*corev1.Pod]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		synctest.Wait()
		equalsServer(w, inf, all)
		told := rec.Take()
		slices.Sort(told)
		if got, want := strings.Join(told, ", "), "add a/x 1 initial=true, add a/y 2 initial=true, add b/x 3 initial=true, add b/y 1 initial=true"; got != want {
			w.Errorf("told %s, want %s", got, want)
		}
		w.Relabel("a", "z", "2")
		w.Relabel("b", "y", "3")
		if err := inf.WaitForObject(w.Context(), w.Relabel("a", "x", "2")); err != nil {
			w.Error(err)
		}
		synctest.Wait()
		equalsServer(w, inf, all)
		if r, err := inf.Audit(w.Context()); err != nil || r.Differ != 0 || r.Objects == 0 {
			w.Errorf("audit: %+v, %v", r, err)
		}
		if s := inf.Status(); len(s.Reflectors) != len(all) || s.Reflectors[2].Namespace != "b" || !reflect.DeepEqual(s.Resource.Selections, all) {
			w.Errorf("status %+v", s)
		}
		if rec.Broken() > 0 {
			w.Errorf("%d events do not follow", rec.Broken())
		}
	})
}

// An object of several selections is held once, although each of them has decoded it.
// Guarantees: U5
func TestObjectOfSeveralSelectionsIsHeldOnce(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		var mu sync.Mutex
		decoded, alive := 0, map[weak.Pointer[corev1.Pod]]bool{}
		config.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
			mu.Lock()
			decoded++
			alive[weak.Make(pod)] = true
			mu.Unlock()
			time.Sleep(time.Second) // so that each selection decodes before another one has the object
			return pod, nil
		}
		for name := range 10 {
			w.Create(world.NewPod("a", fmt.Sprint(name), "v=1"))
		}
		inf, _, stop := started(w, client, config, selection{LabelSelector: "v"}, selection{Namespace: "a"}, selection{})
		defer stop()
		heldOnce := func(when string, atLeast int) {
			w.Helper()
			runtime.GC()
			mu.Lock()
			defer mu.Unlock()
			maps.DeleteFunc(alive, func(p weak.Pointer[corev1.Pod], _ bool) bool { return p.Value() == nil })
			if decoded < atLeast || len(alive) > inf.Store().Len() {
				w.Errorf("%s: %d objects are held of %d, after %d were decoded", when, len(alive), inf.Store().Len(), decoded)
			}
		}
		heldOnce("after the lists", 20)
		for name := range 10 {
			w.Relabel("a", fmt.Sprint(name), "2")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		heldOnce("after updates", 40)
	})
}

// An object that moves from one selection to another is updated, whichever of the two watches is first.
// Guarantees: U2
func TestMoveBetweenSelections(t *testing.T) {
	for _, first := range []string{"v=1", "v=2"} {
		world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
			w.Create(world.NewPod("a", "x", "v=1"))
			inf, rec, stop := started(w, client, config, versionOne, two)
			defer stop()
			hold := w.Server.Hold(informertest.Watches{Match: func(r informertest.Request) bool { return r.Query.Get("labelSelector") != first }})
			w.Relabel("a", "x", "2")
			time.Sleep(time.Minute) // the server is asked meanwhile
			hold.Release()
			synctest.Wait()
			rec.Want(w.T, "update a/x 1->2")
			equalsServer(w, inf, []selection{versionOne, two})
		})
	}
}

// An object that is deleted, or that no selection has any more, leaves once, with its last state. The server is asked,
// as a selection without changes has no bookmark for a minute.
// Guarantees: U2
func TestLeavesAllSelections(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=1"), world.NewPod("a", "z", "v=2"))
		inf, rec, stop := started(w, client, config, versionOne, two)
		defer stop()
		w.Server.ResetRequests()
		w.Delete("a", "x")
		synctest.Wait()
		if inf.Store().Len() != 3 {
			w.Error("left before each selection knows")
		}
		time.Sleep(2 * time.Second)
		rec.Want(w.T, "delete a/x 1 final=true")
		w.WantRequests("list resourceVersion=5 resourceVersionMatch=NotOlderThan limit=500", "list resourceVersion=5 resourceVersionMatch=Exact limit=500")
		w.Relabel("a", "y", "3")
		time.Sleep(2 * time.Second)
		rec.Want(w.T, "delete a/y 1 final=true")
		w.Server.ResetRequests()
		w.Delete("a", "z")
		w.Create(world.NewPod("a", "late", "v=1")) // so the other selection knows
		synctest.Wait()
		rec.Want(w.T, "add a/late 1 initial=false", "delete a/z 2 final=true")
		time.Sleep(time.Minute)
		w.WantRequests()
	})
}

// SetSelections lists only the new selections. Objects of the others stay unchanged.
// Guarantees: U3
func TestSetSelections(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=2"), world.NewPod("b", "z", "v=1"), world.NewPod("b", "zz", "v=3"))
		inf, rec, stop := started(w, client, config, versionOne)
		defer stop()
		w.Server.ResetRequests()
		for _, step := range []struct {
			selections []selection
			requests   int
			want       string
		}{
			{[]selection{versionOne, two}, 1, "add a/y 2 initial=false"},
			{[]selection{two, versionOne}, 0, ""},
			{[]selection{two, {Namespace: "b"}}, 1, "add b/zz 3 initial=false, delete a/x 1 final=false"},
			{[]selection{{Namespace: "b", LabelSelector: "v=1"}}, 1, "delete a/y 2 final=false, delete b/zz 3 final=false"},
			{nil, 0, "delete b/z 1 final=false"},
			{[]selection{{}}, 1, "add a/x 1 initial=false, add a/y 2 initial=false, add b/z 1 initial=false, add b/zz 3 initial=false"},
			{[]selection{versionOne}, 1, "delete a/y 2 final=false, delete b/zz 3 final=false"},
		} {
			if err := inf.SetSelections(w.Context(), step.selections...); err != nil {
				w.Fatal(err)
			}
			equalsServer(w, inf, step.selections)
			synctest.Wait()
			told := rec.Take()
			slices.Sort(told)
			if got := strings.Join(told, ", "); got != step.want {
				w.Errorf("%v: told %s, want %s", step.selections, got, step.want)
			}
			lists := 0
			for _, r := range w.Server.Requests() {
				if r.Verb == "list" || world.Streamed(r) {
					lists++
				}
			}
			if lists != step.requests {
				w.Errorf("%v: %q, want %d lists", step.selections, w.Requests(), step.requests)
			}
			w.Server.ResetRequests()
		}
		w.Relabel("a", "y", "1")
		synctest.Wait()
		rec.Want(w.T, "add a/y 1 initial=false")
	})
}

// While a change of selections is under way, the store has all that it had.
// Guarantees: U3
func TestSelectionsChangeWhenTheNewOnesHaveListed(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x", "v=1"))
		inf, rec, stop := started(w, w.Client(), world.Quiet[*corev1.Pod](), versionOne)
		defer stop()
		remove := w.Server.Inject(informertest.Fault{Error: apierrors.NewServiceUnavailable("later")})
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if err := inf.SetSelections(ctx, two); !errors.Is(err, context.DeadlineExceeded) || inf.Store().Len() != 1 {
			w.Errorf("%v, %d objects", err, inf.Store().Len())
		}
		remove()
		if err := inf.SetSelections(w.Context(), two); err != nil || inf.Store().Len() != 0 {
			w.Errorf("%v, %d objects", err, inf.Store().Len())
		}
		rec.Want(w.T, "delete a/x 1 final=false")
	})
}

// When SetSelections or SetShard returns, the store has what it promises, also if a selection has been quiet while others
// changed.
// Guarantees: U3
func TestChangeWhileASelectionIsBehind(t *testing.T) {
	world.ForEachModeWith(t, informertest.Options{Shards: true}, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		for i := range 20 {
			w.Create(world.NewPod("a", fmt.Sprint("p", i), fmt.Sprint("v=", 1+i%2)))
		}
		inf, rec, stop := started(w, client, config, versionOne, two)
		defer stop()
		w.Create(world.NewPod("a", "late", "v=1")) // the second selection does not know
		synctest.Wait()
		half := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1 << 63}}}
		if err := inf.SetShard(w.Context(), half); err != nil {
			w.Fatal(err)
		}
		for pod := range inf.Store().All() {
			if !half.Has(pod) {
				w.Errorf("%s is not in the shard", pod.Name)
			}
		}
		if err := inf.SetShard(w.Context(), informer.Shard{}); err != nil {
			w.Fatal(err)
		}
		w.Create(world.NewPod("a", "later", "v=1"))
		synctest.Wait()
		if err := inf.SetSelections(w.Context(), two); err != nil {
			w.Fatal(err)
		}
		equalsServer(w, inf, []selection{two})
		if rec.Broken() > 0 {
			w.Errorf("%d events do not follow", rec.Broken())
		}
	})
}

// A wait for an object does not end because another selection has reached its version.
// Guarantees: C9
func TestWaitForAnObjectOfASelection(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pod := w.Create(world.NewPod("a", "x", "v=2"))
		remove := w.Server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Query.Get("labelSelector") == "v=2" }, Error: apierrors.NewServiceUnavailable("later")})
		inf := informer.New(w.Client(), selected(versionOne, two), world.Quiet[*corev1.Pod]())
		defer world.Run(w, inf)()
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		if err := inf.WaitForObject(ctx, pod); !errors.Is(err, context.DeadlineExceeded) {
			w.Errorf("%v, although the store has %d objects", err, inf.Store().Len())
		}
		remove()
		if err := inf.WaitForObject(w.Context(), pod); err != nil || inf.Store().Len() != 1 {
			w.Errorf("%v, %d objects", err, inf.Store().Len())
		}
	})
}

// SetSelections waits until the informer runs. After the informer has stopped, SetSelections fails, and the store stays unchanged.
// Guarantees: U3
func TestSetSelectionsBeforeAndAfterRun(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x", "v=1"))
		inf := informer.New(w.Client(), selected(two), world.Quiet[*corev1.Pod]())
		for _, selections := range [][]selection{nil, {versionOne}} {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			if err := inf.SetSelections(ctx, selections...); !errors.Is(err, context.DeadlineExceeded) || inf.HasSynced() {
				w.Errorf("%v, synced %v", err, inf.HasSynced())
			}
			cancel()
		}
		stop := world.Start(w.T, inf)
		equalsServer(w, inf, []selection{versionOne})
		stop()
		if err := inf.SetSelections(w.Context()); !errors.Is(err, informer.ErrStopped) {
			w.Error(err)
		}
		equalsServer(w, inf, []selection{versionOne})
	})
}

// A selection that the server refuses later keeps its objects, and holds back neither deletions of others nor a shard.
// Guarantees: U4
func TestSelectionThatIsRefusedLater(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("b", "y", "v=2"))
		inf, rec, stop := started(w, w.Client(), world.Quiet[*corev1.Pod](), versionOne, selection{LabelSelector: "v!=1", Optional: true})
		defer stop()
		remove := w.Server.Inject(informertest.Fault{Match: func(r informertest.Request) bool { return r.Query.Get("labelSelector") == "v!=1" }, Error: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))})
		w.Server.EndWatches()
		time.Sleep(time.Minute)
		w.Delete("a", "x")
		synctest.Wait()
		rec.Want(w.T, "delete a/x 1 final=true")
		if err := inf.SetShard(w.Context(), informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<64 - 1}}}); err != nil || inf.Store().Len() != 1 {
			w.Errorf("%v, %d objects", err, inf.Store().Len())
		}
		w.Relabel("b", "y", "3")
		remove()
		time.Sleep(time.Hour)
		rec.Want(w.T, "update b/y 2->3")
	})
}

// A selection that the server refuses has only objects of the shard, also of one that is set before or after. What left
// the shard comes back with it.
// Guarantees: U4, U8, S1
func TestRefusedSelectionObeysTheShard(t *testing.T) {
	low := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: 1<<63 - 1}}}
	middle := informer.Shard{Ranges: []informer.HashRange{{First: 1 << 62, Last: 3<<62 - 1}}}
	for _, pending := range []bool{false, true} {
		t.Run(fmt.Sprint("pending=", pending), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				all := selection{LabelSelector: "v", Optional: true}
				for i, name := range strings.Split("abcdefghijklmnopqrst", "") {
					w.Create(world.InQuarter(i%4, world.NewPod("a", name, "v=2")))
				}
				inf, rec, stop := started(w, w.Client(), world.Quiet[*corev1.Pod](), versionOne, all)
				defer stop()
				reshape := func(shard informer.Shard) {
					if err := inf.SetShard(w.Context(), shard); err != nil {
						w.Error(err)
					}
				}
				reshape(low)
				had := inf.Store().Len()
				changed := make(chan struct{})
				end := fail(w, all, world.Unavailable)
				w.Server.EndWatches()
				if pending {
					go func() { reshape(middle); close(changed) }()
				}
				time.Sleep(time.Minute)
				remove := fail(w, all, world.Forbidden)
				end()
				time.Sleep(time.Minute)
				if !pending {
					reshape(middle)
					close(changed)
				}
				<-changed
				for pod := range inf.Store().All() {
					if !low.Has(pod) || !middle.Has(pod) {
						w.Errorf("%s was never in the shard, or has left it", pod.Name)
					}
				}
				if n := inf.Store().Len(); n == 0 || n == had {
					w.Errorf("%d of %d objects", n, had)
				}
				if r, err := inf.Audit(w.Context()); err != nil || r.Differ != 0 {
					w.Errorf("%+v, %v", r, err)
				}
				if reshape(low); inf.Store().Len() != had {
					w.Errorf("%d of %d objects are back", inf.Store().Len(), had)
				}
				remove()
				time.Sleep(time.Hour)
				reshape(informer.Shard{})
				equalsServer(w, inf, []selection{versionOne, all})
				if rec.Broken() > 0 {
					w.Errorf("%d events do not follow", rec.Broken())
				}
			})
		})
	}
}

// A selection that the server refuses is reported. Without Optional, the informer waits for it; with it, the informer
// syncs, waits for no answer of it, and has its objects as soon as the server sends them.
// Guarantees: U4
func TestRefusedSelection(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("b", "y", "v=1"))
		var failures atomic.Int64
		config.OnFailure = func(error) { failures.Add(1) }
		remove := w.Server.Inject(informertest.Fault{Error: apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")), Match: func(r informertest.Request) bool { return r.Namespace == "b" }})
		strict := informer.New(client, selected(selection{Namespace: "a"}, selection{Namespace: "b"}), config)
		stopStrict := world.Run(w, strict)
		defer func() { stopStrict() }()
		inf, rec, stop := started(w, client, config, selection{Namespace: "a"}, selection{Namespace: "b", Optional: true}, versionOne)
		defer stop()
		if s := inf.Status(); !s.Synced || s.Objects != 2 || s.Reflectors[1].LastError == nil || failures.Load() == 0 {
			w.Errorf("status %+v, %d failures", s, failures.Load())
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		if err := strict.WaitSynced(ctx); err == nil || !strings.Contains(err.Error(), "in b: Backoff after: ") {
			w.Errorf("synced without a selection: %v", err)
		}
		status := inf.Status()
		if got := status.SourceName(0) + ", " + status.SourceName(1) + ", " + status.SourceName(2); got != "a, b, with labels v=1" {
			w.Errorf("names %s", got)
		}
		w.Relabel("b", "y", "2")
		time.Sleep(2 * time.Second)
		rec.Want(w.T, "delete b/y 1 final=true") // it is not known whether it exists
		remove()
		time.Sleep(time.Hour)
		rec.Want(w.T, "add b/y 2 initial=false")
		if !strict.HasSynced() {
			w.Error("not synced")
		}
	})
}

// A start from saved states lists nothing, and has what has changed since.
// Guarantees: U1
func TestSelectionsStartWarm(t *testing.T) {
	dir := t.TempDir()
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		config.WarmStart.Storage = informer.WarmStartDir(filepath.Join(dir, w.Name()))
		w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("a", "y", "v=2"), world.NewPod("b", "z", "v=2"))
		_, _, stop := started(w, client, config, versionOne, two)
		stop()
		w.Relabel("a", "x", "2")
		w.Relabel("a", "y", "1")
		w.Delete("b", "z")
		w.Server.ResetRequests()
		inf, _, stop := started(w, client, config, versionOne, two)
		defer stop()
		time.Sleep(2 * time.Second)
		equalsServer(w, inf, []selection{versionOne, two})
		for _, r := range inf.Status().Reflectors {
			if len(r.Traffic.ListsBy) != 0 || !r.WarmStart.Loaded {
				w.Errorf("%+v", r)
			}
		}
	})
}

// What cannot be followed is an error that names it.
func TestWrongSelections(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for want, r := range map[string]informer.Resource{
			"leave Namespaces, LabelSelector and FieldSelector empty": {GroupVersionResource: world.PodGVR, LabelSelector: "a", Selections: []selection{versionOne}},
			"Selections of pods: selection 2 repeats another one":     selected(versionOne, two, versionOne),
			"Resource.LabelSelector of pods":                          selected(selection{LabelSelector: "!!"}),
			`Resource v1 pods in a/b: "a/b": may`:                     selected(selection{Namespace: "a/b"}),
		} {
			if err := informer.New(w.Client(), r, world.Quiet[*corev1.Pod]()).Run(w.Context()); err == nil || !strings.Contains(err.Error(), want) {
				w.Errorf("%v, want %s", err, want)
			}
		}
		inf, _, stop := started(w, w.Client(), world.Quiet[*corev1.Pod](), versionOne)
		defer stop()
		if err := inf.SetSelections(w.Context(), versionOne, versionOne); err == nil || !strings.Contains(err.Error(), "selection 1 repeats another one") {
			w.Error(err)
		}
		if got, want := selected(versionOne, selection{}, selection{Namespace: "b"}).String(), "v1 pods with labels v=1 or in all namespaces or in b"; got != want {
			w.Errorf("%s, want %s", got, want)
		}
		if err := w.QuietInformer().SetSelections(w.Context(), versionOne); err == nil || !strings.Contains(err.Error(), "is for a Resource with Selections") {
			w.Error(err)
		}
	})
}
