// A program that follows twenty kinds, on this library, to measure how its size grows with the number of kinds. It
// prints how many objects each has.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

func main() {
	server := flag.String("server", "", "URL of the API server")
	flag.Parse()
	client, err := informer.NewClient(&rest.Config{Host: *server})
	if err != nil {
		log.Fatal(err)
	}
	ctx, core, apps, batch := context.Background(), corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion
	follow[*corev1.ConfigMap](ctx, client, core, "configmaps")
	follow[*corev1.Event](ctx, client, core, "events")
	follow[*corev1.LimitRange](ctx, client, core, "limitranges")
	follow[*corev1.Namespace](ctx, client, core, "namespaces")
	follow[*corev1.Node](ctx, client, core, "nodes")
	follow[*corev1.PersistentVolume](ctx, client, core, "persistentvolumes")
	follow[*corev1.PersistentVolumeClaim](ctx, client, core, "persistentvolumeclaims")
	follow[*corev1.Pod](ctx, client, core, "pods")
	follow[*corev1.ReplicationController](ctx, client, core, "replicationcontrollers")
	follow[*corev1.ResourceQuota](ctx, client, core, "resourcequotas")
	follow[*corev1.Secret](ctx, client, core, "secrets")
	follow[*corev1.Service](ctx, client, core, "services")
	follow[*corev1.ServiceAccount](ctx, client, core, "serviceaccounts")
	follow[*appsv1.DaemonSet](ctx, client, apps, "daemonsets")
	follow[*appsv1.Deployment](ctx, client, apps, "deployments")
	follow[*appsv1.ReplicaSet](ctx, client, apps, "replicasets")
	follow[*appsv1.StatefulSet](ctx, client, apps, "statefulsets")
	follow[*batchv1.CronJob](ctx, client, batch, "cronjobs")
	follow[*batchv1.Job](ctx, client, batch, "jobs")
	follow[*networkingv1.Ingress](ctx, client, networkingv1.SchemeGroupVersion, "ingresses")
	select {}
}

// follow starts an informer, and prints the number of objects when it has them.
func follow[T informer.Object](ctx context.Context, client *informer.Client, version schema.GroupVersion, resource string) {
	i := informer.New(client, informer.Resource{GroupVersionResource: version.WithResource(resource)}, informer.Config[T]{})
	go i.Run(ctx)
	go func() {
		if err := i.WaitSynced(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println(resource, i.Store().Len())
	}()
}
