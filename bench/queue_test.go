// Package bench compares the library's queue with controller-runtime's priority queue, and transports with each other.
// Package internal/test/suite/bench compares the queue with client-go's. The program in controllers measures whole controllers, the one in processes whole
// informers.
package bench

import (
	"fmt"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/queues"
)

var kinds = []struct {
	name string
	make func() queues.Queue
}{
	{"client-go", func() queues.Queue {
		return queues.Peer{TypedRateLimitingInterface: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[informer.Key]())}
	}},
	{"controller-runtime", func() queues.Queue {
		return queues.Peer{TypedRateLimitingInterface: priorityqueue.New[informer.Key]("bench")}
	}},
	{"informer", func() queues.Queue { return queues.Own{Queue: informer.NewQueue(informer.QueueConfig[informer.Key]{})} }},
}

// BenchmarkQueue adds, gets and finishes a key, alone and with other keys waiting.
func BenchmarkQueue(b *testing.B) {
	for _, waiting := range []int{0, 1_000_000} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("waiting=%d/impl=%s", waiting, kind.name), func(b *testing.B) {
				q := kind.make()
				defer q.Stop()
				if waiting == 0 {
					queues.Cycle(b, q)
				} else {
					queues.CycleBeside(b, q, queues.Keys(waiting))
				}
			})
		}
	}
}

// BenchmarkQueueWorkers has one producer that adds keys, and workers that get and finish them.
func BenchmarkQueueWorkers(b *testing.B) {
	for _, workers := range []int{1, 4, 16} {
		for _, kind := range kinds {
			b.Run(fmt.Sprintf("workers=%d/impl=%s", workers, kind.name), func(b *testing.B) { queues.Work(b, kind.make(), workers) })
		}
	}
}
