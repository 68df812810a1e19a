package main

import (
	"context"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// portAnnotation is the port of a Deployment's Service.
const portAnnotation = "example.com/expose"

// exposer gives each Deployment with a port a Service.
type exposer struct{ client.Client }

func addExposer(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		For(&appsv1.Deployment{}).
		Owns(&corev1.Service{}).
		Complete(&exposer{mgr.GetClient()})
}

func (e *exposer) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var deployment appsv1.Deployment
	if err := e.Get(ctx, req.NamespacedName, &deployment); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	port, err := strconv.ParseInt(deployment.Annotations[portAnnotation], 10, 32)
	if err != nil || deployment.DeletionTimestamp != nil {
		return ctrl.Result{}, nil // not exposed
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
	done, err := controllerutil.CreateOrUpdate(ctx, e.Client, service, func() error {
		service.Spec.Ports = []corev1.ServicePort{{Port: int32(port)}}
		if deployment.Spec.Selector != nil {
			service.Spec.Selector = deployment.Spec.Selector.MatchLabels
		}
		return controllerutil.SetControllerReference(&deployment, service, e.Scheme())
	})
	if err == nil && done != controllerutil.OperationResultNone {
		log.FromContext(ctx).Info("exposed", "service", service.Name, "port", port, "did", done)
	}
	return ctrl.Result{}, err
}
