package crcache_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
	"github.com/typedinformer/informer/informertest"
)

// Before Start, reads fail and no request is sent. Start runs the informers that exist.
func TestBeforeStart(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	c := w.cache(cache.Options{}, crcache.Options{})
	_, typed := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{})
	for _, err := range []error{c.Get(t.Context(), client.ObjectKey{}, &corev1.Pod{}), c.List(t.Context(), &corev1.PodList{}), typed} {
		if early := (*cache.ErrCacheNotStarted)(nil); !errors.As(err, &early) {
			t.Error(err)
		}
	}
	i := w.informerOf(c)
	if i.HasSynced() || i.IsStopped() || toolscache.IsDone(i.HasSyncedChecker()) || len(w.server.Requests()) > 0 {
		t.Error("something started")
	}
	stop := w.start(c)
	if !i.HasSynced() {
		t.Error("Start did not run the informer")
	}
	<-i.HasSyncedChecker().Done()
	if err := c.Start(t.Context()); !errors.Is(err, informer.ErrRunning) {
		t.Error(err)
	}
	stop()
	if !i.IsStopped() {
		t.Error("the informer runs after Start has returned")
	}
	if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); !errors.Is(err, informer.ErrStopped) {
		t.Error(err)
	}
	if err := c.IndexField(t.Context(), &corev1.Pod{}, "node", func(client.Object) []string { return nil }); !errors.Is(err, informer.ErrStopped) {
		t.Error(err)
	}
	if err := c.List(t.Context(), &corev1.PodList{}); err != nil {
		t.Errorf("the objects stay readable: %v", err)
	}
	if err := c.List(t.Context(), &corev1.NodeList{}); err == nil {
		t.Error("a new informer after the end")
	}
}

// GetInformer of a kind that the server refuses waits, and its error says why it failed.
func TestErrorSaysWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.server.Inject(informertest.Fault{Resource: "pods", Error: apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no rights"))})
		c := w.cache(cache.Options{}, crcache.Options{})
		stop := w.start(c)
		ctx, cancel := contextWithTimeout(t)
		defer cancel()
		_, err := c.GetInformer(ctx, &corev1.Pod{})
		if !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "no rights") {
			t.Error(err)
		}
		stop()
		w.server.Close()
	})
}

// At the level info, the cache logs its failures and no states: its informers log them at V(1).
func TestStatesAreLoggedForDebugging(t *testing.T) {
	for _, test := range []struct {
		verbosity int
		want      []string
	}{
		{0, []string{"reflector: Backoff"}},
		{1, []string{"reflector: Listing", "reflector: Backoff", "reflector: Watching", "reflector: Idle"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, true)
			w.server.Inject(informertest.Fault{Resource: "pods", Error: apierrors.NewServiceUnavailable("an outage"), Times: 1})
			c := w.cache(cache.Options{}, crcache.Options{})
			var got []string // one informer writes it at a time, and all have stopped before it is read
			crcache.SetLogger(c, funcr.NewJSON(func(line string) {
				var record struct{ Msg string }
				if err := json.Unmarshal([]byte(line), &record); err != nil {
					t.Error(err)
				}
				got = append(got, record.Msg)
			}, funcr.Options{Verbosity: test.verbosity}))
			stop := w.start(c)
			w.wantNames(c, nil)
			synctest.Wait()
			stop()
			w.server.Close()
			if !slices.Equal(got, test.want) {
				t.Errorf("verbosity %d: %q, want %q", test.verbosity, got, test.want)
			}
		})
	}
}

