package crcache_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/typedinformer/informer/informertest"
)

// cast is a program that casts an informer of a cache to a SharedIndexInformer, and a transcript of what it sees.
type cast struct {
	*world
	toolscache.SharedIndexInformer
	cache      cache.Cache
	events     recorder
	transcript []string
}

// useCast creates a cache, casts its informer of pods in a form, and returns the transcript of what do does with it.
func useCast(w *world, impl namedCache, opts cache.Options, form client.Object, do func(*cast)) []string {
	c := &cast{world: w, cache: impl.create(w, opts), events: recorder{make(chan string, 100)}}
	i, err := c.cache.GetInformer(w.Context(), form.DeepCopyObject().(client.Object))
	if err != nil {
		w.Fatal(err)
	}
	c.SharedIndexInformer = i.(toolscache.SharedIndexInformer)
	do(c)
	return c.transcript
}

// see adds a line to the transcript. Errors have no text in it.
func (c *cast) see(what string, values ...any) {
	for i, v := range values {
		if err, failed := v.(error); failed {
			values[i] = "an error"
			c.Logf("%s: %v", what, err)
		}
	}
	c.transcript = append(c.transcript, fmt.Sprintln(append([]any{what}, values...)...))
}

// seen returns the names, the versions and the transform's mark of objects, sorted.
func seen(objects ...any) (all []string) {
	for _, obj := range objects {
		m, ok := obj.(metav1.Object)
		if !ok {
			all = append(all, fmt.Sprint(obj))
			continue
		}
		all = append(all, fmt.Sprintf("%T %s/%s@%s %s", obj, m.GetNamespace(), m.GetName(), m.GetResourceVersion(), m.GetAnnotations()["mark"]))
	}
	slices.Sort(all)
	return all
}

func sorted(s []string) []string {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

func (c *cast) add(h toolscache.ResourceEventHandler) toolscache.ResourceEventHandlerRegistration {
	c.Helper()
	r, err := c.AddEventHandler(h)
	if err != nil {
		c.Fatal(err)
	}
	return r
}

// next adds the next n events to the transcript, sorted.
func (c *cast) next(what string, n int) {
	var events []string
	for range n {
		event, _, _ := strings.Cut(<-c.events.events, " uid=")
		events = append(events, event)
	}
	slices.Sort(events)
	c.see(what, events)
}

func (c *cast) seeStates() {
	controller := c.GetController()
	c.see("states", c.HasSynced(), toolscache.IsDone(c.HasSyncedChecker()), c.IsStopped(), controller.HasSynced(), c.LastSyncResourceVersion(),
		c.GetStore().LastStoreSyncResourceVersion(), controller.LastSyncResourceVersion())
}

func (c *cast) seeReads() {
	x := c.GetIndexer()
	c.see("List", seen(x.List()...), seen(c.GetStore().List()...))
	c.see("ListKeys", sorted(x.ListKeys()))
	for _, key := range []string{"a/x", "b/none", "x", "a/x/y", ""} {
		obj, exists, err := x.GetByKey(key)
		c.see("GetByKey", seen(obj), exists, err)
	}
	like := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "b", Name: "x", Labels: map[string]string{"name": "x"}}}
	for _, arg := range []any{like, toolscache.DeletedFinalStateUnknown{Key: "a/y"}, toolscache.ExplicitKey("a/y"), 7} {
		obj, exists, err := c.GetStore().Get(arg)
		c.see("Get", seen(obj), exists, err)
	}
	for _, index := range []string{"namespace", "label", "late", "none"} {
		for _, value := range []string{"a", "x", "none"} {
			objects, err := x.ByIndex(index, value)
			c.see("ByIndex "+index, seen(objects...), err)
			keys, err := x.IndexKeys(index, value)
			c.see("IndexKeys "+index, sorted(keys), err)
		}
		objects, err := x.Index(index, like)
		c.see("Index "+index, seen(objects...), err)
		c.see("ListIndexFuncValues "+index, sorted(x.ListIndexFuncValues(index)))
	}
	var names []string
	for name := range x.GetIndexers() {
		names = append(names, name)
	}
	c.see("GetIndexers", sorted(names))
}

// byLabel is an index of the label name.
func byLabel(obj any) ([]string, error) {
	return []string{obj.(metav1.Object).GetLabels()["name"]}, nil
}

