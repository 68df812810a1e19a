package informer

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// forEachCompact runs test with LayoutCompact, in JSON and in protobuf.
func forEachCompact(t *testing.T, test func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod])) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				config := world.Quiet[*corev1.Pod]()
				config.Layout = informer.LayoutCompact
				test(w, w.Client(func(c *rest.Config) { c.ContentType = media }), config)
			})
		})
	}
}

// While a caller holds an object, all readers get that one. After it was freed, they get an equal one.
// Guarantees: D3
func TestCompactReadersShareAnObject(t *testing.T) {
	forEachCompact(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		byV := informer.NewIndex(inf, func(p *corev1.Pod) []string { return []string{p.Labels["v"]} })
		lister := informer.NewLister(inf, world.PodGVR.GroupResource())
		defer world.Start(w.T, inf)()
		key := informer.Key{Namespace: "ns", Name: "a"}
		readers := map[string]func() *corev1.Pod{
			"Get":       func() *corev1.Pod { p, _ := inf.Store().Get(key); return p },
			"All":       func() *corev1.Pod { return slices.Collect(inf.Store().All())[0] },
			"From":      func() *corev1.Pod { return slices.Collect(inf.Store().Snapshot().From(key))[0] },
			"Namespace": func() *corev1.Pod { return slices.Collect(inf.Store().Namespace("ns"))[0] },
			"List":      func() *corev1.Pod { return inf.Store().List()[0] },
			"Lookup":    func() *corev1.Pod { return slices.Collect(byV.Lookup("1"))[0] },
			"selector":  func() *corev1.Pod { return lister.List(labels.SelectorFromSet(labels.Set{"v": "1"}))[0] },
		}
		first := readers["Get"]()
		copied := first.DeepCopy()
		for name, read := range readers {
			runtime.GC()
			if got := read(); got != first {
				w.Errorf("%s returns another object than the one that is held", name)
			}
		}
		runtime.KeepAlive(first)
		first = nil
		for name, read := range readers {
			runtime.GC()
			if diff := cmp.Diff(copied, read()); diff != "" {
				w.Errorf("%s, decoded again (-before +now):\n%s", name, diff)
			}
		}
	})
}

// Readers that decode an object at the same time get the same one.
// Guarantees: D3
func TestCompactConcurrentReaders(t *testing.T) {
	forEachCompact(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		for i := range 20 {
			w.Create(world.NewPod("ns", fmt.Sprint("p", i)))
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		for range 20 {
			runtime.GC()
			var lists [4][]*corev1.Pod
			var reading sync.WaitGroup
			for i := range lists {
				reading.Go(func() { lists[i] = inf.Store().List() })
			}
			reading.Wait()
			for i := range lists {
				if !slices.Equal(lists[i], lists[0]) {
					w.Fatal("two readers have different objects")
				}
			}
		}
	})
}

// counted counts how often an object of its type is decoded.
type counted struct {
	metav1.ObjectMeta `json:"metadata"`
}

var decodedCounted atomic.Int64

func (c *counted) UnmarshalJSON(raw []byte) error {
	type plain counted
	decodedCounted.Add(1)
	return json.Unmarshal(raw, (*plain)(c))
}

