package shard_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/shard"
)

// Each replica of the program holds and reconciles a part of the pods. This one is alone, so it has all of them.
func Example() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	informertest.Register[*coordinationv1.Lease](server, informertest.Resource{
		GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"),
	})
	resource := informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}
	served := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: resource.GroupVersionResource})
	if _, err := served.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}); err != nil {
		log.Fatal(err)
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	leaseClient, err := informer.NewClient(server.Config()) // with a rate limit of its own
	if err != nil {
		log.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	replica, err := shard.New(leaseClient, shard.Config{Namespace: "shop", Name: "shop-controller", Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	pods := informer.New(client, resource, informer.Config[*corev1.Pod]{Logger: quiet})
	ctx, cancel := context.WithCancel(context.Background())
	ctl := &informer.Controller[shard.Key]{Logger: quiet, Reconcile: func(_ context.Context, key shard.Key) (informer.Result, error) {
		fmt.Println("reconciled", key.Key)
		cancel()
		return informer.Result{}, nil
	}}
	ctl.Watch(shard.EnqueueObject(pods))
	replica.Follow(pods)
	shard.Control(replica, ctl, shard.ByUID)
	err = replica.Run(ctx, func(ctx context.Context) error {
		ended := make(chan error, 2)
		go func() { ended <- pods.Run(ctx) }()
		go func() { ended <- ctl.Run(ctx) }()
		<-ended
		return <-ended
	})
	fmt.Println(err)
	// Output:
	// reconciled shop/web-0
	// context canceled
}
