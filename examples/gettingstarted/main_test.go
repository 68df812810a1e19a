package main

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/manager"
)

// A Greeting gets a ConfigMap, which follows its changes and comes back after a deletion.
func TestGreeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		greetings := informertest.Register[*Greeting](server, informertest.Resource{GroupVersionResource: greetingResource})
		texts := informertest.Register[*corev1.ConfigMap](server, informertest.Resource{GroupVersionResource: configMaps})

		client, err := informer.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, client, manager.Config{}) }()

		want := func(text string) {
			t.Helper()
			synctest.Wait() // until the controller has nothing left to do
			got, ok := texts.Get(informer.Key{Namespace: "default", Name: "world"})
			if !ok || got.Data["greeting"] != text {
				t.Errorf("the ConfigMap is %v, want %q", got, text)
			}
		}
		greeting := &Greeting{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "world"},
			Spec:       GreetingSpec{Name: "world"},
		}
		if greeting, err = greetings.Create(greeting); err != nil {
			t.Fatal(err)
		}
		want("Hello, world!")

		changed := *greeting
		changed.Spec.Name = "cluster"
		if _, err := greetings.Update(&changed); err != nil {
			t.Fatal(err)
		}
		want("Hello, cluster!")

		if _, err := texts.Delete(informer.Key{Namespace: "default", Name: "world"}); err != nil {
			t.Fatal(err)
		}
		want("Hello, cluster!")

		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
