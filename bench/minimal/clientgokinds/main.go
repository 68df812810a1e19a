// A program that follows twenty kinds, on client-go, to measure how its size grows with the number of kinds. It prints
// how many objects each has.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

func main() {
	server := flag.String("server", "", "URL of the API server")
	flag.Parse()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: *server})
	if err != nil {
		log.Fatal(err)
	}
	ctx, factory := context.Background(), informers.NewSharedInformerFactory(client, 0)
	core, apps, batch := factory.Core().V1(), factory.Apps().V1(), factory.Batch().V1()
	for resource, i := range map[string]cache.SharedIndexInformer{
		"configmaps":             core.ConfigMaps().Informer(),
		"events":                 core.Events().Informer(),
		"limitranges":            core.LimitRanges().Informer(),
		"namespaces":             core.Namespaces().Informer(),
		"nodes":                  core.Nodes().Informer(),
		"persistentvolumes":      core.PersistentVolumes().Informer(),
		"persistentvolumeclaims": core.PersistentVolumeClaims().Informer(),
		"pods":                   core.Pods().Informer(),
		"replicationcontrollers": core.ReplicationControllers().Informer(),
		"resourcequotas":         core.ResourceQuotas().Informer(),
		"secrets":                core.Secrets().Informer(),
		"services":               core.Services().Informer(),
		"serviceaccounts":        core.ServiceAccounts().Informer(),
		"daemonsets":             apps.DaemonSets().Informer(),
		"deployments":            apps.Deployments().Informer(),
		"replicasets":            apps.ReplicaSets().Informer(),
		"statefulsets":           apps.StatefulSets().Informer(),
		"cronjobs":               batch.CronJobs().Informer(),
		"jobs":                   batch.Jobs().Informer(),
		"ingresses":              factory.Networking().V1().Ingresses().Informer(),
	} {
		go func() {
			if !cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
				log.Fatalf("%s have not synced", resource)
			}
			fmt.Println(resource, len(i.GetStore().List()))
		}()
	}
	factory.StartWithContext(ctx)
	select {}
}
