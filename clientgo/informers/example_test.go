package informers_test

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/informers"
)

// A program of client-go, in which only the import and one option have changed.
func Example() {
	run := func(ctx context.Context, clientset kubernetes.Interface) error {
		resync := 10 * time.Hour
		factory := informers.NewSharedInformerFactoryWithOptions(clientset, resync,
			informers.WithStorage(informers.Options{Layout: new(informer.LayoutShared), DropManagedFields: true}))
		defer factory.Shutdown()
		pods := factory.Core().V1().Pods()
		handler, err := pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{})
		if err != nil {
			return err
		}
		factory.StartWithContext(ctx)
		if !cache.WaitFor(ctx, "handlers", handler.HasSyncedChecker()) {
			return context.Cause(ctx)
		}
		_, err = pods.Lister().Pods("default").Get("web-0")
		return err
	}
	_ = run
}
