package bench

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// compactPods is the number of pods in the informers of BenchmarkCompactGet and BenchmarkCompactList: so many that the garbage
// collector frees a pod before it is read again.
const compactPods = 30000

// compactInformer returns a synced informer of compactPods pods, and a function that stops it.
func compactInformer(b *testing.B, media string) (*informer.Informer[*corev1.Pod], func()) {
	server := canned.ListOf(b, media, fleet.New(fleet.Config{Pods: compactPods}).All())
	inf, stop := runOwn(b, server, informer.Config[*corev1.Pod]{Layout: informer.LayoutCompact})
	server.List = nil // a large heap would delay the collector
	runtime.GC()
	return inf, stop
}

// BenchmarkCompactGet reads one pod by its key. With state=cold nobody has the pod, so it is decoded; with state=held a caller
// has it.
func BenchmarkCompactGet(b *testing.B) {
	formats(b, func(b *testing.B, media string) {
		inf, stop := compactInformer(b, media)
		defer stop()
		var keys []informer.Key
		for p := range fleet.New(fleet.Config{Pods: compactPods}).All() { // reading the informer would decode its pods
			keys = append(keys, informer.KeyOf(p))
		}
		random := rand.New(rand.NewPCG(1, 1))
		random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		get := func(b *testing.B, keys []informer.Key) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, ok := inf.Store().Get(keys[i%len(keys)]); !ok {
					b.Fatal("a pod is missing")
				}
			}
		}
		b.Run("state=cold", func(b *testing.B) { get(b, keys) })
		b.Run("state=held", func(b *testing.B) {
			held := make([]*corev1.Pod, 1000)
			for i := range held {
				held[i], _ = inf.Store().Get(keys[i])
			}
			get(b, keys[:len(held)])
			clear(held)
		})
	})
}

// BenchmarkCompactList reads the pods of one namespace, which nobody has, one after the other.
func BenchmarkCompactList(b *testing.B) {
	formats(b, func(b *testing.B, media string) {
		inf, stop := compactInformer(b, media)
		defer stop()
		pods := 0
		namespaces := slices.Sorted(maps.Keys(maps.Collect(func(yield func(string, bool) bool) {
			for p := range fleet.New(fleet.Config{Pods: compactPods}).All() {
				yield(p.GetNamespace(), true)
			}
		})))
		for i := 0; b.Loop(); i++ {
			for range inf.Store().Namespace(namespaces[i%len(namespaces)]) {
				pods++
			}
		}
		b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(pods), "ns/pod")
		b.ReportMetric(0, "ns/op") // the namespaces differ in size
	})
}

// kindObjects is the number of objects in the informers of BenchmarkCompactHeap.
const kindObjects = 5000

// BenchmarkCompactHeap measures all memory that a synced informer holds, per object, for kinds other than pods.
func BenchmarkCompactHeap(b *testing.B) {
	b.Run("kind=Secret", func(b *testing.B) { compactHeap[*corev1.Secret](b, "v1", "Secret", benchSecret) })
	b.Run("kind=ConfigMap", func(b *testing.B) { compactHeap[*corev1.ConfigMap](b, "v1", "ConfigMap", benchConfigMap) })
	b.Run("kind=Widget", func(b *testing.B) {
		compactHeap[*unstructured.Unstructured](b, "example.com/v1", "Widget", benchWidget)
	})
}

