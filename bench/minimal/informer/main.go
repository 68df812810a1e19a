// A minimal controller of pods, on this library: it prints the key of each changed pod. It runs in a cluster, or
// against an API server that needs no credentials.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

func main() {
	server := flag.String("server", "", "URL of the API server; empty in a cluster")
	flag.Parse()
	if err := run(context.Background(), *server); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server string) error {
	config, err := &rest.Config{Host: server}, error(nil)
	if server == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return err
		}
	}
	client, err := informer.NewClient(config)
	if err != nil {
		return err
	}
	pods := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
		informer.Config[*corev1.Pod]{})
	controller := informer.Controller[informer.Key]{
		Reconcile: func(_ context.Context, key informer.Key) (informer.Result, error) {
			if pod, ok := pods.Store().Get(key); ok {
				fmt.Println(key, pod.Status.Phase)
			}
			return informer.Result{}, nil
		},
	}
	controller.Watch(informer.EnqueueObject(pods))
	go pods.Run(ctx)
	return controller.Run(ctx)
}
