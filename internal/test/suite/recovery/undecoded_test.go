package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/compat"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// undecodable returns the names of the objects that snap cannot have in their newest version.
func undecodable[T informer.Object](snap *informer.Snapshot[T]) (names []string) {
	for failed := range snap.AllUndecodable() {
		names = append(names, failed.Key.Name)
	}
	slices.Sort(names)
	return names
}

// The store knows the objects that it cannot decode, from the list or the event that has them until the server has no such
// version any more. A reader that can return an error never says that such an object does not exist.
// Guarantees: R17, C1
func TestUndecodableObjectIsNotNotFound(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"), world.NewPod("other", "d", "v=1"))
		keyC := informer.Key{Namespace: "ns", Name: "c"}
		repair := []func(){w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{world.KeyB}})}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		lister := informer.NewLister(inf, world.PodGVR.GroupResource())
		likeClientGo := compat.New(inf, world.PodGVR.GroupResource()).In("ns")
		want := func(when string, missing, stale []string) {
			w.Helper()
			synctest.Wait()
			snap := inf.Store().Snapshot()
			all := slices.Sorted(slices.Values(append(slices.Clone(missing), stale...)))
			if diff := cmp.Diff(all, undecodable(snap)); diff != "" {
				w.Errorf("%s: undecodable (-want +got):\n%s", when, diff)
			}
			if s := inf.Status(); s.Undecodable != len(all) || s.Missing != len(missing) || s.Reflectors[0].Stale != len(all) {
				w.Errorf("%s: %d undecodable, %d missing, %d stale", when, s.Undecodable, s.Missing, s.Reflectors[0].Stale)
			}
			for _, name := range []string{"a", "b", "c", "nobody"} {
				key := informer.Key{Namespace: "ns", Name: name}
				pod, err := lister.Get(key)
				_, err2 := likeClientGo.Get(name)
				failed := (*informer.DecodeError)(nil)
				switch known := inf.Store().Undecodable(key); {
				case slices.Contains(all, name) != (known != nil):
					w.Errorf("%s: Undecodable of %s: %v", when, name, known)
				case slices.Contains(missing, name):
					if !errors.As(err, &failed) || failed.Key != key || failed.Raw != nil || apierrors.IsNotFound(err) || apierrors.IsNotFound(err2) || !strings.Contains(err.Error(), "ns/"+name) {
						w.Errorf("%s: get %s: %v, %v", when, name, err, err2)
					}
				case slices.Contains(stale, name):
					if err != nil || err2 != nil || pod.Labels["v"] != "1" {
						w.Errorf("%s: get %s: %v, %v, %v", when, name, pod, err, err2)
					}
				case name == "nobody":
					if !apierrors.IsNotFound(err) || !apierrors.IsNotFound(err2) {
						w.Errorf("%s: get %s: %v, %v", when, name, err, err2)
					}
				}
			}
			for _, namespace := range []string{"", "ns", "other"} {
				list, err := lister.Namespace(namespace).ListComplete(labels.Everything())
				if lacks := len(missing) > 0 && namespace != "other"; lacks != (err != nil) || lacks && !errors.As(err, new(*informer.DecodeError)) {
					w.Errorf("%s: list %q: %v", when, namespace, err)
				}
				if plain := lister.Namespace(namespace).List(nil); len(plain) != len(list) {
					w.Errorf("%s: lists of %q have %d and %d pods", when, namespace, len(plain), len(list))
				}
			}
		}
		want("after the list", []string{"b"}, nil)
		old := inf.Store().Snapshot()

		repair = append(repair, w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{keyC}}))
		<-time.After(10 * time.Second) // a watch that ends sooner is a failure
		w.Server.EndWatches()
		synctest.Wait()
		w.Relabel("ns", "c", "2")
		want("after an event", []string{"b"}, []string{"c"})
		w.Relabel("ns", "c", "3")
		w.Relabel("ns", "b", "3")
		want("after more events", []string{"b"}, []string{"c"})
		w.Delete("ns", "b")
		want("after a deletion", nil, []string{"c"})
		w.Create(world.NewPod("ns", "b", "v=4"))
		want("after an addition", []string{"b"}, []string{"c"})

		relist := func(v string) {
			w.Server.CloseConnections()
			last := w.Relabel("other", "d", v)
			w.Server.Compact()
			if err := inf.WaitForResourceVersion(w.Context(), last.ResourceVersion); err != nil {
				w.Fatal(err)
			}
		}
		relist("2")
		want("after a relist", []string{"b"}, []string{"c"})
		w.Delete("ns", "c")
		relist("3")
		want("after a relist without c", []string{"b"}, nil)

		for _, f := range repair {
			f()
		}
		<-time.After(10 * time.Second)
		w.Server.EndWatches()
		synctest.Wait()
		w.Relabel("ns", "b", "1")
		want("after a good version", nil, nil)
		if diff := cmp.Diff([]string{"b"}, undecodable(old)); diff != "" || old.Undecodable(world.KeyB) == nil || old.Missing("") == nil {
			w.Errorf("the old snapshot has changed:\n%s", diff)
		}
	})
}

