package informerprom_test

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerprom"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/status"
)

func ExampleNew() {
	_ = func(mux *http.ServeMux, client *informer.Client, group *informer.Group, controller *informer.Controller[informer.Key]) {
		registry := prometheus.NewRegistry()
		registry.MustRegister(informerprom.New(informerprom.Config{
			Groups:      []func() []informer.InformerStatus{group.Status},
			Controllers: []func() status.Controller{controller.Status},
			Clients:     []func() status.Client{client.Status},
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

// A program with metrics, probes and leader election.
func Example_manager() {
	_ = func(group *informer.Group, client *informer.Client, controller *informer.Controller[informer.Key], elector *leader.Elector) error {
		registry := prometheus.NewRegistry()
		registry.MustRegister(informerprom.New(informerprom.Config{
			Groups:      []func() []informer.InformerStatus{group.Status},
			Controllers: []func() status.Controller{controller.Status},
			Clients:     []func() status.Client{client.Status},
		}))
		mux := http.NewServeMux()
		mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
		m := manager.New(manager.Config{
			Probes:  manager.Server{Addr: ":8081", Handler: mux},
			Elector: elector,
		})
		if err := errors.Join(m.AddGroup("informers", group), m.AddController(controller)); err != nil {
			return err
		}
		ctx, stop := manager.SetupSignalHandler(context.Background())
		defer stop()
		return m.Run(ctx)
	}
}