// mark is a transform.
func mark(obj any) (any, error) {
	obj.(metav1.Object).SetAnnotations(map[string]string{"mark": "marked"})
	return obj, nil
}

// live uses an informer as programs do, from before the start of its cache until after its end.
func live(c *cast) {
	nodes, err := c.cache.GetInformer(c.Context(), &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		c.Fatal(err)
	}
	c.seeStates()
	c.see("AddIndexers", c.AddIndexers(toolscache.Indexers{"label": byLabel}))
	c.see("AddIndexers again", c.AddIndexers(toolscache.Indexers{"label": byLabel, "other": byLabel}))
	c.see("Add", c.GetStore().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "early"}}))
	c.seeReads()
	c.see("Delete", c.GetStore().Delete(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "early"}}))
	c.see("SetTransform", c.SetTransform(mark))
	failures := make(chan string, 100)
	c.see("SetWatchErrorHandler", c.SetWatchErrorHandler(func(r *toolscache.Reflector, err error) {
		failures <- fmt.Sprint(r.Name() != "", apierrors.IsForbidden(err))
	}))
	r := c.add(c.events.handler())
	c.see("handler has synced", r.HasSynced())

	stop := c.start(c.cache)
	<-r.HasSyncedChecker().Done()
	<-c.HasSyncedChecker().Done()
	c.next("initial events", 3)
	synctest.Wait() // client-go's reflector notes the version after it has replaced the store
	c.seeStates()
	c.see("handler has synced", r.HasSynced())
	c.seeReads()
	c.see("SetTransform late", c.SetTransform(nil))
	c.see("SetWatchErrorHandler late", c.SetWatchErrorHandler(nil))
	c.see("AddIndexers late", c.AddIndexers(toolscache.Indexers{"late": byLabel}))
	c.see("AddIndexers late, again", c.AddIndexers(toolscache.Indexers{"late": byLabel}))
	c.seeReads()
	c.Run(nil) // a second Run only warns, and returns
	c.relabel("a", "x", "v", "1")
	c.next("update", 1)
	c.delete("b", "x")
	c.next("deletion", 1)
	late := recorder{make(chan string, 100)}
	lately := c.add(late.handler())
	<-lately.HasSyncedChecker().Done()
	c.see("events of a late handler", len(late.events))
	c.see("remove a handler of another informer", nodes.RemoveEventHandler(r))
	c.pod("a", "new")
	c.next("addition", 1)
	<-late.events
	for range 2 {
		c.see("RemoveEventHandler", c.RemoveEventHandler(r))
	}
	c.see("remove no handler", c.RemoveEventHandler(nil))
	c.seeReads()

	c.server.Inject(informertest.Fault{Error: apierrors.NewForbidden(corev1.Resource("pods"), "", nil)})
	c.server.EndWatches()
	c.see("failure", <-failures)
	stop()
	c.see("stopped", c.IsStopped(), c.HasSynced())
	_, err = c.AddEventHandler(late.handler())
	c.see("AddEventHandler after the end", strings.HasSuffix(err.Error(), "was not added to shared informer because it has stopped already"))
	c.see("AddIndexers after the end", c.AddIndexers(toolscache.Indexers{"last": byLabel}))
	c.seeReads()
	c.see("events of a handler that was removed", len(c.events.events))
}

// forms are pods in each form.
var forms = []client.Object{
	&corev1.Pod{},
	&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod"}},
	&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}},
}

// In each form, an informer of the cache is a SharedIndexInformer that behaves like that of controller-runtime's cache.
// So does an informer of several namespaces.
// Guarantees: P1
func TestInformersAreSharedIndexInformers(t *testing.T) {
	for _, form := range forms {
		var want []string
		check := func(impl namedCache, name string, opts cache.Options) {
			t.Run(fmt.Sprintf("%T/%s", form, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, true)
					w.pod("a", "x")
					w.pod("a", "y")
					w.pod("b", "x")
					got := useCast(w, impl, opts, form, live)
					w.server.Close()
					if impl.name == controllerRuntime {
						want = got
					}
					if len(want) == 0 || !slices.Equal(got, want) {
						t.Errorf("\n%s\nwant\n%s", got, want)
					}
				})
			})
		}
		for _, impl := range caches {
			check(impl, impl.name, cache.Options{})
		}
		check(caches[1], "SeveralNamespaces", cache.Options{DefaultNamespaces: map[string]cache.Config{"a": {}, "b": {}}})
	}
}

