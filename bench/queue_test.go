// Package bench compares the library's queue with controller-runtime's priority queue. The root package's benchmarks
// compare it with client-go's. The program in controllers measures whole controllers, the one in processes whole
// informers.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/typedinformer/informer"
)

// queue is the part of a queue that the benchmarks use.
type queue interface {
	add(informer.Key)
	get() (informer.Key, bool)
	done(informer.Key)
	stop()
}

type own struct {
	*informer.Queue[informer.Key]
}

func (q own) add(key informer.Key) { q.Add(key) }
func (q own) get() (informer.Key, bool) {
	key, err := q.Get(context.Background())
	return key, err == nil
}
func (q own) done(key informer.Key) { q.Done(key) }
func (q own) stop()                 { q.Close() }

// peer is client-go's queue, or controller-runtime's, which has the same interface.
type peer struct {
	workqueue.TypedRateLimitingInterface[informer.Key]
}

func (q peer) add(key informer.Key) { q.Add(key) }
func (q peer) get() (informer.Key, bool) {
	key, shutdown := q.Get()
	return key, !shutdown
}
func (q peer) done(key informer.Key) { q.Done(key) }
func (q peer) stop()                 { q.ShutDown() }

var kinds = []struct {
	name string
	make func() queue
}{
	{"client-go", func() queue {
		return peer{workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[informer.Key]())}
	}},
	{"controller-runtime", func() queue { return peer{priorityqueue.New[informer.Key]("bench")} }},
	{"informer", func() queue { return own{informer.NewQueue(informer.QueueConfig[informer.Key]{})} }},
}

func keys(n int) []informer.Key {
	keys := make([]informer.Key, n)
	for i := range keys {
		keys[i] = informer.Key{Namespace: "namespace-" + strconv.Itoa(i%50), Name: "deployment-6d4cf56db6-" + strconv.Itoa(i)}
	}
	return keys
}

// BenchmarkQueue adds, gets and finishes a key, alone and with other keys waiting.
func BenchmarkQueue(b *testing.B) {
	for _, waiting := range []int{0, 1_000_000} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("waiting=%d/impl=%s", waiting, kind.name), func(b *testing.B) {
				q := kind.make()
				defer q.stop()
				for _, key := range keys(waiting) {
					q.add(key)
				}
				some := keys(1000)
				runtime.GC()
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if waiting == 0 {
						q.add(some[i%len(some)])
					}
					key, _ := q.get()
					q.done(key)
					if waiting > 0 {
						q.add(key)
					}
				}
			})
		}
	}
}

// BenchmarkQueueWorkers has one producer that adds keys, and workers that get and finish them.
func BenchmarkQueueWorkers(b *testing.B) {
	keys := keys(1000)
	for _, workers := range []int{1, 4, 16} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("workers=%d/impl=%s", workers, kind.name), func(b *testing.B) {
				q := kind.make()
				var running, left sync.WaitGroup
				for range workers {
					running.Go(func() {
						for {
							key, ok := q.get()
							if !ok {
								return
							}
							q.done(key)
							left.Done()
						}
					})
				}
				b.ReportAllocs()
				for b.Loop() {
					left.Add(len(keys))
					for _, key := range keys {
						q.add(key)
					}
					left.Wait()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/key")
				q.stop()
				running.Wait()
			})
		}
	}
}
