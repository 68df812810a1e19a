package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// CreateNamespace creates a namespace with a new name that begins with prefix, and returns the name. With a namespace
// for each test, tests see neither each other's objects nor those of an earlier run (-count=2).
//
// No controller empties a deleted namespace in a [Cluster], so leave it until the cluster ends.
func CreateNamespace(ctx context.Context, config *rest.Config, prefix string) (string, error) {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("cluster: client to create namespace %s-*: %w", prefix, err)
	}
	ns, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: prefix + "-"},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("cluster: create namespace %s-*: %w", prefix, err)
	}
	return ns.Name, nil
}
