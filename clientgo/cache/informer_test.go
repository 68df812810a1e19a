package cache_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
)

func TestMain(m *testing.M) {
	// The second handler waits until some time after the last error: in a bubble, whose clock is decades behind, for decades.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	leak.Main(m)
}

// config returns the configuration of an informer of pods.
func config(w *world.World) cache.Config {
	w.Helper()
	return cache.Config{
		Client:   w.Client(),
		Resource: informer.Resource{GroupVersionResource: world.Pods},
		Object:   &corev1.Pod{},
		Indexers: clientcache.Indexers{"node": byNode},
	}
}

func byNode(obj any) ([]string, error) { return []string{obj.(*corev1.Pod).Spec.NodeName}, nil }

// create returns an informer that does not run.
func create(t *testing.T, config cache.Config) clientcache.SharedIndexInformer {
	t.Helper()
	i, err := cache.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// run runs i until the test ends, or until stop is called, and waits until it has synced.
func run(t *testing.T, i clientcache.SharedIndexInformer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.RunWithContext(ctx)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	wait(t, i.HasSyncedChecker())
	return stop
}

func add(t *testing.T, i clientcache.SharedIndexInformer,
	h clientcache.ResourceEventHandler) clientcache.ResourceEventHandlerRegistration {
	t.Helper()
	r, err := i.AddEventHandler(h)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// shutDown removes a handler and waits until its last call has returned, like ShutDownEventHandler of client-go 0.37.
func shutDown(i clientcache.SharedIndexInformer, r clientcache.ResourceEventHandlerRegistration) error {
	err := i.RemoveEventHandler(r)
	<-r.(interface{ ShutdownChan() <-chan struct{} }).ShutdownChan()
	return err
}

// wait waits for a checker.
func wait(t *testing.T, c clientcache.DoneChecker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !clientcache.WaitFor(ctx, "", c) {
		t.Fatalf("%s is not done", c.Name())
	}
}

// Settings before Run apply in any order: handlers, indexers, a transform. Tests may put objects into the indexer.
// Guarantees: P1
func TestBeforeRun(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	i := create(t, config(w))
	indexer := i.GetIndexer()
	if err := indexer.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "y"}}); err != nil {
		t.Fatal(err)
	}
	if _, exists, err := indexer.GetByKey("x/y"); !exists || err != nil {
		t.Errorf("the object that the test added: %t %v", exists, err)
	}
	if list, err := indexer.ByIndex("node", ""); len(list) != 1 || err != nil {
		t.Errorf("ByIndex: %v %v", list, err)
	}
	if i.HasSynced() || i.IsStopped() || i.LastSyncResourceVersion() != "" {
		t.Errorf("before Run: synced %t, stopped %t, version %q", i.HasSynced(), i.IsStopped(), i.LastSyncResourceVersion())
	}
	var first, removed world.Recorder
	r, gone := add(t, i, &first), add(t, i, &removed)
	if r.HasSynced() {
		t.Error("a handler has synced before Run")
	}
	if err := shutDown(i, gone); err != nil {
		t.Error(err)
	}
	if err := i.AddIndexers(clientcache.Indexers{"name": func(obj any) ([]string, error) {
		return []string{obj.(*corev1.Pod).Name}, nil
	}}); err != nil {
		t.Error(err)
	}
	if err := i.SetTransform(func(obj any) (any, error) {
		obj.(*corev1.Pod).Spec.NodeName = "changed"
		return obj, nil
	}); err != nil {
		t.Error(err)
	}
	run(t, i)
	wait(t, r.HasSyncedChecker())
	if !r.HasSynced() || !slices.Equal(first.Waiting(), []string{"initial a/one@2"}) {
		t.Errorf("events %q, synced %t", first.Waiting(), r.HasSynced())
	}
	if len(removed.Waiting()) > 0 {
		t.Errorf("events of a handler that was removed: %q", removed.Waiting())
	}
	if _, exists, err := indexer.GetByKey("x/y"); exists || err != nil {
		t.Errorf("the object that the test added, after Run: %t %v", exists, err)
	}
	if keys, err := indexer.IndexKeys("name", "one"); err != nil || !slices.Equal(keys, []string{"a/one"}) {
		t.Errorf("IndexKeys: %q %v", keys, err)
	}
	if list, err := indexer.ByIndex("node", "changed"); len(list) != 1 || err != nil {
		t.Errorf("ByIndex: %v %v", list, err)
	}
	if i.LastSyncResourceVersion() != "2" || indexer.LastStoreSyncResourceVersion() != "2" {
		t.Errorf("versions %q, %q", i.LastSyncResourceVersion(), indexer.LastStoreSyncResourceVersion())
	}
	if c := i.GetController(); !c.HasSynced() || c.LastSyncResourceVersion() != "2" {
		t.Errorf("controller: %t %q", c.HasSynced(), c.LastSyncResourceVersion())
	}
}

