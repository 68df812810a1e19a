package conformance

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// mode is one way of using an informer.
type mode struct {
	kind       string // the type of the objects
	layout     informer.Layout
	paged      bool // paged LIST instead of a streaming list
	protobuf   bool // instead of JSON
	namespaces bool // two namespaces instead of all
	selector   bool // by label and field
	transform  bool // adds a label
	keep       bool // KeepManagedFields
}

func (m mode) settings() []string {
	return []string{m.kind, m.layout.String(), fmt.Sprintf("paged=%t", m.paged), fmt.Sprintf("protobuf=%t", m.protobuf), fmt.Sprintf("namespaces=%t", m.namespaces),
		fmt.Sprintf("selector=%t", m.selector), fmt.Sprintf("transform=%t", m.transform), fmt.Sprintf("keep=%t", m.keep)}
}

// String returns the kind, the layout, and the settings that are not the default: "Pod,Shared,paged,keep".
func (m mode) String() string {
	var names []string
	for _, s := range m.settings() {
		if name, value, _ := strings.Cut(s, "="); value != "false" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

var everyMode = flag.Bool("conformance.all", false, "run TestConformance in every mode, not only in enough modes to cover each pair of settings")

// modes returns enough modes to cover each pair of settings.
func modes() []mode {
	var all []mode
	for _, kind := range []string{"Pod", "PartialObjectMetadata", "Unstructured", "slimPod"} {
		for _, layout := range world.Layouts {
			for bits := range 1 << 6 {
				on := func(bit int) bool { return bits&(1<<bit) != 0 }
				m := mode{kind, layout, on(0), on(1), on(2), on(3), on(4), on(5)}
				if canProtobuf := kind == "Pod" || kind == "PartialObjectMetadata"; canProtobuf || !m.protobuf {
					all = append(all, m)
				}
			}
		}
	}
	if *everyMode {
		return all
	}
	var chosen []mode
	met := map[[2]string]bool{}
	for {
		var best mode
		var most [][2]string // pairs that are not covered yet
		for _, m := range all {
			var pairs [][2]string
			for i, a := range m.settings() {
				for _, b := range m.settings()[:i] {
					if pair := [2]string{a, b}; !met[pair] {
						pairs = append(pairs, pair)
					}
				}
			}
			if len(pairs) > len(most) {
				best, most = m, pairs
			}
		}
		if len(most) == 0 {
			return chosen
		}
		chosen = append(chosen, best)
		for _, pair := range most {
			met[pair] = true
		}
	}
}

// labeled is the constraint that the rig needs on T.
type labeled interface {
	informer.Object
	GetLabels() map[string]string
	SetLabels(map[string]string)
}

// rig is a server with pods and an informer of them in some mode. The informer follows the namespaces a and b. Each kind
// of place that it does not follow has one pod.
type rig[T labeled] struct {
	world.World
	mode
	resource informer.Resource
	config   informer.Config[T]
	inf      *informer.Informer[T]
	byV      *informer.Index[T, string] // by the label v, which each object has
	main     *follower[T]
	sub      *informer.Subscription
	stop     func()

	mu     sync.Mutex     // protects the fields below
	calls  map[string]int // calls of the transform, by key and version
	failed []string       // keys of objects that could not be decoded
}

func newRig[T labeled](w world.World, m mode) *rig[T] {
	r := &rig[T]{World: w, mode: m, config: world.Quiet[T](), calls: map[string]int{}}
	r.resource.GroupVersionResource = world.PodGVR
	if m.namespaces {
		r.resource.Namespaces = []string{"b", "a"}
		r.put("elsewhere", "x", "1")
	}
	if m.selector {
		r.resource.LabelSelector = "app in (in,too)"
		r.resource.FieldSelector = "spec.nodeName=n1"
		w.Create(world.NewPod("a", "out", "app=out", "v=1"))
		other := world.NewPod("a", "othernode", "app=in", "v=1")
		other.Spec.NodeName = "n2"
		w.Create(other)
	}
	r.config.PagedList, r.config.PageSize = m.paged, 2
	r.config.KeepManagedFields, r.config.Layout = m.keep, m.layout
	if m.transform {
		r.config.Transform = r.mark
	}
	r.config.OnDecodeError = func(err *informer.DecodeError) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = append(r.failed, err.Key.String())
		if !bytes.Contains(err.Raw, []byte(err.Key.Name)) || err.Resource.Resource != "pods" {
			w.Errorf("%+v", err)
		}
	}
	return r
}

// mark is a transform that adds a label.
func (r *rig[T]) mark(obj T) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls[informer.KeyOf(obj).String()+"@"+obj.GetResourceVersion()]++
	marked := obj.GetLabels()
	marked["transformed"] = "yes"
	obj.SetLabels(marked)
	return obj, nil
}

