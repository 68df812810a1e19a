package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// loaders is how many requests of load are under way at a time.
const loaders = 16

// load creates a fleet of pods with their namespaces and nodes. Controllers find nothing to change: each node is ready,
// and each pod has a node and no owner.
func load(ctx context.Context, config *rest.Config, pods int) error {
	creates, err := clientAs(config, "kube-controller-manager")
	if err != nil {
		return err
	}
	reports, err := clientAs(config, "kubelet")
	if err != nil {
		return err
	}
	f := fleet.New(fleet.Config{Pods: pods})
	for _, name := range f.Namespaces() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := creates.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create namespace %s: %w", name, err)
		}
	}
	nodes := f.Nodes()
	for _, name := range nodes {
		if err := createNode(ctx, reports, name); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(loaders)
	for i := range f.Len() {
		group.Go(func() error {
			pod := settled(f.Pod(i), nodes[i%len(nodes)])
			made, err := creates.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			made.Status = pod.Status
			if _, err := reports.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
				return fmt.Errorf("status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// settled changes a pod of a fleet, so that an API server accepts it and no controller does anything with it. The
// server writes managedFields by itself.
func settled(pod *corev1.Pod, node string) *corev1.Pod {
	pod.UID, pod.ResourceVersion, pod.ManagedFields = "", "", nil
	pod.OwnerReferences, pod.Finalizers = nil, nil
	pod.Spec.PriorityClassName, pod.Spec.Priority = "", nil
	if pod.Spec.NodeName == "" {
		pod.Spec.NodeName = node
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil {
			v.VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		}
	}
	return pod
}

// createNode creates a node that is ready.
func createNode(ctx context.Context, client clientset.Interface, name string) error {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods: resource.MustParse("250"), corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}},
			NodeInfo:  corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
	for kind, status := range map[corev1.NodeConditionType]corev1.ConditionStatus{
		corev1.NodeReady: corev1.ConditionTrue, corev1.NodeMemoryPressure: corev1.ConditionFalse,
		corev1.NodeDiskPressure: corev1.ConditionFalse, corev1.NodePIDPressure: corev1.ConditionFalse,
	} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status,
			LastHeartbeatTime: metav1.Time{Time: time.Now()}, LastTransitionTime: metav1.Time{Time: time.Now()}})
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	status, err := json.Marshal(map[string]any{"status": node.Status})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, status, metav1.PatchOptions{},
		"status"); err != nil {
		return fmt.Errorf("status of node %s: %w", name, err)
	}
	// The plugin TaintNodesByCondition adds the taint not-ready to each new node. The controller that removes it may not
	// run yet.
	if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`),
		metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("taints of node %s: %w", name, err)
	}
	return nil
}

// clientAs returns a client whose name stands in managedFields.
func clientAs(config *rest.Config, name string) (clientset.Interface, error) {
	config = rest.CopyConfig(config)
	config.UserAgent = name
	config.ContentType = runtime.ContentTypeProtobuf
	return clientset.NewForConfig(config)
}

// countPods returns the number of pods.
func countPods(ctx context.Context, config *rest.Config) (int, error) {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := len(list.Items)
	if list.RemainingItemCount != nil {
		n += int(*list.RemainingItemCount)
	}
	return n, nil
}