// While the informer runs, only it writes to its store, and settings that belong before Run return errors.
func TestWhileItRuns(t *testing.T) {
	w := world.New(t)
	pod := w.Pod("a", "one")
	i := create(t, config(w))
	run(t, i)
	store := i.GetStore()
	for what, err := range map[string]error{
		"Add":                  store.Add(pod),
		"Update":               store.Update(pod),
		"Delete":               store.Delete(pod),
		"Replace":              store.Replace(nil, "7"),
		"SetTransform":         i.SetTransform(nil),
		"SetWatchErrorHandler": i.SetWatchErrorHandler(nil),
		"AddIndexers":          i.AddIndexers(clientcache.Indexers{"node": byNode}),
	} {
		if err == nil {
			t.Errorf("%s returns no error", what)
		}
	}
	if err := store.Resync(); err != nil {
		t.Error(err)
	}
	if err := i.AddIndexers(clientcache.Indexers{"late": byNode}); err != nil {
		t.Error(err)
	}
	if list, err := i.GetIndexer().Index("late", pod); len(list) != 1 || err != nil {
		t.Errorf("Index: %v %v", list, err)
	}
	if values := i.GetIndexer().ListIndexFuncValues("late"); !slices.Equal(values, []string{"node-one"}) {
		t.Errorf("values %q", values)
	}
	again, cancel := context.WithCancel(t.Context())
	cancel()
	i.RunWithContext(again) // only warns
	if i.IsStopped() {
		t.Error("a second Run has stopped the informer")
	}
}

// Run returns when its context ends. The store stays readable. Handlers and indexers can no longer be added.
// Guarantees: P1
func TestStopped(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	i := create(t, config(w))
	r := add(t, i, &world.Recorder{})
	run(t, i)()
	if !i.IsStopped() || !i.HasSynced() || len(i.GetStore().List()) != 1 {
		t.Errorf("stopped %t, synced %t, %d objects", i.IsStopped(), i.HasSynced(), len(i.GetStore().List()))
	}
	if _, err := i.AddEventHandler(&world.Recorder{}); !errors.Is(err, informer.ErrStopped) {
		t.Errorf("AddEventHandler: %v", err)
	}
	if err := i.AddIndexers(clientcache.Indexers{"late": byNode}); !errors.Is(err, informer.ErrStopped) {
		t.Errorf("AddIndexers: %v", err)
	}
	if err := shutDown(i, r); err != nil {
		t.Error(err)
	}
}

