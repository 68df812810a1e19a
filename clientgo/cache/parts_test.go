package cache_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
)

// part returns a part with the pods of a namespace, which sets the label part to the name of the namespace.
func part(w *world.World, namespace string) cache.Part {
	return cache.Part{
		Client:    w.Client(),
		Resource:  informer.Resource{GroupVersionResource: world.Pods, Namespaces: []string{namespace}},
		Transform: label(namespace),
	}
}

// label returns a transform that sets the label part.
func label(value string) clientcache.TransformFunc {
	return func(obj any) (any, error) {
		obj.(*corev1.Pod).Labels["part"] = value
		return obj, nil
	}
}

func ofParts(t *testing.T, config cache.Config, parts ...cache.Part) clientcache.SharedIndexInformer {
	t.Helper()
	i, err := cache.NewOfParts(config, parts)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// labelled returns the keys and the label part of pods.
func labelled(pods []any) (all []string) {
	for _, obj := range pods {
		pod := obj.(*corev1.Pod)
		all = append(all, fmt.Sprintf("%s/%s %s", pod.Namespace, pod.Name, pod.Labels["part"]))
	}
	return all
}

// An informer of parts has the objects of all of them, in every read, index and handler. It has synced when all parts
// have.
// Guarantees: P1
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		for _, namespace := range []string{"a", "b", "c"} {
			w.Pod(namespace, "one")
		}
		mend := w.Server.Inject(informertest.Fault{Hang: true, Namespace: "b"})
		i := ofParts(t, cache.Config{Object: &corev1.Pod{}, Indexers: clientcache.Indexers{
			"node": byNode, clientcache.NamespaceIndex: clientcache.MetaNamespaceIndexFunc,
		}}, part(w, "a"), part(w, "b"))
		var events world.Recorder
		r := add(t, i, &events)
		go func() {
			synctest.Wait()
			if i.HasSynced() || r.HasSynced() || i.LastSyncResourceVersion() != "" {
				t.Errorf("without the objects of a part: synced %t, %t, version %q", i.HasSynced(), r.HasSynced(), i.LastSyncResourceVersion())
			}
			mend()
		}()
		stop := run(t, i)
		wait(t, r.HasSyncedChecker())
		events.Next(2)
		x := i.GetIndexer()
		if got := labelled(x.List()); !slices.Equal(got, []string{"a/one a", "b/one b"}) {
			t.Errorf("List: %q", got)
		}
		if keys := x.ListKeys(); !slices.Equal(keys, []string{"a/one", "b/one"}) {
			t.Errorf("ListKeys: %q", keys)
		}
		for key, want := range map[string]bool{"a/one": true, "b/one": true, "c/one": false} {
			if _, exists, err := x.GetByKey(key); exists != want || err != nil {
				t.Errorf("GetByKey %q: %t %v", key, exists, err)
			}
		}
		if list, err := x.ByIndex("node", "node-one"); len(list) != 2 || err != nil {
			t.Errorf("ByIndex: %v %v", list, err)
		}
		if list, err := x.ByIndex(clientcache.NamespaceIndex, "b"); len(list) != 1 || err != nil {
			t.Errorf("ByIndex of a namespace: %v %v", list, err)
		}
		if values := x.ListIndexFuncValues(clientcache.NamespaceIndex); !slices.Equal(values, []string{"a", "b"}) {
			t.Errorf("namespaces %q", values)
		}
		w.Relabel("b", "one", "x", "y")
		w.Delete("a", "one")
		events.Next(2)
		stop()
		if !i.IsStopped() || len(x.List()) != 1 {
			t.Errorf("after the end: stopped %t, %v", i.IsStopped(), labelled(x.List()))
		}
	})
}

// SetTransform replaces the transforms of all parts.
func TestSetTransformOfParts(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("b", "one")
	i := ofParts(t, cache.Config{Object: &corev1.Pod{}}, part(w, "a"), part(w, "b"))
	if err := i.SetTransform(label("all")); err != nil {
		t.Fatal(err)
	}
	defer run(t, i)()
	if got := labelled(i.GetStore().List()); !slices.Equal(got, []string{"a/one all", "b/one all"}) {
		t.Errorf("List: %q", got)
	}
}

// Each part has its own resync period, by the rules of client-go.
func TestResyncOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		w.Pod("a", "one")
		w.Pod("b", "one")
		often, never := part(w, "a"), part(w, "b")
		often.ResyncPeriod = time.Hour
		i := ofParts(t, cache.Config{Object: &corev1.Pod{}}, often, never)
		resyncs := map[string]int{}
		minute := time.Minute
		if _, err := i.AddEventHandlerWithOptions(clientcache.ResourceEventHandlerFuncs{
			UpdateFunc: func(_, obj any) { resyncs[obj.(*corev1.Pod).Namespace]++ },
		}, clientcache.HandlerOptions{ResyncPeriod: &minute}); err != nil {
			t.Fatal(err)
		}
		stop := run(t, i)
		<-time.After(time.Hour)
		stop()
		if resyncs["a"] < 50 || resyncs["b"] > 0 {
			t.Errorf("resyncs %v", resyncs)
		}
	})
}

