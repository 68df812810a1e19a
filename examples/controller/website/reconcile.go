package website

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/reconcile"
)

// reconcile brings one website and its children to the desired state.
func (c *Controller) reconcile(ctx context.Context, key informer.Key) (informer.Result, error) {
	result, err := c.sync(ctx, key)
	if apierrors.IsConflict(err) || errors.Is(err, errNotSeen) {
		// Someone else wrote in between, or the cache is late. That is no failure. The other write may be one that matters
		// ignores, so only Backoff brings the key back.
		return informer.Result{Backoff: true}, nil
	}
	return result, err
}

// errNotSeen indicates that the cache does not have a write yet.
var errNotSeen = errors.New("the cache is late")

// see waits until the cache has the result of a write, so that the next reconcile of this website sees it. It waits
// only briefly: while a watch is broken, the worker can reconcile other websites.
func see[T informer.Object](ctx context.Context, cache *informer.Informer[T], written T) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Second, errNotSeen)
	defer cancel()
	return cache.WaitForObject(ctx, written)
}

func (c *Controller) sync(ctx context.Context, key informer.Key) (informer.Result, error) {
	w, ok := c.Websites.Store().Get(key)
	switch {
	case !ok:
		return informer.Result{}, nil // its children were removed before the finalizer
	case w.DeletionTimestamp != nil:
		return c.tearDown(ctx, w)
	}
	w = w.DeepCopy()
	if reconcile.AddFinalizer(w, finalizer) { // before it has children
		updated, err := c.client.Update(ctx, w, metav1.UpdateOptions{FieldManager: name})
		if err != nil {
			return informer.Result{}, err
		}
		w = updated
	}

	before := w.DeepCopy().Status
	result, failed := c.bring(ctx, w)
	w.Status.ObservedGeneration = w.Generation
	if isRetried(failed) || equality.Semantic.DeepEqual(before, w.Status) {
		return result, failed
	}
	updated, err := c.client.UpdateStatus(ctx, w, metav1.UpdateOptions{FieldManager: name})
	if err != nil {
		return informer.Result{}, err
	}
	for _, condition := range updated.Status.Conditions {
		if old := meta.FindStatusCondition(before.Conditions, condition.Type); old == nil || old.Reason != condition.Reason {
			c.record(w, condition)
		}
	}
	if err := see(ctx, c.Websites, updated); err != nil {
		return informer.Result{}, err
	}
	return result, failed
}

// invalidError indicates that the user must change the spec.
type invalidError struct{ error }

// isRetried reports whether err can go away by itself. Conditions tell the user about the other errors.
func isRetried(err error) bool {
	return err != nil && !errors.As(err, new(*invalidError))
}

// bring updates the children of w, and sets its conditions. If the error is retried, it leaves the conditions
// unchanged.
func (c *Controller) bring(ctx context.Context, w *Website) (informer.Result, error) {
	set := func(conditionType string, ok bool, reason, message string) {
		status := metav1.ConditionFalse
		if ok {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
			Type: conditionType, Status: status, Reason: reason, Message: message, ObservedGeneration: w.Generation,
		})
	}
	if err := w.validate(); err != nil {
		set(Accepted, false, "Invalid", err.Error())
		set(Ready, false, "NotAccepted", "its earlier children stay unchanged")
		return informer.Result{}, informer.TerminalError(&invalidError{err})
	}
	if holder := c.holder(w); holder != informer.KeyOf(w) {
		if err := errors.Join(c.services.prune(ctx, w), c.deployments.prune(ctx, w)); err != nil {
			return informer.Result{}, err
		}
		set(Accepted, false, "HostTaken", fmt.Sprintf("%s is the host of %s", w.Spec.Host, holder))
		set(Ready, false, "NotAccepted", "it has no children")
		w.Status.Host, w.Status.AvailableReplicas = "", 0
		return informer.Result{}, nil // w is enqueued again when the holder gives the host up
	}
	child := metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}
	deployment, err := c.deployments.apply(ctx, w, &appsv1.Deployment{ObjectMeta: child}, shapeDeployment)
	if err == nil {
		if w.replicas() > 0 {
			_, err = c.services.apply(ctx, w, &corev1.Service{ObjectMeta: child}, shapeService)
		} else {
			err = c.services.prune(ctx, w)
		}
	}
	if err != nil && !errors.Is(err, errNameTaken) {
		return informer.Result{}, err
	}
	set(Accepted, true, "HostReserved", w.Spec.Host+" is the host of this website")
	w.Status.Host = w.Spec.Host
	if err != nil {
		set(Ready, false, "NameTaken", err.Error())
		w.Status.AvailableReplicas = 0
		return informer.Result{Backoff: true}, nil // the controller does not follow other owners' objects
	}
	w.Status.AvailableReplicas = deployment.Status.AvailableReplicas
	current := deployment.Status.ObservedGeneration >= deployment.Generation
	switch {
	case w.replicas() == 0:
		set(Ready, false, "Off", "spec.replicas is 0")
	case current && min(deployment.Status.UpdatedReplicas, deployment.Status.AvailableReplicas) >= w.replicas():
		set(Ready, true, "Available", "all replicas are available")
	default:
		set(Ready, false, "RollingOut", fmt.Sprintf("not all of %d replicas are available", w.replicas()))
	}
	return informer.Result{}, nil
}