// A handler receives each change in order, even if it is slow, and nothing once its removal is complete. A late handler
// begins with the objects of the store.
// Guarantees: P1
func TestHandlers(t *testing.T) {
	w := world.New(t)
	i := create(t, config(w))
	release := make(chan struct{})
	var slow, late world.Recorder
	r := add(t, i, clientcache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			<-release
			slow.OnAdd(obj, initial)
		},
		UpdateFunc: slow.OnUpdate,
		DeleteFunc: slow.OnDelete,
	})
	stop := run(t, i)
	w.Pod("a", "one")
	w.Relabel("a", "one", "x", "1")
	w.Relabel("a", "one", "x", "2")
	w.Delete("a", "one")
	w.Pod("a", "two")
	close(release)
	want := []string{"add a/one@2", "update a/one@2 to a/one@3", "update a/one@3 to a/one@4", "delete a/one@5", "add a/two@6"}
	if got := slow.Next(5); !slices.Equal(got, want) {
		t.Errorf("events %q", got)
	}
	lately := add(t, i, &late)
	wait(t, lately.HasSyncedChecker())
	if got := late.Next(1); got[0] != "initial a/two@6" {
		t.Errorf("events %q", got)
	}
	if err := shutDown(i, r); err != nil {
		t.Error(err)
	}
	w.Delete("a", "two")
	late.Next(1)
	if events := slow.Waiting(); len(events) > 0 {
		t.Errorf("events after the handler was removed: %q", events)
	}
	for range 2 {
		if err := i.RemoveEventHandler(r); err != nil {
			t.Errorf("remove a handler again: %v", err)
		}
	}
	other := create(t, config(w))
	if err := other.RemoveEventHandler(lately); err != nil {
		t.Errorf("remove a handler of another informer: %v", err)
	}
	if !lately.HasSynced() {
		t.Error("another informer has removed the handler")
	}
	if err := i.RemoveEventHandler(foreign{}); err == nil {
		t.Error("no error for a handle of another package")
	}
	if _, err := i.AddEventHandler(nil); err == nil {
		t.Error("no error for a nil handler")
	}
	stop()
}

// foreign is a handle of another package.
type foreign struct {
	clientcache.ResourceEventHandlerRegistration
}

// A deletion that the informer missed is a DeletedFinalStateUnknown. An object that was recreated meanwhile is deleted
// and added.
// Guarantees: P1
func TestMissedDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		w.Pod("a", "gone")
		w.Pod("a", "recreated")
		i := create(t, config(w))
		var events world.Recorder
		add(t, i, &events)
		stop := run(t, i)
		defer stop()
		events.Next(2)
		w.Server.Stop()
		w.Delete("a", "gone")
		w.Delete("a", "recreated")
		w.Pod("a", "recreated")
		w.Server.Compact()
		w.Server.Start()
		got := events.Next(3)
		slices.Sort(got)
		want := []string{"add a/recreated@6", "delete unknown a/gone: a/gone@2", "delete unknown a/recreated: a/recreated@3"}
		if !slices.Equal(got, want) {
			t.Errorf("events %q", got)
		}
	})
}

// The watch error handler receives each failure, and a reflector with a name.
// Guarantees: P1
func TestWatchErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := world.New(t)
		defer w.Server.Close()
		defer w.Server.Inject(informertest.Fault{Error: apierrors.NewInternalError(errors.New("broken")), Times: 1})()
		i := create(t, config(w))
		failures := make(chan string, 10)
		if err := i.SetWatchErrorHandler(func(r *clientcache.Reflector, err error) {
			clientcache.DefaultWatchErrorHandler(t.Context(), r, err)
			failures <- r.Name() + ", " + r.TypeDescription() + ": " + err.Error()
		}); err != nil {
			t.Fatal(err)
		}
		defer run(t, i)()
		if got := <-failures; !strings.HasPrefix(got, "v1 pods, *v1.Pod: ") {
			t.Errorf("failure %q", got)
		}
	})
}

