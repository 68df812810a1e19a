package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/manager"
)

// simulation plays the scheduler, the kubelets, and the controllers of Deployments and ReplicaSets. It writes to the
// server's collections, as a cluster does, and its informers say when something is to be done.
type simulation struct {
	nodes       *informertest.Collection[*corev1.Node]
	pods        *informertest.Collection[*corev1.Pod]
	sets        *informertest.Collection[*appsv1.ReplicaSet]
	deployments *informertest.Collection[*appsv1.Deployment]
}

var (
	nodes       = corev1.SchemeGroupVersion.WithResource("nodes")
	pods        = corev1.SchemeGroupVersion.WithResource("pods")
	sets        = appsv1.SchemeGroupVersion.WithResource("replicasets")
	deployments = appsv1.SchemeGroupVersion.WithResource("deployments")

	setKind        = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
	deploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
)

// stopTime is how long a pod takes to stop.
const stopTime = time.Second

// newSimulation returns a simulation for a server that has every built-in type.
func newSimulation(server *informertest.Server) *simulation {
	s := &simulation{}
	s.nodes, _ = informertest.CollectionOf[*corev1.Node](server, nodes)
	s.pods, _ = informertest.CollectionOf[*corev1.Pod](server, pods)
	s.sets, _ = informertest.CollectionOf[*appsv1.ReplicaSet](server, sets)
	s.deployments, _ = informertest.CollectionOf[*appsv1.Deployment](server, deployments)
	return s
}

// add adds the informers and controllers to a manager.
func (s *simulation) add(m *manager.Manager, client *informer.Client) error {
	var p *informer.Informer[*corev1.Pod]
	var rs *informer.Informer[*appsv1.ReplicaSet]
	var d *informer.Informer[*appsv1.Deployment]
	group := informer.NewGroup(client)
	_, err := group.Join(
		informer.SharedInto(&p, informer.Resource{GroupVersionResource: pods}),
		informer.SharedInto(&rs, informer.Resource{GroupVersionResource: sets}),
		informer.SharedInto(&d, informer.Resource{GroupVersionResource: deployments}),
	)
	if err != nil {
		return err
	}
	kubelets := &informer.Controller[informer.Key]{Name: "kubelets", Reconcile: s.runPod}
	kubelets.Watch(informer.EnqueueObject(p))
	replicas := &informer.Controller[informer.Key]{Name: "replicasets", Reconcile: s.replicate}
	replicas.Watch(informer.EnqueueObject(rs))
	replicas.Watch(informer.EnqueueOwner(p, informer.Owner{GroupKind: setKind.GroupKind()}))
	rollouts := &informer.Controller[informer.Key]{Name: "deployments", Reconcile: s.roll}
	rollouts.Watch(informer.EnqueueObject(d))
	rollouts.Watch(informer.EnqueueOwner(rs, informer.Owner{GroupKind: deploymentKind.GroupKind()}))
	return errors.Join(m.AddGroup("informers", group), m.AddController(kubelets), m.AddController(replicas),
		m.AddController(rollouts))
}

// addNode adds a node that is ready.
func addNode(server *informertest.Server, name string) error {
	collection, _ := informertest.CollectionOf[*corev1.Node](server, nodes)
	_, err := collection.Create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"},
		},
	})
	return err
}

// runPod gives a pod a node and starts it, or stops it when it is being deleted.
func (s *simulation) runPod(ctx context.Context, key informer.Key) (informer.Result, error) {
	pod, ok := s.pods.Get(key)
	switch {
	case !ok, pod.DeletionTimestamp == nil && pod.Status.Phase != "" && pod.Status.Phase != corev1.PodPending:
		return informer.Result{}, nil
	case pod.DeletionTimestamp != nil:
		return s.stopPod(pod)
	}
	pod = pod.DeepCopy()
	if all := slices.Collect(s.nodes.All()); pod.Spec.NodeName == "" && len(all) > 0 {
		pod.Spec.NodeName = all[int(hash(string(pod.UID)))%len(all)].Name
	}
	if pod.Spec.NodeName == "" {
		return informer.Result{RequeueAfter: time.Minute}, nil // there is no node yet
	}
	now := metav1.Now().Rfc3339Copy()
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.Conditions = nil
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady,
		corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue,
			LastTransitionTime: now})
	}
	for _, c := range pod.Spec.Containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name,
			Image: c.Image, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	_, err := s.pods.Update(pod)
	return informer.Result{}, err
}

