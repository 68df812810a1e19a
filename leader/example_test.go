package leader_test

import (
	"context"
	"fmt"
	"log"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/leader"
)

// One of several replicas does the work. The lease is free for the next one when Run has returned.
func Example() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	leases := informertest.Register[*coordinationv1.Lease](server, informertest.Resource{
		GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"),
	})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	elector, err := leader.New(client, leader.Config{Namespace: "shop", Name: "shop-controller", Identity: "replica-1"})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	err = elector.Run(ctx, func(ctx context.Context) error {
		lease, _ := leases.Get(informer.Key{Namespace: "shop", Name: "shop-controller"})
		fmt.Println("the leader is", *lease.Spec.HolderIdentity)
		cancel() // as a signal does
		<-ctx.Done()
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output:
	// the leader is replica-1
	// context canceled
}
