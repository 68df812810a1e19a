package main

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/typedinformer/informer"
)

func startControllerRuntime(ctx context.Context, config *rest.Config, reconciled func(*corev1.Pod)) (func(informer.Key),
	error) {
	ctrl.SetLogger(logr.Discard())
	config.ContentType = "application/vnd.kubernetes.protobuf"
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return nil, err
	}
	events := make(chan event.GenericEvent, 1024)
	client := manager.GetClient()
	err = ctrl.NewControllerManagedBy(manager).
		For(&corev1.Pod{}).
		WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(func(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
			var pod corev1.Pod
			if err := client.Get(ctx, request.NamespacedName, &pod); err != nil {
				return reconcile.Result{}, err
			}
			reconciled(&pod)
			return reconcile.Result{}, nil
		}))
	if err != nil {
		return nil, err
	}
	go manager.Start(ctx)
	return func(key informer.Key) {
		events <- event.GenericEvent{Object: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace,
			Name: key.Name}}}
	}, nil
}