// holder returns the website that has the host that w asks for: the first one that had it. If several ask at once, that
// is the oldest, so that all replicas always agree.
func (c *Controller) holder(w *Website) informer.Key {
	first := w
	for other := range c.byHost.Lookup(w.Spec.Host) {
		if informer.KeyOf(other) != informer.KeyOf(w) && other.validate() == nil && other.before(first) {
			first = other
		}
	}
	return informer.KeyOf(first)
}

func (w *Website) before(other *Website) bool {
	mine, theirs := w.Status.Host == w.Spec.Host, other.Status.Host == other.Spec.Host
	switch {
	case mine != theirs:
		return mine
	case !w.CreationTimestamp.Equal(&other.CreationTimestamp):
		return w.CreationTimestamp.Before(&other.CreationTimestamp)
	}
	return w.Namespace+"/"+w.Name < other.Namespace+"/"+other.Name
}

// tearDown removes the children of w, first the one that receives requests, and then the finalizer of w.
func (c *Controller) tearDown(ctx context.Context, w *Website) (informer.Result, error) {
	if !reconcile.HasFinalizer(w, finalizer) {
		return informer.Result{}, nil
	}
	for _, remove := range []func(context.Context, *Website) (bool, error){c.services.remove, c.deployments.remove} {
		if gone, err := remove(ctx, w); err != nil || !gone {
			return informer.Result{Backoff: true}, err
		}
	}
	w = w.DeepCopy()
	reconcile.RemoveFinalizer(w, finalizer)
	updated, err := c.client.Update(ctx, w, metav1.UpdateOptions{FieldManager: name})
	if apierrors.IsNotFound(err) {
		return informer.Result{}, nil
	}
	if err == nil {
		err = see(ctx, c.Websites, updated)
	}
	return informer.Result{}, err
}

// record writes an event about a changed condition.
func (c *Controller) record(w *Website, condition metav1.Condition) {
	eventType := corev1.EventTypeNormal
	if condition.Type == Accepted && condition.Status == metav1.ConditionFalse || condition.Reason == "NameTaken" {
		eventType = corev1.EventTypeWarning
	}
	c.events.Eventf(kind, w, eventType, condition.Reason, "%s", condition.Message)
}

// shapeDeployment sets the fields that the controller owns. The API server, and other people, may set others.
func shapeDeployment(w *Website, d *appsv1.Deployment) {
	pods := map[string]string{instance: w.Name}
	d.Spec.Replicas = new(w.replicas())
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: pods}
	d.Spec.Template.Labels = pods
	if len(d.Spec.Template.Spec.Containers) != 1 {
		d.Spec.Template.Spec.Containers = make([]corev1.Container, 1)
	}
	web := &d.Spec.Template.Spec.Containers[0]
	web.Name, web.Image = "web", w.Spec.Image
	web.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}}
}

// shapeService is like shapeDeployment.
func shapeService(w *Website, s *corev1.Service) {
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, "external-dns.alpha.kubernetes.io/hostname", w.Spec.Host)
	s.Spec.Selector = map[string]string{instance: w.Name}
	if len(s.Spec.Ports) != 1 {
		s.Spec.Ports = make([]corev1.ServicePort, 1)
	}
	http := &s.Spec.Ports[0]
	http.Name, http.Port, http.TargetPort, http.Protocol = "http", 80, intstr.FromString("http"), corev1.ProtocolTCP
}
