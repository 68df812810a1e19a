package bench

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/client-go/util/workqueue"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/queues"
)

// unlimited counts failures but delays a key by at most a nanosecond, so the benchmarks measure the queue.
func unlimited() informer.MaxOfLimiter[informer.Key] {
	return informer.MaxOfLimiter[informer.Key]{&informer.ExponentialLimiter[informer.Key]{Base: 1, Max: 1}, &informer.BucketLimiter[informer.Key]{Limiter: rate.NewLimiter(rate.Inf, 1)}}
}

// eachQueue runs a benchmark with each queue.
func eachQueue(b *testing.B, name string, run func(b *testing.B, q queues.Queue)) {
	b.Run(name+"impl=client-go", func(b *testing.B) {
		q := queues.Peer{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(workqueue.TypedRateLimiter[informer.Key](unlimited()))}
		defer q.Stop()
		run(b, q)
	})
	b.Run(name+"impl=informer", func(b *testing.B) {
		q := queues.Own{Queue: informer.NewQueue(informer.QueueConfig[informer.Key]{RateLimiter: unlimited()})}
		defer q.Stop()
		run(b, q)
	})
}

// BenchmarkQueue adds, gets and finishes a key, alone and with 1,000,000 other keys waiting.
func BenchmarkQueue(b *testing.B) {
	eachQueue(b, "waiting=0/", queues.Cycle)
	million := queues.Keys(1_000_000)
	eachQueue(b, "waiting=1000000/", func(b *testing.B, q queues.Queue) { queues.CycleBeside(b, q, million) })
}

// BenchmarkQueueWorkers has one producer that adds keys, and workers that get and finish them.
func BenchmarkQueueWorkers(b *testing.B) {
	for _, workers := range []int{1, 4, 16} {
		eachQueue(b, fmt.Sprintf("workers=%d/", workers), func(b *testing.B, q queues.Queue) { queues.Work(b, q, workers) })
	}
}

// BenchmarkQueueAddAfter delays keys by different times, each round sooner than before. client-go passes them through a
// channel to a goroutine, whose work counts once the channel is full.
func BenchmarkQueueAddAfter(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		keys := queues.Keys(n)
		eachQueue(b, fmt.Sprintf("keys=%d/", n), func(b *testing.B, q queues.Queue) {
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
	keys := queues.Keys(1)
	eachQueue(b, "", func(b *testing.B, q queues.Queue) {
		b.ReportAllocs()
		q.Add(keys[0])
		for b.Loop() {
			key, _ := q.Take()
			q.AddRateLimited(key)
			q.Done(key)
		}
	})
}
