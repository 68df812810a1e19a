// Command samplecontroller is k8s.io/sample-controller with the informers of this library: each Foo, a custom resource,
// gets a Deployment. docs/migrate-client-go.md compares both.
//
//	go run ./examples/samplecontroller -kubeconfig ~/.kube/config
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/manager"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "`path` of a kubeconfig; in a pod, empty means its service account")
	flag.Parse()
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err == nil {
		var client *informer.Client
		if client, err = informer.NewClient(config); err == nil {
			err = run(ctx, client)
		}
	}
	if err != nil {
		slog.Error("samplecontroller", "err", err)
		os.Exit(1)
	}
}
