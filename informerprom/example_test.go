package informerprom_test

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerprom"
)

func ExampleNew() {
	_ = func(mux *http.ServeMux, group *informer.Group, controller *informer.Controller[informer.Key]) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(informerprom.New(informerprom.Config{
			Groups:      []func() []informer.InformerStatus{group.Status},
			Controllers: []func() informer.ControllerStatus{controller.Status},
		}))
		mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
}

func ExampleCollector_Add() {
	_ = func(metrics *informerprom.Collector, nodes *informer.Informer[*corev1.Node]) {
		remove := metrics.Add(informerprom.Config{
			Name:      "spot",
			Informers: []func() informer.InformerStatus{nodes.Status},
		})
		defer remove()
	}
}

// A histogram of the time that reconciles take.
func Example_histogram() {
	_ = func(registry *prometheus.Registry) *informer.Controller[informer.Key] {
		worked := promauto.With(registry).NewHistogram(prometheus.HistogramOpts{
			Name:        "workqueue_work_duration_seconds",
			Help:        "How long in seconds processing an item from workqueue takes.",
			ConstLabels: prometheus.Labels{"name": "site", "controller": "site"},
			Buckets:     prometheus.ExponentialBuckets(10e-9, 10, 12),
		})
		queue := informer.NewQueue(informer.QueueConfig[informer.Key]{
			Name:   "site",
			OnDone: func(_ informer.Priority, d time.Duration) { worked.Observe(d.Seconds()) },
		})
		return &informer.Controller[informer.Key]{Name: "site", Queue: queue}
	}
}
