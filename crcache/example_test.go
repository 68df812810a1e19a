package crcache_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/crcache"
)

func ExampleNew() {
	var config *rest.Config // such as ctrl.GetConfigOrDie()
	_ = func() (ctrl.Manager, error) {
		mgr, err := ctrl.NewManager(config, ctrl.Options{NewCache: crcache.New(crcache.Options{})})
		return mgr, err
	}
}

func ExampleOptions() {
	options := crcache.Options{
		DropManagedFields: true,
		Layout:            informer.LayoutCompact,
		ByObject: map[client.Object]crcache.ByObject{
			&corev1.Node{}: {Layout: new(informer.LayoutShared)},
		},
	}
	fmt.Println(options.Layout)
	// Output: Compact
}

func ExampleByObject() {
	options := crcache.Options{ByObject: map[client.Object]crcache.ByObject{&corev1.Secret{}: {OnDemand: true}}}
	fmt.Println(len(options.ByObject))
	// Output: 1
}

func ExampleIndex() {
	_ = func(ctx context.Context, mgr ctrl.Manager) error {
		cache := mgr.GetCache()
		byNode, err := crcache.NewIndex(ctx, cache, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
		if err != nil {
			return err
		}
		pod, err := crcache.Get[*corev1.Pod](ctx, cache, client.ObjectKey{Namespace: "default", Name: "web-0"})
		if err != nil {
			return err
		}
		for neighbor := range byNode.Lookup(pod.Spec.NodeName) {
			fmt.Println(neighbor.Name)
		}
		return nil
	}
}

// reconciler is the Reconciler of a program.
type reconciler struct{ client.Client }

func (*reconciler) Reconcile(context.Context, reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, nil
}

func ExampleSkipOwnWrites() {
	_ = func(mgr ctrl.Manager) error {
		var own crcache.SkipOwnWrites[reconcile.Request]
		return ctrl.NewControllerManagedBy(mgr).Named("node").
			Watches(&corev1.Node{}, own.Handler(&handler.EnqueueRequestForObject{})).
			Complete(own.Reconciler(&reconciler{own.Client(mgr.GetClient())}))
	}
}

func ExampleWaitForObject() {
	_ = func(ctx context.Context, mgr ctrl.Manager, pod *corev1.Pod) error {
		if err := mgr.GetClient().Update(ctx, pod); err != nil {
			return err
		}
		return crcache.WaitForObject(ctx, mgr.GetCache(), pod)
	}
}
