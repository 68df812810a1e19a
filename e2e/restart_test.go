package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"reflect"
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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
)

const (
	churnWorkers = 4
	churnObjects = 300
	lastName     = "zz-last" // written after all other writes
	// retryInterval is the time between two tries of a write while the server is away.
	retryInterval = 20 * time.Millisecond
)

// churn creates, updates and deletes the config maps of a namespace, and goes on when the server does not.
type churn struct {
	client    kubernetes.Interface
	namespace string
	workers   sync.WaitGroup
	stop      func() // ends the writes, and returns when the last one has got its answer
	stopped   <-chan struct{}

	mu     sync.Mutex        // protects the fields below
	acked  map[string]string // what the server has said was written: the name by resource version
	goal   int               // of acked, closes there
	there  chan struct{}     // closed when the goal is reached; nil when there is none
	failed int               // writes without a good answer
}

func startChurn(t *testing.T, namespace string, seed uint64) *churn {
	t.Helper()
	t.Logf("seed %d", seed)
	c := &churn{client: clientset(t, runtime.ContentTypeProtobuf), namespace: namespace, acked: map[string]string{}}
	// What is under way when the writes are to end is waited for: given up, it could still be done, and after the last.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*patience)
	stopped := make(chan struct{})
	c.stopped = stopped
	c.stop = sync.OnceFunc(func() {
		close(stopped)
		c.workers.Wait()
		cancel()
	})
	for worker := range churnWorkers {
		random := rand.New(rand.NewPCG(seed, uint64(worker)))
		c.workers.Go(func() { c.work(ctx, worker, random) })
	}
	t.Cleanup(c.stop)
	return c
}

// wait waits for n more writes.
func (c *churn) wait(t *testing.T, n int) {
	t.Helper()
	c.mu.Lock()
	there := make(chan struct{})
	c.goal, c.there = len(c.acked)+n, there
	c.mu.Unlock()
	select {
	case <-there:
	case <-within(t, patience).Done():
		t.Fatalf("no %d writes within %v", n, patience)
	}
}

func (c *churn) ack(cm *corev1.ConfigMap) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked[cm.ResourceVersion] = cm.Name
	if c.there != nil && len(c.acked) >= c.goal {
		close(c.there)
		c.there = nil
	}
}

// work writes to the objects of one worker, which knows what is there, unless a write has failed.
func (c *churn) work(ctx context.Context, worker int, random *rand.Rand) {
	configMaps := c.client.CoreV1().ConfigMaps(c.namespace)
	have := map[string]*corev1.ConfigMap{}
	retry := time.NewTicker(retryInterval)
	defer retry.Stop()
	for i := 0; !c.done(ctx); i++ {
		name := fmt.Sprintf("config-%d-%d", worker, random.IntN(churnObjects/churnWorkers))
		cm := have[name]
		var err error
		switch {
		case cm == nil:
			cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"n": fmt.Sprint(i)}}
			cm, err = configMaps.Create(ctx, cm, metav1.CreateOptions{})
		case random.IntN(5) > 0:
			cm = cm.DeepCopy()
			cm.Data["n"] = fmt.Sprint(i)
			cm, err = configMaps.Update(ctx, cm, metav1.UpdateOptions{})
		default:
			if err = configMaps.Delete(ctx, name, metav1.DeleteOptions{}); err == nil {
				delete(have, name)
				continue
			}
		}
		if err == nil {
			have[name] = cm
			c.ack(cm)
			continue
		}
		c.mu.Lock()
		c.failed++
		c.mu.Unlock()
		for !c.done(ctx) { // it may have been written all the same
			cm, err = configMaps.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				have[name] = cm
				break
			}
			if apierrors.IsNotFound(err) {
				delete(have, name)
				break
			}
			select {
			case <-retry.C:
			case <-c.stopped:
			case <-ctx.Done():
			}
		}
	}
}

