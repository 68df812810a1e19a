package crcache_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
)

// maker makes informers for cache.Options.NewInformer.
type maker struct {
	mu    sync.Mutex // protects made
	made  map[string][]toolscache.SharedIndexInformer
	lists runtime.Object // if not nil, what the informers list instead of the server's objects
}

func (m *maker) newInformer(lw toolscache.ListerWatcher, obj runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lists != nil {
		lw = &toolscache.ListWatch{
			ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
				return m.lists.DeepCopyObject(), nil
			},
			WatchFuncWithContext: func(_ context.Context, opts metav1.ListOptions) (watch.Interface, error) {
				if opts.SendInitialEvents != nil {
					return nil, apierrors.NewBadRequest("no streaming lists")
				}
				return watch.NewFake(), nil
			},
		}
	}
	i := toolscache.NewSharedIndexInformer(lw, obj, resync, indexers)
	if m.made == nil {
		m.made = map[string][]toolscache.SharedIndexInformer{}
	}
	m.made[fmt.Sprintf("%T", obj)] = append(m.made[fmt.Sprintf("%T", obj)], i)
	return i
}

func (m *maker) of(form string) []toolscache.SharedIndexInformer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[form]
}

// The informers of NewInformer behave in crcache as in controller-runtime: the cache starts them and reads from them.
func TestNewInformer(t *testing.T) {
	for _, impl := range caches[:2] {
		t.Run(impl.name, func(t *testing.T) {
			w := newWorld(t, false)
			w.pod("a", "x")
			w.pod("b", "y")
			var m maker
			c := impl.create(w, cache.Options{NewInformer: m.newInformer})
			if err := c.Get(t.Context(), client.ObjectKey{}, &corev1.Pod{}); !errors.As(err, new(*cache.ErrCacheNotStarted)) {
				t.Errorf("Get before Start: %v", err)
			}
			if err := c.IndexField(t.Context(), &corev1.Pod{}, "node", func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }); err != nil {
				t.Fatal(err)
			}
			stop := w.start(c)
			i := w.informerOf(c)
			made := m.of("*v1.Pod")
			if len(made) != 1 || i != cache.Informer(made[0]) {
				t.Fatalf("GetInformer returns %v, the function made %v", i, made)
			}
			forKind, err := c.GetInformerForKind(t.Context(), corev1.SchemeGroupVersion.WithKind("Pod"))
			if err != nil || forKind != i {
				t.Error(forKind, err)
			}
			events := w.events(i)
			got := []string{<-events.events, <-events.events}
			slices.Sort(got)
			if !strings.HasPrefix(got[0], "add *v1.Pod a/x") || !strings.HasPrefix(got[1], "add *v1.Pod b/y") {
				t.Errorf("%q", got)
			}
			if len(made[0].GetIndexer().List()) != 2 {
				t.Error("the informer has no objects")
			}
			w.wantNames(c, []string{"a/x"}, client.InNamespace("a"))
			w.wantNames(c, []string{"b/y"}, client.MatchingFields{"node": "node-y"})
			var pod corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "y"}, &pod); err != nil || pod.Spec.NodeName != "node-y" || pod.Kind != "Pod" {
				t.Error(pod, err)
			}
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "y"}, u); err != nil || len(m.of("*unstructured.Unstructured")) != 1 {
				t.Error(u, err)
			}
			metadata := &metav1.PartialObjectMetadata{}
			metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "y"}, metadata); err != nil || len(m.of("*v1.PartialObjectMetadata")) != 1 {
				t.Error(metadata, err)
			}
			if err := c.RemoveInformer(t.Context(), &corev1.Pod{}); err != nil {
				t.Error(err)
			}
			w.wantNames(c, []string{"a/x"}, client.InNamespace("a"))
			if n := len(m.of("*v1.Pod")); n != 2 {
				t.Errorf("%d informers were made, want a second one after RemoveInformer", n)
			}
			stop()
			if i := m.of("*v1.Pod")[1]; !i.IsStopped() {
				t.Error("an informer runs after Start has returned")
			}
		})
	}
}

