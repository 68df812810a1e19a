//go:build !race

package cost

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// An informer with a handler whose collection is empty and does not change takes little memory beside that of its
// connection, which the canned server does not have. The goroutine that waits for the watch was deep in the decoder
// before, so its stack shows whether the collector can shrink it.
//
// Guarantees: O9
func TestIdleInformerIsSmall(t *testing.T) {
	const informers, mostHeap, mostStacks = 300, 17_000, 16_000
	server := canned.ListOf(t, decode.MediaProtobuf, func(func(*corev1.Pod) bool) {})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var all []*informer.Informer[*corev1.Pod]
	start := func() {
		inf := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
			informer.Config[*corev1.Pod]{PagedList: true, Logger: slog.New(slog.DiscardHandler)})
		inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{})
		running.Go(func() { _ = inf.Run(ctx) })
		if err := inf.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		all = append(all, inf)
	}
	start() // makes what all of them share
	var before, after runtime.MemStats
	testkit.SteadyMemory()
	runtime.ReadMemStats(&before)
	for range informers {
		start()
	}
	testkit.SteadyMemory()
	runtime.ReadMemStats(&after)
	grown := func(before, after uint64) int64 { return (int64(after) - int64(before)) / informers }
	heap, stacks := grown(before.HeapAlloc, after.HeapAlloc), grown(before.StackInuse, after.StackInuse)
	t.Logf("%d bytes of heap, %d of stacks", heap, stacks)
	if heap > mostHeap || stacks > mostStacks {
		t.Errorf("an idle informer takes %d bytes of heap and %d of stacks, want at most %d and %d", heap, stacks, mostHeap,
			mostStacks)
	}
	runtime.KeepAlive(all)
}
