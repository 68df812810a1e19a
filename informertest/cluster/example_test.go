package cluster_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/informertest/cluster"
)

func createPod(ctx context.Context) error {
	server := cluster.New(informertest.Options{})
	defer server.Close()
	clients, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		return err
	}
	pods := clients.CoreV1().Pods("default")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	fmt.Println(err)

	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "example.com/web:1"}}
	_, err = pods.Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// A pod needs a container, as in every cluster.
func Example() {
	if err := createPod(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: Pod "web" is invalid: spec.containers: Required value
}
