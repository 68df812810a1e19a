package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

func startInformer(ctx context.Context, config *rest.Config, reconciled func(*corev1.Pod)) (func(informer.Key), error) {
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	pods := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
		informer.Config[*corev1.Pod]{})
	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{})
	controller := &informer.Controller[informer.Key]{
		Queue:                   queue,
		MaxConcurrentReconciles: workers,
		Reconcile: func(_ context.Context, key informer.Key) (informer.Result, error) {
			if pod, ok := pods.Store().Get(key); ok {
				reconciled(pod)
			}
			return informer.Result{}, nil
		},
	}
	controller.Watch(informer.EnqueueObject(pods))
	go pods.Run(ctx)
	go controller.Run(ctx)
	return queue.Add, nil
}
