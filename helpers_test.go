package informer_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/leak"
	"github.com/typedinformer/informer/internal/testkit"
	base "github.com/typedinformer/informer/internal/world"
)

func TestMain(m *testing.M) { leak.Main(m) }

// Short names for what internal/world and internal/testkit have.

type (
	recorder[T informer.Object] = testkit.Recorder[T]
	answer                      = base.Answer
	ignoresNamespace            = base.IgnoresNamespace
	slimPod                     = base.SlimPod
	anyObject                   = base.AnyObject
	roundTripper                = base.RoundTripper
)

// world is a server with pods, and a test's actions on them.
type world struct {
	base.World
	server *informertest.Server
}

func newWorld(t *testing.T, options informertest.Options) world { return worldOf(base.New(t, options)) }

func worldOf(w base.World) world { return world{w, w.Server} }

func bubble(t *testing.T, test func(w world)) {
	t.Helper()
	base.Bubble(t, func(w base.World) { test(worldOf(w)) })
}

func bubbleWith(t *testing.T, options informertest.Options, test func(w world)) {
	t.Helper()
	base.BubbleWith(t, options, func(w base.World) { test(worldOf(w)) })
}

type modeTest = func(w world, client *informer.Client, config informer.Config[*corev1.Pod])

func forEachMode(t *testing.T, test modeTest) {
	t.Helper()
	forEachModeWith(t, informertest.Options{}, test)
}

func forEachModeWith(t *testing.T, options informertest.Options, test modeTest) {
	t.Helper()
	base.ForEachModeWith(t, options, func(w base.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		test(worldOf(w), client, config)
	})
}

func (w world) client(change ...func(*rest.Config)) *informer.Client { return w.Client(change...) }

func (w world) create(pods ...*corev1.Pod) (created *corev1.Pod) { return w.Create(pods...) }

func (w world) relabel(namespace, name, value string) *corev1.Pod {
	return w.Relabel(namespace, name, value)
}

func (w world) delete(namespace, name string) { w.Delete(namespace, name) }

func (w world) requests() []string { return w.Requests() }

func (w world) wantRequests(want ...string) { w.Helper(); w.WantRequests(want...) }

func (w world) answer(do answer) { w.Answer(do) }

func (w world) podInformer(config informer.Config[*corev1.Pod]) (*informer.Informer[*corev1.Pod], *recorder[*corev1.Pod]) {
	return w.PodInformer(config)
}

func equalsServer(w world, inf *informer.Informer[*corev1.Pod]) {
	w.Helper()
	base.EqualsServer(w.World, inf)
}

func quiet[T informer.Object]() informer.Config[T] { return base.Quiet[T]() }

func deepConfig[T informer.Object]() informer.Config[T] { return base.Paged[T]() }

func start[T informer.Object](t *testing.T, inf *informer.Informer[T]) (stop func()) {
	t.Helper()
	return base.Start(t, inf)
}

func names[T informer.Object](list []T) string { return base.Names(list) }

func asksToStream(r *http.Request) bool { return base.AsksToStream(r) }

func asksToWatch(r *http.Request) bool { return base.AsksToWatch(r) }

func notStreamed(r informertest.Request) bool { return base.NotStreamed(r) }

const (
	mediaTypeJSON = base.JSONType
	protobufType  = base.ProtobufType
	streams       = base.Streams
	listHead      = base.ListHead
	podHead       = base.PodHead
	frameHead     = base.FrameHead
	protoHead     = base.ProtoHead
)

var (
	podGVR, nodeGVR, gadgetGVR = base.PodGVR, base.NodeGVR, base.GadgetGVR
	keyA                       = base.KeyA
	newPod                     = base.NewPod
	durations                  = base.Durations
	added, updated             = base.Added, base.Updated
	held                       = base.Held

	expired, unavailable, internal = base.Expired, base.Unavailable, base.Internal
	throttled, forbidden, tooLarge = base.Throttled, base.Forbidden, base.TooLarge
	absent                         = base.Absent
)
