package informer

import (
	"fmt"
	"reflect"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// forEachPrototype runs test in each mode with each kind of type that an informer of world.AnyObject can have at run time. seen returns
// a pod of the server as such an informer holds it.
func forEachPrototype(t *testing.T, test func(w world.World, client *informer.Client, config informer.Config[world.AnyObject], seen func(*corev1.Pod) world.AnyObject)) {
	for _, c := range []struct {
		prototype world.AnyObject
		seen      func(*corev1.Pod) world.AnyObject
	}{
		{&corev1.Pod{}, func(p *corev1.Pod) world.AnyObject { return world.SeenAs[*corev1.Pod](p, false) }},
		{(*corev1.Pod)(nil), func(p *corev1.Pod) world.AnyObject { return world.SeenAs[*corev1.Pod](p, false) }},
		{&unstructured.Unstructured{}, func(p *corev1.Pod) world.AnyObject { return world.SeenAs[*unstructured.Unstructured](p, false) }},
		{&metav1.PartialObjectMetadata{}, func(p *corev1.Pod) world.AnyObject { return world.SeenAs[*metav1.PartialObjectMetadata](p, false) }},
	} {
		t.Run(fmt.Sprintf("%T,nil=%v", c.prototype, reflect.ValueOf(c.prototype).IsNil()), func(t *testing.T) {
			world.ForEachMode(t, func(w world.World, client *informer.Client, pods informer.Config[*corev1.Pod]) {
				config := world.Quiet[world.AnyObject]()
				config.PagedList, config.PageSize, config.Layout, config.Prototype = pods.PagedList, pods.PageSize, pods.Layout, c.prototype
				test(w, client, config, c.seen)
			})
		})
	}
}

// typeless clears what a list of the server says about its items: unstructured objects and metadata keep it, others do not.
func typeless(obj world.AnyObject) world.AnyObject {
	if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
		meta = meta.DeepCopy()
		meta.TypeMeta = metav1.TypeMeta{}
		return meta
	}
	return obj
}

// An informer whose type is known at run time holds and reports what an informer of that type does.
func TestPrototype(t *testing.T) {
	forEachPrototype(t, func(w world.World, client *informer.Client, config informer.Config[world.AnyObject], seen func(*corev1.Pod) world.AnyObject) {
		for i := range 20 {
			w.Create(world.NewPod(fmt.Sprint("ns", i%2), fmt.Sprint("p", i), fmt.Sprint("v=", i%3)))
		}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		byV := informer.NewIndex(inf, func(o world.AnyObject) []string { return []string{o.GetLabels()["v"]} })
		rec := &testkit.Recorder[world.AnyObject]{}
		sub := inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		if err := sub.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		if got := len(rec.Told()); got != 20 {
			w.Errorf("%d additions, want 20", got)
		}
		updated := w.Relabel("ns0", "p0", "new")
		synctest.Wait()
		w.Delete("ns1", "p1")
		synctest.Wait()
		if got := len(rec.Told()); got != 22 || rec.Broken() != 0 {
			w.Errorf("%d calls, %d of which do not follow from earlier ones; want 22 and 0", got, rec.Broken())
		}

		var want []world.AnyObject
		for p := range w.Pods.All() {
			want = append(want, seen(p))
		}
		var got []world.AnyObject
		for obj := range inf.Store().All() {
			got = append(got, typeless(obj))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			w.Errorf("store (-server +store):\n%s", diff)
		}
		key := informer.KeyOf(updated)
		if list := byV.List("new"); len(list) != 1 || informer.KeyOf(list[0]) != key {
			w.Errorf("index: %v", world.Names(list))
		}
		selector := labels.SelectorFromSet(labels.Set{"v": "1"})
		if got, want := world.Names(informer.NewLister(inf, world.PodGVR.GroupResource()).List(selector)), world.Names(byV.List("1")); got != want || got == "" {
			w.Errorf("label selector: %q, index: %q", got, want)
		}
		if reflect.TypeOf(got[0]) != reflect.TypeOf(config.Prototype) {
			w.Errorf("objects are %T, want %T", got[0], config.Prototype)
		}
	})
}