// compactHeap measures kindObjects objects that object makes, with each layout.
func compactHeap[T informer.Object](b *testing.B, version, kind string, object func(random *rand.Rand, meta metav1.ObjectMeta) any) {
	list := func(n int) *canned.Server {
		random := rand.New(rand.NewPCG(1, 1))
		var items []any
		for i := range n {
			meta := metav1.ObjectMeta{
				Namespace:         fmt.Sprint("team-", i*20/n),
				Name:              fmt.Sprintf("object-%05d", i),
				UID:               types.UID(fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", random.Uint32(), i, i%4096, i%4096, random.Uint64()>>16)),
				ResourceVersion:   fmt.Sprint(1000000 + 7*i),
				CreationTimestamp: metav1.Unix(1700000000+int64(i), 0),
				Labels:            map[string]string{"app": fmt.Sprint("app-", i*100/n), "managed-by": "bench"},
			}
			items = append(items, object(random, meta))
		}
		raw, err := json.Marshal(map[string]any{"kind": kind + "List", "apiVersion": version, "metadata": map[string]any{"resourceVersion": "1"}, "items": items})
		if err != nil {
			b.Fatal(err)
		}
		return &canned.Server{Media: decode.MediaJSON, List: raw}
	}
	server, few := list(kindObjects), list(10)
	for _, layout := range []informer.Layout{informer.LayoutSeparate, informer.LayoutShared, informer.LayoutCompact} {
		b.Run(fmt.Sprintf("layout=%s", layout), func(b *testing.B) {
			config := informer.Config[T]{Layout: layout}
			_, stop := runOwn(b, few, config) // allocate one-time data before measuring
			stop()
			var held int64
			runs := 0
			for b.Loop() {
				before := testkit.SteadyMemory()
				inf, stop := runOwn(b, server, config)
				held += testkit.SteadyMemory() - before
				if inf.Store().Len() != kindObjects {
					b.Fatalf("%d objects", inf.Store().Len())
				}
				stop()
				runs++
			}
			b.ReportMetric(float64(held)/float64(runs*kindObjects), "heap-B/object")
			b.ReportMetric(float64(len(server.List))/kindObjects, "json-B/object")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkCompactSync fills an informer with a first list of pods. cpu-ns/pod is the processor time of the whole process, until the
// informer has synced: packing pods again, with a better dictionary, comes later.
func BenchmarkCompactSync(b *testing.B) {
	const pods = 10_000
	formats(b, func(b *testing.B, media string) {
		server := canned.ListOf(b, media, fleet.New(fleet.Config{Pods: pods}).All())
		for _, layout := range []informer.Layout{informer.LayoutSeparate, informer.LayoutShared, informer.LayoutCompact} {
			b.Run(fmt.Sprintf("layout=%s", layout), func(b *testing.B) {
				var cpu time.Duration
				runs := 0
				for b.Loop() {
					b.StopTimer()
					runtime.GC() // of the run before
					began := testkit.ProcessorTime()
					b.StartTimer()
					_, stop := runOwn(b, server, informer.Config[*corev1.Pod]{Layout: layout})
					b.StopTimer()
					cpu += testkit.ProcessorTime() - began
					stop()
					runs++
					b.StartTimer()
				}
				b.ReportMetric(float64(cpu.Nanoseconds())/float64(runs*pods), "cpu-ns/pod")
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(runs*pods), "ns/pod")
				b.ReportMetric(0, "ns/op") // has no meaning here
			})
		}
	})
}

// updates is the number of events in BenchmarkCompactUpdates, so that each pod changes several times.
const updates = 4 * decodedObjects

// BenchmarkCompactUpdates follows updates with an informer that has every pod, from the HTTP client to a handler. The handler reads
// both versions, or only the new one (SubscriptionConfig.NewOnly), or there is none. With handler=once, somebody has read every pod
// once, before the updates. cpu-ns/event is the processor time of the
// whole process, which has the server, too.
func BenchmarkCompactUpdates(b *testing.B) {
	pods := fleet.New(fleet.Config{Pods: decodedObjects})
	var last string
	for change := range first(updates, pods.Updates(1)) {
		last = change.Object.ResourceVersion
	}
	formats(b, func(b *testing.B, media string) {
		server := canned.ListOf(b, media, pods.All())
		server.Frames = watchFrames(b, media, updates, pods.Updates(1))
		for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutCompact} {
			for _, handler := range []string{"none", "once", "new", "both"} {
				b.Run(fmt.Sprintf("layout=%s/handler=%s", layout, handler), func(b *testing.B) {
					var before, after runtime.MemStats
					var cpu time.Duration
					var bytes uint64
					runs := 0
					for b.Loop() {
						b.StopTimer()
						server.Hold = make(chan struct{})
						inf, stop := runOwn(b, server, informer.Config[*corev1.Pod]{Layout: layout})
						left, handled := updates, make(chan struct{})
						handles := handler == "new" || handler == "both"
						if handles {
							sub := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, new *corev1.Pod) {
								if left--; left == 0 {
									close(handled)
								}
							}}, informer.SubscriptionConfig[*corev1.Pod]{NewOnly: handler == "new", Delivery: informer.DeliverEvery(2 * updates)})
							if err := sub.WaitSynced(b.Context()); err != nil {
								b.Fatal(err)
							}
						}
						if handler == "once" {
							for range inf.Store().All() { // decodes it
							}
						}
						runtime.GC() // of the list
						runtime.ReadMemStats(&before)
						began := testkit.ProcessorTime()
						b.StartTimer()
						close(server.Hold)
						if err := inf.WaitForResourceVersion(b.Context(), last); err != nil {
							b.Fatal(err)
						}
						if handles {
							<-handled
						}
						b.StopTimer()
						cpu += testkit.ProcessorTime() - began
						runtime.ReadMemStats(&after)
						bytes += after.TotalAlloc - before.TotalAlloc
						stop()
						runs++
						b.StartTimer()
					}
					events := float64(runs * updates)
					b.ReportMetric(b.Elapsed().Seconds()*1e9/events, "ns/event")
					b.ReportMetric(float64(cpu.Nanoseconds())/events, "cpu-ns/event")
					b.ReportMetric(float64(bytes)/events, "alloc-B/event")
					b.ReportMetric(0, "ns/op") // has no meaning here
				})
			}
		}
	})
}

