package informerprom_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/typedinformer/informer/informerprom"
)

// The cost of one scrape with 100 informers, each with two namespaces and a subscription, without the cost of Status.
func BenchmarkScrape(b *testing.B) {
	config := everything()
	status := config.Informers[0]()
	for i := range 99 {
		status.Resource.Resource = fmt.Sprintf("kind%d", i)
		config.Informers = append(config.Informers, fixed(status))
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(informerprom.New(config))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := registry.Gather(); err != nil {
			b.Fatal(err)
		}
	}
}
