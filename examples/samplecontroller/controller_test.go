package main

import (
	"context"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// The properties that sample-controller's own tests check: a Deployment is created and updated, one of others is left
// alone, and the status follows.
func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		foos := informertest.Register[*Foo](server, informertest.Resource{GroupVersionResource: fooResource})
		deployments := informertest.Register[*appsv1.Deployment](server,
			informertest.Resource{GroupVersionResource: deploymentResource})
		events := informertest.Register[*corev1.Event](server,
			informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("events")})
		client, err := informer.NewClient(server.Config())
		if err != nil {
			t.Fatal(err)
		}
		others := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "taken"}}
		if others, err = deployments.Create(others); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, client) }()

		create := func(name, deployment string) *Foo {
			t.Helper()
			foo, err := foos.Create(&Foo{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Spec:       FooSpec{DeploymentName: deployment, Replicas: new(int32(1))},
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return foo
		}
		key := informer.Key{Namespace: "default", Name: "web"}
		foo := create("a", "web")
		deployment, ok := deployments.Get(key)
		if !ok || *deployment.Spec.Replicas != 1 || !metav1.IsControlledBy(deployment, foo) {
			t.Fatalf("the Deployment is %v", deployment)
		}

		foo = foo.DeepCopy()
		foo.Spec.Replicas = new(int32(3))
		if _, err := foos.Update(foo); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if deployment, _ = deployments.Get(key); *deployment.Spec.Replicas != 3 {
			t.Errorf("%d replicas after the update", *deployment.Spec.Replicas)
		}

		deployment = deployment.DeepCopy()
		deployment.Status.AvailableReplicas = 2
		status := informer.NewTypedClient[*appsv1.Deployment](client, deploymentResource)
		if _, err := status.UpdateStatus(ctx, deployment, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if foo, _ = foos.Get(informer.KeyOf(foo)); foo.Status.AvailableReplicas != 2 {
			t.Errorf("the status is %+v", foo.Status)
		}

		create("b", "taken")
		if now, _ := deployments.Get(informer.KeyOf(others)); now.ResourceVersion != others.ResourceVersion {
			t.Errorf("the Deployment of others has changed: %v", now)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		reasons := map[string]bool{}
		for event := range events.All() {
			reasons[event.Reason] = true
		}
		if !reasons["Synced"] || !reasons["ErrResourceExists"] {
			t.Errorf("events: %v", reasons)
		}
	})
}
