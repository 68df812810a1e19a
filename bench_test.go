package informer

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fleet"
)

// The benchmarks measure this package beside client-go, on the pods of internal/fleet. Both implementations share a name,
// with impl=informer and impl=client-go, so that benchstat -col /impl compares them; see BENCHMARKS.md.
//
// This file has the shared code and the benchmarks of reads. The other benchmarks are in bench_decode_test.go,
// bench_store_test.go, bench_notify_test.go and bench_heap_test.go.

var podResource = Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}

// trimmed returns the part of pod that the benchmarks of stores and handlers need: neither store reads more of an object,
// and 100,000 whole pods take a gigabyte.
func trimmed(pod *corev1.Pod) *corev1.Pod {
	small := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	small.ManagedFields = nil
	small.Spec.NodeName = pod.Spec.NodeName
	small.Status.Phase = pod.Status.Phase
	return small
}

// manyPods returns 100,000 trimmed pods in 50 namespaces and on 50 nodes, so some nodes and namespaces have about 2,000
// of them.
var manyPods = sync.OnceValue(func() []*corev1.Pod {
	var pods []*corev1.Pod
	for pod := range fleet.New(fleet.Config{Pods: 100_000, Namespaces: 50, Nodes: 50}).All() {
		pods = append(pods, trimmed(pod))
	}
	return pods
})

// otherVersions returns the same pods with another resourceVersion.
func otherVersions(pods []*corev1.Pod) []*corev1.Pod {
	others := make([]*corev1.Pod, len(pods))
	for i, pod := range pods {
		other := *pod
		other.ResourceVersion = "9" + pod.ResourceVersion
		others[i] = &other
	}
	return others
}

func nodeOf(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} }

const byNode = "node"

// nodeIndexers has the namespace index of client-go's factories, and one by node.
var nodeIndexers = cache.Indexers{
	cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	byNode:               func(obj any) ([]string, error) { return nodeOf(obj.(*corev1.Pod)), nil },
}

// filledStore returns a store filled by one list of pods.
func filledStore(pods []*corev1.Pod) *Store[*corev1.Pod] {
	s, w := NewStore[*corev1.Pod]()
	w.Apply(Delta[*corev1.Pod]{Type: Replaced, Items: pods, ResourceVersion: "1"})
	return s
}

func filledIndexer(b *testing.B, pods []*corev1.Pod, indexers cache.Indexers) cache.Indexer {
	b.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, indexers)
	items := make([]any, len(pods))
	for i, pod := range pods {
		items[i] = pod
	}
	if err := indexer.Replace(items, "1"); err != nil {
		b.Fatal(err)
	}
	return indexer
}

// readers has client-go's store and ours, both with manyPods.
type readers struct {
	indexer cache.Indexer
	lister  corelisters.PodLister
	store   *Store[*corev1.Pod]
	byNode  *Index[*corev1.Pod, string]
}

func newReaders(b *testing.B) readers {
	b.Helper()
	indexer := filledIndexer(b, manyPods(), nodeIndexers)
	store := filledStore(manyPods())
	return readers{indexer, corelisters.NewPodLister(indexer), store, NewIndex(store, nodeOf)}
}

func BenchmarkGet(b *testing.B) {
	r := newReaders(b)
	pods := manyPods()
	keys := make([]Key, 1<<16)
	joined := make([]string, len(keys))
	random := rand.New(rand.NewPCG(1, 2))
	for i := range keys {
		key := KeyOf(pods[random.IntN(len(pods))])
		keys[i] = Key{Namespace: strings.Clone(key.Namespace), Name: strings.Clone(key.Name)} // keys that share no memory with the store
		joined[i] = key.String()
	}
	each := func(b *testing.B, get func(i int) *corev1.Pod) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if get(i%len(keys)) == nil {
				b.Fatal("not found")
			}
		}
	}
	b.Run("impl=client-go", func(b *testing.B) {
		each(b, func(i int) *corev1.Pod {
			pod, _ := r.lister.Pods(keys[i].Namespace).Get(keys[i].Name)
			return pod
		})
	})
	b.Run("impl=informer", func(b *testing.B) {
		each(b, func(i int) *corev1.Pod {
			pod, _ := r.store.Get(keys[i])
			return pod
		})
	})
	b.Run("impl=client-go-raw", func(b *testing.B) { // for callers that have the key as one string
		each(b, func(i int) *corev1.Pod {
			obj, _, _ := r.indexer.GetByKey(joined[i])
			pod, _ := obj.(*corev1.Pod)
			return pod
		})
	})
}

