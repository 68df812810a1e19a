package manager_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/manager"
)

// A manager runs informers before controllers, and stops them after those.
func Example() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: pods})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	i := informer.New(client, informer.Resource{GroupVersionResource: pods}, informer.Config[*corev1.Pod]{})

	ctx, cancel := context.WithCancel(context.Background()) // SetupSignalHandler in a program
	m := manager.New(manager.Config{Logger: slog.New(slog.DiscardHandler)})
	if err := m.AddInformer(i); err != nil {
		log.Fatal(err)
	}
	if err := m.Add(manager.Runnable{Name: "job", Run: func(context.Context) error {
		fmt.Println("synced:", i.HasSynced())
		cancel()
		return nil
	}}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.Run(ctx))
	// Output:
	// synced: true
	// <nil>
}
