package informerprom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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

// The cost of the page of a program with one informer, three handlers and a controller, as the HTTP handler serves it.
func BenchmarkPage(b *testing.B) {
	config := everything()
	config.Groups, config.Queues = nil, nil
	status := config.Informers[0]()
	status.Reflectors = status.Reflectors[:1]
	status.Handlers = append(status.Handlers, status.Handlers[0], status.Handlers[0])
	status.Handlers[1].Name, status.Handlers[2].Name = "second", "third"
	config.Informers[0] = fixed(status)
	registry := prometheus.NewRegistry()
	registry.MustRegister(informerprom.New(config))
	for _, encoding := range []string{"gzip", "identity"} {
		b.Run("encoding="+encoding, func(b *testing.B) {
			page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
			request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
			request.Header.Set("Accept-Encoding", encoding)
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				page.ServeHTTP(w, request)
				if w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
