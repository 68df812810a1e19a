package durable

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/internal/test/world"
)

// benchPods is the number of pods in the informer of BenchmarkDurable.
const benchPods = 100_000

// BenchmarkDurable measures the start of a subscription to an informer that has synced. Without a state, the storage also
// notes all additions. With a state, no object has changed. The benchmark prints the bytes of the state, and the heap that
// the subscription holds, for each key.
func BenchmarkDurable(b *testing.B) {
	all := fleet.New(fleet.Config{Pods: benchPods})
	var list bytes.Buffer
	if err := fleet.WriteListProtobuf(&list, metav1.ListMeta{ResourceVersion: all.ResourceVersion()}, all.All()); err != nil {
		b.Fatal(err)
	}
	server := &canned.Server{Media: decode.MediaProtobuf, List: list.Bytes()}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		b.Fatal(err)
	}
	inf := informer.New(client, pods, world.Paged[*corev1.Pod]())
	done := make(chan error, 1)
	go func() { done <- inf.Run(b.Context()) }()
	defer func() { <-done }()
	if err := inf.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	server.List = nil
	defer inf.Retire()
	start := func(b *testing.B, d informer.DurableConfig) *informer.Subscription {
		sub := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{}, informer.SubscriptionConfig[*corev1.Pod]{Durable: d})
		if err := sub.WaitSynced(b.Context()); err != nil {
			b.Fatal(err)
		}
		return sub
	}
	end := func(sub *informer.Subscription) {
		sub.Close()
		<-sub.Done()
	}
	for _, objects := range []bool{false, true} {
		name := "state=metadata"
		if objects {
			name = "state=objects"
		}
		b.Run("start=first/"+name, func(b *testing.B) {
			for b.Loop() {
				dir := b.TempDir()
				end(start(b, informer.DurableConfig{Name: "bench", Storage: informer.WarmStartDir(dir), Objects: objects}))
			}
		})
		b.Run("start=again/"+name, func(b *testing.B) {
			dir := b.TempDir()
			d := informer.DurableConfig{Name: "bench", Storage: informer.WarmStartDir(dir), Objects: objects}
			before := testkit.SteadyMemory()
			first := start(b, d)
			b.StopTimer()
			held := testkit.SteadyMemory() - before
			end(first)
			b.StartTimer()
			for b.Loop() {
				end(start(b, d))
			}
			b.ReportMetric(float64(size(b, dir))/benchPods, "B/key")
			b.ReportMetric(float64(held)/benchPods, "heap-B/key")
		})
	}
}

// size returns the number of bytes of the files in a directory.
func size(b *testing.B, dir string) (n int64) {
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			b.Fatal(err)
		}
		n += info.Size()
	}
	return n
}
