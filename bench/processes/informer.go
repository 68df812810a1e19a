package main

import (
	"context"
	"io"
	"iter"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// connectInformer connects this library. Its handlers receive every change, like client-go's. By default, a handler
// that is behind would receive fewer.
func connectInformer[T informer.Object](config informer.Config[T]) func(*rest.Config) (follow, error) {
	config.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	return func(server *rest.Config) (follow, error) {
		client, err := informer.NewClient(server)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, handlers []*handler) (store, error) {
			pods := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")},
				config)
			for _, h := range handlers {
				pods.Subscribe(informer.HandlerFuncs[T]{
					AddFunc:    func(pod T, _ bool) { h.told(pod.GetResourceVersion()) },
					UpdateFunc: func(_, pod T) { h.told(pod.GetResourceVersion()) },
					DeleteFunc: func(pod T, _ bool) { h.told(pod.GetResourceVersion()) },
				}, informer.SubscriptionConfig[T]{Delivery: informer.DeliverEveryBlocking(0)})
			}
			go func() { _ = pods.Run(ctx) }()
			return store{
				get: func(key types.NamespacedName) bool {
					_, ok := pods.Store().Get(key)
					return ok
				},
				namespace: func(namespace string) int { return count(pods.Store().Namespace(namespace)) },
				all:       func() int { return count(pods.Store().All()) },
			}, nil
		}, nil
	}
}

func count[T informer.Object](pods iter.Seq[T]) (n int) {
	for pod := range pods {
		if pod.GetName() != "" {
			n++
		}
	}
	return n
}

// slimPod has the fields of a pod that many controllers need.
type slimPod struct {
	Metadata struct {
		Namespace       string            `json:"namespace"`
		Name            string            `json:"name"`
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase corev1.PodPhase `json:"phase"`
	} `json:"status"`
}

func (p *slimPod) GetNamespace() string       { return p.Metadata.Namespace }
func (p *slimPod) GetName() string            { return p.Metadata.Name }
func (p *slimPod) GetUID() types.UID          { return p.Metadata.UID }
func (p *slimPod) GetResourceVersion() string { return p.Metadata.ResourceVersion }
