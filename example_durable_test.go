package informer_test

import (
	"context"
	"fmt"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// This program records what happens to pods. It runs twice. The second run receives what has changed in between, also the
// deletion of a pod, and nothing else.
func ExampleDurableConfig() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podGVR})
	create := func(name string) {
		if _, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}); err != nil {
			log.Fatal(err)
		}
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "") // a volume of the program, which stays when its pod goes
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	run := func() {
		ctx, stop := context.WithCancel(context.Background())
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, informer.Config[*corev1.Pod]{})
		sub := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
			AddFunc:    func(pod *corev1.Pod, initial bool) { fmt.Println("added", pod.Name, initial) },
			DeleteFunc: func(last *corev1.Pod, _ bool) { fmt.Println("deleted", last.Name) },
		}, informer.SubscriptionConfig[*corev1.Pod]{
			Durable: informer.DurableConfig{Name: "record", Storage: informer.WarmStartDir(dir)},
		})
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(ctx) }()
		if err := sub.WaitSynced(ctx); err != nil {
			log.Fatal(err)
		}
		stop()
		<-ended // Run has saved what the handler has acknowledged
	}
	create("web-0")
	create("web-1")
	run()
	if _, err := pods.Delete(informer.Key{Namespace: "default", Name: "web-0"}); err != nil {
		log.Fatal(err)
	}
	create("web-2")
	run()
	// Output:
	// added web-0 true
	// added web-1 true
	// deleted web-0
	// added web-2 false
}
