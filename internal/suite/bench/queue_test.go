package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/typedinformer/informer"
)

// queued is the part of a queue that the benchmarks use.
type queued interface {
	Add(informer.Key)
	AddAfter(informer.Key, time.Duration)
	AddRateLimited(informer.Key)
	Forget(informer.Key)
	get() (informer.Key, bool)
	Done(informer.Key)
	stop()
}

type ownQueue struct{ *informer.Queue[informer.Key] }

func (q ownQueue) get() (informer.Key, bool) {
	key, err := q.Get(context.Background())
	return key, err == nil
}
func (q ownQueue) stop() { q.Close() }

type peerQueue struct {
	workqueue.TypedRateLimitingInterface[informer.Key]
}

func (q peerQueue) get() (informer.Key, bool) {
	key, shutdown := q.Get()
	return key, !shutdown
}
func (q peerQueue) stop() { q.ShutDown() }

// unlimited counts failures but delays a key by at most a nanosecond, so the benchmarks measure the queue.
func unlimited() informer.MaxOfLimiter[informer.Key] {
	return informer.MaxOfLimiter[informer.Key]{&informer.ExponentialLimiter[informer.Key]{Base: 1, Max: 1}, &informer.BucketLimiter[informer.Key]{Limiter: rate.NewLimiter(rate.Inf, 1)}}
}

// eachQueue runs a benchmark with each queue. A worker's context can usually be cancelled; Get of client-go's queue takes
// no context.
func eachQueue(b *testing.B, name string, run func(b *testing.B, q queued)) {
	b.Run(name+"impl=client-go", func(b *testing.B) {
		q := peerQueue{workqueue.NewTypedRateLimitingQueue(workqueue.TypedRateLimiter[informer.Key](unlimited()))}
		defer q.stop()
		run(b, q)
	})
	b.Run(name+"impl=informer", func(b *testing.B) {
		q := ownQueue{informer.NewQueue(informer.QueueConfig[informer.Key]{RateLimiter: unlimited()})}
		defer q.stop()
		run(b, q)
	})
}

// manyKeys returns keys that look like those of pods.
func manyKeys(n int) []informer.Key {
	keys := make([]informer.Key, n)
	for i := range keys {
		keys[i] = informer.Key{Namespace: "namespace-" + strconv.Itoa(i%50), Name: "deployment-6d4cf56db6-" + strconv.Itoa(i)}
	}
	return keys
}

// BenchmarkQueue adds, gets and finishes a key, alone and with 1,000,000 other keys waiting.
func BenchmarkQueue(b *testing.B) {
	keys := manyKeys(1000)
	eachQueue(b, "waiting=0/", func(b *testing.B, q queued) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			q.Add(keys[i%len(keys)])
			key, _ := q.get()
			q.Done(key)
		}
	})
	million := manyKeys(1_000_000)
	eachQueue(b, "waiting=1000000/", func(b *testing.B, q queued) {
		for _, key := range million {
			q.Add(key)
		}
		runtime.GC()
		b.ReportAllocs()
		for b.Loop() {
			key, _ := q.get()
			q.Done(key)
			q.Add(key)
		}
	})
}

// BenchmarkQueueWorkers has one producer that adds keys, and workers that get and finish them.
func BenchmarkQueueWorkers(b *testing.B) {
	keys := manyKeys(1000)
	for _, workers := range []int{1, 4, 16} {
		eachQueue(b, fmt.Sprintf("workers=%d/", workers), func(b *testing.B, q queued) {
			b.ReportAllocs()
			var running sync.WaitGroup
			var left sync.WaitGroup
			for range workers {
				running.Go(func() {
					for {
						key, ok := q.get()
						if !ok {
							return
						}
						q.Done(key)
						left.Done()
					}
				})
			}
			for b.Loop() {
				left.Add(len(keys))
				for _, key := range keys {
					q.Add(key)
				}
				left.Wait()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(keys)), "ns/key")
			q.stop()
			running.Wait()
		})
	}
}

// BenchmarkQueueAddAfter delays keys by different times, each round sooner than before. client-go passes them through a
// channel to a goroutine, whose work counts once the channel is full.
func BenchmarkQueueAddAfter(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		keys := manyKeys(n)
		eachQueue(b, fmt.Sprintf("keys=%d/", n), func(b *testing.B, q queued) {
			for i, key := range keys {
				q.AddAfter(key, time.Hour+time.Duration(i*7919%n)*time.Millisecond)
			}
			runtime.GC()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				q.AddAfter(keys[i%n], time.Hour-time.Duration(i/n)*time.Second+time.Duration(i*7919%n)*time.Millisecond)
			}
		})
	}
}

// BenchmarkQueueRetry retries a failing key without delay.
func BenchmarkQueueRetry(b *testing.B) {
	keys := manyKeys(1)
	eachQueue(b, "", func(b *testing.B, q queued) {
		b.ReportAllocs()
		q.Add(keys[0])
		for b.Loop() {
			key, _ := q.get()
			q.AddRateLimited(key)
			q.Done(key)
		}
	})
}
