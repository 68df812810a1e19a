package informer

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/internal/fleet"
)

// liveMemory returns the bytes of stacks, and of heap after garbage collection.
func liveMemory() int64 {
	runtime.GC() // a sync.Pool is empty only after the second collection
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// heapPods is the number of pods in the informers of BenchmarkHeap.
const heapPods = 5000

// BenchmarkHeap measures all memory that a synced informer holds, per pod.
func BenchmarkHeap(b *testing.B) {
	formats(b, func(b *testing.B, media string) {
		server := cannedList(b, media, fleet.New(fleet.Config{Pods: heapPods}).All())
		managedFields(b, func(b *testing.B, keep bool) {
			report := func(b *testing.B, sync func(b *testing.B, server *canned, pods int) (stop func())) {
				sync(b, cannedList(b, media, fleet.New(fleet.Config{Pods: 10}).All()), 10)() // allocate one-time data before measuring
				var held int64
				runs := 0
				for b.Loop() {
					before := liveMemory()
					stop := sync(b, server, heapPods)
					held += liveMemory() - before
					stop()
					runs++
				}
				b.ReportMetric(float64(held)/float64(runs*heapPods), "heap-B/object")
				b.ReportMetric(0, "ns/op")
			}
			b.Run("impl=client-go", func(b *testing.B) {
				report(b, func(b *testing.B, server *canned, pods int) func() { return syncPeer(b, server, keep, pods) })
			})
			b.Run("impl=informer", func(b *testing.B) {
				report(b, func(b *testing.B, server *canned, pods int) func() { return syncOwn(b, server, keep, pods) })
			})
		})
	})
}

// syncOwn runs an informer until it has that many pods, and returns a function that stops it.
func syncOwn(b *testing.B, server *canned, keepManagedFields bool, pods int) func() {
	inf, stop := runOwn(b, server, Config[*corev1.Pod]{KeepManagedFields: keepManagedFields})
	if n := inf.Store().Len(); n != pods {
		b.Fatalf("the store has %d pods", n)
	}
	return stop
}

// runOwn runs an informer with paged lists until it has synced, and returns a function that stops it.
func runOwn[T Object](b testing.TB, server *canned, config Config[T]) (inf *Informer[T], stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	config.PagedList, config.Logger = true, slog.New(slog.DiscardHandler)
	inf = New(server.client(b), podResource, config)
	var running sync.WaitGroup
	running.Go(func() { _ = inf.Run(ctx) })
	if err := inf.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	return inf, func() {
		cancel()
		running.Wait()
	}
}

// syncPeer does the same with an informer like those of client-go's factories.
func syncPeer(b *testing.B, server *canned, keepManagedFields bool, pods int) func() {
	ctx, cancel := context.WithCancel(b.Context())
	client := server.peer(b)
	watching := make(chan struct{})
	inf := cache.NewSharedIndexInformer(withoutWatchList{&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (apiruntime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			defer close(watching)
			return client.Watch(ctx, options)
		},
	}}, &corev1.Pod{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if !keepManagedFields {
		err := inf.SetTransform(func(obj any) (any, error) {
			obj.(metav1.Object).SetManagedFields(nil)
			return obj, nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	var running sync.WaitGroup
	running.Go(func() { inf.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), inf.HasSynced) {
		b.Fatal("the peer has not synced")
	}
	if n := len(inf.GetStore().ListKeys()); n != pods {
		b.Fatalf("the store has %d pods", n)
	}
	return func() {
		<-watching // if the watch is cancelled before it opens, client-go logs an error
		cancel()
		running.Wait()
	}
}

// BenchmarkStoreOverhead measures the memory per object of a store of 100,000 objects, without the objects.
// index=namespace finds objects by namespace, which our store always can. index=unique adds an index in which each object
// has its own key. state=listed measures after a list, state=changed after one update of each object, in random order.
func BenchmarkStoreOverhead(b *testing.B) {
	pods := manyPods()
	updates := otherVersions(pods)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(updates), func(i, j int) { updates[i], updates[j] = updates[j], updates[i] })
	uids := func(pod *corev1.Pod) []string { return []string{string(pod.UID)} }
	byUID := func(obj any) ([]string, error) { return uids(obj.(*corev1.Pod)), nil }
	peerIndexers := map[string]cache.Indexers{
		"none":      {},
		"namespace": {cache.NamespaceIndex: cache.MetaNamespaceIndexFunc},
		"unique":    {cache.NamespaceIndex: cache.MetaNamespaceIndexFunc, "uid": byUID},
	}
	for _, state := range []string{"listed", "changed"} {
		for _, index := range []string{"none", "namespace", "unique"} {
			if state == "changed" && index == "none" {
				continue
			}
			report := func(b *testing.B, make func() any) {
				var held int64
				runs := 0
				for b.Loop() {
					before := liveMemory()
					made := make()
					held += liveMemory() - before
					runtime.KeepAlive(made)
					runs++
				}
				b.ReportMetric(float64(held)/float64(runs*len(pods)), "heap-B/object")
				b.ReportMetric(0, "ns/op")
			}
			b.Run("state="+state+"/index="+index+"/impl=client-go", func(b *testing.B) {
				report(b, func() any {
					indexer := filledIndexer(b, pods, peerIndexers[index])
					for i := range updates {
						if state == "changed" {
							if err := indexer.Update(updates[i]); err != nil {
								b.Fatal(err)
							}
						}
					}
					return indexer
				})
			})
			b.Run("state="+state+"/index="+index+"/impl=informer", func(b *testing.B) {
				report(b, func() any {
					store, w := NewStore[*corev1.Pod]()
					if index == "unique" {
						NewIndex(store, uids)
					}
					w.Apply(Delta[*corev1.Pod]{Type: Replaced, Items: pods, ResourceVersion: "1"})
					for i := range updates {
						if state == "changed" {
							w.Apply(Delta[*corev1.Pod]{Type: Upserted, Object: updates[i], ResourceVersion: updates[i].ResourceVersion})
						}
					}
					return store
				})
			})
		}
	}
}
