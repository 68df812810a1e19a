package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// This controller creates a ConfigMap for each pod with a label "config", under the pod's name, and restores it after a
// deletion. examples/controller has a larger one, with a custom resource, finalizers, status and leader election.
func ExampleController() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	configMapGVR := corev1.SchemeGroupVersion.WithResource("configmaps")
	servedPods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podGVR})
	servedConfigMaps := informertest.Register[*corev1.ConfigMap](server, informertest.Resource{GroupVersionResource: configMapGVR})

	client, err := informer.NewClient(server.Config())
	if err != nil {
		fmt.Println(err)
		return
	}
	group := informer.NewGroup(client)
	var pods *informer.Informer[*corev1.Pod]
	var configMaps *informer.Informer[*corev1.ConfigMap]
	if _, err := group.Join(
		informer.SharedInto(&pods, informer.Resource{GroupVersionResource: podGVR}),
		informer.SharedInto(&configMaps, informer.Resource{GroupVersionResource: configMapGVR}),
	); err != nil {
		fmt.Println(err)
		return
	}
	writer := informer.NewTypedClient[*corev1.ConfigMap](client, configMapGVR)

	controller := &informer.Controller[informer.Key]{
		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
			pod, ok := pods.Store().Get(key)
			if !ok || pod.Labels["config"] == "" {
				return informer.Result{}, nil
			}
			if _, ok := configMaps.Store().Get(key); ok {
				return informer.Result{}, nil
			}
			created, err := writer.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: key.Namespace, Name: key.Name,
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
				},
				Data: map[string]string{"config": pod.Labels["config"]},
			}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return informer.Result{Backoff: true}, nil
			}
			if err != nil {
				return informer.Result{}, err
			}
			return informer.Result{}, configMaps.WaitForObject(ctx, created) // so that the next reconcile sees it
		},
	}
	controller.Watch(informer.EnqueueObject(pods))
	controller.Watch(informer.EnqueueOwner(configMaps, informer.Owner{GroupKind: schema.GroupKind{Kind: "Pod"}}))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- group.Run(ctx) }()
	go func() { ended <- controller.Run(ctx) }()

	servedPods.Create(newPod("default", "web-0", "config=fast"))
	key := informer.Key{Namespace: "default", Name: "web-0"}
	made, err := configMaps.Await(ctx, key, func(cm *corev1.ConfigMap) bool { return cm != nil })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(made.Name, made.Data["config"], "of", made.OwnerReferences[0].Kind)

	servedConfigMaps.Delete(key)
	again, err := configMaps.Await(ctx, key, func(cm *corev1.ConfigMap) bool { return cm != nil && cm.UID != made.UID })
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Name, again.Data["config"], "put back")

	cancel()
	fmt.Println(<-ended, <-ended)
	// Output:
	// web-0 fast of Pod
	// web-0 fast put back
	// context canceled context canceled
}