// An informer that is removed stops, its handlers too. The next read creates a new one.
func TestRemoveInformer(t *testing.T) {
	for _, start := range []bool{true, false} {
		w := newWorld(t, false)
		w.pod("a", "x")
		c := w.cache(cache.Options{}, crcache.Options{})
		if start {
			w.start(c)
		}
		old := w.informerOf(c)
		if _, err := old.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
			t.Fatal(err)
		}
		if err := c.IndexField(t.Context(), &corev1.Pod{}, "node", func(client.Object) []string { return nil }); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := c.RemoveInformer(t.Context(), &corev1.Pod{}); err != nil {
				t.Fatal(err)
			}
		}
		<-crcache.Stopped(old)
		if !old.IsStopped() {
			t.Error("it runs")
		}
		if !start {
			w.start(c)
		}
		w.wantNames(c, []string{"a/x"})
		if w.informerOf(c) == old {
			t.Error("the old informer is back")
		}
		if err := c.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"node": "n"}); err == nil {
			t.Error("the new informer has an index of the old one")
		}
	}
}

// A field selector needs indexes, uses them together, and applies within a namespace.
func TestIndexField(t *testing.T) {
	for _, namespaces := range []map[string]cache.Config{nil, {"a": {}, "b": {}}} {
		for _, layout := range layouts {
			w := newWorld(t, false)
			for _, key := range [][2]string{{"a", "x"}, {"a", "y"}, {"b", "x"}} {
				w.pod(key[0], key[1])
			}
			c := w.cache(cache.Options{DefaultNamespaces: namespaces}, crcache.Options{Layout: layout})
			node := func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
			index := func(field string, extract client.IndexerFunc) error {
				return c.IndexField(t.Context(), &corev1.Pod{}, field, extract)
			}
			if err := index("node", node); err != nil {
				t.Fatal(err)
			}
			if err := index("node", node); err == nil {
				t.Error("two indexes of one field")
			}
			w.start(c)
			if err := index("namespace", func(obj client.Object) []string { return []string{obj.GetNamespace(), "any"} }); err != nil {
				t.Fatal(err)
			}
			w.wantNames(c, []string{"a/x", "b/x"}, client.MatchingFields{"node": "node-x"})
			w.wantNames(c, []string{"b/x"}, client.MatchingFields{"node": "node-x"}, client.InNamespace("b"))
			w.wantNames(c, []string{"b/x"}, client.MatchingFields{"node": "node-x", "namespace": "b"})
			w.wantNames(c, []string{"a/x", "a/y"}, client.MatchingFields{"namespace": "any"}, client.Limit(2))
			w.wantNames(c, []string{"a/y"}, client.MatchingFields{"namespace": "any"}, client.MatchingLabels{"name": "y"})
			for _, selector := range []fields.Selector{
				fields.Everything(), fields.OneTermNotEqualSelector("node", "n"), fields.OneTermEqualSelector("other", "n"),
			} {
				if err := c.List(t.Context(), &corev1.PodList{}, client.MatchingFieldsSelector{Selector: selector}); err == nil {
					t.Errorf("%v", selector)
				}
			}
		}
	}
}