func (c *churn) done(ctx context.Context) bool {
	select {
	case <-c.stopped:
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// history is a sink that notes each delta, where a store or a handler can fold some.
type history struct {
	last chan struct{} // closed when it has the last object

	mu     sync.Mutex // protects deltas
	deltas []informer.Delta[*corev1.ConfigMap]
}

func (h *history) Put(_ context.Context, d informer.Delta[*corev1.ConfigMap]) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deltas = append(h.deltas, d)
	if d.Type == informer.Upserted && d.Object.Name == lastName ||
		slices.ContainsFunc(d.Items, func(cm *corev1.ConfigMap) bool { return cm.Name == lastName }) {
		close(h.last)
	}
	return nil
}

// check checks that every write that was acknowledged is in the history, once and in order, but for those whose place
// a list has taken. It returns the number of lists.
func (h *history) check(t *testing.T, acked map[string]string) int {
	t.Helper()
	lists, at := 0, ""
	missing := maps.Clone(acked)
	for _, d := range h.deltas {
		switch version := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: d.ResourceVersion}}); {
		case d.Type == informer.Replaced || d.Type == informer.Bookmarked:
			if d.ResourceVersion != at && !newer(version, versionAt(at)) {
				t.Errorf("%s at %s came after %s", d.Type, d.ResourceVersion, at)
			}
		case !newer(version, versionAt(at)):
			t.Errorf("%s of %s at %s came after %s", d.Type, d.Object.Name, d.ResourceVersion, at)
		}
		switch d.Type {
		case informer.Replaced:
			lists++
			for rv := range missing { // those before are there, or not any more
				if !newer(versionAt(rv), versionAt(d.ResourceVersion)) && (at == "" || newer(versionAt(rv), versionAt(at))) {
					delete(missing, rv)
				}
			}
		case informer.Upserted:
			delete(missing, d.ResourceVersion)
		}
		at = d.ResourceVersion
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d writes never came, such as %v", len(missing), len(acked), slices.Sorted(maps.Keys(missing))[0])
	}
	return lists
}

func versionAt(rv string) informer.Versioned {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
}

// line is what connects followers to the server. A cut breaks the requests that are open; those that come then fail
// when the line is mended, so that nobody's backoff grows for as long as the cut lasts.
type line struct {
	mu     sync.Mutex      // protects the fields below
	whole  context.Context // ends with a cut
	cut    context.CancelFunc
	mended chan struct{} // closed when it is
}

var errCut = errors.New("the line is cut")

func newLine() *line {
	l := &line{mended: make(chan struct{})}
	l.whole, l.cut = context.WithCancel(context.Background())
	return l
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.mended)
	l.mended = make(chan struct{})
	l.whole, l.cut = context.WithCancel(context.Background())
}

// roundTripperFunc is a function as a transport.
type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func (l *line) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(req *http.Request) (*http.Response, error) {
		l.mu.Lock()
		whole, mended := l.whole, l.mended
		l.mu.Unlock()
		if whole.Err() != nil {
			select {
			case <-mended:
				return nil, errCut
			case <-req.Context().Done():
				return nil, context.Cause(req.Context())
			}
		}
		ctx, cancel := context.WithCancelCause(req.Context())
		context.AfterFunc(whole, func() { cancel(errCut) })
		return rt.RoundTrip(req.WithContext(ctx))
	})
}

// follower is one way to follow the churn.
type follower struct {
	name      string
	requests  *requests
	reflector func() informer.ReflectorStatus
	last      <-chan struct{}
	check     func(t *testing.T, want []*corev1.ConfigMap, acked map[string]string)
}

func followByInformer(t *testing.T, m mode, resource informer.Resource, l *line) follower {
	config := logged[*corev1.ConfigMap](t)
	config.PagedList = m.paged
	record := &requests{keepBodies: true}
	inf := informer.New(newClient(t, m.contentType, record, l.wrap), resource, config)
	told := newMirror[*corev1.ConfigMap]()
	last := told.wait(informer.Key{Namespace: resource.Namespaces[0], Name: lastName}, 0)
	inf.Subscribe(told)
	start(t, inf)
	return follower{
		name: "informer," + m.String(), requests: record, last: last,
		reflector: func() informer.ReflectorStatus { return inf.Status().Reflectors[0] },
		check: func(t *testing.T, want []*corev1.ConfigMap, _ map[string]string) {
			storeEquals(t, inf, want)
			told.mu.Lock()
			defer told.mu.Unlock()
			if got := sorted(slices.Collect(maps.Values(told.world))); !reflect.DeepEqual(got, want) {
				t.Errorf("the handler was told of something else (-server +handler):\n%s", diff(want, got))
			}
			if len(told.faults) > 0 {
				t.Errorf("of %v, these are wrong:\n%s", told.events, strings.Join(told.faults, "\n"))
			}
		},
	}
}