// BenchmarkList reads all 100,000 objects: form=slice into a slice, form=each one by one. client-go makes a slice in both
// cases.
func BenchmarkList(b *testing.B) {
	r := newReaders(b)
	want := len(manyPods())
	list := func() []*corev1.Pod {
		pods, _ := r.lister.List(labels.Everything())
		return pods
	}
	b.Run("form=slice/impl=client-go", func(b *testing.B) { countEach(b, want, func() int { return len(list()) }) })
	b.Run("form=slice/impl=informer", func(b *testing.B) { countEach(b, want, func() int { return len(r.store.List()) }) })
	b.Run("form=slice/impl=client-go-raw", func(b *testing.B) {
		countEach(b, want, func() int { return len(r.indexer.List()) })
	})
	b.Run("form=each/impl=client-go", func(b *testing.B) {
		countEach(b, want, func() int { return count(slices.Values(list())) })
	})
	b.Run("form=each/impl=informer", func(b *testing.B) {
		countEach(b, want, func() int { return count(r.store.All()) })
	})
}

// BenchmarkIndexLookup reads the objects of the node, and of the namespace, with nearly 2,000 objects: 1,997 and 1,865.
// Our store needs no index for namespaces.
func BenchmarkIndexLookup(b *testing.B) {
	r := newReaders(b)
	node, onNode := nearest(2000, nodeOf)
	namespace, inNamespace := nearest(2000, func(pod *corev1.Pod) []string { return []string{pod.Namespace} })
	byIndex := func(index, key string) []any {
		objs, _ := r.indexer.ByIndex(index, key)
		return objs
	}
	b.Run("by=node/form=slice/impl=client-go", func(b *testing.B) {
		countEach(b, onNode, func() int { return len(byIndex(byNode, node)) })
	})
	b.Run("by=node/form=slice/impl=informer", func(b *testing.B) {
		countEach(b, onNode, func() int { return len(r.byNode.List(node)) })
	})
	b.Run("by=node/form=each/impl=client-go", func(b *testing.B) {
		countEach(b, onNode, func() int {
			n := 0
			for _, obj := range byIndex(byNode, node) {
				if obj.(*corev1.Pod) != nil {
					n++
				}
			}
			return n
		})
	})
	b.Run("by=node/form=each/impl=informer", func(b *testing.B) {
		countEach(b, onNode, func() int { return count(r.byNode.Lookup(node)) })
	})
	b.Run("by=namespace/form=slice/impl=client-go", func(b *testing.B) {
		countEach(b, inNamespace, func() int {
			pods, _ := r.lister.Pods(namespace).List(labels.Everything())
			return len(pods)
		})
	})
	b.Run("by=namespace/form=slice/impl=informer", func(b *testing.B) {
		countEach(b, inNamespace, func() int { return len(slices.Collect(r.store.Namespace(namespace))) })
	})
	b.Run("by=namespace/form=each/impl=client-go", func(b *testing.B) {
		countEach(b, inNamespace, func() int {
			pods, _ := r.lister.Pods(namespace).List(labels.Everything())
			return count(slices.Values(pods))
		})
	})
	b.Run("by=namespace/form=each/impl=informer", func(b *testing.B) {
		countEach(b, inNamespace, func() int { return count(r.store.Namespace(namespace)) })
	})
}

// nearest returns the key in manyPods whose number of pods is nearest to want, and that number.
func nearest(want int, keys func(*corev1.Pod) []string) (key string, number int) {
	numbers := map[string]int{}
	for _, pod := range manyPods() {
		for _, k := range keys(pod) {
			numbers[k]++
		}
	}
	distance := func(n int) int { return max(n-want, want-n) }
	for k, n := range numbers {
		if d, best := distance(n), distance(number); d < best || d == best && k < key {
			key, number = k, n
		}
	}
	return key, number
}

func countEach(b *testing.B, want int, read func() int) {
	b.ReportAllocs()
	for b.Loop() {
		if got := read(); got != want {
			b.Fatalf("read %d objects instead of %d", got, want)
		}
	}
}

