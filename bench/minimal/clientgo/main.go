// A minimal controller of pods, on client-go: it prints the key of each changed pod. It runs in a cluster, or against
// an API server that needs no credentials.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

func main() {
	server := flag.String("server", "", "URL of the API server; empty in a cluster")
	flag.Parse()
	if err := run(context.Background(), *server); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, server string) error {
	config, err := &rest.Config{Host: server,
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"}}, error(nil)
	if server == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return err
		}
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	enqueue := func(obj any) {
		if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = gone.Obj
		}
		if name, err := cache.ObjectToName(obj); err == nil {
			queue.Add(name)
		}
	}
	if _, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) },
		DeleteFunc: enqueue,
	}); err != nil {
		return err
	}
	lister := pods.Lister()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
		return errors.New("not synced")
	}
	for {
		name, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		if pod, err := lister.Pods(name.Namespace).Get(name.Name); err == nil {
			fmt.Println(name, pod.Status.Phase)
		}
		queue.Forget(name)
		queue.Done(name)
	}
}
