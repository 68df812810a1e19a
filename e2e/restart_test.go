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
	"github.com/typedinformer/informer/status"
)

const (
	churnWorkers = 4
	churnObjects = 300
	lastName     = "zz-last" // written after all other writes
	// retryInterval is the time between two attempts to write while the server is down.
	retryInterval = 20 * time.Millisecond
)

// churn creates, updates and deletes the config maps of a namespace, and continues when the server fails.
type churn struct {
	client    kubernetes.Interface
	namespace string
	workers   sync.WaitGroup
	stop      func() // ends the writes, and returns after the last response
	stopped   <-chan struct{}

	mu     sync.Mutex        // protects the fields below
	acked  map[string]string // acknowledged writes: the name by resource version
	goal   int               // length of acked at which there is closed
	there  chan struct{}     // closed when the goal is reached; nil if there is none
	failed int               // failed writes
}

func startChurn(t *testing.T, namespace string, seed uint64) *churn {
	t.Helper()
	t.Logf("seed %d", seed)
	c := &churn{client: clientset(t, runtime.ContentTypeProtobuf), namespace: namespace, acked: map[string]string{}}
	// Wait for requests under way at the end: a cancelled write could still succeed, after the last one.
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

// work writes to the objects of one worker, which knows their state unless a write fails.
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
		for !c.done(ctx) { // the write may have succeeded
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

// history is a sink that records each delta. A store or a handler may fold some.
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

// check checks that every acknowledged write is in the history, once and in order, except for writes that a list covers. It
// returns the number of lists.
func (h *history) check(t *testing.T, acked map[string]string) int {
	t.Helper()
	lists, latest := 0, ""
	missing := maps.Clone(acked)
	for _, d := range h.deltas {
		switch version := (&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: d.ResourceVersion}}); {
		case d.Type == informer.Replaced || d.Type == informer.Bookmarked:
			if d.ResourceVersion != latest && !newer(version, versionAt(latest)) {
				t.Errorf("%s at %s came after %s", d.Type, d.ResourceVersion, latest)
			}
		case !newer(version, versionAt(latest)):
			t.Errorf("%s of %s at %s came after %s", d.Type, d.Object.Name, d.ResourceVersion, latest)
		}
		switch d.Type {
		case informer.Replaced:
			lists++
			for rv := range missing { // covered by the list
				if !newer(versionAt(rv), versionAt(d.ResourceVersion)) && (latest == "" || newer(versionAt(rv), versionAt(latest))) {
					delete(missing, rv)
				}
			}
		case informer.Upserted:
			delete(missing, d.ResourceVersion)
		}
		latest = d.ResourceVersion
	}
	if len(missing) > 0 {
		t.Errorf("%d of %d writes never arrived, such as %v", len(missing), len(acked), slices.Sorted(maps.Keys(missing))[0])
	}
	return lists
}

func versionAt(rv string) informer.Versioned {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{ResourceVersion: rv}}
}

// line connects followers to the server. A cut breaks open requests. New requests fail only when the line is mended, so that no
// backoff grows during the cut.
type line struct {
	mu     sync.Mutex      // protects the fields below
	whole  context.Context // ends with a cut
	cut    context.CancelFunc
	mended chan struct{} // closed when the line is mended
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

// roundTripperFunc is a function that implements http.RoundTripper.
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

// follower is one way of following the churn.
type follower struct {
	name      string
	requests  *requests
	reflector func() status.Reflector
	last      <-chan struct{}
	check     func(t *testing.T, want []*corev1.ConfigMap, acked map[string]string)
}

func followByInformer(t *testing.T, m mode, resource informer.Resource, l *line) follower {
	config := configOf[*corev1.ConfigMap](t, m)
	record := &requests{keepBodies: true}
	inf := informer.New(newClient(t, m.contentType, record, l.wrap), resource, config)
	told := newMirror[*corev1.ConfigMap]()
	last := told.wait(informer.Key{Namespace: resource.Namespaces[0], Name: lastName}, 0)
	inf.Subscribe(told)
	start(t, inf)
	return follower{
		name: "informer," + m.String(), requests: record, last: last,
		reflector: func() status.Reflector { return inf.Status().Reflectors[0] },
		check: func(t *testing.T, want []*corev1.ConfigMap, _ map[string]string) {
			storeEquals(t, inf, want)
			told.mu.Lock()
			defer told.mu.Unlock()
			if got := sorted(slices.Collect(maps.Values(told.world))); !reflect.DeepEqual(got, want) {
				t.Errorf("the handler differs from the server (-server +handler):\n%s", diff(want, got))
			}
			if len(told.faults) > 0 {
				t.Errorf("faults in %v:\n%s", told.events, strings.Join(told.faults, "\n"))
			}
		},
	}
}

func followByReflector(t *testing.T, m mode, resource informer.Resource, l *line) follower {
	config := configOf[*corev1.ConfigMap](t, m)
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
				t.Errorf("the sink got %d lists, the server sent %d times 410 Expired", lists, expirations(record))
			}
		},
	}
}

