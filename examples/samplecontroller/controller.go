package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/time/rate"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/manager"
	"github.com/typedinformer/informer/reconcile"
)

// fieldManager names the controller in managedFields and in events.
const fieldManager = "sample-controller"

var deploymentResource = appsv1.SchemeGroupVersion.WithResource("deployments")

// controller has what the reconcile of a Foo needs.
type controller struct {
	foos        *informer.Informer[*Foo]
	deployments *informer.Informer[*appsv1.Deployment]

	fooClient        *informer.TypedClient[*Foo]
	deploymentClient *informer.TypedClient[*appsv1.Deployment]
	recorder         *reconcile.Recorder
}

// run runs the controller until ctx ends.
func run(ctx context.Context, client *informer.Client) error {
	c := &controller{
		fooClient:        informer.NewTypedClient[*Foo](client, fooResource),
		deploymentClient: informer.NewTypedClient[*appsv1.Deployment](client, deploymentResource),
	}
	group := informer.NewGroup(client)
	if _, err := group.Join(
		informer.SharedInto(&c.foos, informer.Resource{GroupVersionResource: fooResource}),
		informer.SharedInto(&c.deployments, informer.Resource{GroupVersionResource: deploymentResource}),
	); err != nil {
		return err
	}
	var err error
	if c.recorder, err = reconcile.NewRecorder(client, reconcile.RecorderConfig{Component: fieldManager}); err != nil {
		return err
	}
	ctl := &informer.Controller[informer.Key]{
		Name: fieldManager,
		Queue: informer.NewQueue(informer.QueueConfig[informer.Key]{
			Name: "foos",
			RateLimiter: informer.MaxOfLimiter[informer.Key]{
				&informer.ExponentialLimiter[informer.Key]{},
				&informer.BucketLimiter[informer.Key]{Limiter: rate.NewLimiter(50, 300)},
			},
		}),
		Reconcile:               c.reconcile,
		MaxConcurrentReconciles: 2,
	}
	ctl.Watch(informer.EnqueueObject(c.foos))
	ctl.Watch(informer.EnqueueOwner(c.deployments, informer.Owner{GroupKind: fooKind.GroupKind()}))

	m := manager.New(manager.Config{})
	if err := errors.Join(
		m.AddGroup("informers", group),
		m.Add(manager.Runnable{Name: "events", Run: c.recorder.Run, Phase: manager.EveryReplica}),
		m.AddController(ctl),
	); err != nil {
		return err
	}
	return m.Run(ctx)
}

// reconcile is sample-controller's syncHandler.
func (c *controller) reconcile(ctx context.Context, key informer.Key) (informer.Result, error) {
	foo, ok := c.foos.Store().Get(key)
	switch {
	case !ok:
		return informer.Result{}, nil // the garbage collector deletes its Deployment
	case foo.Spec.DeploymentName == "":
		slog.WarnContext(ctx, "Foo without a deployment name", "foo", key)
		return informer.Result{}, nil // its next change enqueues it again
	}
	name := informer.Key{Namespace: foo.Namespace, Name: foo.Spec.DeploymentName}
	deployment, ok := c.deployments.Store().Get(name)
	var err error
	switch {
	case !ok:
		deployment, err = c.deploymentClient.Create(ctx, newDeployment(foo),
			metav1.CreateOptions{FieldManager: fieldManager})
	case !metav1.IsControlledBy(deployment, foo):
		err = fmt.Errorf("resource %q already exists and is not managed by Foo", name.Name)
		c.recorder.Eventf(fooKind, foo, corev1.EventTypeWarning, "ErrResourceExists", "%v", err)
	case foo.Spec.Replicas != nil && *foo.Spec.Replicas != *deployment.Spec.Replicas:
		deployment, err = c.deploymentClient.Update(ctx, newDeployment(foo),
			metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return informer.Result{}, err
	}
	if foo.Status.AvailableReplicas != deployment.Status.AvailableReplicas {
		foo = foo.DeepCopy() // objects of the store are shared
		foo.Status.AvailableReplicas = deployment.Status.AvailableReplicas
		if foo, err = c.fooClient.UpdateStatus(ctx, foo, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil {
			return informer.Result{}, err
		}
		c.recorder.Eventf(fooKind, foo, corev1.EventTypeNormal, "Synced", "Foo synced successfully")
	}
	// sample-controller does not wait, so its next call may read the cache before its own writes.
	return informer.Result{}, errors.Join(c.deployments.WaitForObject(ctx, deployment), c.foos.WaitForObject(ctx, foo))
}

// newDeployment is as in sample-controller.
func newDeployment(foo *Foo) *appsv1.Deployment {
	labels := map[string]string{"app": "nginx", "controller": foo.Name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name:            foo.Spec.DeploymentName,
			Namespace:       foo.Namespace,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(foo, fooKind)},
		},
		Spec: appsv1.DeploymentSpec{
			Replicas: foo.Spec.Replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:latest"}}},
			},
		},
	}
}