// The cache and typed reads return the content of the user's informer, whatever it is. Calls that it does not support
// return errors.
func TestReadsOfNewInformer(t *testing.T) {
	w := newWorld(t, false)
	m := maker{lists: &corev1.PodList{
		ListMeta: metav1.ListMeta{ResourceVersion: "1"},
		Items:    []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "theirs"}}},
	}}
	c := w.started(cache.Options{NewInformer: m.newInformer}, crcache.Options{})
	w.wantNames(c, []string{"a/theirs"})
	pod, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "theirs"})
	if err != nil || pod.Name != "theirs" {
		t.Error(pod, err)
	}
	if pod, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "z"}); pod != nil || !apierrors.IsNotFound(err) {
		t.Error(pod, err)
	}
	for namespace, want := range map[string]int{"a": 1, "b": 0} {
		pods, err := crcache.List[*corev1.Pod](t.Context(), c, client.InNamespace(namespace))
		if err != nil || len(pods) != want || want > 0 && pods[0].Name != "theirs" {
			t.Error(pods, err)
		}
	}
	if _, err := crcache.List[*corev1.Pod](t.Context(), c, client.Continue("x")); err == nil {
		t.Error("a list continues")
	}
	_, err = crcache.NewIndex(t.Context(), c, func(p *corev1.Pod) []string { return nil })
	for _, err := range []error{err, crcache.WaitForObject(t.Context(), c, pod)} {
		if err == nil || !strings.Contains(err.Error(), "cache.Options.NewInformer") || !strings.Contains(err.Error(), "IgnoreNewInformer") {
			t.Error(err)
		}
	}
	if requests := w.server.Requests(); len(requests) > 0 {
		t.Errorf("the cache sent requests: %v", requests)
	}
}

// IgnoreNewInformer decides for all kinds, and for each.
func TestIgnoreNewInformer(t *testing.T) {
	pods := func(ignore bool) map[client.Object]crcache.ByObject {
		return map[client.Object]crcache.ByObject{&corev1.Pod{}: {IgnoreNewInformer: &ignore}}
	}
	for _, test := range []struct {
		options     crcache.Options
		pods, nodes int // informers of the function
	}{
		{crcache.Options{}, 1, 1},
		{crcache.Options{IgnoreNewInformer: true, Layout: informer.LayoutCompact}, 0, 0},
		{crcache.Options{ByObject: pods(true)}, 0, 1},
		{crcache.Options{IgnoreNewInformer: true, Layout: informer.LayoutSeparate, ByObject: pods(false)}, 1, 0},
	} {
		w := newWorld(t, false)
		w.pod("a", "x")
		var m maker
		c := w.started(cache.Options{NewInformer: m.newInformer, DefaultNamespaces: map[string]cache.Config{"a": {}}}, test.options)
		w.wantNames(c, []string{"a/x"})
		if pods, err := crcache.List[*corev1.Pod](t.Context(), c); err != nil || len(pods) != 1 {
			t.Error(pods, err)
		}
		if err := c.List(t.Context(), &corev1.NodeList{}); err != nil {
			t.Error(err)
		}
		if !c.WaitForCacheSync(t.Context()) {
			t.Error("the cache has not synced")
		}
		if pods, nodes := len(m.of("*v1.Pod")), len(m.of("*v1.Node")); pods != test.pods || nodes != test.nodes {
			t.Errorf("%+v: the function made %d informers of pods and %d of nodes, want %d and %d", test.options, pods, nodes, test.pods, test.nodes)
		}
	}
}

// Options without effect on the user's informers are errors. Options that only our informers do not support are
// accepted.
func TestOptionsOfNewInformer(t *testing.T) {
	no := false
	for _, test := range []struct {
		want    string // empty for no error
		opts    cache.Options
		options crcache.Options
	}{
		{want: "crcache.Options.Layout has no effect", options: crcache.Options{Layout: informer.LayoutCompact}},
		{want: "crcache.Options.Layout has no effect", options: crcache.Options{Layout: informer.LayoutSeparate}},
		{want: "crcache.Options.DropManagedFields has no effect", options: crcache.Options{DropManagedFields: true}},
		{want: "crcache.Options.AuditEvery has no effect", options: crcache.Options{AuditEvery: time.Hour}},
		{want: "crcache.Options.ByObject[*v1.Pod].Layout has no effect", options: crcache.Options{ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {Layout: new(informer.LayoutCompact)}}}},
		{options: crcache.Options{Layout: informer.LayoutCompact, IgnoreNewInformer: true, ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {IgnoreNewInformer: &no}}}},
		{options: crcache.Options{ByObject: map[client.Object]crcache.ByObject{&corev1.Pod{}: {IgnoreNewInformer: ptr(true), Layout: new(informer.LayoutCompact)}}}},
		{opts: cache.Options{DefaultEnableWatchBookmarks: &no}},
		{want: "cache.Options.DefaultEnableWatchBookmarks", opts: cache.Options{DefaultEnableWatchBookmarks: &no}, options: crcache.Options{IgnoreNewInformer: true}},
	} {
		test.opts.Mapper, test.opts.NewInformer = mapper(), new(maker).newInformer
		_, err := crcache.New(test.options)(&rest.Config{Host: "localhost"}, test.opts)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want an error that contains %q", err, test.want)
		}
	}
}