// expirations returns the number of 410 Expired from the server, as a response or in a stream.
func expirations(r *requests) int { return r.count("too old resource version") }

// carriesOn makes informers and reflectors follow a stream of changes through disrupt. It checks that they recover by
// themselves, and that no change is lost or repeated. relists is the number of lists that the disruption requires, or -1 to
// take it from the server's responses. It returns the writes, which have ended.
func carriesOn(t *testing.T, relists int, disrupt func(writes *churn, l *line)) *churn {
	t.Helper()
	namespace := newNamespace(t)
	resource := informer.Resource{GroupVersionResource: configMapsResource, Namespaces: []string{namespace}}
	writes := startChurn(t, namespace, rand.Uint64())
	writes.wait(t, 100)
	l := newLine()
	var followers []follower
	for _, m := range modes {
		followers = append(followers, followByInformer(t, m, resource, l))
		if m.layout != informer.LayoutCompact { // a reflector cannot have it
			followers = append(followers, followByReflector(t, m, resource, l))
		}
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
	t.Logf("%d writes succeeded, %d failed", len(writes.acked), writes.failed)

	deadline := within(t, patience)
	for _, f := range followers {
		t.Run(f.name, func(t *testing.T) {
			select {
			case <-f.last:
			case <-deadline.Done():
				t.Fatalf("the follower did not recover: %+v", f.reflector())
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

			// R8, R9: a failure costs a watch. A list happens only if the server no longer has the changes.
			made, s := f.requests.all(), f.reflector()
			watches := slices.DeleteFunc(slices.Clone(made), func(r request) bool { return !r.watch() })
			asked := 0
			for _, r := range made {
				if r.watch() && !r.streamingList() || strings.Contains(r.Accept, "as=PartialObjectMetadataList") {
					continue // an audit asks for metadata: it comes when no watch was open for a minute
				}
				asked++
				if rv := r.Query.Get("resourceVersion"); asked > 1 && (rv == "" || rv == "0") {
					t.Errorf("relist at resource version %q, want the last one seen", rv)
				}
			}
			if relists >= 0 && expirations(f.requests) != relists {
				t.Errorf("the server sent %d times 410 Expired, want %d", expirations(f.requests), relists)
			}
			if want := 1 + expirations(f.requests); s.Traffic.Lists != want || asked != want {
				t.Errorf("status counts %d lists, %d were made, want %d:\n%v", s.Traffic.Lists, asked, want, made)
			}
			if s.Traffic.Watches != len(watches) || !s.WatchOpen || s.State != status.ReflectorWatching {
				t.Errorf("status %+v; %d watches were made", s, len(watches))
			}
		})
	}
	return writes
}

// A restarted server has the changes since it began to read from etcd, before it accepts requests. Yet etcd may have had one
// more change before the crash than the followers.
// Guarantees: R8
func TestCarriesOnAfterACrashOfTheAPIServer(t *testing.T) {
	writes := carriesOn(t, -1, func(*churn, *line) { restartAPIServer(t) })
	if writes.failed == 0 {
		t.Error("no write failed: the server was not down")
	}
}

// The followers miss changes that the server no longer has.
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

// The server still has the changes.
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
		t.Error("no write failed: etcd was not down")
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

// A starting server answers 404 for custom resources at first. Informers must not take them as deleted.
func TestCustomResourcesStayThroughACrashOfTheAPIServer(t *testing.T) {
	const n, followers = 10, 8 // several, so that they reconnect at different moments of the start
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
