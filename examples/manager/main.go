// Command manager is an ordinary controller of controller-runtime. Its manager has one line more than usual, which
// gives it the cache of package crcache. Each Deployment with the annotation example.com/expose gets a Service on that
// port.
//
//	cd examples/manager
//	go run . -kubeconfig ~/.kube/config   # in a pod, it finds its own cluster
//	kubectl annotate deployment web example.com/expose=8080
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/typedinformer/informer/crcache"
)

func main() {
	metrics := flag.String("metrics", "0", "`address` for metrics, such as :8080; 0 means none")
	flag.Parse() // controller-runtime adds -kubeconfig
	ctrl.SetLogger(zap.New())
	config, err := ctrl.GetConfig()
	if err == nil {
		err = run(ctrl.SetupSignalHandler(), config, *metrics)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err)
		os.Exit(1)
	}
}

// run runs the manager until ctx ends.
func run(ctx context.Context, config *rest.Config, metrics string) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:  server.Options{BindAddress: metrics},
		NewCache: crcache.New(crcache.Options{DropManagedFields: true}),
	})
	if err != nil {
		return err
	}
	if err := addExposer(mgr); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
