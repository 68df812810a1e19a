package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// CreateFleet creates realistic pods in namespaces of their own, with all fields that a server accepts, and with the
// status for every pod whose number is a multiple of statusEvery. It returns them as the server has them, in the order
// of the fleet. At the first error it stops; the pods created by then stay.
func CreateFleet(ctx context.Context, config *rest.Config, c fleet.Config, statusEvery int) ([]*corev1.Pod, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cluster: client to create a fleet: %w", err)
	}
	f := fleet.New(c)
	namespaces := map[string]string{}
	for _, name := range f.Namespaces() {
		if namespaces[name], err = CreateNamespace(ctx, config, "fleet"); err != nil {
			return nil, err
		}
	}
	if err := createPriorityClasses(ctx, client, f); err != nil {
		return nil, err
	}
	created := make([]*corev1.Pod, c.Pods)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	i := 0
	for pod := range f.All() {
		if ctx.Err() != nil {
			break
		}
		number := i
		group.Go(func() error {
			status := pod.Status
			pod.Namespace = namespaces[pod.Namespace]
			pod.UID, pod.ResourceVersion, pod.CreationTimestamp, pod.ManagedFields = "", "", metav1.Time{}, nil
			pods := client.CoreV1().Pods(pod.Namespace)
			now, err := pods.Create(ctx, pod, metav1.CreateOptions{})
			if err == nil && number%statusEvery == 0 {
				now.Status = status
				now, err = pods.UpdateStatus(ctx, now, metav1.UpdateOptions{})
			}
			if err != nil {
				return fmt.Errorf("cluster: create pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			created[number] = now
			return nil
		})
		i++
	}
	return created, group.Wait()
}

// createPriorityClasses creates the priority classes that pods of f have.
func createPriorityClasses(ctx context.Context, client kubernetes.Interface, f *fleet.Fleet) error {
	known := map[string]bool{"": true, "system-node-critical": true, "system-cluster-critical": true} // the server creates two
	for pod := range f.All() {
		name := pod.Spec.PriorityClassName
		if known[name] {
			continue
		}
		known[name] = true
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: *pod.Spec.Priority}
		_, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cluster: create priority class %s: %w", name, err)
		}
	}
	return nil
}