// Get of an object that exists but could not be decoded does not return NotFound. A List that lacks it returns the
// other objects and an error.
func TestUndecodableObjectIsNotNotFound(t *testing.T) {
	for _, namespaces := range []map[string]cache.Config{nil, {"a": {}, "b": {}}} {
		for _, layout := range layouts {
			w := newWorld(t, false)
			for _, key := range [][2]string{{"a", "x"}, {"a", "y"}, {"b", "x"}} {
				w.pod(key[0], key[1])
			}
			bad := client.ObjectKey{Namespace: "a", Name: "y"}
			w.server.Inject(informertest.Fault{Corrupt: []informer.Key{bad}})
			c := w.cache(cache.Options{DefaultNamespaces: namespaces}, crcache.Options{Layout: layout})
			node := func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
			if err := c.IndexField(t.Context(), &corev1.Pod{}, "node", node); err != nil {
				t.Fatal(err)
			}
			w.start(c)
			undecodable := func(what string, err error) {
				t.Helper()
				failed := (*informer.DecodeError)(nil)
				if !errors.As(err, &failed) || failed.Key != bad || apierrors.IsNotFound(err) {
					t.Errorf("%s: %v", what, err)
				}
			}
			undecodable("Get", c.Get(t.Context(), bad, &corev1.Pod{}))
			_, err := crcache.Get[*corev1.Pod](t.Context(), c, bad)
			undecodable("typed Get", err)
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "z"}, &corev1.Pod{}); !apierrors.IsNotFound(err) {
				t.Errorf("Get of nothing: %v", err)
			}
			if _, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "z"}); !apierrors.IsNotFound(err) {
				t.Errorf("typed Get of nothing: %v", err)
			}
			for _, opts := range [][]client.ListOption{
				nil, {client.InNamespace("a")}, {client.MatchingLabels{"name": "z"}}, {client.MatchingFields{"node": "node-z"}},
			} {
				var list corev1.PodList
				undecodable("List", c.List(t.Context(), &list, opts...))
				pods, err := crcache.List[*corev1.Pod](t.Context(), c, opts...)
				undecodable("typed List", err)
				if want := []int{2, 1, 0, 0}; len(list.Items) != len(pods) || !slices.Contains(want, len(pods)) || opts == nil && len(pods) != 2 {
					t.Errorf("lists of %d and %d pods", len(list.Items), len(pods))
				}
			}
			w.wantNames(c, []string{"b/x"}, client.InNamespace("b"))
			i := w.informerOf(c)
			if err := i.AddIndexers(toolscache.Indexers{"node": func(obj any) ([]string, error) { return node(obj.(client.Object)), nil }}); err != nil {
				t.Fatal(err)
			}
			indexer := i.(interface{ GetIndexer() toolscache.Indexer }).GetIndexer()
			_, _, err = indexer.GetByKey("a/y")
			undecodable("GetByKey", err)
			_, err = indexer.ByIndex("node", "node-x")
			undecodable("ByIndex", err)
			_, err = indexer.IndexKeys("node", "node-x")
			undecodable("IndexKeys", err)
			if _, exists, err := indexer.GetByKey("a/z"); exists || err != nil {
				t.Errorf("GetByKey of nothing: %v, %v", exists, err)
			}
		}
	}
}

// All forms have the kind, also in handlers, where the server does not send it.
func TestForms(t *testing.T) {
	for _, layout := range layouts {
		w := newWorld(t, false)
		w.pod("a", "x")
		c := w.started(cache.Options{}, crcache.Options{Layout: layout})
		kind := corev1.SchemeGroupVersion.WithKind("Pod")
		for _, obj := range []client.Object{&unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}} {
			obj.GetObjectKind().SetGroupVersionKind(kind)
			i, err := c.GetInformer(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			added := make(chan client.Object, 1)
			if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(obj any) { added <- obj.(client.Object) }}); err != nil {
				t.Fatal(err)
			}
			if got := <-added; got.GetObjectKind().GroupVersionKind() != kind || fmt.Sprintf("%T", got) != fmt.Sprintf("%T", obj) {
				t.Errorf("%T of %v for %T", got, got.GetObjectKind().GroupVersionKind(), obj)
			}
		}
	}
}

