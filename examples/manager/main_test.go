package main

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// A Deployment with a port gets a Service, which follows the port.
func TestExpose(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	deployments := informertest.Register[*appsv1.Deployment](server, informertest.Resource{GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments")})
	informertest.Register[*corev1.Service](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services")})
	deployment, err := deployments.Create(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web", Annotations: map[string]string{portAnnotation: "80"}},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, server.Config(), "0") }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()

	client, err := informer.NewClient(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	services := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("services")}, informer.Config[*corev1.Service]{})
	go services.Run(ctx)
	port := func(want int32) {
		t.Helper()
		_, err := services.Await(ctx, informer.Key{Namespace: "a", Name: "web"}, func(s *corev1.Service) bool {
			return s != nil && s.Spec.Ports[0].Port == want && s.Spec.Selector["app"] == "web" && metav1.IsControlledBy(s, deployment)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	port(80)
	changed := deployment.DeepCopy()
	changed.Annotations[portAnnotation] = "8080"
	if _, err := deployments.Update(changed); err != nil {
		t.Fatal(err)
	}
	port(8080)
}