// stopPod removes a pod that is being deleted, as its kubelet does when the containers have stopped.
func (s *simulation) stopPod(pod *corev1.Pod) (informer.Result, error) {
	grace := time.Duration(*cmp.Or(pod.DeletionGracePeriodSeconds, new(int64))) * time.Second
	if left := time.Until(pod.DeletionTimestamp.Add(min(stopTime, grace) - grace)); left > 0 {
		return informer.Result{RequeueAfter: left}, nil
	}
	_, err := s.pods.Delete(informer.KeyOf(pod))
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return informer.Result{}, err
}

// replicate gives a ReplicaSet as many pods as it wants.
func (s *simulation) replicate(ctx context.Context, key informer.Key) (informer.Result, error) {
	set, ok := s.sets.Get(key)
	if !ok || set.DeletionTimestamp != nil {
		return informer.Result{}, nil
	}
	var owned []*corev1.Pod
	ready := int32(0)
	for pod := range s.pods.All() {
		if metav1.IsControlledBy(pod, set) && pod.DeletionTimestamp == nil {
			owned = append(owned, pod)
			if pod.Status.Phase == corev1.PodRunning {
				ready++
			}
		}
	}
	want := int(replicas(set.Spec.Replicas))
	for range want - len(owned) {
		pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: *set.Spec.Template.Spec.DeepCopy()}
		pod.Namespace, pod.GenerateName = set.Namespace, set.Name+"-"
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, setKind)}
		if _, err := s.pods.Create(pod); err != nil {
			return informer.Result{}, err
		}
	}
	for _, pod := range owned[min(want, len(owned)):] {
		if _, err := s.pods.Delete(informer.KeyOf(pod)); err != nil {
			return informer.Result{}, err
		}
	}
	set = set.DeepCopy()
	set.Status = appsv1.ReplicaSetStatus{Replicas: int32(len(owned)), ReadyReplicas: ready, AvailableReplicas: ready,
		ObservedGeneration: set.Generation}
	_, err := s.sets.Update(set)
	return informer.Result{}, err
}

// roll gives a Deployment a ReplicaSet for its template, and scales those for earlier templates to zero.
func (s *simulation) roll(ctx context.Context, key informer.Key) (informer.Result, error) {
	deployment, ok := s.deployments.Get(key)
	if !ok || deployment.DeletionTimestamp != nil {
		return informer.Result{}, nil
	}
	template, err := json.Marshal(deployment.Spec.Template)
	if err != nil {
		return informer.Result{}, err
	}
	label := rand.SafeEncodeString(fmt.Sprint(hash(string(template))))
	name := deployment.Name + "-" + label
	status := appsv1.DeploymentStatus{ObservedGeneration: deployment.Generation}
	if _, ok := s.sets.Get(informer.Key{Namespace: key.Namespace, Name: name}); !ok {
		if _, err := s.sets.Create(newSet(deployment, name, label)); err != nil {
			return informer.Result{}, err
		}
	}
	for set := range s.sets.All() {
		if !metav1.IsControlledBy(set, deployment) {
			continue
		}
		want := int32(0)
		if set.Name == name {
			want, status.UpdatedReplicas = replicas(deployment.Spec.Replicas), set.Status.Replicas
		}
		status.Replicas += set.Status.Replicas
		status.ReadyReplicas += set.Status.ReadyReplicas
		status.AvailableReplicas += set.Status.AvailableReplicas
		if replicas(set.Spec.Replicas) != want {
			set = set.DeepCopy()
			set.Spec.Replicas = &want
			if _, err := s.sets.Update(set); err != nil {
				return informer.Result{}, err
			}
		}
	}
	deployment = deployment.DeepCopy()
	deployment.Status = status
	_, err = s.deployments.Update(deployment)
	return informer.Result{}, err
}

// newSet returns the ReplicaSet for the template of a deployment.
func newSet(deployment *appsv1.Deployment, name, label string) *appsv1.ReplicaSet {
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, deploymentKind)}},
		Spec: appsv1.ReplicaSetSpec{Replicas: deployment.Spec.Replicas, Selector: deployment.Spec.Selector.DeepCopy(),
			Template: *deployment.Spec.Template.DeepCopy()},
	}
	set.Spec.Selector = metav1.AddLabelToSelector(set.Spec.Selector, appsv1.DefaultDeploymentUniqueLabelKey, label)
	metav1.SetMetaDataLabel(&set.Spec.Template.ObjectMeta, appsv1.DefaultDeploymentUniqueLabelKey, label)
	set.Labels = set.Spec.Template.Labels
	return set
}

// replicas returns a number of replicas, by default 1.
func replicas(n *int32) int32 { return *cmp.Or(n, new(int32(1))) }

// hash returns a hash of text.
func hash(text string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(text))
	return h.Sum32()
}
