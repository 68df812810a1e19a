package informer_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// TestConformance checks the rules that hold in every mode of an informer.
func TestConformance(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.String(), func(t *testing.T) {
			switch m.kind {
			case "Pod":
				conform[*corev1.Pod](t, m)
			case "PartialObjectMetadata":
				conform[*metav1.PartialObjectMetadata](t, m)
			case "Unstructured":
				conform[*unstructured.Unstructured](t, m)
			case "slimPod":
				conform[*slimPod](t, m)
			}
		})
	}
}

// conform runs the suite. [follower] checks the rules that hold at each call of a handler; rig.end those that hold at the
// end of each test.
func conform[T labeled](t *testing.T, m mode) {
	for _, rule := range []struct {
		name string
		test func(*rig[T])
	}{
		{"R1R3_InitialSync", (*rig[T]).initialSync},
		{"R8R16_InitialSyncBroken", (*rig[T]).initialSyncBroken},
		{"H1H2H14C6_AddUpdateDelete", (*rig[T]).addUpdateDelete},
		{"H2_Scope", (*rig[T]).scope},
		{"H5_AnotherObjectOfThatName", (*rig[T]).anotherObject},
		{"H3H4H9_SlowHandler", (*rig[T]).slowHandler},
		{"H7H8_LateSubscription", (*rig[T]).lateSubscription},
		{"H10_Panic", (*rig[T]).panics},
		{"H11_Close", (*rig[T]).closes},
		{"H12_Filter", (*rig[T]).filter},
		{"H13_Resync", (*rig[T]).resync},
		{"H2_Changes", (*rig[T]).changes},
		{"R7R15_WatchEnds", (*rig[T]).watchEnds},
		{"R8R12_ConnectionLost", (*rig[T]).connectionLost},
		{"R9R19H14_RelistFindsNothing", (*rig[T]).relistFindsNothing},
		{"R9R19H5H6C10_RelistFindsChanges", (*rig[T]).relistFindsChanges},
		{"R14_AbsentAndBack", (*rig[T]).absentAndBack},
		{"R17_CorruptObject", (*rig[T]).corruptObject},
		{"R20_Transform", (*rig[T]).transformFails},
		{"C1_SnapshotIsForEver", (*rig[T]).snapshotIsForEver},
		{"C3C4C5_IndexAddedLate", (*rig[T]).indexAddedLate},
		{"C9_Wait", (*rig[T]).wait},
		{"L1L2_EndsInTheFirstList", (*rig[T]).endsInTheFirstList},
	} {
		t.Run(rule.name, func(t *testing.T) {
			bubble(t, func(w world) { rule.test(newRig[T](w, m)) })
		})
	}
}

// mode is one way of using an informer.
type mode struct {
	kind       string // the type of the objects
	paged      bool   // paged LIST instead of a streaming list
	protobuf   bool   // instead of JSON
	namespaces bool   // two namespaces instead of all
	selector   bool   // by label and field
	transform  bool   // adds a label
	keep       bool   // KeepManagedFields
	share      bool   // Config.Share
	compact    bool   // Config.Compact
}

func (m mode) settings() []string {
	return []string{m.kind, fmt.Sprintf("paged=%t", m.paged), fmt.Sprintf("protobuf=%t", m.protobuf), fmt.Sprintf("namespaces=%t", m.namespaces),
		fmt.Sprintf("selector=%t", m.selector), fmt.Sprintf("transform=%t", m.transform), fmt.Sprintf("keep=%t", m.keep), fmt.Sprintf("share=%t", m.share), fmt.Sprintf("compact=%t", m.compact)}
}