// A read decodes only the objects that it returns, and a label selector sees the labels of the present version.
//
// Guarantees: I3, I6
func TestCompactDecodesOnlyWhatIsReturned(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for i := range 20 {
			w.Create(world.NewPod(fmt.Sprint("ns", i%2), fmt.Sprintf("p%02d", i), fmt.Sprint("v=", i/2%5)))
		}
		config := world.Quiet[*counted]()
		config.Layout = informer.LayoutCompact
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		v := func(c *counted) []string { return []string{c.Labels["v"]} }
		byV, inOrder := informer.NewIndex(inf, v), informer.NewOrderedIndex(inf, v)
		defer world.Start(w.T, inf)()
		w.Relabel("ns0", "p00", "4")
		synctest.Wait()
		first, fourth := labels.SelectorFromSet(labels.Set{"v": "1"}), labels.SelectorFromSet(labels.Set{"v": "4"})
		store, lister := inf.Store(), informer.NewLister(inf, world.PodGVR.GroupResource())
		for name, c := range map[string]struct {
			read func() []*counted
			want string
		}{
			"Get": {func() []*counted {
				c, _ := store.Get(informer.Key{Namespace: "ns0", Name: "p00"})
				return []*counted{c}
			}, "ns0/p00"},
			"Namespace": {func() []*counted { return slices.Collect(store.Namespace("ns1")) },
				"ns1/p01 ns1/p03 ns1/p05 ns1/p07 ns1/p09 ns1/p11 ns1/p13 ns1/p15 ns1/p17 ns1/p19"},
			"Lookup":              {func() []*counted { return slices.Collect(byV.Lookup("4")) }, "ns0/p00 ns0/p08 ns0/p18 ns1/p09 ns1/p19"},
			"Range":               {func() []*counted { return inOrder.Range().Skip(3).Limit(2).List() }, "ns0/p02 ns0/p12"},
			"Descending":          {func() []*counted { return inOrder.Range().Descending().Limit(2).List() }, "ns1/p19 ns1/p09"},
			"Equal":               {func() []*counted { return inOrder.Range().Equal("4").Limit(1).List() }, "ns0/p00"},
			"Len":                 {func() []*counted { inOrder.Range().Above("1").Len(); return nil }, ""},
			"List":                {func() []*counted { return lister.List(fourth) }, "ns0/p00 ns0/p08 ns0/p18 ns1/p09 ns1/p19"},
			"List of a namespace": {func() []*counted { return lister.Namespace("ns1").List(fourth) }, "ns1/p09 ns1/p19"},
			"Select":              {func() []*counted { return slices.Collect(informer.Select(store.Snapshot(), "ns0", first)) }, "ns0/p02 ns0/p12"},
			"Select of the old version": {func() []*counted {
				return slices.Collect(informer.Select(store.Snapshot(), "ns0", labels.SelectorFromSet(labels.Set{"v": "0"})))
			}, "ns0/p10"},
		} {
			runtime.GC()
			before := decodedCounted.Load()
			got := c.read()
			if n := int(decodedCounted.Load() - before); world.Names(got) != c.want || n > len(got) {
				w.Errorf("%s returns %q and decodes %d objects, want %q and no others", name, world.Names(got), n, c.want)
			}
		}
	})
}

// An object that nobody reads is not held decoded.
func TestCompactFreesObjects(t *testing.T) {
	forEachCompact(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*corev1.Pod]{}
		sub := inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		if err := sub.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		sub.Close()
		*rec = testkit.Recorder[*corev1.Pod]{}
		held := func() weak.Pointer[corev1.Pod] {
			p, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "a"})
			return weak.Make(p)
		}()
		for range 100 {
			if runtime.GC(); held.Value() == nil {
				return
			}
		}
		w.Error("the object is still in memory")
	})
}

// What Transform drops is not held, and what it adds is.
// Guarantees: R20
func TestCompactHoldsTheResultOfTransform(t *testing.T) {
	forEachCompact(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		calls := 0
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			calls++
			p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
			p.Annotations = map[string]string{"added": p.Name}
			return p, nil
		}
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		defer world.Start(w.T, inf)()
		for range 3 {
			runtime.GC()
			p, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: "a"})
			if p.Spec.NodeName != "n1" || len(p.Spec.Containers) > 0 || p.Annotations["added"] != "a" || p.Labels["v"] != "1" {
				w.Errorf("the store has %v", p)
			}
		}
		if calls != 1 {
			w.Errorf("Transform was called %d times for one version", calls)
		}
	})
}

// The old version of an update is as Transform returned it, also if Transform changed the new version where the server did not.
// Guarantees: R20
func TestCompactOldVersionWithTransform(t *testing.T) {
	forEachCompact(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Labels["v"] == "2" {
				p.Spec.NodeName = "other"
			}
			return p, nil
		}
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		var got []string
		sub := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
			UpdateFunc: func(old, new *corev1.Pod) { got = append(got, old.Spec.NodeName+"->"+new.Spec.NodeName) },
		})
		defer world.Start(w.T, inf)()
		if err := sub.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		runtime.GC()
		w.Relabel("ns", "a", "2")
		synctest.Wait()
		if want := []string{"n1->other"}; !slices.Equal(got, want) {
			w.Errorf("updates from and to the nodes %q, want %q", got, want)
		}
	})
}