// A handler that panics ends the program, unless utilruntime.ReallyCrash is false. Then the next events follow after a
// second, as in client-go.
// Guarantees: P1
func TestPanics(t *testing.T) {
	defer func(before bool) { utilruntime.ReallyCrash = before }(utilruntime.ReallyCrash)
	utilruntime.ReallyCrash = false
	defer func(before []func(context.Context, any)) { utilruntime.PanicHandlers = before }(utilruntime.PanicHandlers)
	values := make(chan any, 1)
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, value any) { values <- value }}
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("a", "two")
	i := create(t, config(w))
	var events world.Recorder
	var calls []time.Time
	r := add(t, i, clientcache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { calls = append(calls, time.Now()); panic("from the handler") },
		UpdateFunc: events.OnUpdate,
	})
	defer run(t, i)()
	for range 2 {
		if got := <-values; got != "from the handler" {
			t.Errorf("panic %v", got)
		}
	}
	wait(t, r.HasSyncedChecker())
	if pause := calls[1].Sub(calls[0]); pause < time.Second {
		t.Errorf("the second call came %v after the first one", pause)
	}
	w.Relabel("a", "one", "x", "y")
	events.Next(1)
}

// New rejects a configuration that no informer can have, and names what is wrong.
func TestWrongConfig(t *testing.T) {
	w := world.New(t)
	for name, c := range map[string]struct {
		change func(*cache.Config)
		want   string
	}{
		"NoClient":   {func(c *cache.Config) { c.Client = nil }, "client"},
		"NoObject":   {func(c *cache.Config) { c.Object = nil }, "Config.Object"},
		"List":       {func(c *cache.Config) { c.Object = &corev1.PodList{} }, "Config.Object"},
		"NoResource": {func(c *cache.Config) { c.Resource.Resource = "" }, "Resource.Resource"},
		"Selector":   {func(c *cache.Config) { c.Resource.LabelSelector = "=" }, "LabelSelector"},
		"PageSize":   {func(c *cache.Config) { c.PageSize = -1 }, "PageSize"},
		"NoLayout":   {func(c *cache.Config) { c.Options.Layout = new(informer.Layout(7)) }, "Layout is 7"},
	} {
		t.Run(name, func(t *testing.T) {
			config := config(w)
			c.change(&config)
			if _, err := cache.New(config); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// An informer that waits for its server stops at once when its context ends, and its handlers end.
func TestStopBeforeSync(t *testing.T) {
	w := world.New(t)
	w.Server.Stop()
	defer w.Server.Start()
	i := create(t, config(w))
	r := add(t, i, &world.Recorder{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	i.RunWithContext(ctx)
	if !i.IsStopped() || i.HasSynced() || r.HasSynced() {
		t.Errorf("stopped %t, synced %t, handler synced %t", i.IsStopped(), i.HasSynced(), r.HasSynced())
	}
}

// With Options.AuditEvery, an informer finds a change that its watch has lost, and handlers receive it.
// Guarantees: P1, R23
func TestAuditEvery(t *testing.T) {
	w := world.New(t)
	w.Pod("a", "one")
	w.Pod("a", "two")
	// A streaming list has two pods and a bookmark. The event after these is lost.
	end := w.Server.Inject(informertest.Fault{Verb: "watch", AfterEvents: 3, LoseEvents: 1})
	c := config(w)
	c.Options.AuditEvery = 100 * time.Millisecond
	i := create(t, c)
	var events world.Recorder
	failures := make(chan error, 10)
	if err := i.SetWatchErrorHandler(func(_ *clientcache.Reflector, err error) { failures <- err }); err != nil {
		t.Fatal(err)
	}
	r := add(t, i, &events)
	defer run(t, i)()
	wait(t, r.HasSyncedChecker())
	events.Next(2)
	w.Relabel("a", "one", "x", "lost")
	w.Relabel("a", "two", "x", "y")
	events.Next(1)
	end()
	events.Next(1)
	if item, _, err := i.GetStore().GetByKey("a/one"); err != nil || item.(*corev1.Pod).Labels["x"] != "lost" {
		t.Errorf("after the audit, the store has %v, %v", item, err)
	}
	var differs *informer.AuditError
	if err := <-failures; !errors.As(err, &differs) {
		t.Errorf("failure %v", err)
	}
	c.Options.AuditEvery = -1
	if _, err := cache.New(c); err == nil || !strings.Contains(err.Error(), "AuditEvery") {
		t.Errorf("a negative period: %v", err)
	}
}