// String returns the settings that are not the default: "Pod,paged,keep".
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
		for bits := range 1 << 8 {
			on := func(bit int) bool { return bits&(1<<bit) != 0 }
			m := mode{kind, on(0), on(1), on(2), on(3), on(4), on(5), on(6), on(7)}
			canProtobuf := kind == "Pod" || kind == "PartialObjectMetadata"
			if (canProtobuf || !m.protobuf) && !(m.share && m.compact) {
				all = append(all, m)
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
	world
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

func newRig[T labeled](w world, m mode) *rig[T] {
	r := &rig[T]{world: w, mode: m, config: quiet[T](), calls: map[string]int{}}
	r.resource.GroupVersionResource = podGVR
	if m.namespaces {
		r.resource.Namespaces = []string{"b", "a"}
		r.put("elsewhere", "x", "1")
	}
	if m.selector {
		r.resource.LabelSelector = "app in (in,too)"
		r.resource.FieldSelector = "spec.nodeName=n1"
		w.create(newPod("a", "out", "app=out", "v=1"))
		other := newPod("a", "othernode", "app=in", "v=1")
		other.Spec.NodeName = "n2"
		w.create(other)
	}
	r.config.PagedList, r.config.PageSize = m.paged, 2
	r.config.KeepManagedFields, r.config.Share, r.config.Compact = m.keep, m.share, m.compact
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
	client := r.client(func(c *rest.Config) {
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
		if s.State != informer.ReflectorWatching || !s.WatchOpen {
			r.Errorf("status %+v", s)
		}
	}
	if n := r.pods.Watchers(); n != len(r.inf.Status().Reflectors) {
		r.Errorf("%d watches", n)
	}
	before := r.inf.Store().List()
	r.stop()
	r.main.want()
	synctest.Wait()
	if n := r.pods.Watchers(); n != 0 { // L1
		r.Errorf("%d watches left", n)
	}
	r.put("a", "late", "1")
	<-time.After(time.Minute)
	r.main.want()
	if !slices.Equal(before, r.inf.Store().List()) {
		r.Error("the store has changed after the end")
	}
	if s := r.inf.Status(); s.Reflectors[0].State != informer.ReflectorIdle {
		r.Errorf("status %+v", s)
	}
}

func sameObjects[T informer.Object](has map[informer.Key]T, store *informer.Store[T]) bool {
	for obj := range store.All() {
		if has[informer.KeyOf(obj)] != obj {
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
	for pod := range r.pods.All() { // C8: in this order
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
		if got := slices.Collect(r.byV.LookupIn(snap, v)); len(got) == 0 || !slices.Equal(got, want) { // C5, C8
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
	obj := seenAs[T](pod, r.keep)
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
	return r.create(newPod(namespace, name, "app=in", "v="+v))
}

// missing makes changes while the informer cannot reach the server.
func (r *rig[T]) missing(changes func()) {
	<-time.After(10 * time.Second) // an empty watch that ends sooner counts as a failure
	r.server.Stop()
	synctest.Wait()
	changes()
	<-time.After(time.Minute)
	r.server.Start()
	<-time.After(2 * time.Minute)
	synctest.Wait()
}

// relist makes changes as missing does, but the server then no longer has their events.
func (r *rig[T]) relist(changes func()) {
	r.Helper()
	for _, s := range r.inf.Status().Reflectors {
		r.server.Inject(informertest.Fault{Namespace: s.Namespace, Match: notStreamed, Times: 1, Error: expired})
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
		n += s.Lists
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
	recorder[T]
	*rig[T]
	partial bool    // its subscription has a filter
	rv      string  // of the store at the last call
	before  func(T) // called first if not nil
}

// follow subscribes a new follower.
func (r *rig[T]) follow(config informer.SubscriptionConfig[T]) (*follower[T], *informer.Subscription) {
	f := &follower[T]{rig: r, partial: config.Filter != nil}
	return f, r.inf.SubscribeWith(f, config)
}

func (f *follower[T]) OnAdd(obj T, initial bool) {
	f.check(obj)
	f.given(obj)
	f.recorder.OnAdd(obj, initial)
}

func (f *follower[T]) OnUpdate(old, new T) {
	f.check(new)
	f.given(new)
	f.recorder.OnUpdate(old, new)
}

func (f *follower[T]) OnDelete(last T, final bool) {
	f.check(last)
	key := informer.KeyOf(last)
	if have, ok := f.inf.Store().Get(key); ok && have.GetUID() == last.GetUID() && !f.partial && !newer(have, last) { // H1
		f.Errorf("%v reported as deleted, but the store still has it", key)
	}
	f.recorder.OnDelete(last, final)
}

// given checks that the store has obj, or a newer version of it, when the handler receives obj.
func (f *follower[T]) given(obj T) {
	key := informer.KeyOf(obj)
	have, ok := f.inf.Store().Get(key)
	pod, there := f.pods.Get(key)
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

// The suite.

// The informer makes its first list as the mode says, in the format that suits T, and adds every object.
func (r *rig[T]) initialSync() {
	var lines []string
	for _, name := range []string{"1", "2", "3", "4", "5"} {
		r.put("a", name, name)
		r.put("b", name, name)
		lines = append(lines, fmt.Sprintf("add a/%s %[1]s initial=true", name), fmt.Sprintf("add b/%s %[1]s initial=true", name))
	}
	r.start()
	r.main.want(lines...)
	if s := r.inf.Status(); !s.Synced || s.Objects != 10 || !s.Handlers[0].Synced || s.ResourceVersion != r.server.ResourceVersion() {
		r.Errorf("status %+v", s)
	}
	if err := r.sub.WaitSynced(r.Context()); err != nil { // H8
		r.Error(err)
	}

	requests := map[string][]string{}
	for i, request := range r.server.Requests() {
		requests[request.Namespace] = append(requests[request.Namespace], r.requests()[i])
	}
	for _, s := range r.inf.Status().Reflectors {
		want := []string{streams}
		if r.paged {
			want = []string{"list resourceVersion=0 limit=2", fmt.Sprintf(watches, r.server.ResourceVersion())} // the server's cache does not page
		}
		if diff := gocmp.Diff(want, requests[s.Namespace]); diff != "" {
			r.Errorf("requests (-want +got):\n%s", diff)
		}
	}
	media := "application/json"
	if r.protobuf {
		media = "application/vnd.kubernetes.protobuf," + media
	}
	accept := []string{media}
	if r.kind == "PartialObjectMetadata" {
		as := func(kind string) string {
			suffix := ";as=" + kind + ";g=meta.k8s.io;v=v1"
			return strings.ReplaceAll(media, ",", suffix+",") + suffix
		}
		if accept = []string{as("PartialObjectMetadata")}; r.paged {
			accept = append(accept, as("PartialObjectMetadataList"))
		}
	}
	if diff := gocmp.Diff(accept, r.accepts()); diff != "" {
		r.Errorf("Accept (-want +got):\n%s", diff)
	}
	r.end()
}

// An incomplete list has no effect.
func (r *rig[T]) initialSyncBroken() {
	for _, name := range []string{"1", "2", "3"} {
		r.put("a", name, "1")
		r.put("b", name, "1")
	}
	broken := informertest.Fault{Verb: "watch", AfterEvents: 2, Drop: true}
	if r.paged {
		broken = informertest.Fault{Verb: "list", AfterBytes: 200, Drop: true}
	}
	remove := r.server.Inject(broken)
	r.begin()
	<-time.After(5 * time.Minute)
	r.main.want()
	for _, s := range r.inf.Status().Reflectors {
		if s.ResourceVersion != "" || s.LastError == nil || s.Failures < 5 || s.State != informer.ReflectorBackoff {
			r.Errorf("status %+v", s)
		}
	}
	if n := r.inf.Store().Len(); n != 0 {
		r.Errorf("%d objects", n)
	}
	short, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := r.sub.WaitSynced(short); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("WaitSynced: %v", err)
	}
	remove()
	<-time.After(time.Minute)
	r.main.want("add a/1 1 initial=true", "add a/2 1 initial=true", "add a/3 1 initial=true", "add b/1 1 initial=true", "add b/2 1 initial=true", "add b/3 1 initial=true")
	r.mu.Lock()
	clear(r.calls) // discarded lists were transformed too
	r.mu.Unlock()
	r.end()
}

func (r *rig[T]) addUpdateDelete() {
	r.startWith()
	r.put("a", "new", "1")
	r.main.want("add a/new 1 initial=false")
	r.relabel("b", "two", "2")
	r.main.want("update b/two 1->2")
	r.relabel("b", "two", "3")
	r.put("b", "newer", "1")
	r.relabel("a", "new", "2")
	r.main.want("update b/two 2->3", "add b/newer 1 initial=false", "update a/new 1->2")
	r.delete("a", "one")
	r.main.want("delete a/one 1 final=true")
	r.delete("b", "two")
	r.main.want("delete b/two 3 final=true")
	r.end()
}

// An object that enters the scope is added, one that leaves it is deleted, and others cause no events.
func (r *rig[T]) scope() {
	r.startWith()
	told := func(selected, all string) { // events with a selector, and without
		r.Helper()
		switch {
		case !r.selector:
			r.main.want(all)
		case selected == "":
			r.main.want()
		default:
			r.main.want(selected)
		}
	}
	r.create(newPod("a", "new", "app=out", "v=1"))
	told("", "add a/new 1 initial=false")
	r.label("a", "new", "app", "too")
	told("add a/new 1 initial=false", "update a/new 1->1")
	r.label("a", "one", "app", "out")
	told("delete a/one 1 final=true", "update a/one 1->1")
	r.relabel("a", "one", "2")
	told("", "update a/one 1->2")
	r.label("a", "one", "app", "in")
	told("add a/one 2 initial=false", "update a/one 2->2")
	var elsewhere []string
	if !r.namespaces {
		elsewhere = []string{"add elsewhere/y 1 initial=false", "update elsewhere/y 1->2", "delete elsewhere/y 2 final=true"}
	}
	r.put("elsewhere", "y", "1")
	synctest.Wait()
	r.relabel("elsewhere", "y", "2")
	synctest.Wait()
	r.delete("elsewhere", "y")
	r.main.want(elsewhere...)
	r.end()
}

// An object recreated under its name is reported as a deletion and an addition, even if the informer missed the deletion.
func (r *rig[T]) anotherObject() {
	r.startWith()
	replace := func(namespace, name, v string) {
		r.delete(namespace, name)
		r.put(namespace, name, v)
	}
	replace("a", "one", "2")
	r.main.want("delete a/one 1 final=true", "add a/one 2 initial=false")
	r.missing(func() { replace("a", "one", "3"); replace("b", "two", "2") })
	r.main.want("delete a/one 2 final=true", "add a/one 3 initial=false", "delete b/two 1 final=true", "add b/two 2 initial=false")
	r.relist(func() { replace("a", "one", "4"); replace("b", "two", "3"); replace("b", "two", "4") })
	r.main.want("delete a/one 3 final=false", "add a/one 4 initial=false", "delete b/two 2 final=false", "add b/two 4 initial=false")
	r.end()
}

// A slow handler delays no other. It receives one folded change per key; with DeliverEvery, every change.
func (r *rig[T]) slowHandler() {
	r.startWith()
	blocked := make(chan struct{})
	folded, foldedSub := r.follow(informer.SubscriptionConfig[T]{})
	every, _ := r.follow(informer.SubscriptionConfig[T]{Delivery: informer.DeliverEvery(0)})
	initial := []string{"add a/one 1 initial=true", "add b/two 1 initial=true"}
	folded.want(initial...)
	every.want(initial...)
	folded.before = func(T) { <-blocked }
	every.before = folded.before
	r.relabel("b", "two", "2")
	r.main.want("update b/two 1->2")
	r.relabel("a", "one", "2")
	r.main.want("update a/one 1->2")
	r.relabel("a", "one", "3")
	r.main.want("update a/one 2->3")
	r.put("a", "gone", "1")
	r.main.want("add a/gone 1 initial=false")
	r.delete("a", "gone")
	r.main.want("delete a/gone 1 final=true")
	r.put("a", "new", "1")
	r.main.want("add a/new 1 initial=false")
	if s := foldedSub.Status(); s.Backlog != 2 {
		r.Errorf("status %+v", s)
	}
	close(blocked)
	folded.want("update b/two 1->2", "update a/one 1->3", "add a/new 1 initial=false")
	every.want("update b/two 1->2", "update a/one 1->2", "update a/one 2->3", "add a/gone 1 initial=false", "delete a/gone 1 final=true", "add a/new 1 initial=false")
	r.end()
}

func (r *rig[T]) lateSubscription() {
	r.startWith()
	blocked := make(chan struct{})
	late := &follower[T]{rig: r, before: func(T) { <-blocked }}
	sub := r.inf.Subscribe(late)
	r.relabel("b", "two", "2")
	r.put("a", "new", "1")
	short, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	if err := sub.WaitSynced(short); !errors.Is(err, context.DeadlineExceeded) || sub.Status().Synced { // H8
		r.Errorf("WaitSynced while the handler still runs: %v", err)
	}
	close(blocked)
	if err := sub.WaitSynced(r.Context()); err != nil || len(late.Told()) < 2 {
		r.Errorf("WaitSynced: %v, got %q", err, late.Told())
	}
	late.want("add a/one 1 initial=true", "add b/two 2 initial=true", "add a/new 1 initial=false")
	r.main.want("update b/two 1->2", "add a/new 1 initial=false")

	// While changes arrive, subscribers miss none and receive none twice. The followers check that.
	deliveries := []informer.Delivery{{}, informer.DeliverEvery(0)}
	var followers []*follower[T]
	for i := range 20 {
		r.put("ab"[i%2:][:1], fmt.Sprint(i), "1")
		f, _ := r.follow(informer.SubscriptionConfig[T]{Delivery: deliveries[i/2%2]})
		followers = append(followers, f)
		r.relabel("a", "one", fmt.Sprint(i))
		if i%3 == 0 {
			runtime.Gosched()
		}
	}
	synctest.Wait()
	for i, f := range followers {
		if !sameObjects(f.Has(), r.inf.Store()) {
			r.Errorf("follower %d has other objects than the store", i)
		}
	}
	r.main.Take()
	r.end()
}

func (r *rig[T]) panics() {
	r.put("a", "one", "1")
	r.put("b", "two", "1")
	r.begin()
	var values []any
	f := &follower[T]{rig: r}
	sub := r.inf.SubscribeWith(informer.HandlerFuncs[T]{
		Add:    func(obj T, initial bool) { f.OnAdd(obj, initial); panic("add") },
		Update: func(old, new T) { f.OnUpdate(old, new); panic("update") },
		Delete: func(last T, final bool) { f.OnDelete(last, final); panic("delete") },
	}, informer.SubscriptionConfig[T]{OnPanic: func(value any) { values = append(values, value) }})
	if err := sub.WaitSynced(r.Context()); err != nil {
		r.Error(err)
	}
	f.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	r.relabel("a", "one", "2")
	synctest.Wait()
	r.delete("a", "one")
	f.want("update a/one 1->2", "delete a/one 2 final=true")
	r.main.want("add a/one 1 initial=true", "add b/two 1 initial=true", "update a/one 1->2", "delete a/one 2 final=true")
	if !slices.Equal(values, []any{"add", "add", "update", "delete"}) {
		r.Errorf("panics %v", values)
	}
	r.end()
}

func (r *rig[T]) closes() {
	r.startWith()
	var self *informer.Subscription
	ready := make(chan struct{})
	calls := 0
	self = r.inf.Subscribe(informer.HandlerFuncs[T]{Add: func(T, bool) { <-ready; calls++; self.Close() }})
	other, otherSub := r.follow(informer.SubscriptionConfig[T]{})
	other.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	close(ready)
	<-self.Done()
	r.relabel("a", "one", "2")
	synctest.Wait()
	otherSub.Close()
	r.relabel("a", "one", "3")
	other.want("update a/one 1->2")
	r.main.want("update a/one 1->2", "update a/one 2->3")
	if n := len(r.inf.Status().Handlers); calls != 1 || n != 1 || !errors.Is(self.Err(), informer.ErrClosed) {
		r.Errorf("%d calls of a handler that closed itself, %d handlers left, %v", calls, n, self.Err())
	}
	r.end()
}

func (r *rig[T]) filter() {
	r.startWith()
	many := informer.SubscriptionConfig[T]{Filter: func(obj T) bool { return obj.GetLabels()["v"] > "1" }}
	f, sub := r.follow(many)
	if err := sub.WaitSynced(r.Context()); err != nil {
		r.Error(err)
	}
	f.want()
	for _, step := range []struct {
		v    string
		told []string
	}{
		{"2", []string{"add a/one 2 initial=false"}},
		{"3", []string{"update a/one 2->3"}},
		{"1", []string{"delete a/one 3 final=false"}},
		{"0", nil},
		{"4", []string{"add a/one 4 initial=false"}},
	} {
		r.relabel("a", "one", step.v)
		f.want(step.told...)
	}
	late, _ := r.follow(many)
	late.want("add a/one 4 initial=true")
	r.delete("b", "two")
	f.want()
	r.delete("a", "one")
	f.want("delete a/one 4 final=true")
	r.main.Take()
	r.end()
}

func (r *rig[T]) resync() {
	r.startWith()
	again, sub := r.follow(informer.SubscriptionConfig[T]{Resync: 10 * time.Minute})
	again.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	before := r.lists()
	<-time.After(11 * time.Minute)
	again.want("update a/one 1->1", "update b/two 1->1")
	r.relabel("a", "one", "2")
	again.want("update a/one 1->2")
	<-time.After(11 * time.Minute)
	again.want("update a/one 2->2", "update b/two 1->1")
	r.main.want("update a/one 1->2")
	sub.Close()
	<-time.After(time.Hour)
	again.want()
	if r.lists() != before {
		r.Error("a resync asked the server")
	}
	r.end()
}

// Changes yields the events that a handler receives.
func (r *rig[T]) changes() {
	r.startWith()
	ctx, cancel := context.WithCancel(r.Context())
	f := &follower[T]{rig: r}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range r.inf.Changes(ctx) {
			switch e.Type {
			case informer.Added:
				f.OnAdd(e.Object, e.Initial)
			case informer.Updated:
				f.OnUpdate(e.Old, e.Object)
			case informer.Deleted:
				f.OnDelete(e.Object, e.Final)
			}
		}
	}()
	f.want("add a/one 1 initial=true", "add b/two 1 initial=true")
	r.relabel("b", "two", "2")
	r.put("b", "new", "1")
	synctest.Wait()
	r.delete("b", "new")
	r.relist(func() { r.delete("a", "one") })
	want := []string{"update b/two 1->2", "add b/new 1 initial=false", "delete b/new 1 final=true", "delete a/one 1 final=false"}
	f.want(want...)
	r.main.want(want...)
	cancel()
	<-ended
	r.end()
}

// A watch that ends normally is reopened at the resource version of the last bookmark.
func (r *rig[T]) watchEnds() {
	others := informertest.Register[*corev1.ConfigMap](r.server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
	r.startWith()
	before := r.lists()
	for i := range 3 {
		if _, err := others.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprint(i)}}); err != nil {
			r.Fatal(err)
		}
		<-time.After(2 * time.Minute)
		for _, s := range r.inf.Status().Reflectors {
			if s.ResourceVersion != r.server.ResourceVersion() || s.Failures != 0 { // R15
				r.Errorf("at %s, the server is at %s: %+v", s.ResourceVersion, r.server.ResourceVersion(), s)
			}
		}
		r.main.want()
		r.server.ResetRequests()
		r.server.EndWatches()
		synctest.Wait()
		var want []string
		for range r.inf.Status().Reflectors {
			want = append(want, fmt.Sprintf(watches, r.server.ResourceVersion()))
		}
		r.wantRequests(want...)
		r.relabel("a", "one", fmt.Sprint(i+2))
		r.main.want(fmt.Sprintf("update a/one %d->%d", i+1, i+2))
	}
	if r.lists() != before {
		r.Error("listed again")
	}
	r.end()
}

// After any failure of the connection, the watch resumes where it was.
func (r *rig[T]) connectionLost() {
	r.startWith()
	before := r.lists()
	r.server.CloseConnections()
	r.relabel("a", "one", "2")
	<-time.After(time.Minute)
	r.main.want("update a/one 1->2")
	r.missing(func() {
		r.relabel("a", "one", "3")
		r.put("b", "new", "1")
		r.delete("b", "two")
	})
	r.main.want("update a/one 2->3", "add b/new 1 initial=false", "delete b/two 1 final=true")
	for i, fault := range []informertest.Fault{
		{Error: unavailable},
		{AfterHeaders: true, Drop: true},
		{AfterBytes: 20, Drop: true},
		{AfterBytes: 20, End: true},
		{AfterHeaders: true, Error: timedOut},
		{AfterHeaders: true, Error: internal},
	} {
		fault.Namespace, fault.Verb, fault.Times = r.inf.Status().Reflectors[0].Namespace, "watch", 1
		remove := r.server.Inject(fault)
		r.server.CloseConnections()
		<-time.After(10 * time.Second)
		r.relabel("b", "new", fmt.Sprint(i+2))
		<-time.After(3 * time.Minute)
		r.main.want(fmt.Sprintf("update b/new %d->%d", i+1, i+2))
		remove()
	}
	if r.lists() != before {
		r.Error("listed again")
	}
	r.end()
}

// spoiled returns an encoded object whose identity decodes and whose other content does not decode as any T.
func spoiled(object []byte) []byte {
	if bytes.HasPrefix(object, []byte("{")) { // an array with a number out of range, where a map is expected
		return bytes.Replace(object, []byte(`"metadata":{`), []byte(`"metadata":{"labels":[1e999],`), 1)
	}
	return append(bytes.Clone(object), 2<<3|2, 100) // a field that claims 100 bytes and has none
}

// spoil makes objects undecodable in all responses that begin before remove is called.
func (r *rig[T]) spoil(which func(informer.Key) bool) (remove func()) {
	return r.server.Inject(informertest.Fault{Rewrite: func(key informer.Key, object []byte) []byte {
		if key.Name == "" || !which(key) {
			return object
		}
		return spoiled(object)
	}})
}

// A relist does not decode unchanged objects, which could not be decoded here.
func (r *rig[T]) relistFindsNothing() {
	r.startWith()
	before := r.inf.Store().List()
	remove := r.spoil(func(informer.Key) bool { return true })
	r.relist(func() {})
	remove()
	r.wantDecodeErrors(0)
	r.main.want()
	if !slices.Equal(r.inf.Store().List(), before) {
		r.Error("the store has other objects")
	}
	r.end()
}

// A list applies all the changes it finds in one step.
func (r *rig[T]) relistFindsChanges() {
	for _, name := range []string{"changed", "gone", "replaced", "same"} {
		r.put("a", name, "1")
		r.put("b", name, "1")
	}
	r.start()
	r.main.Take()
	same, _ := r.inf.Store().Get(informer.Key{Namespace: "a", Name: "same"})
	calls := 0
	r.main.before = func(obj T) { // the store has exactly the new objects
		calls++
		count := 0
		for pod := range r.pods.All() {
			if !r.follows(pod) || r.namespaces && pod.Namespace != obj.GetNamespace() {
				continue
			}
			count++
			if have, ok := r.inf.Store().Get(informer.KeyOf(pod)); !ok || have.GetResourceVersion() != pod.ResourceVersion {
				r.Errorf("%v is not yet in the store", informer.KeyOf(pod))
			}
		}
		if n := len(slices.Collect(r.inf.Store().Namespace(obj.GetNamespace()))); r.namespaces && n != count || !r.namespaces && r.inf.Store().Len() != count {
			r.Errorf("the store has %d objects, the server %d", n, count)
		}
	}
	r.relist(func() {
		for _, ns := range []string{"a", "b"} {
			r.relabel(ns, "changed", "2")
			r.relabel(ns, "changed", "3")
			r.delete(ns, "gone")
			r.delete(ns, "replaced")
			r.put(ns, "replaced", "2")
			r.put(ns, "new", "1")
			r.put(ns, "unseen", "1")
			r.delete(ns, "unseen")
		}
	})
	r.main.before = nil
	r.main.want("update a/changed 1->3", "delete a/gone 1 final=false", "delete a/replaced 1 final=false", "add a/replaced 2 initial=false", "add a/new 1 initial=false",
		"update b/changed 1->3", "delete b/gone 1 final=false", "delete b/replaced 1 final=false", "add b/replaced 2 initial=false", "add b/new 1 initial=false")
	if again, _ := r.inf.Store().Get(informer.Key{Namespace: "a", Name: "same"}); again != same || calls != 10 {
		r.Errorf("the unchanged object was replaced; %d calls", calls)
	}
	r.end()
}

// A custom resource definition is removed and installed again.
func (r *rig[T]) absentAndBack() {
	r.startWith()
	r.pods.Unregister()
	<-time.After(5 * time.Minute)
	r.main.want("delete a/one 1 final=false", "delete b/two 1 final=false")
	for _, s := range r.inf.Status().Reflectors {
		if s.State != informer.ReflectorAbsent || s.ResourceVersion != "" || s.WatchOpen {
			r.Errorf("status %+v", s)
		}
	}
	if n := r.inf.Store().Len(); n != 0 {
		r.Errorf("%d objects of a resource that is not served", n)
	}
	r.pods = informertest.Register[*corev1.Pod](r.server, informertest.Resource{GroupVersionResource: podGVR})
	r.put("a", "one", "2")
	<-time.After(time.Minute)
	r.main.want("add a/one 2 initial=false")
	r.relabel("a", "one", "3")
	r.main.want("update a/one 2->3")
	r.end()
}

// An object that cannot be decoded delays no other, and its last good version stays.
func (r *rig[T]) corruptObject() {
	bad := informer.Key{Namespace: "a", Name: "bad"}
	isBad := func(key informer.Key) bool { return key == bad }
	again := func() { // reopen the watches, so that the fault applies, or no longer applies
		<-time.After(10 * time.Second)
		r.server.EndWatches()
		synctest.Wait()
	}
	remove := r.spoil(isBad)
	r.put("a", "bad", "1")
	r.put("a", "good", "1")
	r.put("b", "bad", "1")
	r.start()
	r.main.want("add a/good 1 initial=true", "add b/bad 1 initial=true")
	r.wantDecodeErrors(1, "a/bad")
	r.relabel("a", "bad", "2")
	r.relabel("a", "good", "2")
	r.main.want("update a/good 1->2")
	r.wantDecodeErrors(1, "a/bad")
	remove()
	again()
	r.relabel("a", "bad", "3")
	r.main.want("add a/bad 3 initial=false")
	r.wantDecodeErrors(0)

	remove = r.spoil(isBad)
	again()
	r.relabel("a", "bad", "4")
	r.main.want()
	r.wantDecodeErrors(1, "a/bad")
	r.relist(func() { r.relabel("a", "bad", "5"); r.put("a", "new", "1") })
	r.main.want("add a/new 1 initial=false")
	r.wantDecodeErrors(1, "a/bad")
	if obj, ok := r.inf.Store().Get(bad); !ok || informer.VersionOf(obj) != "3" {
		r.Errorf("stored %v", obj)
	}
	r.delete("a", "bad")
	r.main.want("delete a/bad 3 final=false")
	r.wantDecodeErrors(0, "a/bad")
	remove()
	r.end()
}

// An object that the transform rejects counts as one that cannot be decoded, in a list and in an event.
func (r *rig[T]) transformFails() {
	transform := r.config.Transform
	r.config.Transform = func(obj T) (T, error) {
		switch {
		case obj.GetLabels()["v"] == "bad":
			return *new(T), errors.New("bad")
		case transform == nil:
			return obj, nil
		}
		return transform(obj)
	}
	r.put("a", "one", "1")
	r.put("b", "two", "bad")
	r.start()
	r.main.want("add a/one 1 initial=true")
	r.wantDecodeErrors(1, "b/two")
	r.relabel("a", "one", "bad")
	r.put("a", "new", "bad")
	r.main.want()
	r.wantDecodeErrors(3, "a/new", "a/one")
	r.relist(func() { r.put("b", "new", "1") })
	r.main.want("add b/new 1 initial=false")
	r.wantDecodeErrors(3, "a/new", "a/one", "b/two")
	r.relabel("a", "one", "2")
	r.relabel("b", "two", "2")
	r.delete("a", "new")
	r.main.want("update a/one 1->2", "add b/two 2 initial=false")
	r.wantDecodeErrors(0, "a/new")
	r.end()
}

func (r *rig[T]) snapshotIsForEver() {
	var added []string
	for i := range 20 {
		name := fmt.Sprintf("p%02d", i)
		v := fmt.Sprint(i % 3)
		r.put("ab"[i%2:][:1], name, v)
		added = append(added, name)
	}
	r.start()
	snap := r.inf.Store().Snapshot()
	describe := func() (lines []string) {
		for obj := range snap.All() {
			lines = append(lines, fmt.Sprint(informer.KeyOf(obj), obj.GetResourceVersion(), obj.GetLabels()))
			if got, ok := snap.Get(informer.KeyOf(obj)); !ok || got != obj {
				r.Errorf("Get of %v returns another object than All", informer.KeyOf(obj))
			}
		}
		for _, v := range slices.Sorted(r.byV.KeysIn(snap)) {
			for obj := range r.byV.LookupIn(snap, v) {
				lines = append(lines, fmt.Sprint(v, informer.KeyOf(obj)))
			}
		}
		return append(lines, snap.ResourceVersion(), fmt.Sprint(snap.Len()))
	}
	before := describe()
	for i, name := range added {
		ns := "ab"[i%2:][:1]
		switch i % 4 {
		case 0:
			r.relabel(ns, name, "9")
		case 1:
			r.delete(ns, name)
		case 2:
			r.put(ns, name+"x", "9")
		}
	}
	r.relist(func() { r.delete("a", added[0]); r.put("b", "new", "1") })
	informer.NewIndex(r.inf, func(obj T) []string { return []string{obj.GetName()} })
	if diff := gocmp.Diff(before, describe()); diff != "" {
		r.Errorf("a snapshot has changed (-before +after):\n%s", diff)
	}
	r.main.Take()
	r.end()
}

func (r *rig[T]) indexAddedLate() {
	r.startWith()
	r.put("a", "three", "1")
	r.relabel("b", "two", "2")
	synctest.Wait()
	calls := map[string]int{}
	late := informer.NewIndex(r.inf, func(obj T) []string {
		calls[obj.GetName()+"@"+obj.GetResourceVersion()]++
		v := obj.GetLabels()["v"]
		return []string{v, obj.GetNamespace(), v}
	})
	want := func(keys map[string]string) {
		r.Helper()
		synctest.Wait()
		got := map[string]string{}
		for key := range late.Keys() {
			var names []string
			for obj := range late.Lookup(key) {
				names = append(names, obj.GetName())
			}
			got[key] = strings.Join(names, " ")
			if n := late.Count(key); n != len(names) {
				r.Errorf("%d objects as %s, %d by Count", len(names), key, n)
			}
		}
		if diff := gocmp.Diff(keys, got); diff != "" {
			r.Errorf("index (-want +got):\n%s", diff)
		}
	}
	want(map[string]string{"a": "one three", "b": "two", "1": "one three", "2": "two"})
	r.relabel("b", "two", "3")
	r.delete("a", "three")
	want(map[string]string{"a": "one", "b": "two", "1": "one", "3": "two"})
	r.relist(func() { r.delete("b", "two"); r.relabel("a", "one", "4") })
	want(map[string]string{"a": "one", "4": "one"})
	for version, n := range calls {
		if n != 1 {
			r.Errorf("the index function was called %d times for %s", n, version)
		}
	}
	r.main.Take()
	r.end()
}

// A read after a wait returns the written object or a newer version. A wait for an object outside the scope ends too.
func (r *rig[T]) wait() {
	others := informertest.Register[*corev1.ConfigMap](r.server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
	r.startWith()
	ctx := r.Context()
	waitFor := func(obj *corev1.Pod) {
		r.Helper()
		began := time.Now()
		if err := r.inf.WaitForObject(ctx, obj); err != nil || time.Since(began) != 0 {
			r.Errorf("%v after %v", err, time.Since(began))
		}
		have, ok := r.inf.Store().Get(informer.KeyOf(obj))
		pod, there := r.pods.Get(informer.KeyOf(obj))
		if there && r.follows(pod) && !ok || ok && newer(obj, have) { // the store may still have an object deleted since
			r.Errorf("%v: in the store: %v, on the server: %v", informer.KeyOf(obj), ok, there)
		}
	}
	waitFor(r.put("a", "new", "1"))
	waitFor(r.relabel("b", "two", "2"))
	waitFor(r.put("elsewhere", "new", "1"))
	waitFor(r.create(newPod("a", "other", "app=out", "v=1")))
	gone := r.relabel("a", "new", "2")
	r.delete("a", "new")
	waitFor(gone)
	waitFor(r.put("a", "new", "3"))
	waitFor(gone)

	// The version of another resource's change, or of a change that only the server can place outside the scope, arrives by
	// bookmark.
	away := newPod("a", "away", "app=in", "v=1")
	away.Spec.NodeName = "n2"
	if err := r.inf.WaitForObject(ctx, r.create(away)); err != nil {
		r.Error(err)
	}
	if _, err := others.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "m"}}); err != nil {
		r.Fatal(err)
	}
	began := time.Now()
	if err := r.inf.WaitForResourceVersion(ctx, r.server.ResourceVersion()); err != nil || time.Since(began) > 2*time.Minute {
		r.Errorf("WaitForResourceVersion: %v after %v", err, time.Since(began))
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := r.inf.WaitForResourceVersion(short, "1000"); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("WaitForResourceVersion of a future version: %v", err)
	}
	if err := r.inf.WaitForObject(short, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new", ResourceVersion: "1000", Labels: map[string]string{"app": "in"}}}); !errors.Is(err, context.DeadlineExceeded) {
		r.Errorf("WaitForObject of a future version: %v", err)
	}
	for _, rv := range []string{"", "0", "x", "01"} {
		if r.inf.WaitForResourceVersion(ctx, rv) == nil || r.inf.WaitForObject(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}) == nil {
			r.Errorf("waiting for version %q returned nil", rv)
		}
	}
	r.main.Take()
	r.end()
}

// Run can be stopped while the first list hangs.
func (r *rig[T]) endsInTheFirstList() {
	r.put("a", "one", "1")
	r.put("b", "two", "1")
	r.server.Inject(informertest.Fault{AfterBytes: 40, Hang: true})
	r.begin()
	synctest.Wait()
	if n := len(r.server.Requests()); n != len(r.inf.Status().Reflectors) {
		r.Errorf("%d requests", n)
	}
	r.stop()
	if err := r.inf.WaitSynced(r.Context()); !errors.Is(err, informer.ErrStopped) {
		r.Errorf("WaitSynced: %v", err)
	}
	if err := r.sub.WaitSynced(r.Context()); !errors.Is(err, informer.ErrStopped) {
		r.Errorf("WaitSynced of the subscription: %v", err)
	}
	synctest.Wait()
	if n := r.pods.Watchers(); n != 0 {
		r.Errorf("%d watches left", n)
	}
	r.main.want()
}