// An object whose name cannot be read may be any object that the store lacks.
// Guarantees: R17
func TestNamelessObjectMayBeAnyMissingOne(t *testing.T) {
	for _, paged := range []bool{false, true} {
		t.Run(fmt.Sprintf("paged=%v", paged), func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"))
				config := world.Quiet[*corev1.Pod]()
				config.PagedList = paged
				w.Server.Inject(informertest.Fault{Rewrite: world.Nameless(world.KeyA, world.KeyB)})
				inf := informer.New(w.Client(func(c *rest.Config) { c.ContentType = "application/json" }), informer.Resource{GroupVersionResource: world.PodGVR}, config)
				defer world.Start(w.T, inf)()
				lister := informer.NewLister(inf, world.PodGVR.GroupResource())
				for _, name := range []string{"a", "nobody"} {
					if _, err := lister.Get(informer.Key{Namespace: "ns", Name: name}); err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "decode pods ns/"+name) {
						w.Errorf("get %s: %v", name, err)
					}
				}
				if err := inf.Store().Undecodable(informer.Key{Namespace: "ns", Name: "c"}); err != nil {
					w.Errorf("c: %v", err)
				}
				if s := inf.Status(); s.Undecodable != 2 || s.Missing != 2 {
					w.Errorf("%d undecodable, %d missing", s.Undecodable, s.Missing)
				}
				if err := inf.Store().Snapshot().Missing("any"); err == nil {
					w.Error("a list of any namespace is complete")
				}
			})
		})
	}
}

// The error of a reader has no object of the server or of Config.Transform, and is no NotFound error, whatever Transform returns.
// Guarantees: R17, R20
func TestNotFoundOfTransformIsNotNotFound(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		config := world.Quiet[*corev1.Pod]()
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			return nil, apierrors.NewNotFound(world.PodGVR.GroupResource(), "claim")
		}
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		_, err := informer.NewLister(inf, world.PodGVR.GroupResource()).Get(world.KeyA)
		if err == nil || apierrors.IsNotFound(err) || err.Error() != `decode pods ns/a: transform: pods "claim" not found` {
			w.Errorf("Get: %v", err)
		}
	})
}

// A wait for a write that the store cannot decode ends with an error. A wait for a state goes on to the next version, and says at
// its end why it has not seen the latest.
// Guarantees: R17, C9
func TestWaitForWhatCannotBeDecoded(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		w.Server.Inject(informertest.Fault{Corrupt: []informer.Key{world.KeyB}})
		inf := w.QuietInformer()
		defer world.Start(w.T, inf)()
		if err := inf.WaitForObject(w.Context(), w.Relabel("ns", "a", "2")); err != nil {
			w.Errorf("a good version: %v", err)
		}
		if err := inf.WaitForObject(w.Context(), w.Relabel("ns", "b", "2")); !errors.As(err, new(*informer.DecodeError)) {
			w.Errorf("a version that cannot be decoded: %v", err)
		}
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		_, err := inf.Await(ctx, world.KeyB, world.IsGone)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, new(*informer.DecodeError)) {
			w.Errorf("Await: %v", err)
		}
		ended := make(chan error)
		go func() {
			_, err := inf.Await(w.Context(), world.KeyB, world.IsGone)
			ended <- err
		}()
		synctest.Wait()
		w.Delete("ns", "b")
		if err := <-ended; err != nil {
			w.Errorf("Await of the deletion: %v", err)
		}
	})
}

// tall takes 64 KiB of memory for a container of a few bytes.
type tall struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Containers     []floor `json:"containers"`
		InitContainers []floor `json:"initContainers"`
	} `json:"spec"`
}

type floor struct {
	Room [1 << 13]int64 `json:"room"`
}

// Whoever writes an object in two steps, each within the limit of memory, gets the second one rejected as a whole:
// readers keep the first version, and with LayoutCompact they can decode it again.
// Guarantees: D4, R17
func TestObjectThatGrowsInTwoStepsIsRejected(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		const most = 256 << 20 / (1 << 16) // this many containers are the limit
		pod := world.NewPod("ns", "a")
		pod.Spec.Containers = make([]corev1.Container, most*2/3)
		pod = w.Create(pod)
		config := world.Quiet[*tall]()
		config.Layout = informer.LayoutCompact
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		want := func(known bool) {
			w.Helper()
			runtime.GC() // with LayoutCompact, nobody holds the decoded object
			obj, ok := inf.Store().Get(world.KeyA)
			if !ok || len(obj.Spec.Containers) != most*2/3 || obj.Spec.InitContainers != nil {
				w.Errorf("the store has the object: %t", ok)
			}
			if err := inf.Store().Undecodable(world.KeyA); (err != nil) != known {
				w.Errorf("Undecodable: %v", err)
			}
		}
		want(false)
		pod = pod.DeepCopy()
		pod.Spec.InitContainers = make([]corev1.Container, most*2/3)
		if _, err := w.Pods.Update(pod); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		want(true)
		if err := inf.Store().Undecodable(world.KeyA); !strings.HasSuffix(fmt.Sprint(err), "is too large") {
			w.Errorf("Undecodable: %v", err)
		}
	})
}

