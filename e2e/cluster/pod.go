package cluster

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// NewPod returns the smallest pod that the API server accepts: one container, no node. No kubelet ever runs it.
func NewPod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.invalid/main:1"}}},
	}
}

// Pods yields n pods from [NewPod], named pod-000000 and so on, so that up to a million names sort like their numbers.
func Pods(namespace string, n int) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for i := range n {
			if !yield(NewPod(namespace, fmt.Sprintf("pod-%06d", i))) {
				return
			}
		}
	}
}

// CreatePods creates pods over protobuf with a number of workers, or 16 if workers is zero. It returns when all are
// created, or at the first error; the pods created by then stay.
//
// One goroutine iterates over pods, never more than a few pods ahead of the workers. For a slice, use slices.Values.
// Several workers create pods in another order. The API server drops the status of a new pod; set it with UpdateStatus.
func CreatePods(ctx context.Context, config *rest.Config, pods iter.Seq[*corev1.Pod], workers int) error {
	if workers == 0 {
		workers = 16
	}
	if workers < 0 {
		return fmt.Errorf("cluster: create pods: workers is %d, want none (zero) or more", workers)
	}
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cluster: client to create pods: %w", err)
	}

	group, ctx := errgroup.WithContext(ctx)
	queue := make(chan *corev1.Pod)
	group.Go(func() error {
		defer close(queue)
		for pod := range pods {
			select {
			case queue <- pod:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range workers {
		group.Go(func() error {
			for pod := range queue {
				_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
				if err != nil {
					return fmt.Errorf("cluster: create pod %s/%s: %w", pod.Namespace, pod.Name, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}
