package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
)

// kubelet does what the kubelets of all nodes do, without containers: pods with a node become ready, those of a Job
// succeed, and those that are being deleted end.
type kubelet struct {
	client    clientset.Interface
	addresses int // how many it has given to pods
}

// run works until ctx ends. It retries what fails: the script restarts the API server.
func (k *kubelet) run(ctx context.Context) {
	for pause(ctx, 100*time.Millisecond) == nil {
		pods, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range pods.Items {
			if pod := &pods.Items[i]; pod.Spec.NodeName != "" {
				_ = k.sync(ctx, pod)
			}
		}
	}
}

func (k *kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	client := k.client.CoreV1().Pods(pod.Namespace)
	if pod.DeletionTimestamp != nil {
		return client.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	if pod.Status.Phase != corev1.PodPending {
		return nil
	}
	pod.Status.Phase = corev1.PodRunning
	ready := corev1.ConditionTrue
	if pod.Spec.RestartPolicy == corev1.RestartPolicyNever {
		pod.Status.Phase, ready = corev1.PodSucceeded, corev1.ConditionFalse
	}
	now := metav1.Now()
	pod.Status.StartTime = &now
	k.addresses++
	pod.Status.PodIP = fmt.Sprintf("10.1.%d.%d", k.addresses/250, k.addresses%250+1)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: ready,
			LastTransitionTime: now})
	}
	_, err := client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// errNotYet indicates that what a step waits for has not happened yet.
var errNotYet = errors.New("not yet")

func notYet(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errNotYet, fmt.Sprintf(format, args...))
}