// A handler receives every change, also those of an object that is gone before the handler has returned.
func TestHandlersReceiveEveryChange(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "first")
	c := w.started(cache.Options{}, crcache.Options{})
	i := w.informerOf(c)
	events, goOn := make(chan string, 100), make(chan struct{})
	registration, err := i.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			<-goOn
			events <- fmt.Sprint("add ", obj.(*corev1.Pod).Name, " ", initial)
		},
		UpdateFunc: func(old, new any) {
			events <- fmt.Sprint("update ", old.(*corev1.Pod).Labels["v"], "->", new.(*corev1.Pod).Labels["v"])
		},
		DeleteFunc: func(obj any) { events <- "delete " + obj.(*corev1.Pod).Name },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.pod("a", "x")
	w.relabel("a", "x", "v", "1")
	w.relabel("a", "x", "v", "2")
	w.delete("a", "x")
	if err := crcache.WaitForObject(t.Context(), c, w.pod("a", "end")); err != nil {
		t.Fatal(err)
	}
	if registration.HasSynced() {
		t.Error("the handler has not returned")
	}
	close(goOn)
	recorder{events}.want(t, "add first true", "add x false", "update ->1", "update 1->2", "delete x", "add end false")
	<-registration.HasSyncedChecker().Done()
	for range 2 {
		if err := i.RemoveEventHandler(registration); err != nil {
			t.Error(err)
		}
	}
	if err := crcache.WaitForObject(t.Context(), c, w.pod("a", "later")); err != nil || len(events) > 0 {
		t.Errorf("%v, %d events after the removal", err, len(events))
	}
	if err := i.RemoveEventHandler(nil); err == nil {
		t.Error("a registration of nobody")
	}
	nodes, err := c.GetInformer(t.Context(), &corev1.Node{})
	if err != nil {
		t.Fatal(err)
	}
	if err := nodes.RemoveEventHandler(registration); err != nil {
		t.Errorf("a registration of another informer: %v", err)
	}
	if _, err := i.AddEventHandler(nil); err == nil {
		t.Error("a nil handler")
	}
}

// A deletion that the cache missed comes with the last known state.
func TestMissedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.pod("a", "x")
		c := w.cache(cache.Options{}, crcache.Options{})
		stop := w.start(c)
		deleted := make(chan any, 1)
		if _, err := w.informerOf(c).AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(obj any) { deleted <- obj }}); err != nil {
			t.Fatal(err)
		}
		w.server.Stop()
		w.delete("a", "x")
		w.server.Compact()
		w.server.Start()
		last, ok := (<-deleted).(toolscache.DeletedFinalStateUnknown)
		if !ok || last.Key != "a/x" || last.Obj.(*corev1.Pod).Name != "x" {
			t.Errorf("%v %+v", ok, last)
		}
		stop()
		w.server.Close()
	})
}

func TestAddIndexers(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	w.pod("b", "x")
	c := w.started(cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}}, crcache.Options{})
	i := w.informerOf(c)
	byNode := toolscache.Indexers{"node": func(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }}
	if err := i.AddIndexers(byNode); err != nil {
		t.Fatal(err)
	}
	if err := i.AddIndexers(byNode); err == nil {
		t.Error("two indexes of one name")
	}
	indexer := i.(interface{ GetIndexer() toolscache.Indexer }).GetIndexer()
	keys, err := indexer.IndexKeys("node", "node-x")
	if err != nil || !slices.Equal(keys, []string{"a/x", "b/x"}) || !slices.Equal(indexer.ListKeys(), keys) {
		t.Error(keys, err, indexer.ListKeys())
	}
	pod, ok, err := indexer.GetByKey("b/x")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	same, err := indexer.Index("node", pod)
	if err != nil || len(same) != 2 || !slices.Equal(indexer.ListIndexFuncValues("node"), []string{"node-x"}) || len(indexer.GetIndexers()) != 2 {
		t.Error(same, err)
	}
	several := toolscache.Indexers{"several": func(any) ([]string, error) { return []string{"one", "two"}, nil }}
	if err := i.AddIndexers(several); err != nil {
		t.Fatal(err)
	}
	if same, err := indexer.Index("several", pod); err != nil || len(same) != 2 {
		t.Errorf("%d objects share two values, %v", len(same), err)
	}
	if values := indexer.ListIndexFuncValues("several"); !slices.Equal(values, []string{"one", "two"}) {
		t.Errorf("values %q", values)
	}
	if list, err := indexer.ByIndex("other", ""); err == nil {
		t.Error(list)
	}
	if err := indexer.Add(pod); err == nil {
		t.Error("the indexer writes")
	}
}

