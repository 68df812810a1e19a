package crcache_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
)

// The transform of the most specific option applies.
func TestTransform(t *testing.T) {
	set := func(value string) toolscache.TransformFunc {
		return func(obj any) (any, error) {
			obj.(client.Object).SetAnnotations(map[string]string{"by": value})
			return obj, nil
		}
	}
	for _, layout := range layouts {
		w := newWorld(t, false)
		w.pod("a", "x")
		w.pod("b", "x")
		c := w.started(cache.Options{
			DefaultTransform: set("default"),
			ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
				Namespaces: map[string]cache.Config{"a": {Transform: set("namespace")}, "b": {}},
				Transform:  set("object"),
			}},
		}, crcache.Options{Layout: layout})
		for namespace, want := range map[string]string{"a": "namespace", "b": "object"} {
			var pod corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "x"}, &pod); err != nil || pod.Annotations["by"] != want {
				t.Errorf("%s: %v %v, want %s", namespace, err, pod.Annotations, want)
			}
		}
	}
}

// dropIdentity is a transform that drops all metadata but the key and the labels.
func dropIdentity(in any) (any, error) {
	obj := in.(client.Object)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	return obj, nil
}

// identity says what a reader or handler has received.
func identity(obj any) string {
	if gone, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		return "missed " + identity(gone.Obj)
	}
	m := obj.(metav1.Object)
	return fmt.Sprintf("%T %s/%s uid=%q version=%q v=%q", obj, m.GetNamespace(), m.GetName(), m.GetUID(), m.GetResourceVersion(), m.GetLabels()["v"])
}

// handler returns a handler that records what it receives.
func (r recorder) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { r.events <- "add " + identity(obj) },
		UpdateFunc: func(old, new any) { r.events <- "update " + identity(old) + " to " + identity(new) },
		DeleteFunc: func(obj any) { r.events <- "delete " + identity(obj) },
	}
}

// events records what a handler receives.
func (w *world) events(i cache.Informer) recorder {
	w.Helper()
	r := recorder{make(chan string, 100)}
	if _, err := i.AddEventHandler(r.handler()); err != nil {
		w.Fatal(err)
	}
	return r
}

// A transform may drop the uid and the resource version. Readers and handlers then receive objects without them, in each cache.
// Guarantees: P2
func TestTransformThatDropsTheIdentity(t *testing.T) {
	for _, impl := range caches {
		t.Run(impl.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.pod("a", "x")
			w.pod("a", "y")
			c := impl.create(w, cache.Options{DefaultTransform: dropIdentity})
			if err := c.IndexField(t.Context(), &corev1.Pod{}, "node", func(obj client.Object) []string {
				return []string{obj.(*corev1.Pod).Spec.NodeName, "uid " + string(obj.GetUID())}
			}); err != nil {
				t.Fatal(err)
			}
			w.start(c)
			events := w.events(w.informerOf(c))
			bare := func(name, v string) string {
				return fmt.Sprintf("*v1.Pod a/%s uid=\"\" version=\"\" v=%q", name, v)
			}
			got := []string{<-events.events, <-events.events}
			slices.Sort(got)
			if !slices.Equal(got, []string{"add " + bare("x", ""), "add " + bare("y", "")}) {
				t.Errorf("initial events: %q", got)
			}
			w.relabel("a", "x", "v", "1")
			events.want(t, "update "+bare("x", "")+" to "+bare("x", "1"))
			w.relabel("a", "x", "v", "2")
			events.want(t, "update "+bare("x", "1")+" to "+bare("x", "2"))

			var pod corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "x"}, &pod); err != nil || identity(&pod) != bare("x", "2") || pod.Spec.NodeName != "node-x" || pod.Kind != "Pod" {
				t.Errorf("Get: %v, %s", err, identity(&pod))
			}
			w.wantNames(c, []string{"a/y"}, client.MatchingFields{"node": "node-y"})
			w.wantNames(c, []string{"a/x"}, client.MatchingLabels{"v": "2"})
			w.wantNames(c, []string{"a/x"}, client.MatchingLabels{"v": "2"}, client.MatchingFields{"node": "uid "}, client.InNamespace("a"))
			item, exists, err := indexerOf(w.informerOf(c)).GetByKey("a/x")
			if err != nil || !exists || identity(item) != bare("x", "2") {
				t.Errorf("GetByKey: %v, %v", item, err)
			}
			pod.Labels["v"] = "written"
			w.wantNames(c, nil, client.MatchingLabels{"v": "written"})

			w.delete("a", "x")
			events.want(t, "delete "+bare("x", "2"))
			w.pod("a", "x")
			events.want(t, "add "+bare("x", ""))
		})
	}
}

// Typed reads return what the transform returned, and WaitForObject works without its resource version.
func TestTypedReadsAfterATransformThatDropsTheIdentity(t *testing.T) {
	for _, layout := range layouts {
		w := newWorld(t, false)
		w.pod("a", "x")
		c := w.cache(cache.Options{DefaultTransform: dropIdentity}, crcache.Options{Layout: layout})
		byName, err := crcache.NewIndex(t.Context(), c, func(p *corev1.Pod) []string { return []string{p.Name + string(p.UID)} })
		if err != nil {
			t.Fatal(err)
		}
		w.start(c)
		written := w.relabel("a", "x", "v", "1")
		if err := crcache.WaitForObject(t.Context(), c, written); err != nil {
			t.Fatal(err)
		}
		pod, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "x"})
		if err != nil || pod.UID != "" || pod.Labels["v"] != "1" {
			t.Fatal(pod, err)
		}
		if list, err := crcache.List[*corev1.Pod](t.Context(), c); err != nil || len(list) != 1 || list[0] != pod {
			t.Error(list, err)
		}
		if list := byName.List("x"); len(list) != 1 || list[0] != pod {
			t.Error(list)
		}
		w.delete("a", "x")
		if err := crcache.WaitForObject(t.Context(), c, written); err != nil {
			t.Errorf("after the deletion: %v", err)
		}
	}
}