// The resync periods of handlers follow the rules of client-go: a handler that is added before the start may have a shorter period than
// the informer, and a later one may not.
// Guarantees: P1
func TestResyncPeriods(t *testing.T) {
	for _, test := range []struct {
		name        string
		sync        time.Duration
		early, late time.Duration // of handlers; negative means that of the informer
		want        string
	}{
		{"EarlyHandlerIsMoreOften", time.Hour, time.Minute, 0, "early: often, late: never"},
		{"LateHandlerIsNot", time.Hour, 0, time.Minute, "early: never, late: seldom"},
		{"LateHandlerBesideAnEarlyOne", time.Hour, time.Minute, time.Minute, "early: often, late: often"},
		{"OfTheInformer", time.Minute, -1, -1, "early: often, late: often"},
		{"InformerWithoutResync", 0, time.Minute, time.Minute, "early: never, late: never"},
	} {
		for _, impl := range caches {
			t.Run(test.name+"/"+impl.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, true)
					w.pod("a", "x")
					useCast(w, impl, cache.Options{SyncPeriod: &test.sync}, &corev1.Pod{}, func(c *cast) {
						early := c.resynced(test.early)
						stop := c.start(c.cache)
						late := c.resynced(test.late)
						<-time.After(3 * time.Hour)
						if got := "early: " + early() + ", late: " + late(); got != test.want {
							t.Errorf("%s, want %s", got, test.want)
						}
						stop()
					})
					w.server.Close()
				})
			})
		}
	}
}

// resynced adds a handler, and returns how often it is resynced later.
func (c *cast) resynced(period time.Duration) (often func() string) {
	updates := make(chan struct{}, 1000)
	handler := toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { updates <- struct{}{} }}
	if period < 0 {
		c.add(handler)
	} else if _, err := c.AddEventHandlerWithResyncPeriod(handler, period); err != nil {
		c.Fatal(err)
	}
	return func() string {
		switch n := len(updates); {
		case n == 0:
			return "never"
		case n < 10:
			return "seldom"
		}
		return "often"
	}
}

// Each of several namespaces has its own transform and its own resync period, and SetTransform replaces all transforms.
func TestPartsOfAnInformer(t *testing.T) {
	set := func(value string) toolscache.TransformFunc {
		return func(obj any) (any, error) {
			obj.(metav1.Object).SetAnnotations(map[string]string{"mark": value})
			return obj, nil
		}
	}
	for _, replace := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, true)
			w.pod("a", "x")
			w.pod("b", "x")
			useCast(w, caches[1], cache.Options{DefaultNamespaces: map[string]cache.Config{
				"a": {Transform: set("of a"), SyncPeriod: ptr(time.Minute)}, "b": {Transform: set("of b"), SyncPeriod: ptr(time.Duration(0))},
			}}, &corev1.Pod{}, func(c *cast) {
				want := []string{"*v1.Pod a/x@2 of a", "*v1.Pod b/x@3 of b"}
				if replace {
					want = []string{"*v1.Pod a/x@2 marked", "*v1.Pod b/x@3 marked"}
					if err := c.SetTransform(mark); err != nil {
						t.Error(err)
					}
				}
				resyncs := map[string]int{}
				c.add(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(_, obj any) { resyncs[obj.(*corev1.Pod).Namespace]++ }})
				stop := c.start(c.cache)
				if got := seen(c.GetStore().List()...); !slices.Equal(got, want) {
					t.Errorf("%q, want %q", got, want)
				}
				<-time.After(time.Hour)
				stop()
				if resyncs["a"] < 50 || resyncs["b"] > 0 {
					t.Errorf("resyncs %v", resyncs)
				}
			})
			w.server.Close()
		})
	}
}

// An informer that the program runs itself before the start of the cache runs once.
func TestRunOfACastInformer(t *testing.T) {
	for _, impl := range caches[:2] {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, true)
			w.pod("a", "x")
			useCast(w, impl, cache.Options{}, &corev1.Pod{}, func(c *cast) {
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					c.RunWithContext(ctx)
				}()
				<-c.HasSyncedChecker().Done()
				stop := c.start(c.cache)
				w.wantNames(c.cache, []string{"a/x"})
				stop()
				if c.IsStopped() {
					t.Error("the cache has stopped an informer that it does not run")
				}
				cancel()
				<-ended
			})
			w.server.Close()
		})
	}
}