func count(pods iter.Seq[*corev1.Pod]) int {
	n := 0
	for pod := range pods {
		if pod != nil {
			n++
		}
	}
	return n
}

// counted runs body for as long as the benchmark wants. Each run counts as n units. It returns the number of units, the
// time, and the bytes allocated.
func counted(b *testing.B, n int, body func()) (units, seconds, bytes float64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runs := 0
	for b.Loop() {
		body()
		runs++
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(0, "ns/op") // has no meaning here
	return float64(runs * n), b.Elapsed().Seconds(), float64(after.TotalAlloc - before.TotalAlloc)
}

// canned is a transport that answers every list and every watch of pods from memory.
type canned struct {
	media  string
	list   []byte
	frames []byte        // the frames of a watch, which then stays open
	hold   chan struct{} // holds up watches until it is closed; nil for none
}

func (c *canned) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := &http.Response{
		StatusCode: http.StatusOK,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
		Header:     http.Header{"Content-Type": {c.media}},
		Request:    req,
	}
	if req.URL.Query().Get("watch") == "" {
		resp.ContentLength = int64(len(c.list))
		resp.Body = io.NopCloser(bytes.NewReader(c.list))
		return resp, nil
	}
	if c.media == decode.MediaProtobuf {
		resp.Header.Set("Content-Type", c.media+";stream=watch")
	}
	if c.hold != nil {
		<-c.hold
	}
	ctx, cancel := context.WithCancel(req.Context())
	resp.ContentLength = -1
	resp.Body = &openBody{bytes.NewReader(c.frames), ctx, cancel}
	return resp, nil
}

// openBody is a body that blocks after its last byte until the request is cancelled or the body closed.
type openBody struct {
	*bytes.Reader
	ctx    context.Context
	cancel context.CancelFunc
}

func (o *openBody) Read(p []byte) (int, error) {
	if o.ctx.Err() == nil && o.Reader.Len() > 0 {
		return o.Reader.Read(p)
	}
	<-o.ctx.Done()
	return 0, o.ctx.Err()
}

func (o *openBody) Close() error {
	o.cancel()
	return nil
}

// cannedList returns a transport with a list of pods, and no changes.
func cannedList(b testing.TB, media string, pods iter.Seq[*corev1.Pod]) *canned {
	b.Helper()
	write := fleet.WriteListJSON
	if media == decode.MediaProtobuf {
		write = fleet.WriteListProtobuf
	}
	var list bytes.Buffer
	if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, pods); err != nil {
		b.Fatal(err)
	}
	return &canned{media: media, list: list.Bytes()}
}

func (c *canned) config() *rest.Config {
	return &rest.Config{
		Host:          "http://canned.invalid",
		Transport:     c,
		QPS:           -1,
		ContentConfig: rest.ContentConfig{AcceptContentTypes: c.media, ContentType: c.media},
	}
}

func (c *canned) client(b testing.TB) *Client {
	b.Helper()
	client, err := NewClient(c.config())
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// peer returns the pods of client-go's clientset.
func (c *canned) peer(b *testing.B) corev1client.PodInterface {
	b.Helper()
	client, err := corev1client.NewForConfig(c.config())
	if err != nil {
		b.Fatal(err)
	}
	return client.Pods(metav1.NamespaceAll)
}

var errEnough = errors.New("enough")

// sinkFunc is a Sink. It ends its reflector by returning errEnough.
type sinkFunc func(d *Delta[*corev1.Pod]) error

func (f sinkFunc) Put(_ context.Context, d Delta[*corev1.Pod]) error { return f(&d) }

func (c *canned) reflect(b *testing.B, client *Client, keepManagedFields bool, sink sinkFunc) {
	config := Config[*corev1.Pod]{KeepManagedFields: keepManagedFields, PagedList: true, Logger: slog.New(slog.DiscardHandler)}
	r, err := NewReflector(client, podResource, sink, config)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Run(b.Context()); err != errEnough {
		b.Fatal(err)
	}
}

// formats calls run for each format that both implementations decode.
func formats(b *testing.B, run func(b *testing.B, media string)) {
	for _, f := range []struct{ name, media string }{{"json", decode.MediaJSON}, {"protobuf", decode.MediaProtobuf}} {
		b.Run("format="+f.name, func(b *testing.B) { run(b, f.media) })
	}
}