// slim is no runtime.Object.
type slim struct{ metav1.ObjectMeta }

// A transform may return another type. Handlers and indexers receive that, and a reader of the old type gets an error, in each cache.
// Guarantees: P2
func TestTransformToAnotherType(t *testing.T) {
	// controller-runtime may call a transform with what it returned before.
	returning := func(to func(metav1.ObjectMeta) any) toolscache.TransformFunc {
		return func(obj any) (any, error) {
			if pod, ok := obj.(*corev1.Pod); ok {
				return to(pod.ObjectMeta), nil
			}
			return obj, nil
		}
	}
	for _, test := range []struct {
		name      string
		transform toolscache.TransformFunc
	}{
		{"*v1.PartialObjectMetadata", returning(func(m metav1.ObjectMeta) any { return &metav1.PartialObjectMetadata{ObjectMeta: m} })},
		{"*crcache_test.slim", returning(func(m metav1.ObjectMeta) any { return &slim{m} })},
	} {
		for _, impl := range caches {
			t.Run(test.name+"/"+impl.name, func(t *testing.T) {
				w := newWorld(t, false)
				created := w.pod("a", "x")
				c := impl.create(w, cache.Options{DefaultTransform: test.transform})
				w.start(c)
				i := w.informerOf(c)
				if err := i.AddIndexers(toolscache.Indexers{"type": func(obj any) ([]string, error) { return []string{fmt.Sprintf("%T", obj)}, nil }}); err != nil {
					t.Fatal(err)
				}
				want := fmt.Sprintf("%s a/x uid=%q version=%q v=\"\"", test.name, created.UID, created.ResourceVersion)
				events := w.events(i)
				events.want(t, "add "+want)
				list, err := indexerOf(i).ByIndex("type", test.name)
				if err != nil || len(list) != 1 || identity(list[0]) != want {
					t.Errorf("ByIndex: %v, %v", list, err)
				}
				if list := indexerOf(i).List(); len(list) != 1 || identity(list[0]) != want {
					t.Errorf("List of the indexer: %v", list)
				}
				err = c.Get(t.Context(), client.ObjectKeyFromObject(created), &corev1.Pod{})
				if err == nil || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), test.name[1:]) {
					t.Errorf("Get: %v", err)
				}
				if err := c.List(t.Context(), &corev1.PodList{}); err == nil {
					t.Error("List of pods succeeds")
				}
				w.relabel("a", "x", "v", "1")
				if got := <-events.events; !strings.HasPrefix(got, "update "+want+" to "+test.name) {
					t.Errorf("event %q", got)
				}
				w.delete("a", "x")
				if got := <-events.events; !strings.HasPrefix(got, "delete "+test.name+" a/x") {
					t.Errorf("event %q", got)
				}
			})
		}
	}
}

// A typed read of an object whose type a transform has changed fails with an error that names both types.
func TestTypedReadsAfterATransformToAnotherType(t *testing.T) {
	for _, layout := range layouts {
		w := newWorld(t, false)
		w.pod("a", "x")
		c := w.cache(cache.Options{DefaultTransform: func(obj any) (any, error) {
			return &metav1.PartialObjectMetadata{ObjectMeta: obj.(*corev1.Pod).ObjectMeta}, nil
		}}, crcache.Options{Layout: layout})
		index, err := crcache.NewIndex(t.Context(), c, func(p *corev1.Pod) []string { return []string{p.Name} })
		if err != nil {
			t.Fatal(err)
		}
		w.start(c)
		_, err = crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "x"})
		_, errOfList := crcache.List[*corev1.Pod](t.Context(), c)
		for _, err := range []error{err, errOfList} {
			if err == nil || !strings.Contains(err.Error(), "a/x: the cache has a *v1.PartialObjectMetadata, not a *v1.Pod") {
				t.Error(err)
			}
		}
		if n := index.Count("x"); n != 0 {
			t.Errorf("%d objects of another type have a key", n)
		}
	}
}

// If a transform returns nothing that a cache can hold, an error names the object. The cache holds the other objects.
func TestTransformThatReturnsNoObject(t *testing.T) {
	for name, test := range map[string]struct {
		transform toolscache.TransformFunc
		want      string
	}{
		"nil":         {func(any) (any, error) { return nil, nil }, "returned nil and no error"},
		"a nil pod":   {func(any) (any, error) { return (*corev1.Pod)(nil), nil }, "returned nil and no error"},
		"no metadata": {func(any) (any, error) { return "text", nil }, "returned a string, which has no metadata"},
		"an error":    {func(any) (any, error) { return nil, errors.New("refused") }, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false)
			w.pod("a", "x")
			w.pod("a", "y")
			c := w.started(cache.Options{DefaultTransform: func(obj any) (any, error) {
				if obj.(client.Object).GetName() == "y" {
					return obj, nil
				}
				return test.transform(obj)
			}}, crcache.Options{})
			err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{})
			if !errors.As(err, new(*informer.DecodeError)) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Get: %v, want an error that contains %q", err, test.want)
			}
			var list corev1.PodList
			if err := c.List(t.Context(), &list); !errors.As(err, new(*informer.DecodeError)) || len(list.Items) != 1 {
				t.Errorf("a list of %d pods: %v", len(list.Items), err)
			}
		})
	}
}