// start runs the informer until it has synced, with r.main subscribed before Run.
func (r *rig[T]) start() {
	r.Helper()
	r.begin()
	wait, cancel := context.WithTimeout(r.Context(), time.Minute)
	defer cancel()
	if err := r.inf.WaitSynced(wait); err != nil {
		r.Error(err)
	}
	synctest.Wait()
}

// begin is start without the wait for the sync.
func (r *rig[T]) begin() {
	client := r.Client(func(c *rest.Config) {
		if !r.protobuf {
			c.ContentType = "application/json"
		}
	})
	r.inf = informer.New(client, r.resource, r.config)
	r.byV = informer.NewIndex(r.inf, func(obj T) []string { return []string{obj.GetLabels()["v"]} })
	r.main, r.sub = r.follow(informer.SubscriptionConfig[T]{})
	ctx, cancel := context.WithCancel(r.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.inf.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		began := time.Now()
		if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(began) > time.Second { // L2
			r.Errorf("Run: %v after %v", err, time.Since(began))
		}
	})
	r.Cleanup(r.stop)
}

// startWith creates pods a/one and b/two, both v=1, and starts the informer.
func (r *rig[T]) startWith() {
	r.Helper()
	r.put("a", "one", "1")
	r.put("b", "two", "1")
	r.start()
	r.main.want("add a/one 1 initial=true", "add b/two 1 initial=true")
}

// end checks the final state after a while, and that a stopped informer leaves nothing behind.
func (r *rig[T]) end() {
	r.Helper()
	<-time.After(2 * time.Minute)
	r.equals()
	if !sameObjects(r.main.Has(), r.inf.Store()) {
		r.Error("the handler has other objects than the store")
	}
	r.mu.Lock()
	for version, n := range r.calls {
		if n != 1 { // R20
			r.Errorf("transformed %s %d times", version, n)
		}
	}
	r.mu.Unlock()
	for _, s := range r.inf.Status().Reflectors {
		if s.State != status.ReflectorWatching || !s.WatchOpen {
			r.Errorf("status %+v", s)
		}
	}
	if n := r.Pods.Watchers(); n != len(r.inf.Status().Reflectors) {
		r.Errorf("%d watches", n)
	}
	before := r.inf.Store().List()
	r.stop()
	r.main.want()
	synctest.Wait()
	if n := r.Pods.Watchers(); n != 0 { // L1
		r.Errorf("%d watches left", n)
	}
	r.put("a", "late", "1")
	<-time.After(time.Minute)
	r.main.want()
	if !slices.EqualFunc(before, r.inf.Store().List(), object.Same) {
		r.Error("the store has changed after the end")
	}
	if s := r.inf.Status(); s.Reflectors[0].State != status.ReflectorIdle {
		r.Errorf("status %+v", s)
	}
}

func sameObjects[T informer.Object](has map[informer.Key]T, store *informer.Store[T]) bool {
	for obj := range store.All() {
		if !object.Same(has[informer.KeyOf(obj)], obj) {
			return false
		}
	}
	return len(has) == store.Len()
}

// equals checks that the store has the server's objects in scope, in order, and that the index matches the store.
func (r *rig[T]) equals() {
	r.Helper()
	synctest.Wait()
	var want []T
	for pod := range r.Pods.All() { // C8: in this order
		if r.follows(pod) {
			want = append(want, r.seen(pod))
		}
	}
	snap := r.inf.Store().Snapshot()
	if got := slices.Collect(snap.All()); !reflect.DeepEqual(got, want) {
		r.Errorf("store differs from server (-server +store):\n%s", gocmp.Diff(want, got))
	}
	indexed := 0
	for v := range r.byV.KeysIn(snap) {
		var want []T
		for obj := range snap.All() {
			if obj.GetLabels()["v"] == v {
				want = append(want, obj)
			}
		}
		if got := slices.Collect(r.byV.LookupIn(snap, v)); len(got) == 0 || !slices.EqualFunc(got, want, object.Same) { // C5, C8
			r.Errorf("index has %v as %s, store has %v", got, v, want)
		}
		indexed += len(want)
	}
	if indexed != snap.Len() {
		r.Errorf("%d objects by index, %d in store", indexed, snap.Len())
	}
}

// follows reports whether a pod is in the informer's scope.
func (r *rig[T]) follows(pod *corev1.Pod) bool {
	return !(r.namespaces && pod.Namespace != "a" && pod.Namespace != "b") &&
		!(r.selector && (pod.Labels["app"] == "out" || pod.Spec.NodeName != "n1"))
}

// seen returns a pod of the server as the informer should have it.
func (r *rig[T]) seen(pod *corev1.Pod) T {
	obj := world.SeenAs[T](pod, r.keep)
	if r.transform {
		marked := obj.GetLabels()
		marked["transformed"] = "yes"
		obj.SetLabels(marked)
	}
	return obj
}

// put creates a pod that is in the informer's scope.
func (r *rig[T]) put(namespace, name, v string) *corev1.Pod {
	r.Helper()
	return r.Create(world.NewPod(namespace, name, "app=in", "v="+v))
}