// OnStart receives the informer of each part before anything happens. An index that it adds finds results of the
// transform, by their labels.
func TestOnStart(t *testing.T) {
	for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutSeparate, informer.LayoutCompact} {
		w := world.New(t)
		w.Pod("a", "one")
		w.Pod("b", "one")
		var parts []*informer.Informer[cache.Object]
		var index *informer.Index[cache.Object, string]
		type made struct{ metav1.ObjectMeta }
		toMade := part(w, "b")
		toMade.Transform = func(obj any) (any, error) {
			return &made{metav1.ObjectMeta{Labels: map[string]string{"made": "here"}}}, nil
		}
		i := ofParts(t, cache.Config{
			Object:  &corev1.Pod{},
			Options: cache.Options{Layout: &layout},
			OnStart: func(started []*informer.Informer[cache.Object]) {
				if len(w.Server.Requests()) > 0 || parts != nil {
					t.Error("OnStart comes late, or again")
				}
				parts = started
				index = informer.NewIndex(parts[1], func(obj cache.Object) []string { return []string{fmt.Sprintf("%T", cache.Result(obj))} })
			},
		}, part(w, "a"), toMade)
		if parts != nil {
			t.Error("OnStart was called before Run")
		}
		run(t, i)()
		if len(parts) != 2 || parts[0].Store().Len() != 1 || parts[1].Store().Len() != 1 {
			t.Fatalf("informers %v", parts)
		}
		pod, _ := parts[0].Store().Get(informer.Key{Namespace: "a", Name: "one"})
		if got, ok := cache.Result(pod).(*corev1.Pod); !ok || got.Labels["part"] != "a" {
			t.Errorf("a pod: %v", cache.Result(pod))
		}
		list := slices.Collect(index.Lookup("*cache_test.made"))
		if len(list) != 1 || list[0].GetName() != "one" || list[0].GetNamespace() != "b" || list[0].GetUID() == "" || list[0].GetLabels()["made"] != "here" {
			t.Errorf("objects of another type: %v", list)
		}
		selected := informer.Select(parts[1].Store().Snapshot(), "", labels.SelectorFromSet(labels.Set{"made": "here"}))
		if n := len(slices.Collect(selected)); n != 1 {
			t.Errorf("%d objects with the label", n)
		}
	}
}

// A transform whose result has no metadata fails for that object, and the error says what it returned.
// Guarantees: P2, P3
func TestTransformWithoutResult(t *testing.T) {
	for want, result := range map[string]any{
		"returned nil and no error for a *v1.Pod":       nil,
		"nil and no error for a *v1.Pod":                (*corev1.Pod)(nil),
		"returned a string, which has no metadata":      "text",
		"returned a struct {}, which has no metadata":   struct{}{},
		"returned a *v1.PodList, which has no metadata": &corev1.PodList{},
	} {
		w := world.New(t)
		w.Pod("a", "one")
		i := create(t, config(w))
		if err := i.SetTransform(func(any) (any, error) { return result, nil }); err != nil {
			t.Fatal(err)
		}
		run(t, i)()
		_, exists, err := i.GetStore().GetByKey("a/one")
		if exists || !errors.As(err, new(*informer.DecodeError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%t %v, want an error with %q", exists, err, want)
		}
	}
}

// Kind is set in each object before its transform. Logger receives failures.
func TestKindAndLogger(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	defer w.Server.Inject(informertest.Fault{Error: apierrors.NewInternalError(errors.New("broken")), Times: 1})()
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	var log bytes.Buffer
	c := config(w)
	c.Object, c.Kind, c.Logger, c.Indexers = &metav1.PartialObjectMetadata{}, kind, slog.New(slog.NewTextHandler(&log, nil)), nil
	for _, transform := range []clientcache.TransformFunc{nil, func(obj any) (any, error) {
		m := obj.(*metav1.PartialObjectMetadata)
		m.Labels["seen"] = m.Kind
		return m, nil
	}} {
		i := create(t, c)
		if err := i.SetTransform(transform); err != nil {
			t.Fatal(err)
		}
		run(t, i)()
		obj, _, err := i.GetStore().GetByKey("a/one")
		if err != nil {
			t.Fatal(err)
		}
		m := obj.(*metav1.PartialObjectMetadata)
		if m.GroupVersionKind() != kind || transform != nil && m.Labels["seen"] != "Pod" {
			t.Errorf("%v, labels %v", m.GroupVersionKind(), m.Labels)
		}
	}
	if !strings.Contains(log.String(), "broken") {
		t.Errorf("log %q", log.String())
	}
}

// NewOfParts rejects parts that no informer can follow, and a configuration that is for one collection.
func TestWrongParts(t *testing.T) {
	w := world.New(t)
	good, bad := part(w, "a"), part(w, "b")
	bad.Client = nil
	for want, c := range map[string]struct {
		config cache.Config
		parts  []cache.Part
	}{
		"at least one Part":   {cache.Config{Object: &corev1.Pod{}}, nil},
		"client":              {cache.Config{Object: &corev1.Pod{}}, []cache.Part{good, bad}},
		"Config.Object":       {cache.Config{}, []cache.Part{good}},
		"Config.Client":       {cache.Config{Object: &corev1.Pod{}, Client: w.Client()}, []cache.Part{good}},
		"Client, Resource":    {cache.Config{Object: &corev1.Pod{}, Resource: good.Resource}, []cache.Part{good}},
		"ResyncPeriod must n": {cache.Config{Object: &corev1.Pod{}, ResyncPeriod: time.Hour}, []cache.Part{good}},
	} {
		if _, err := cache.NewOfParts(c.config, c.parts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
