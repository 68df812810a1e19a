// A minimal controller of pods, on controller-runtime: it prints the key of each changed pod. It runs in a cluster, or
// against an API server that needs no credentials.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	server := flag.String("server", "", "URL of the API server; empty in a cluster")
	flag.Parse()
	if err := run(context.Background(), *server); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, apiServer string) error {
	ctrl.SetLogger(logr.Discard())
	config, err := &rest.Config{Host: apiServer}, error(nil)
	if apiServer == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return err
		}
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	pods := manager.GetClient()
	if err := ctrl.NewControllerManagedBy(manager).For(&corev1.Pod{}).Complete(reconcile.Func(func(ctx context.Context,
		request reconcile.Request) (reconcile.Result, error) {
		var pod corev1.Pod
		if err := pods.Get(ctx, request.NamespacedName, &pod); err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		fmt.Println(request.NamespacedName, pod.Status.Phase)
		return reconcile.Result{}, nil
	})); err != nil {
		return err
	}
	return manager.Start(ctx)
}
