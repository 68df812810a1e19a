package cache_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer/clientgo/internal/world"
)

// BenchmarkSync measures the start of an informer over a ListerWatcher with one handler. client-go's informer and ours
// take turns, so both see the same noise. It reports medians, and our medians divided by client-go's:
//
//	…-synced-us  from Run to HasSynced
//	…-called-us  from Run to the last initial call of the handler
//	…-after-us   from HasSynced to that call; 0 if the call came first
func BenchmarkSync(b *testing.B) {
	for _, objects := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) {
			var stranger world.Stranger
			for n := range objects {
				stranger.Add(world.StrangePod("a", fmt.Sprint(n)))
			}
			synced, handled, after := map[string][]time.Duration{}, map[string][]time.Duration{}, map[string][]time.Duration{}
			for b.Loop() {
				for _, peer := range peers {
					i := peer.over(&stranger, &corev1.Pod{}, 0, clientcache.Indexers{})
					s, c := timesOf(b, i, objects)
					synced[peer.name] = append(synced[peer.name], s)
					handled[peer.name] = append(handled[peer.name], c)
					after[peer.name] = append(after[peer.name], max(c-s, 0))
				}
			}
			for what, durations := range map[string]map[string][]time.Duration{"synced": synced, "called": handled, "after": after} {
				medians := map[string]float64{}
				for name, all := range durations {
					slices.Sort(all)
					medians[name] = float64(all[len(all)/2]) / 1e3
					b.ReportMetric(medians[name], name+"-"+what+"-us")
				}
				if theirs := medians["client-go"]; theirs > 0 {
					b.ReportMetric(medians["clientgo"]/theirs, what+"-ratio")
				}
			}
		})
	}
}

// timesOf runs an informer until it has synced and its handler has received the objects. It returns when that was.
func timesOf(b *testing.B, i clientcache.SharedIndexInformer, objects int) (synced, handled time.Duration) {
	ctx, cancel := context.WithCancel(b.Context())
	last, calls := make(chan time.Time, 1), 0
	if _, err := i.AddEventHandler(clientcache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		if calls++; calls == objects {
			last <- time.Now()
		}
	}}); err != nil {
		b.Fatal(err)
	}
	var running sync.WaitGroup
	began := time.Now()
	running.Go(func() { i.RunWithContext(ctx) })
	<-i.HasSyncedChecker().Done()
	synced = time.Since(began)
	handled = (<-last).Sub(began)
	cancel()
	running.Wait()
	return synced, handled
}