// missing makes changes while the informer cannot reach the server.
func (r *rig[T]) missing(changes func()) {
	<-time.After(10 * time.Second) // an empty watch that ends sooner counts as a failure
	r.Server.Stop()
	synctest.Wait()
	changes()
	<-time.After(time.Minute)
	r.Server.Start()
	<-time.After(2 * time.Minute)
	synctest.Wait()
}

// relist makes changes as missing does, but the server then no longer has their events.
func (r *rig[T]) relist(changes func()) {
	r.Helper()
	for _, s := range r.inf.Status().Reflectors {
		r.Server.Inject(informertest.Fault{Namespace: s.Namespace, Match: world.NotStreamed, Times: 1, Error: world.Expired})
	}
	before := r.lists()
	r.missing(changes)
	if n := r.lists() - before; n < len(r.inf.Status().Reflectors) { // or more, with pages
		r.Errorf("%d lists to find the missed changes", n)
	}
}

// lists returns the number of list requests.
func (r *rig[T]) lists() (n int) {
	for _, s := range r.inf.Status().Reflectors {
		n += s.Traffic.Lists
	}
	return n
}

// wantDecodeErrors checks the keys reported to OnDecodeError and the number of stale objects.
func (r *rig[T]) wantDecodeErrors(stale int, failed ...string) {
	r.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.inf.Status().Reflectors {
		stale -= s.Stale
	}
	slices.Sort(r.failed)
	if stale != 0 || !slices.Equal(r.failed, failed) {
		r.Errorf("want %d more stale objects than Status counts; decode errors for %q, want %q", stale, r.failed, failed)
	}
	r.failed = nil
}

// follower is a recorder that also checks, at each call, the rules that hold for every call. The recorder checks H2.
type follower[T labeled] struct {
	testkit.Recorder[T]
	*rig[T]
	partial bool    // its subscription has a filter
	rv      string  // of the store at the last call
	before  func(T) // called first if not nil
}

// follow subscribes a new follower.
func (r *rig[T]) follow(config informer.SubscriptionConfig[T]) (*follower[T], *informer.Subscription) {
	f := &follower[T]{rig: r, partial: config.Filter != nil}
	return f, r.inf.Subscribe(f, config)
}

func (f *follower[T]) OnAdd(obj T, initial bool) {
	f.check(obj)
	f.given(obj)
	f.Recorder.OnAdd(obj, initial)
}

func (f *follower[T]) OnUpdate(old, new T) {
	f.check(new)
	f.given(new)
	f.Recorder.OnUpdate(old, new)
}

func (f *follower[T]) OnDelete(last T, final bool) {
	f.check(last)
	key := informer.KeyOf(last)
	if have, ok := f.inf.Store().Get(key); ok && have.GetUID() == last.GetUID() && !f.partial && !newer(have, last) { // H1
		f.Errorf("%v reported as deleted, but the store still has it", key)
	}
	f.Recorder.OnDelete(last, final)
}

// given checks that the store has obj, or a newer version of it, when the handler receives obj.
func (f *follower[T]) given(obj T) {
	key := informer.KeyOf(obj)
	have, ok := f.inf.Store().Get(key)
	pod, there := f.Pods.Get(key)
	if there = there && pod.UID == obj.GetUID() && f.follows(pod); there && !ok || ok && newer(obj, have) { // H1
		f.Errorf("the handler got %v, but the store does not have it", key)
	}
}

func newer(a, b informer.Versioned) bool {
	return newerRV(a.GetResourceVersion(), b.GetResourceVersion())
}

func newerRV(a, b string) bool { return len(a) > len(b) || len(a) == len(b) && a > b }

// check checks the rules C6 and C7, which hold for every snapshot.
func (f *follower[T]) check(obj T) {
	if f.before != nil {
		f.before(obj)
	}
	snap := f.inf.Store().Snapshot()
	indexed := 0
	for v := range f.byV.KeysIn(snap) {
		indexed += f.byV.CountIn(snap, v)
	}
	if indexed != snap.Len() {
		f.Errorf("%d objects by index, %d in store", indexed, snap.Len())
	}
	rv := snap.ResourceVersion()
	if rv != "" && newerRV(f.rv, rv) {
		f.Errorf("the resource version went from %s back to %s", rv, f.rv)
	}
	f.rv = rv
}

// want checks the events since the last call of want or Take, in order for each key.
func (f *follower[T]) want(lines ...string) {
	f.Helper()
	synctest.Wait()
	byKey := func(a, b string) int { return cmp.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) }
	told := f.Take()
	slices.SortStableFunc(told, byKey)
	slices.SortStableFunc(lines, byKey)
	if diff := gocmp.Diff(lines, told); diff != "" {
		f.Errorf("handler got (-want +got):\n%s", diff)
	}
}