func randomText(random *rand.Rand, n int) string {
	raw := make([]byte, n)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// benchSecret returns a certificate with its key, or a few passwords. Neither can be compressed.
func benchSecret(random *rand.Rand, meta metav1.ObjectMeta) any {
	s := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{}}
	if random.IntN(2) == 0 {
		s.Type = corev1.SecretTypeTLS
		for key, size := range map[string]int{corev1.TLSCertKey: 1100, corev1.TLSPrivateKeyKey: 1200} {
			kind := map[string]string{corev1.TLSCertKey: "CERTIFICATE", corev1.TLSPrivateKeyKey: "RSA PRIVATE KEY"}[key]
			s.Data[key] = fmt.Appendf(nil, "-----BEGIN %s-----\n%s\n-----END %s-----\n", kind, randomText(random, size), kind)
		}
		return s
	}
	for _, key := range []string{"username", "password", "connection-string"} {
		s.Data[key] = []byte(randomText(random, 24))
	}
	return s
}

// benchConfigMap returns the configuration of one of many similar programs.
func benchConfigMap(random *rand.Rand, meta metav1.ObjectMeta) any {
	var text bytes.Buffer
	for section := range 8 {
		fmt.Fprintf(&text, "section%d:\n", section)
		for _, option := range []string{"enabled", "timeout", "retries", "endpoint", "cacheSize", "logLevel"} {
			fmt.Fprintf(&text, "  %s: %v\n", option, []any{true, "30s", random.IntN(9), fmt.Sprintf("http://service-%d.team.svc:8080", random.IntN(500)), 1 << random.IntN(12), "info"}[random.IntN(6)])
		}
	}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"config.yaml": text.String(), "environment": "production", "checksum": randomText(random, 32)}}
}

// benchWidget returns a custom resource with a long spec, as operators of databases or pipelines have.
func benchWidget(random *rand.Rand, meta metav1.ObjectMeta) any {
	var steps []any
	for i := range 12 {
		steps = append(steps, map[string]any{
			"name":      fmt.Sprintf("step-%d", i),
			"image":     fmt.Sprintf("registry.example.com/tools/step-%d:v1.%d.0", i, random.IntN(9)),
			"arguments": []any{"--verbose", fmt.Sprintf("--shard=%d", random.IntN(64)), "--output=/data/result", fmt.Sprintf("--revision=%x", random.Uint64())},
			"resources": map[string]any{"cpu": fmt.Sprintf("%dm", 100*(1+random.IntN(9))), "memory": "256Mi"},
			"retry":     map[string]any{"limit": random.IntN(5), "backoff": "10s", "onError": "always"},
			"when":      strings.Repeat("condition and ", random.IntN(4)) + "true",
		})
	}
	return map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": meta,
		"spec":   map[string]any{"schedule": fmt.Sprintf("%d * * * *", random.IntN(60)), "steps": steps, "owner": meta.Labels["app"]},
		"status": map[string]any{"phase": "Running", "observedGeneration": random.IntN(20), "lastRun": "2026-11-22T10:00:00Z"},
	}
}
