package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// connectClientGo connects client-go's typed informer, from a clientset's factory, with a transform if that is not nil.
func connectClientGo(transform cache.TransformFunc) func(*rest.Config) (follow, error) {
	return func(server *rest.Config) (follow, error) {
		client, err := kubernetes.NewForConfig(server)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, handlers []*handler) (store, error) {
			factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(transform))
			pods := factory.Core().V1().Pods()
			for _, h := range handlers {
				if _, err := pods.Informer().AddEventHandler(resourceEventHandler(h)); err != nil {
					return store{}, err
				}
			}
			factory.Start(ctx.Done())
			lister := pods.Lister()
			visit := func(list []*corev1.Pod, err error) (n int) {
				for _, pod := range list {
					if err == nil && pod.Name != "" {
						n++
					}
				}
				return n
			}
			return store{
				get: func(key types.NamespacedName) bool {
					_, err := lister.Pods(key.Namespace).Get(key.Name)
					return err == nil
				},
				namespace: func(namespace string) int { return visit(lister.Pods(namespace).List(labels.Everything())) },
				all:       func() int { return visit(lister.List(labels.Everything())) },
			}, nil
		}, nil
	}
}

// connectMetadata connects client-go's informer of metadata only.
func connectMetadata(server *rest.Config) (follow, error) {
	client, err := metadata.NewForConfig(server)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, handlers []*handler) (store, error) {
		factory := metadatainformer.NewSharedInformerFactory(client, 0)
		pods := factory.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
		for _, h := range handlers {
			if _, err := pods.Informer().AddEventHandler(resourceEventHandler(h)); err != nil {
				return store{}, err
			}
		}
		factory.Start(ctx.Done())
		visit := func(list []runtime.Object, err error) (n int) {
			for _, pod := range list {
				if err == nil && pod.(*metav1.PartialObjectMetadata).Name != "" {
					n++
				}
			}
			return n
		}
		return store{
			get: func(key types.NamespacedName) bool {
				_, err := pods.Lister().ByNamespace(key.Namespace).Get(key.Name)
				return err == nil
			},
			namespace: func(namespace string) int {
				return visit(pods.Lister().ByNamespace(namespace).List(labels.Everything()))
			},
			all: func() int { return visit(pods.Lister().List(labels.Everything())) },
		}, nil
	}, nil
}

// resourceEventHandler adapts h to client-go. The informer misses no deletion, so there are no tombstones.
func resourceEventHandler(h *handler) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { h.told(obj.(metav1.Object).GetResourceVersion()) },
		UpdateFunc: func(_, obj any) { h.told(obj.(metav1.Object).GetResourceVersion()) },
		DeleteFunc: func(obj any) { h.told(obj.(metav1.Object).GetResourceVersion()) },
	}
}

// dropManagedFields is the transform that many users of client-go write.
func dropManagedFields(obj any) (any, error) {
	obj.(metav1.Object).SetManagedFields(nil)
	return obj, nil
}

// slimTransform is the transform of users who measure memory: it keeps the fields of slimPod.
func slimTransform(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			ResourceVersion: pod.ResourceVersion, Labels: pod.Labels},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}