// Copies returns objects that the caller may write to, wherever they are read.
func TestCopies(t *testing.T) {
	forEachPrototype(t, func(w world.World, client *informer.Client, config informer.Config[world.AnyObject], seen func(*corev1.Pod) world.AnyObject) {
		created := w.Create(world.NewPod("ns", "a", "v=1"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		byV := informer.NewIndex(inf, func(o world.AnyObject) []string { return []string{o.GetLabels()["v"]} })
		defer world.Start(w.T, inf)()
		want, key := seen(created), informer.KeyOf(created)
		first := func(list []world.AnyObject) world.AnyObject {
			if len(list) != 1 {
				w.Fatalf("%d objects, want 1", len(list))
			}
			return list[0]
		}
		for name, read := range map[string]func(*informer.Snapshot[world.AnyObject]) world.AnyObject{
			"Get":  func(s *informer.Snapshot[world.AnyObject]) world.AnyObject { obj, _ := s.Get(key); return obj },
			"All":  func(s *informer.Snapshot[world.AnyObject]) world.AnyObject { return first(slices.Collect(s.All())) },
			"From": func(s *informer.Snapshot[world.AnyObject]) world.AnyObject { return first(slices.Collect(s.From(key))) },
			"Namespace": func(s *informer.Snapshot[world.AnyObject]) world.AnyObject {
				return first(slices.Collect(s.Namespace("ns")))
			},
			"List": func(s *informer.Snapshot[world.AnyObject]) world.AnyObject { return first(s.List()) },
			"LookupIn": func(s *informer.Snapshot[world.AnyObject]) world.AnyObject {
				return first(slices.Collect(byV.LookupIn(s, "1")))
			},
			"Select": func(s *informer.Snapshot[world.AnyObject]) world.AnyObject {
				return first(slices.Collect(informer.Select(s, "ns", labels.SelectorFromSet(labels.Set{"v": "1"}))))
			},
			"Select without a selector": func(s *informer.Snapshot[world.AnyObject]) world.AnyObject {
				return first(slices.Collect(informer.Select(s, "", nil)))
			},
		} {
			held := func() world.AnyObject { return read(inf.Store().Snapshot()) }
			copied := func() world.AnyObject { return read(informer.Copies(inf.Store().Snapshot())) }
			// Without LayoutCompact, the store holds an object; with it, a copy is decoded if no caller holds the object.
			goruntime.GC()
			cold := copied()
			shared := held()
			warm := copied()
			if cold == warm || cold == shared || warm == shared {
				w.Errorf("%s returns an object twice", name)
			}
			for _, obj := range []world.AnyObject{cold, warm} {
				if diff := cmp.Diff(want, typeless(obj)); diff != "" {
					w.Errorf("%s (-server +copy):\n%s", name, diff)
				}
				obj.SetName("written")
				l := obj.GetLabels()
				l["v"] = "written"
				obj.SetLabels(l)
			}
			if diff := cmp.Diff(want, typeless(held())); diff != "" {
				w.Errorf("%s: writing to a copy changed the object in the store (-before +after):\n%s", name, diff)
			}
			if got := held(); got != shared {
				w.Errorf("%s: the store has another object than before", name)
			}
		}
		if _, ok := informer.Copies(inf.Store().Snapshot()).Get(informer.Key{Name: "none"}); ok {
			w.Error("an object that does not exist")
		}
	})
}

// copiedPod counts how often one of its type is copied.
type copiedPod struct {
	corev1.Pod
	copies *int
}

func (p *copiedPod) DeepCopyObject() runtime.Object {
	*p.copies++
	return &copiedPod{*p.DeepCopy(), p.copies}
}

// Select copies only the objects that match.
func TestSelectOfCopies(t *testing.T) {
	store, writer := informer.NewStore[*copiedPod]()
	copies := 0
	for i := range 20 {
		pod := &copiedPod{*world.NewPod("ns", fmt.Sprint("p", i), fmt.Sprint("v=", i)), &copies}
		if err := writer.Apply(informer.Delta[*copiedPod]{Type: informer.Upserted, Object: pod}); err != nil {
			t.Fatal(err)
		}
	}
	selector := labels.SelectorFromSet(labels.Set{"v": "7"})
	got := slices.Collect(informer.Select(informer.Copies(store.Snapshot()), "ns", selector))
	held, _ := store.Get(informer.Key{Namespace: "ns", Name: "p7"})
	if len(got) != 1 || got[0] == held || got[0].Name != "p7" || copies != 1 {
		t.Errorf("%d objects and %d copies, want one of each", len(got), copies)
	}
}

// A prototype is needed exactly if T is an interface, and its type must be one that can be decoded.
// Guarantees: L4
func TestPrototypeIsChecked(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		for _, layout := range world.Layouts {
			config := world.Quiet[world.AnyObject]()
			config.Layout = layout
			err := informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config).Run(w.Context())
			if err == nil || !strings.Contains(err.Error(), "Config.Prototype is nil") {
				w.Errorf("%s, without a prototype: %v", layout, err)
			}
			config.Prototype = wrongObject{}
			err = informer.New(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, config).Run(w.Context())
			if err == nil || !strings.Contains(err.Error(), "wrongObject") {
				w.Errorf("%s, with a prototype that is no pointer: %v", layout, err)
			}
		}
		config := world.Quiet[world.AnyObject]()
		if _, err := informer.NewReflector(w.Client(), informer.Resource{GroupVersionResource: world.PodGVR}, informer.NewFIFO[world.AnyObject](0), config); err == nil ||
			!strings.Contains(err.Error(), "Config.Prototype is nil") {
			w.Errorf("a reflector without a prototype: %v", err)
		}
	})
}