func followByReflector(t *testing.T, m mode, resource informer.Resource, l *line) follower {
	config := logged[*corev1.ConfigMap](t)
	config.PagedList = m.paged
	record := &requests{keepBodies: true}
	told := &history{last: make(chan struct{})}
	r, err := informer.NewReflector(newClient(t, m.contentType, record, l.wrap), resource, told, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return follower{
		name: "reflector," + m.String(), requests: record, last: told.last,
		reflector: r.Status,
		check: func(t *testing.T, _ []*corev1.ConfigMap, acked map[string]string) {
			told.mu.Lock()
			defer told.mu.Unlock()
			if lists := told.check(t, acked); lists != 1+expirations(record) {
				t.Errorf("the sink was given %d lists, and the server has refused to go on %d times", lists, expirations(record))
			}
		},
	}
}

// expirations returns how often the server has said 410, in whatever place.
func expirations(r *requests) int { return r.count("too old resource version") }

// carriesOn has informers and reflectors follow a stream of changes through disrupt, and checks that they carry on by
// themselves, that nothing is lost, and nothing told twice. relists is how many lists the disruption makes necessary,
// or -1 for as many as the server says. It returns the writes, which have ended.
func carriesOn(t *testing.T, relists int, disrupt func(writes *churn, l *line)) *churn {
	t.Helper()
	namespace := newNamespace(t)
	resource := informer.Resource{GroupVersionResource: configMapsResource, Namespaces: []string{namespace}}
	writes := startChurn(t, namespace, rand.Uint64())
	writes.wait(t, 100)
	l := newLine()
	var followers []follower
	for _, m := range modes {
		followers = append(followers, followByInformer(t, m, resource, l), followByReflector(t, m, resource, l))
	}
	writes.wait(t, 300)
	disrupt(writes, l)
	writes.wait(t, 300)
	writes.stop()
	configMaps := clientset(t, runtime.ContentTypeProtobuf).CoreV1().ConfigMaps(namespace)
	end := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: lastName}}
	end, err := configMaps.Create(within(t, patience), end, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	writes.ack(end)
	t.Logf("%d writes were answered, %d were not", len(writes.acked), writes.failed)

	deadline := within(t, patience)
	for _, f := range followers {
		t.Run(f.name, func(t *testing.T) {
			select {
			case <-f.last:
			case <-deadline.Done():
				t.Fatalf("it does not carry on: %+v", f.reflector())
			}
			contentType := runtime.ContentTypeJSON
			if strings.HasSuffix(f.name, "protobuf") {
				contentType = runtime.ContentTypeProtobuf
			}
			list, err := clientset(t, contentType).CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			f.check(t, sorted(pointers(list.Items)), writes.acked)

			// R8, R9: a failure costs a watch; a list is made only when the server does not have the changes any more.
			made, status := f.requests.all(), f.reflector()
			watches := slices.DeleteFunc(slices.Clone(made), func(r request) bool { return !r.watch() })
			asked := 0
			for _, r := range made {
				if r.watch() && !r.streamingList() {
					continue
				}
				asked++
				if rv := r.Query.Get("resourceVersion"); asked > 1 && (rv == "" || rv == "0") {
					t.Errorf("relist at resource version %q, want what was seen last", rv)
				}
			}
			if relists >= 0 && expirations(f.requests) != relists {
				t.Errorf("the server has refused to go on %d times, want %d", expirations(f.requests), relists)
			}
			if want := 1 + expirations(f.requests); status.Lists != want || asked != want {
				t.Errorf("status counts %d lists, %d were made, want %d:\n%v", status.Lists, asked, want, made)
			}
			if status.Watches != len(watches) || !status.WatchOpen || status.State != informer.ReflectorWatching {
				t.Errorf("status %+v; %d watches were made", status, len(watches))
			}
		})
	}
	return writes
}

