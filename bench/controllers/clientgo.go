package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/typedinformer/informer"
)

// startClientGo runs the loop of sample-controller.
func startClientGo(ctx context.Context, config *rest.Config, reconciled func(*corev1.Pod)) (func(informer.Key), error) {
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	enqueue := func(obj any) {
		if name, err := cache.ObjectToName(obj); err == nil {
			queue.Add(name)
		}
	}
	_, err = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    enqueue,
		UpdateFunc: func(_, obj any) { enqueue(obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			enqueue(obj)
		},
	})
	if err != nil {
		return nil, err
	}
	lister := pods.Lister()
	factory.Start(ctx.Done())
	go func() {
		if !cache.WaitForCacheSync(ctx.Done(), pods.Informer().HasSynced) {
			return
		}
		for range workers {
			go func() {
				for {
					name, shutdown := queue.Get()
					if shutdown {
						return
					}
					if pod, err := lister.Pods(name.Namespace).Get(name.Name); err == nil {
						reconciled(pod)
					}
					queue.Forget(name)
					queue.Done(name)
				}
			}()
		}
	}()
	return func(key informer.Key) { queue.Add(cache.ObjectName{Namespace: key.Namespace, Name: key.Name}) }, nil
}
