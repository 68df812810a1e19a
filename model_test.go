package informer_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// A server and its network fail at random while a random kind of informer follows the server, and the informer's users
// come and go. In the end, all of them agree with the server.
// Guarantees: C1, C6, C7, H1, H2, H5, H7, H8, H11, H12, L1, R5, R6, R8, R9, R14, R17, R18, R23, D3
func TestUsersOfAnInformerWithAServerAgreeWithAMap(t *testing.T) {
	informer.EachSeed(t, informer.Rounds(100, 1000), func(m *informer.Model) {
		switch m.IntN(5) {
		case 0, 1:
			runModel(m, "Pod", func(p *corev1.Pod) (map[string]string, string) { return p.Labels, p.Spec.NodeName })
		case 2:
			runModel(m, "slimPod", func(p *world.SlimPod) (map[string]string, string) { return p.Metadata.Labels, p.Spec.NodeName })
		case 3:
			runModel(m, "Unstructured", func(u *unstructured.Unstructured) (map[string]string, string) {
				node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
				return u.GetLabels(), node
			})
		case 4:
			runModel(m, "PartialObjectMetadata", func(p *metav1.PartialObjectMetadata) (map[string]string, string) { return p.Labels, "" })
		}
	})
}

// podModel is the server of a model test, and the plain map that it is compared with.
type podModel[T informer.Object] struct {
	*informer.Users[T]
	server   *informertest.Server
	pods     *informertest.Collection[*corev1.Pod] // nil while the resource is not served
	other    *informertest.Collection[*corev1.ConfigMap]
	resource informer.Resource
	content  func(T) (labels map[string]string, node string)

	expected map[informer.Key]*corev1.Pod
	version  int                   // numbers contents, so that no two are equal
	spoilt   map[informer.Key]bool // could not be decoded at some time
	faults   []func()              // functions that end the faults
	ignored  atomic.Bool           // the server ignores the requested namespace
	backups  []backup
}

type backup struct {
	*informertest.Snapshot
	rv       int
	pods     *informertest.Collection[*corev1.Pod]
	expected map[informer.Key]*corev1.Pod
}

func runModel[T informer.Object](m *informer.Model, kind string, content func(T) (map[string]string, string)) {
	options := informertest.Options{InMemory: true}
	if m.IntN(2) == 0 {
		options.Window = 1 + m.IntN(30)
	}
	server := informertest.NewServer(options)
	defer server.Close()
	p := &podModel[T]{
		server:   server,
		other:    informertest.Register[*corev1.ConfigMap](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")}),
		resource: informer.Resource{GroupVersionResource: world.PodGVR},
		content:  content,
		expected: map[informer.Key]*corev1.Pod{},
		spoilt:   map[informer.Key]bool{},
	}
	p.Users = &informer.Users[T]{Model: m, View: p.view, Tags: p.tags}
	if m.IntN(8) > 0 {
		p.register()
	}
	restConfig := server.Config()
	restConfig.Timeout = time.Minute // ends a list that hangs
	restConfig.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return world.IgnoresNamespace{RoundTripper: next, Ignored: &p.ignored}
	})
	if m.IntN(2) == 0 {
		restConfig.ContentType = "application/json"
	}
	client, err := informer.NewClient(restConfig)
	if err != nil {
		m.Fatal(err)
	}
	switch m.IntN(4) {
	case 0:
		p.resource.Namespaces = []string{"a"}
	case 1:
		p.resource.Namespaces = []string{"b", "a"}
	}
	if m.IntN(3) == 0 {
		p.resource.LabelSelector = "app=x"
	}
	if m.IntN(4) == 0 {
		p.resource.FieldSelector = "spec.nodeName!=n0"
	}
	config := world.Quiet[T]()
	config.PagedList = m.IntN(2) == 0
	config.PageSize = []int{0, 1, 2, 3, 5, 7}[m.IntN(6)]
	config.AbsentIsSynced = m.IntN(2) == 0
	config.Layout = world.Layouts[m.IntN(3)]
	bad := m.IntN(4) == 0
	if bad {
		config.Transform = func(obj T) (T, error) {
			if labels, _ := content(obj); labels["bad"] != "" {
				return obj, errors.New("bad")
			}
			return obj, nil
		}
	}
	p.Informer = informer.New(client, p.resource, config)
	m.Step("informer of %s as %s: json=%v paged=%v page=%d absentIsSynced=%v layout=%s bad=%v window=%d", p.resource, kind, restConfig.ContentType != "",
		config.PagedList, config.PageSize, config.AbsentIsSynced, config.Layout, bad, options.Window)

	for range m.IntN(4) {
		p.Act()
	}
	for range m.IntN(40) {
		p.write(bad)
	}
	ctx, cancel := context.WithCancel(m.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- p.Informer.Run(ctx) }()

	for range 20 + m.IntN(60) {
		switch n := m.IntN(40); {
		case n < 14:
			p.write(bad)
		case n < 16:
			for range m.IntN(30) {
				p.write(bad)
			}
		case n < 20:
			p.Act()
		case n < 29:
			m.Pass([]time.Duration{time.Millisecond, 3 * time.Second, time.Minute, 15 * time.Minute}[m.IntN(4)])
		case n < 34:
			p.disturb()
		default:
			p.fault()
		}
		p.CheckVersions()
	}
	if m.IntN(5) > 0 { // otherwise stop without settling
		p.calm()
		if p.pods == nil {
			p.register()
		}
		p.catchUp()
		for _, key := range p.Stale() {
			pod := p.expected[key]
			if pod == nil || !p.spoilt[key] {
				p.Errorf("R17: %s is stale: exists %v, was ever undecodable %v", key, pod != nil, p.spoilt[key])
				continue
			}
			p.update(pod, false)
		}
		p.settle()
	}
	m.Step("stop")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		m.Errorf("Run: %v", err)
	}
	p.Stopped()
}