// The requests count in the metrics of controller-runtime, and the informers have those of client-go.
func TestMetrics(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	c := w.started(cache.Options{DefaultNamespaces: map[string]cache.Config{"metered": {}}}, crcache.Options{})
	w.informerOf(c)
	want := map[string]bool{
		"informer_queued_items typed/metered":                                       true,
		"informer_store_resource_version typed/metered":                             true,
		"reflector_lists_total typed/metered pods.v1.":                              true,
		"reflector_watches_total typed/metered pods.v1.":                            true,
		"reflector_last_resource_version typed/metered pods.v1.":                    true,
		"rest_client_requests_total " + strings.TrimPrefix(w.server.URL, "http://"): true,
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			for _, label := range m.Label {
				delete(want, family.GetName()+" "+label.GetValue())
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}

// A removed informer does not prevent readiness.
func TestWaitForCacheSyncIgnoresARemovedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		w.pod("a", "x")
		c := w.cache(cache.Options{}, crcache.Options{})
		stop := w.start(c)
		w.server.Inject(informertest.Fault{Resource: "nodes", Hang: true})
		if _, err := c.GetInformer(t.Context(), &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
		synced := make(chan bool, 1)
		go func() { synced <- c.WaitForCacheSync(t.Context()) }()
		synctest.Wait()
		if len(synced) > 0 {
			t.Error("the cache has synced without the nodes")
		}
		if err := c.RemoveInformer(t.Context(), &corev1.Node{}); err != nil {
			t.Fatal(err)
		}
		if !<-synced {
			t.Error("WaitForCacheSync fails because of an informer that was removed")
		}
		stop()
		w.server.Close()
	})
}

// A Go type with two kinds is ambiguous: the scheme refuses to guess, even when one of the kinds has an informer.
func TestTypeOfTwoKinds(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	scheme := apiruntime.NewScheme()
	kind := corev1.SchemeGroupVersion.WithKind("Pod")
	scheme.AddKnownTypeWithName(kind, &corev1.Pod{})
	scheme.AddKnownTypeWithName(corev1.SchemeGroupVersion.WithKind("PodList"), &corev1.PodList{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Pod"}, &corev1.Pod{})
	c := w.started(cache.Options{Scheme: scheme}, crcache.Options{})
	if _, err := c.GetInformerForKind(t.Context(), kind); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{}); err == nil || !strings.Contains(err.Error(), "refusing to guess") {
		t.Error(err)
	}
}

// The objects of an informer that is removed do not stay in memory, even if the cache lives on.
func TestRemoveInformerReleasesItsMemory(t *testing.T) {
	w := newWorld(t, false)
	w.pod("a", "x")
	c := w.started(cache.Options{}, crcache.Options{})
	i := w.informerOf(c)
	if _, err := i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{}); err != nil {
		t.Fatal(err)
	}
	pod, err := crcache.Get[*corev1.Pod](t.Context(), c, client.ObjectKey{Namespace: "a", Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	held := weak.Make(pod)
	stopped := crcache.Stopped(i)
	if err := c.RemoveInformer(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod, i = nil, nil
	<-stopped
	for began := time.Now(); held.Value() != nil && time.Since(began) < 10*time.Second; {
		runtime.GC() // finalizers, pools and goroutines that are about to end may keep it for some cycles
	}
	if held.Value() != nil {
		t.Error("the object is still in memory")
	}
}

// A read whose context has ended fails if the kind has not synced when it begins, however fast that is.
func TestFirstReadWithAnEndedContext(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := contextWithTimeout(t)
			cancel()
			w := newWorld(t, true)
			c := w.cache(cache.Options{}, crcache.Options{})
			stop := w.start(c)
			if err := c.List(ctx, &corev1.PodList{}); !apierrors.IsTimeout(err) {
				t.Errorf("list: %v", err)
			}
			if err := c.Get(ctx, client.ObjectKey{Name: "n"}, &corev1.Node{}); !apierrors.IsTimeout(err) {
				t.Errorf("get: %v", err)
			}
			stop()
			w.server.Close()
		})
	}
}
