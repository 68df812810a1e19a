package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// heapPods is the number of pods in the informers of BenchmarkHeap.
const heapPods = 5000

// BenchmarkHeap measures all memory that a synced informer holds, per pod.
func BenchmarkHeap(b *testing.B) {
	formats(b, func(b *testing.B, media string) {
		server := canned.ListOf(b, media, fleet.New(fleet.Config{Pods: heapPods}).All())
		managedFields(b, func(b *testing.B, keep bool) {
			report := func(b *testing.B, sync func(b *testing.B, server *canned.Server, pods int) (stop func())) {
				sync(b, canned.ListOf(b, media, fleet.New(fleet.Config{Pods: 10}).All()), 10)() // allocate one-time data before measuring
				var held int64
				runs := 0
				for b.Loop() {
					before := testkit.LiveMemory()
					stop := sync(b, server, heapPods)
					held += testkit.LiveMemory() - before
					stop()
					runs++
				}
				b.ReportMetric(float64(held)/float64(runs*heapPods), "heap-B/object")
				b.ReportMetric(0, "ns/op")
			}
			b.Run("impl=client-go", func(b *testing.B) {
				report(b, func(b *testing.B, server *canned.Server, pods int) func() { return syncPeer(b, server, keep, pods) })
			})
			b.Run("impl=informer", func(b *testing.B) {
				report(b, func(b *testing.B, server *canned.Server, pods int) func() { return syncOwn(b, server, keep, pods) })
			})
		})
	})
}

// BenchmarkSelectionsHeap measures the live memory of an informer with several selections. Each selection has all pods, and
// the informer holds each pod once.
func BenchmarkSelectionsHeap(b *testing.B) {
	server := canned.ListOf(b, decode.MediaProtobuf, fleet.New(fleet.Config{Pods: heapPods}).All())
	for _, n := range []int{0, 2, 10} {
		var selections []informer.Selection
		for i := range n {
			selections = append(selections, informer.Selection{LabelSelector: fmt.Sprint("part=", i)})
		}
		b.Run(fmt.Sprint("selections=", n), func(b *testing.B) {
			var held int64
			runs := 0
			for b.Loop() {
				before := testkit.LiveMemory()
				inf, stop := runOwn(b, server, informer.Config[*corev1.Pod]{}, selections...)
				if have := inf.Store().Len(); have != heapPods {
					b.Fatalf("the store has %d pods", have)
				}
				held += testkit.LiveMemory() - before
				stop()
				runs++
			}
			b.ReportMetric(float64(held)/float64(runs*heapPods), "heap-B/object")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// syncOwn runs an informer until it has that many pods, and returns a function that stops it.
func syncOwn(b *testing.B, server *canned.Server, keepManagedFields bool, pods int) func() {
	inf, stop := runOwn(b, server, informer.Config[*corev1.Pod]{KeepManagedFields: keepManagedFields})
	if n := inf.Store().Len(); n != pods {
		b.Fatalf("the store has %d pods", n)
	}
	return stop
}

// syncPeer does the same with an informer like those of client-go's factories.
func syncPeer(b *testing.B, server *canned.Server, keepManagedFields bool, pods int) func() {
	ctx, cancel := context.WithCancel(b.Context())
	client := peerOf(b, server)
	watching := make(chan struct{})
	inf := cache.NewSharedIndexInformer(canned.WithoutWatchList{ListWatch: &cache.ListWatch{
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