// view describes what T holds of a pod, and tags returns the pod's index keys.
func (p *podModel[T]) view(obj T) string {
	labels, node := p.content(obj)
	return fmt.Sprintf("%s@%s %s v=%s on %q", obj.GetUID(), obj.GetResourceVersion(), labels["app"], labels["v"], node)
}

func (p *podModel[T]) tags(obj T) []string {
	labels, node := p.content(obj)
	return []string{labels["app"], node, labels["tag"]}
}

// want returns the view of a pod of the server.
func (p *podModel[T]) want(pod *corev1.Pod) string {
	node := pod.Spec.NodeName
	if _, none := any(*new(T)).(*metav1.PartialObjectMetadata); none {
		node = ""
	}
	return fmt.Sprintf("%s@%s %s v=%s on %q", pod.UID, pod.ResourceVersion, pod.Labels["app"], pod.Labels["v"], node)
}

func (p *podModel[T]) wanted() map[informer.Key]string {
	wanted := map[informer.Key]string{}
	for key, pod := range p.expected {
		r := p.resource
		if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, key.Namespace) ||
			r.LabelSelector != "" && pod.Labels["app"] != "x" ||
			r.FieldSelector != "" && pod.Spec.NodeName == "n0" {
			continue
		}
		wanted[key] = p.want(pod)
	}
	return wanted
}

func (p *podModel[T]) register() {
	p.Step("register")
	p.bump() // earlier watches have ended
	p.pods = informertest.Register[*corev1.Pod](p.server, informertest.Resource{GroupVersionResource: world.PodGVR})
}

// bump writes to another resource.
func (p *podModel[T]) bump() {
	p.version++
	p.must(p.other.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: strconv.Itoa(p.version)}}))
}

