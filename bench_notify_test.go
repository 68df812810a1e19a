package informer

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// notified is the number of pods in the informers of BenchmarkNotify.
const notified = 1000

// notifier is a running, synced informer of the first of manyPods, with handlers. It receives updates directly, without
// a server or decoding.
type notifier struct {
	update func(*corev1.Pod)
	// subscribe adds a handler that calls done after each batch of that many updates. It returns when the handler has all pods.
	subscribe func(batch int, done func())
	stop      func()
}

// newNotifiers has a constructor for each implementation.
var newNotifiers = []struct {
	impl string
	make func(b *testing.B, pods []*corev1.Pod) notifier
}{
	{"client-go", newPeerNotifier},
	{"informer", newOwnNotifier},
}

func clientOf(b testing.TB, server *canned.Server) *Client {
	b.Helper()
	client, err := NewClient(server.Config())
	if err != nil {
		b.Fatal(err)
	}
	return client
}

func newOwnNotifier(b *testing.B, pods []*corev1.Pod) notifier {
	ctx, cancel := context.WithCancel(b.Context())
	inf := New(clientOf(b, &canned.Server{Media: decode.MediaJSON}), podResource, Config[*corev1.Pod]{})
	engine := followerOf(inf)
	mirror := mirrorOf(engine)
	var running sync.WaitGroup
	running.Go(func() {
		_ = mirror.Drain.Run(ctx)
		engine.Stop()
	})
	put := func(d reflector.Delta[*corev1.Pod]) {
		if err := mirror.Buffer.Put(ctx, &d); err != nil {
			b.Fatal(err)
		}
	}
	put(reflector.Delta[*corev1.Pod]{Type: reflector.Replaced, Items: pods, Version: "1"})
	return notifier{
		update: func(pod *corev1.Pod) {
			put(reflector.Delta[*corev1.Pod]{Type: reflector.Upserted, Object: pod, Version: pod.ResourceVersion})
		},
		subscribe: func(batch int, done func()) {
			n := 0
			sub := inf.Subscribe(HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) {
				if n++; n == batch {
					n = 0
					done()
				}
			}})
			if err := sub.WaitSynced(ctx); err != nil {
				b.Fatal(err)
			}
		},
		stop: func() {
			cancel()
			running.Wait()
		},
	}
}

func newPeerNotifier(b *testing.B, pods []*corev1.Pod) notifier {
	ctx, cancel := context.WithCancel(b.Context())
	list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	events := make(chan watch.Event, fifoCapacity)
	inf := cache.NewSharedIndexInformer(canned.WithoutWatchList{ListWatch: &cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (apiruntime.Object, error) { return list, nil },
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
			return watch.NewProxyWatcher(events), nil
		},
	}}, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	var running sync.WaitGroup
	running.Go(func() { inf.RunWithContext(ctx) })
	return notifier{
		update: func(pod *corev1.Pod) { events <- watch.Event{Type: watch.Modified, Object: pod} },
		subscribe: func(batch int, done func()) {
			n, added, synced := 0, 0, make(chan struct{})
			_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(any) {
					if added++; added == len(pods) {
						close(synced)
					}
				},
				UpdateFunc: func(_, _ any) {
					if n++; n == batch {
						n = 0
						done()
					}
				},
			})
			if err != nil {
				b.Fatal(err)
			}
			<-synced
		},
		stop: func() {
			cancel()
			running.Wait()
		},
	}
}

// BenchmarkNotify measures the delivery of one update to one handler, from the informer's goroutine to the handler's
// return. It is the difference between informers with 101 handlers and with 1 that apply the same updates, each of
// another pod. burst is the number of updates in a row; the next burst follows when all handlers have returned.
func BenchmarkNotify(b *testing.B) {
	pods := manyPods()[:notified]
	versions := [2][]*corev1.Pod{otherVersions(pods), pods}
	for _, burst := range []int{1, notified} {
		for _, peer := range newNotifiers {
			b.Run(fmt.Sprintf("burst=%d/impl=%s", burst, peer.impl), func(b *testing.B) {
				var returned sync.WaitGroup
				handlers := [2]int{1, 101}
				var informers [2]notifier
				for i, n := range handlers {
					informers[i] = peer.make(b, pods)
					defer informers[i].stop()
					for range n {
						informers[i].subscribe(burst, returned.Done)
					}
				}
				var taken [2]time.Duration
				var mallocs [2]uint64
				pass := 0
				updates, _, _ := testkit.Counted(b, notified, func() {
					for i, inf := range informers {
						var before, after runtime.MemStats
						runtime.ReadMemStats(&before)
						began := time.Now()
						for start := 0; start < notified; start += burst {
							returned.Add(handlers[i])
							for _, pod := range versions[pass%2][start : start+burst] {
								inf.update(pod)
							}
							returned.Wait()
						}
						taken[i] += time.Since(began)
						runtime.ReadMemStats(&after)
						mallocs[i] += after.Mallocs - before.Mallocs
					}
					pass++
				})
				notifications := updates * float64(handlers[1]-handlers[0])
				b.ReportMetric(float64(taken[1]-taken[0])/notifications, "ns/notification")
				b.ReportMetric(max(0, float64(mallocs[1])-float64(mallocs[0]))/notifications, "allocs/notification")
			})
		}
	}
}

// BenchmarkIdleHandler measures the cost of an idle handler that has received all pods.
func BenchmarkIdleHandler(b *testing.B) {
	const handlers = 200
	for _, peer := range newNotifiers {
		b.Run("impl="+peer.impl, func(b *testing.B) {
			inf := peer.make(b, manyPods()[:notified])
			defer inf.stop()
			inf.subscribe(notified, func() {})
			for b.Loop() { // once is enough: more handlers, the same result
				before, goroutines := testkit.LiveMemory(), runtime.NumGoroutine()
				for range handlers {
					inf.subscribe(notified, func() {})
				}
				b.ReportMetric(float64(testkit.LiveMemory()-before)/handlers, "B/handler")
				b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/handlers, "goroutines/handler")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