// wrongObject is no pointer, so it cannot be decoded.
type wrongObject struct{ world.AnyObject }

// Two informers of a group share one only if they have the same type at run time.
func TestGroupSharesByPrototype(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		g := informer.NewGroup(w.Client())
		shared := func(prototype world.AnyObject) *informer.Informer[world.AnyObject] {
			config := informer.Config[world.AnyObject]{Prototype: prototype}
			inf, _, err := informer.Shared(g, informer.Resource{GroupVersionResource: world.PodGVR}, config)
			if err != nil {
				w.Fatal(err)
			}
			return inf
		}
		pods, meta := shared(&corev1.Pod{}), shared(&metav1.PartialObjectMetadata{})
		if pods == meta {
			w.Error("two types share an informer")
		}
		if again := shared(&corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}}); again != pods {
			w.Error("two prototypes of one type do not share an informer")
		}
	})
}

// Transform may return another Go type for another version of an object. The store has what it returned, and no version is read as
// if it had the type of another.
// Guarantees: D5
func TestTransformToSeveralTypes(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, pods informer.Config[*corev1.Pod]) {
		config := world.Quiet[world.AnyObject]()
		config.PagedList, config.PageSize, config.Layout, config.Prototype = pods.PagedList, pods.PageSize, pods.Layout, &corev1.Pod{}
		config.Transform = func(obj world.AnyObject) (world.AnyObject, error) {
			pod := obj.(*corev1.Pod)
			switch pod.Labels["v"] {
			case "metadata":
				return &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}, nil
			case "map":
				return &corev1.ConfigMap{ObjectMeta: pod.ObjectMeta, Data: map[string]string{"node": pod.Spec.NodeName}}, nil
			}
			return pod, nil
		}
		w.Create(world.NewPod("ns", "a", "v=pod"), world.NewPod("ns", "b", "v=map"))
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		rec := &testkit.Recorder[world.AnyObject]{}
		inf.Subscribe(rec)
		defer world.Start(w.T, inf)()
		want := map[string]world.AnyObject{
			"pod":      &corev1.Pod{},
			"metadata": &metav1.PartialObjectMetadata{},
			"map":      &corev1.ConfigMap{},
		}
		for _, v := range []string{"metadata", "map", "pod", "map", "metadata", "pod", "pod"} {
			w.Relabel("ns", "a", v)
			w.Relabel("ns", "b", v)
			synctest.Wait()
			for _, name := range []string{"a", "b"} {
				obj, ok := inf.Store().Get(informer.Key{Namespace: "ns", Name: name})
				if !ok || reflect.TypeOf(obj) != reflect.TypeOf(want[v]) || obj.GetLabels()["v"] != v {
					w.Fatalf("%s is %T %v, want %T with the label %s", name, obj, obj, want[v], v)
				}
				if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "n1" {
					w.Errorf("%s is on the node %q", name, pod.Spec.NodeName)
				}
				if config, ok := obj.(*corev1.ConfigMap); ok && config.Data["node"] != "n1" {
					w.Errorf("%s has the data %v", name, config.Data)
				}
			}
		}
		if rec.Broken() != 0 {
			w.Errorf("%d calls do not follow from earlier ones", rec.Broken())
		}
	})
}