func (p *podModel[T]) must(_ any, err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// write changes a random object.
func (p *podModel[T]) write(bad bool) {
	key := informer.Key{Namespace: string("abc"[p.IntN(3)]), Name: "pod-" + strconv.Itoa(p.IntN(10))}
	old := p.expected[key]
	switch n := p.IntN(10); {
	case n == 0 || p.pods == nil:
		p.bump()
	case old == nil:
		p.create(key)
	case n < 3:
		p.delete(key)
		if p.IntN(2) == 0 {
			p.create(key)
		}
	default:
		p.update(old, bad && p.IntN(10) == 0)
	}
}

func (p *podModel[T]) create(key informer.Key) {
	pod := world.NewPod(key.Namespace, key.Name)
	p.dress(pod)
	pod, err := p.pods.Create(pod)
	p.must(pod, err)
	p.expected[key] = pod
	p.Step("create %s %s", key, p.want(pod))
}

func (p *podModel[T]) dress(pod *corev1.Pod) {
	p.version++
	pod.Labels["v"] = strconv.Itoa(p.version)
	pod.Labels["app"] = string("xy"[p.IntN(2)])
	pod.Labels["tag"] = "tag" + strconv.Itoa(p.IntN(3))
	pod.Spec.NodeName = "n" + strconv.Itoa(p.IntN(3))
}

func (p *podModel[T]) update(pod *corev1.Pod, bad bool) {
	key := informer.KeyOf(pod)
	pod = pod.DeepCopy()
	p.dress(pod)
	delete(pod.Labels, "bad")
	if bad {
		pod.Labels["bad"] = "true"
		p.spoilt[key] = true
	}
	pod, err := p.pods.Update(pod)
	p.must(pod, err)
	p.expected[key] = pod
	p.Step("update %s %s bad=%v", key, p.want(pod), bad)
}

func (p *podModel[T]) delete(key informer.Key) {
	p.Step("delete %s", key)
	p.must(p.pods.Delete(key))
	delete(p.expected, key)
}

// disturb interferes with the whole server.
func (p *podModel[T]) disturb() {
	switch n := p.IntN(16); {
	case n < 2:
		p.Step("compact")
		p.server.Compact()
	case n < 4:
		p.Step("end watches")
		p.server.EndWatches()
	case n < 6:
		p.Step("close connections")
		p.server.CloseConnections()
	case n < 8:
		p.Step("stop server")
		p.server.Stop()
	case n < 11:
		p.Step("start server")
		p.server.Start()
	case n < 12 && p.pods != nil:
		for _, key := range slices.SortedFunc(maps.Keys(p.expected), func(a, b informer.Key) int { return strings.Compare(a.String(), b.String()) }) {
			p.delete(key)
		}
		p.Step("unregister")
		p.pods.Unregister()
		p.pods = nil
	case n < 13 && p.pods == nil:
		p.register()
	case n < 14:
		p.Step("back up")
		p.backups = append(p.backups, backup{p.server.Snapshot(), number(p.server.ResourceVersion()), p.pods, maps.Clone(p.expected)})
	case n < 16 && len(p.backups) > 0:
		p.restore(p.backups[p.IntN(len(p.backups))])
	}
}

// restore takes the server back in time. An informer that watches from a future version receives nothing until it queries
// the server, as with kube-apiserver. Once the server reaches the versions that the informer has seen, nothing shows that
// they differ, so relive stops before that.
func (p *podModel[T]) restore(b backup) {
	for range p.IntN(20) {
		p.write(false)
	}
	synctest.Wait()
	lowest := int(^uint(0) >> 1)
	for _, r := range p.Informer.Status().Reflectors {
		lowest = min(lowest, number(r.ResourceVersion))
	}
	if lowest <= b.rv {
		return // a reflector has not reached the backup
	}
	p.Step("restore %d, the informer is at %d or later", b.rv, lowest)
	p.GoBack(func() {
		p.calm()
		lost := slices.SortedFunc(maps.Values(p.expected), func(a, b *corev1.Pod) int {
			return cmp.Compare(number(a.ResourceVersion), number(b.ResourceVersion))
		})
		p.server.Restore(b.Snapshot)
		p.expected = map[informer.Key]*corev1.Pod{}
		if p.pods == b.pods {
			p.expected = maps.Clone(b.expected)
		}
		p.backups = slices.DeleteFunc(p.backups, func(other backup) bool { return other.rv > b.rv }) // the restore undid these
		p.relive(lost, lowest)
		p.Step("wait until the restored server is noticed")
		now := number(p.server.ResourceVersion())
		p.until("R6: the restored server is noticed and watched", func(r status.Reflector) bool {
			return number(r.ResourceVersion) <= now && (r.WatchOpen || p.pods == nil)
		})
	})
}

// relive writes to a restored server until it is almost at limit. Some versions of objects occur again with different
// content.
func (p *podModel[T]) relive(lost []*corev1.Pod, limit int) {
	for _, pod := range lost {
		now, rv := p.expected[informer.KeyOf(pod)], number(pod.ResourceVersion)
		if now == nil || now.UID != pod.UID || rv <= number(p.server.ResourceVersion()) || rv >= limit || p.IntN(3) == 0 {
			continue
		}
		for number(p.server.ResourceVersion()) < rv-1 {
			p.bump()
		}
		p.update(now, false)
	}
	for n := p.IntN(10); n > 0 && number(p.server.ResourceVersion())+2 < limit; n-- { // two: a deletion and a creation
		p.write(false)
	}
}

func number(rv string) int {
	n, _ := strconv.Atoi(rv)
	return n
}

// until lets time pass until cond holds for all reflectors of the informer.
func (p *podModel[T]) until(what string, cond func(status.Reflector) bool) {
	for range 60 {
		<-time.After(time.Minute)
		if !slices.ContainsFunc(p.Informer.Status().Reflectors, func(r status.Reflector) bool { return !cond(r) }) {
			return
		}
	}
	p.Fatalf("%s: not within an hour: %+v", what, p.Informer.Status())
}

// calm ends all faults.
func (p *podModel[T]) calm() {
	p.Step("no more faults")
	for _, end := range p.faults {
		end()
	}
	p.faults = nil
	p.server.Start()
	p.server.EndWatches() // those that corrupt objects go on otherwise
}

// fault makes requests fail, or ends a fault.
func (p *podModel[T]) fault() {
	if n := len(p.faults); n > 0 && p.IntN(2) == 0 {
		p.Step("a fault ends")
		i := p.IntN(n)
		p.faults[i]()
		p.faults = slices.Delete(p.faults, i, i+1)
		return
	}
	if p.IntN(15) == 0 {
		p.Step("fault: the server ignores namespaces")
		p.ignored.Store(true)
		p.faults = append(p.faults, func() { p.ignored.Store(false) })
		p.server.EndWatches()
		return
	}
	f := informertest.Fault{
		Verb:  []string{"", "list", "watch", "watch"}[p.IntN(4)],
		Skip:  p.IntN(3),
		Times: p.IntN(4),
	}
	if p.IntN(2) == 0 {
		f.AfterHeaders = p.IntN(2) == 0
		f.AfterEvents = p.IntN(8)
		f.AfterBytes = []int{0, 0, 1, p.IntN(1000)}[p.IntN(4)]
	}
	late := f.AfterHeaders || f.AfterEvents > 0 || f.AfterBytes > 0
	gr := schema.GroupResource{Resource: "pods"}
	switch n := p.IntN(14); {
	case n < 5:
		f.Error = []error{
			apierrors.NewResourceExpired("expired"),
			apierrors.NewTooManyRequests("later", 1+p.IntN(5)),
			apierrors.NewInternalError(errors.New("out of order")),
			apierrors.NewServiceUnavailable("later"),
			apierrors.NewTimeoutError("timeout", 0),
			apierrors.NewForbidden(gr, "", errors.New("not now")),
			apierrors.NewUnauthorized("who?"),
			apierrors.NewInvalid(schema.GroupKind{Kind: "ListOptions"}, "", nil),
			apierrors.NewBadRequest("no"),
			apierrors.NewNotFound(gr, ""),
		}[p.IntN(10)]
	case n < 7:
		f.Drop = true
	case n < 8:
		f.End = true
	case n < 9:
		f.Hang = true
	case late:
		f.Drop = true
	case n < 10:
		f.Delay = time.Duration(1+p.IntN(20_000)) * time.Millisecond
	case n < 11:
		f.OmitBookmarks = true
	case n < 12:
		f.OmitInitialEventsEnd = true
	case n < 13:
		f.IgnoreSendInitialEvents = true
	default:
		key := informer.Key{Namespace: string("abc"[p.IntN(3)]), Name: "pod-" + strconv.Itoa(p.IntN(10))}
		f.Corrupt = []informer.Key{key}
		p.spoilt[key] = true
	}
	p.Step("fault: verb %q, skip %d, times %d, after headers %v, events %d, bytes %d: error %v, drop %v, end %v, hang %v; delay %v, "+
		"no bookmarks %v, no initial end %v, no streaming %v, corrupt %v", f.Verb, f.Skip, f.Times, f.AfterHeaders, f.AfterEvents, f.AfterBytes,
		f.Error, f.Drop, f.End, f.Hang, f.Delay, f.OmitBookmarks, f.OmitInitialEventsEnd, f.IgnoreSendInitialEvents, f.Corrupt)
	p.faults = append(p.faults, p.server.Inject(f))
}

// catchUp waits until the informer has reached the server's version.
func (p *podModel[T]) catchUp() {
	p.Step("wait for %s", p.server.ResourceVersion())
	ctx, cancel := context.WithTimeout(p.Context(), time.Hour)
	defer cancel()
	if err := cmp.Or(p.Informer.WaitSynced(ctx), p.Informer.WaitForResourceVersion(ctx, p.server.ResourceVersion())); err != nil {
		p.Fatalf("R18: %v: %+v", err, p.Informer.Status())
	}
}

// settle waits until the informer has caught up, and checks everything.
func (p *podModel[T]) settle() {
	got := map[informer.Key]*corev1.Pod{}
	for pod := range p.pods.All() {
		got[informer.KeyOf(pod)] = pod
	}
	if !maps.Equal(got, p.expected) {
		p.Errorf("the server's %d objects differ from the model's %d", len(got), len(p.expected))
	}
	p.catchUp()
	p.Settle()
	want := p.wanted()
	p.Check(want)
	ctx, cancel := context.WithTimeout(p.Context(), time.Hour)
	defer cancel()
	if r, err := p.Informer.Audit(ctx); err != nil || r.Differ > 0 || r.Unclear > 0 || r.Objects != len(want) {
		p.Errorf("R23: audit: %+v, %v, want %d equal objects", r, err, len(want))
	}
}
