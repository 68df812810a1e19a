package main

import (
	"context"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// connectControllerRuntime connects controller-runtime's cache, which is built on client-go's informers, with a
// transform if that is not nil. Its reads copy, as in a manager's client.
func connectControllerRuntime(transform toolscache.TransformFunc) func(*rest.Config) (follow, error) {
	return func(server *rest.Config) (follow, error) {
		ctrl.SetLogger(logr.Discard())
		return func(ctx context.Context, handlers []*handler) (store, error) {
			pods, err := cache.New(server, cache.Options{DefaultTransform: transform})
			if err != nil {
				return store{}, err
			}
			informer, err := pods.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
			if err != nil {
				return store{}, err
			}
			for _, h := range handlers {
				if _, err := informer.AddEventHandler(resourceEventHandler(h)); err != nil {
					return store{}, err
				}
			}
			go func() { _ = pods.Start(ctx) }()
			list := func(options ...client.ListOption) (n int) {
				var list corev1.PodList
				if pods.List(ctx, &list, options...) != nil {
					return -1
				}
				for i := range list.Items {
					if list.Items[i].Name != "" {
						n++
					}
				}
				return n
			}
			return store{
				get: func(key types.NamespacedName) bool {
					var pod corev1.Pod
					return pods.Get(ctx, key, &pod) == nil
				},
				namespace: func(namespace string) int { return list(client.InNamespace(namespace)) },
				all:       func() int { return list() },
			}, nil
		}, nil
	}
}