// moody cannot be decoded while it is in a mood.
type moody struct {
	metav1.ObjectMeta `json:"metadata"`
}

var moods sync.Map // by name and version

func (m *moody) UnmarshalJSON(raw []byte) error {
	type plain moody
	if err := json.Unmarshal(raw, (*plain)(m)); err != nil {
		return err
	}
	if _, mood := moods.Load(m.Name + " " + m.Labels["v"]); mood {
		return errors.New("not in the mood")
	}
	return nil
}

// If a type cannot decode the same bytes again, no read panics: the object is as one that could not be decoded, for all readers of
// that version, and handlers get a chain of events without it.
// Guarantees: R17, D3, H2
func TestCompactTypeThatCannotDecodeAgain(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		moods.Clear()
		config := world.Quiet[*moody]()
		config.Layout = informer.LayoutCompact
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"), world.NewPod("ns", "c", "v=1"))
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		index := informer.NewIndex(inf, func(m *moody) []string { return []string{m.Namespace} })
		defer world.Start(w.T, inf)()
		synctest.Wait()
		runtime.GC()
		moods.Store("b 1", true)
		lister := informer.NewLister(inf, world.PodGVR.GroupResource())
		var lines []string // the handler keeps no object: only what nobody has must be decoded again
		line := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
		defer inf.Subscribe(informer.HandlerFuncs[*moody]{
			AddFunc:    func(m *moody, initial bool) { line("add %s %s initial=%v", m.Name, m.Labels["v"], initial) },
			UpdateFunc: func(old, m *moody) { line("update %s %s->%s", old.Name, old.Labels["v"], m.Labels["v"]) },
			DeleteFunc: func(m *moody, final bool) {
				line("delete %s %s final=%v", m.Name, m.Labels["v"], final)
				if m.UID == "" || m.ResourceVersion == "" || m.Namespace != "ns" {
					w.Errorf("deleted %+v", m)
				}
			},
		}).Close()
		want := func(want ...string) {
			w.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, lines); diff != "" {
				w.Errorf("events (-want +got):\n%s", diff)
			}
			lines = nil
			runtime.GC()
		}
		want("add a 1 initial=true", "add c 1 initial=true")
		if _, err := lister.Get(world.KeyB); apierrors.IsNotFound(err) || !strings.Contains(fmt.Sprint(err), "decode pods ns/b: it was decoded before, but cannot be decoded again: ") {
			w.Errorf("Get: %v", err)
		}
		moods.Clear() // a snapshot gives the same answer for ever
		snap := inf.Store().Snapshot()
		if _, ok := snap.Get(world.KeyB); ok || snap.Undecodable(world.KeyB) == nil || snap.Missing("ns") == nil || snap.Missing("other") != nil {
			w.Errorf("the snapshot has b: %v, error %v", ok, snap.Undecodable(world.KeyB))
		}
		if s := inf.Status(); s.Undecodable != 1 || s.Missing != 1 || s.Objects != 3 {
			w.Errorf("%d undecodable, %d missing of %d", s.Undecodable, s.Missing, s.Objects)
		}
		for name, got := range map[string]string{
			"List": world.Names(snap.List()), "All": world.Names(slices.Collect(snap.All())), "From": world.Names(slices.Collect(snap.From(world.KeyA))),
			"Namespace": world.Names(slices.Collect(snap.Namespace("ns"))), "Lookup": world.Names(slices.Collect(index.Lookup("ns"))),
			"Select":      world.Names(slices.Collect(informer.Select(snap, "", labels.SelectorFromSet(labels.Set{"v": "1"})))),
			"a new index": world.Names(informer.NewIndex(inf, func(m *moody) []string { return []string{m.Namespace} }).List("ns")),
		} {
			if got != "ns/a ns/c" {
				w.Errorf("%s: %q", name, got)
			}
		}
		if got := undecodable(snap); !slices.Equal(got, []string{"b"}) {
			w.Errorf("undecodable: %q", got)
		}
		w.Relabel("ns", "b", "2")
		want("add b 2 initial=false")
		if m, err := lister.Get(world.KeyB); err != nil || m.Labels["v"] != "2" || inf.Status().Undecodable != 0 {
			w.Errorf("after the next version: %v, %v, %d undecodable", m, err, inf.Status().Undecodable)
		}
		runtime.GC()
		moods.Store("b 2", true)
		moods.Store("a 1", true)
		w.Relabel("ns", "a", "2")
		want("update a ->2")
		w.Delete("ns", "b")
		want("delete b  final=false")
	})
}
