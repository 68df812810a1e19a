package reconcile_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/reconcile"
)

// CreateOrUpdate brings an object into the state that a function sets, and writes only if something differs. With a nil
// cache, it reads from the server.
func ExampleCreateOrUpdate() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	gvr := corev1.SchemeGroupVersion.WithResource("configmaps")
	informertest.Register[*corev1.ConfigMap](server, informertest.Resource{GroupVersionResource: gvr})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	writer := informer.NewTypedClient[*corev1.ConfigMap](client, gvr)
	for _, color := range []string{"green", "green", "blue"} {
		initial := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}}
		settings, operation, err := reconcile.CreateOrUpdate(context.Background(), writer, nil, initial,
			func(settings *corev1.ConfigMap) error {
				settings.Data = map[string]string{"color": color}
				return nil
			})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(operation, settings.Data["color"])
	}
	// Output:
	// Created green
	// Unchanged green
	// Updated blue
}

// A finalizer is added once.
func ExampleAddFinalizer() {
	pod := &corev1.Pod{}
	fmt.Println(reconcile.AddFinalizer(pod, "shop.example.com/backup"), reconcile.AddFinalizer(pod, "shop.example.com/backup"))
	fmt.Println(pod.Finalizers)
	// Output:
	// true false
	// [shop.example.com/backup]
}
