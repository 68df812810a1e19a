package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// An outage of the API server pauses the work. A program that writes with the gate goes on when the server is back.
func Example_recover() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	informertest.Register[*coordinationv1.Lease](server, informertest.Resource{
		GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases"),
	})
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: pods})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	gate := new(informer.Gate)
	writer := informer.NewTypedClient[*corev1.Pod](client.WithGate(gate), pods)
	elector, err := leader.New(client, leader.Config{
		Namespace: "shop", Name: "shop-controller", Recover: gate,
		LeaseDuration: 3 * time.Second, RenewDeadline: time.Second, RetryPeriod: 200 * time.Millisecond, // soon, for this example
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	create := func(name string) error {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		_, err := writer.Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
	err = elector.Run(ctx, func(ctx context.Context) error {
		fmt.Println("the leader writes:", create("first"))
		server.Stop()
		pass, leave, err := gate.Enter(ctx)
		if err != nil {
			return err
		}
		<-pass.Done() // the lease was not renewed in time
		leave()
		fmt.Println("an outage, and the gate is closed:", errors.Is(create("second"), informer.ErrGateClosed))
		server.Start()
		if err := gate.Wait(ctx); err != nil {
			return err
		}
		fmt.Println("the server is back:", create("third"))
		cancel() // as a signal does
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// It prints the following, unless the machine stops this process for a second:
	//
	// the leader writes: <nil>
	// an outage, and the gate is closed: true
	// the server is back: <nil>
	// context canceled
}
