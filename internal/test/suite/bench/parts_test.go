package bench

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

const (
	partsClusters = 50
	partsPods     = 500
)

// profiled has the informers that were measured last, so that a profile has them.
var profiled []*informer.Informer[*corev1.Pod]

// BenchmarkPartsHeap measures the memory of the informers of 50 clusters that run the same workloads: 500 pods each,
// with names, UIDs, nodes, IPs and times of their own. With -memprofile, the profile has what is left at the end.
func BenchmarkPartsHeap(b *testing.B) {
	formats(b, func(b *testing.B, media string) {
		var servers []*canned.Server
		for i := range partsClusters {
			pods := fleet.New(fleet.Config{Pods: partsPods, Cluster: uint64(i)})
			servers = append(servers, canned.ListOf(b, media, pods.All()))
		}
		for name, configure := range map[string]func(c *informer.Config[*corev1.Pod]){
			"layout=Shared/parts=none":    func(*informer.Config[*corev1.Pod]) {},
			"layout=Shared/parts=common":  func(c *informer.Config[*corev1.Pod]) { c.Parts = new(informer.Parts) },
			"layout=Compact/parts=none":   func(c *informer.Config[*corev1.Pod]) { c.Layout = informer.LayoutCompact },
			"layout=Compact/parts=common": func(c *informer.Config[*corev1.Pod]) { c.Parts, c.Layout = new(informer.Parts), informer.LayoutCompact },
		} {
			b.Run(name, func(b *testing.B) {
				hold := func(servers []*canned.Server) (memory float64) {
					profiled = nil
					var config informer.Config[*corev1.Pod]
					configure(&config)
					before := testkit.LiveMemory()
					var stops []func()
					var held []*informer.Informer[*corev1.Pod]
					for _, server := range servers {
						inf, stop := runOwn(b, server, config)
						stops = append(stops, stop)
						held = append(held, inf)
					}
					memory = float64(testkit.LiveMemory() - before)
					for _, stop := range stops {
						stop()
					}
					profiled = held
					return memory
				}
				hold(servers[:1]) // allocates what is allocated once
				var memory float64
				runs := 0
				for b.Loop() {
					memory += hold(servers)
					runs++
				}
				memory /= float64(runs)
				b.ReportMetric(memory/1e6, "MB")
				b.ReportMetric(memory/partsClusters/partsPods, "heap-B/object")
				b.ReportMetric(0, "ns/op")
			})
		}
	})
}