// annotated has a field that has no encoding.
type annotated struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	length int
}

// If encoding loses a part of Transform's result, the informer holds the decoded result.
// Guarantees: R20
func TestCompactHoldsWhatHasNoEncoding(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		config := world.Quiet[*annotated]()
		config.Layout = informer.LayoutCompact
		config.Transform = func(a *annotated) (*annotated, error) {
			if a.Name == "a" {
				a.length = len(a.Spec.NodeName)
			}
			return a, nil
		}
		w.Create(world.NewPod("ns", "a"), world.NewPod("ns", "b"))
		inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[*annotated]{}
		sub := inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		if err := sub.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		w.Relabel("ns", "a", "2")
		synctest.Wait()
		for name, length := range map[string]int{"a": 2, "b": 0} {
			runtime.GC()
			if got, _ := inf.Store().Get(informer.Key{Namespace: "ns", Name: name}); got.length != length || got.Spec.NodeName != "n1" {
				w.Errorf("the store has %+v", got)
			}
		}
		rec.Want(w.T, "add ns/a @2 initial=true", "add ns/b @3 initial=true", "update ns/a @2->2")
	})
}

// With NewOnly, OnUpdate gets no old version, neither of a change nor in a resync.
func TestNewOnly(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		var subs []*informer.Subscription
		var got [2][]string
		for i, filter := range []func(*corev1.Pod) bool{nil, func(*corev1.Pod) bool { return true }} {
			update := func(old, new *corev1.Pod) { got[i] = append(got[i], fmt.Sprintf("%t %s", old == nil, new.Labels["v"])) }
			subs = append(subs, inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: update},
				informer.SubscriptionConfig[*corev1.Pod]{NewOnly: true, Filter: filter, Resync: time.Hour}))
		}
		defer world.Start(w.T, inf)()
		for _, sub := range subs {
			if err := sub.WaitSynced(w.Context()); err != nil {
				w.Fatal(err)
			}
		}
		w.Relabel("ns", "a", "2")
		<-time.After(67 * time.Minute)
		synctest.Wait()
		for i := range got {
			if want := []string{"true 2", "true 2"}; !slices.Equal(got[i], want) {
				w.Errorf("handler %d got %q, want %q", i, got[i], want)
			}
		}
	})
}

// An index reads snapshots of other stores, whether these are compact or not.
// Guarantees: C5, D3, I6
func TestCompactIndexReadsOtherSnapshots(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=2"), world.NewPod("ns", "c", "v=1"))
		var informers []*informer.Informer[*corev1.Pod]
		var indexes []*informer.Index[*corev1.Pod, string]
		var ordered []*informer.OrderedIndex[*corev1.Pod, string]
		for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutCompact} {
			config := world.Quiet[*corev1.Pod]()
			config.Layout = layout
			inf := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config)
			defer world.Start(w.T, inf)()
			informers = append(informers, inf)
			v := func(p *corev1.Pod) []string { return []string{p.Labels["v"]} }
			indexes = append(indexes, informer.NewIndex(inf, v))
			ordered = append(ordered, informer.NewOrderedIndex(inf, v))
		}
		for i, inf := range informers {
			for j, index := range indexes {
				var names []string
				for p := range index.LookupIn(inf.Store().Snapshot(), "1") {
					names = append(names, p.Name)
				}
				if n := index.CountIn(inf.Store().Snapshot(), "2"); n != 1 || !slices.Equal(names, []string{"a", "c"}) {
					w.Errorf("index %d finds %q and %d in snapshot %d", j, names, n, i)
				}
			}
			for j, index := range ordered {
				for name, snap := range map[string]*informer.Snapshot[*corev1.Pod]{
					"own": inf.Store().Snapshot(), "copies": informer.Copies(inf.Store().Snapshot()),
				} {
					if got := world.Names(index.RangeIn(snap).List()); got != "ns/a ns/c ns/b" {
						w.Errorf("ordered index %d has %q in snapshot %d, %s", j, got, i, name)
					}
				}
			}
		}
	})
}
