package informerprom_test

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerprom"
)

func ExampleNew() {
	_ = func(mux *http.ServeMux, client *informer.Client, group *informer.Group, controller *informer.Controller[informer.Key]) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(informerprom.New(informerprom.Config{
			Groups:      []func() []informer.InformerStatus{group.Status},
			Controllers: []func() informer.ControllerStatus{controller.Status},
			Clients:     []func() informer.ClientStatus{client.Status},
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
