// Package queues has the benchmarks that compare queues, for each module that has a queue to compare.
package queues

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/util/workqueue"

	"github.com/typedinformer/informer"
)

// Queue is the part of a queue that the benchmarks use.
type Queue interface {
	Add(informer.Key)
	AddAfter(informer.Key, time.Duration)
	AddRateLimited(informer.Key)
	Forget(informer.Key)
	Take() (key informer.Key, ok bool)
	Done(informer.Key)
	Stop()
}

// Own is the library's queue.
type Own struct{ *informer.Queue[informer.Key] }

// Take returns the next key. A worker's context can usually be cancelled; Get of a Peer takes no context.
func (q Own) Take() (informer.Key, bool) {
	key, err := q.Get(context.Background())
	return key, err == nil
}

// Stop closes the queue.
func (q Own) Stop() { q.Close() }

// Peer is client-go's queue, or controller-runtime's, which has the same interface.
type Peer struct {
	workqueue.TypedRateLimitingInterface[informer.Key]
}

// Take returns the next key.
func (q Peer) Take() (informer.Key, bool) {
	key, shutdown := q.Get()
	return key, !shutdown
}

// Stop shuts the queue down.
func (q Peer) Stop() { q.ShutDown() }

// Keys returns keys that look like those of pods.
func Keys(n int) []informer.Key {
	keys := make([]informer.Key, n)
	for i := range keys {
		keys[i] = informer.Key{Namespace: "namespace-" + strconv.Itoa(i%50), Name: "deployment-6d4cf56db6-" + strconv.Itoa(i)}
	}
	return keys
}

// Cycle adds, gets and finishes a key.
func Cycle(b *testing.B, q Queue) {
	keys := Keys(1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.Add(keys[i%len(keys)])
		key, _ := q.Take()
		q.Done(key)
	}
}

// CycleBeside gets, finishes and adds a key while the other keys wait.
func CycleBeside(b *testing.B, q Queue, waiting []informer.Key) {
	for _, key := range waiting {
		q.Add(key)
	}
	runtime.GC()
	b.ReportAllocs()
	for b.Loop() {
		key, _ := q.Take()
		q.Done(key)
		q.Add(key)
	}
}

// Work has one producer that adds keys, and workers that get and finish them.
func Work(b *testing.B, q Queue, workers int) {
	keys := Keys(1000)
	b.ReportAllocs()
	var running, left sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				key, ok := q.Take()
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
	q.Stop()
	running.Wait()
}