// The server, once it is back, knows the changes since it began to read from etcd, which is before it takes any. It
// can all the same be that etcd had one more before the crash than the followers.
// Guarantees: R8
func TestCarriesOnAfterACrashOfTheAPIServer(t *testing.T) {
	writes := carriesOn(t, -1, func(*churn, *line) { restartAPIServer(t) })
	if writes.failed == 0 {
		t.Error("no write has failed: the server was not away")
	}
}

// The followers miss changes that nobody can tell them of any more.
// Guarantees: R9
func TestCarriesOnAfterACrashOfTheAPIServerOutOfSight(t *testing.T) {
	carriesOn(t, 1, func(writes *churn, l *line) {
		l.cut()
		writes.wait(t, 300)
		restartAPIServer(t)
		writes.wait(t, 100)
		l.mend()
	})
}

// The server has the changes still.
// Guarantees: R8
func TestCarriesOnAfterALostConnection(t *testing.T) {
	carriesOn(t, 0, func(writes *churn, l *line) {
		l.cut()
		writes.wait(t, 300)
		l.mend()
	})
}

// Guarantees: R8
func TestCarriesOnAfterACrashOfEtcd(t *testing.T) {
	writes := carriesOn(t, -1, func(*churn, *line) {
		if err := server.KillEtcd(); err != nil {
			t.Fatal(err)
		}
		if err := server.StartEtcd(within(t, patience)); err != nil {
			t.Fatal(err)
		}
	})
	if writes.failed == 0 {
		t.Error("no write has failed: etcd was not away")
	}
}

func restartAPIServer(t *testing.T) {
	t.Helper()
	if err := server.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if err := server.StartAPIServer(within(t, patience)); err != nil {
		t.Fatal(err)
	}
}

// A starting server knows no custom resources at first. It must not be believed: they are not gone.
func TestCustomResourcesStayThroughACrashOfTheAPIServer(t *testing.T) {
	const n, followers = 10, 8 // several, so that they come back at different moments of the start
	namespace := newNamespace(t)
	resource := schema.GroupVersionResource{Group: namespace + ".example.com", Version: "v1", Resource: "widgets"}
	if err := cluster.InstallCRD(within(t, patience), server.Config(), cluster.NewCRD(resource, "Widget")); err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	create := func(i int) *unstructured.Unstructured {
		t.Helper()
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"i": int64(i)}}}
		obj.SetGroupVersionKind(resource.GroupVersion().WithKind("Widget"))
		obj.SetName(fmt.Sprintf("widget-%03d", i))
		obj, err := client.Resource(resource).Namespace(namespace).Create(within(t, patience), obj, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return bare(obj)
	}
	var want []*unstructured.Unstructured
	for i := range n {
		want = append(want, create(i))
	}
	var informers []*informer.Informer[*unstructured.Unstructured]
	var told []events[*unstructured.Unstructured]
	for i := range followers {
		config := logged[*unstructured.Unstructured](t)
		config.PagedList = i%2 == 1
		inf := informer.New(newClient(t, "", nil), informer.Resource{GroupVersionResource: resource}, config)
		events := newEvents[*unstructured.Unstructured]()
		inf.Subscribe(events)
		start(t, inf)
		for _, obj := range want {
			events.want(t, informer.Event[*unstructured.Unstructured]{Type: informer.Added, Object: obj, Initial: true})
		}
		informers, told = append(informers, inf), append(told, events)
	}
	restartAPIServer(t)
	after := create(n)
	for i, inf := range informers {
		told[i].want(t, informer.Event[*unstructured.Unstructured]{Type: informer.Added, Object: after})
		told[i].none(t)
		storeEquals(t, inf, append(want, after))
	}
}
