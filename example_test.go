package informer_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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
	servedPods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
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
		informer.SharedInto(&pods, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}),
		informer.SharedInto(&configMaps, informer.Resource{GroupVersionResource: configMapGVR}),
	); err != nil {
		fmt.Println(err)
		return
	}
	writer := informer.NewTypedClient[*corev1.ConfigMap](client, configMapGVR)

	controller := &informer.Controller[informer.Key]{
		OwnWrites: informer.OwnWrites{Deadline: 10 * time.Second}, // a reconcile sees what the one before created
		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
			pod, ok := pods.Store().Get(key)
			if !ok || pod.Labels["config"] == "" {
				return informer.Result{}, nil
			}
			if _, ok := configMaps.Store().Get(key); ok {
				return informer.Result{}, nil
			}
			_, err := writer.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: key.Namespace, Name: key.Name,
					OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
				},
				Data: map[string]string{"config": pod.Labels["config"]},
			}, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return informer.Result{Backoff: true}, nil
			}
			return informer.Result{}, err
		},
	}
	controller.Watch(informer.EnqueueObject(pods))
	controller.Watch(informer.EnqueueOwner(configMaps, informer.Owner{GroupKind: schema.GroupKind{Kind: "Pod"}}))

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 2)
	go func() { ended <- group.Run(ctx) }()
	go func() { ended <- controller.Run(ctx) }()

	servedPods.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", Labels: map[string]string{"config": "fast"}},
	})
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

// This handler skips updates that change only the status. The comparison is cheap: both versions share the memory of
// unchanged parts.
func ExampleHandlerFuncs_update() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		panic(err)
	}
	pod, err := pods.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	})
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	inf := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}, informer.Config[*corev1.Pod]{})
	subscription := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		UpdateFunc: func(old, new *corev1.Pod) {
			if equality.Semantic.DeepEqual(old.Spec, new.Spec) {
				return
			}
			fmt.Printf("%s: %s, then %s\n", new.Name, old.Spec.Containers[0].Image, new.Spec.Containers[0].Image)
			close(done)
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go inf.Run(ctx)

	// The loop below must not start earlier: the first changes could fold into the addition.
	if err := subscription.WaitSynced(ctx); err != nil {
		panic(err)
	}
	for _, change := range []func(*corev1.Pod){
		func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning },
		func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web:2" },
	} {
		pod = pod.DeepCopy()
		change(pod)
		if pod, err = pods.Update(pod); err != nil {
			panic(err)
		}
	}
	<-done
	// Output: web: web:1, then web:2
}

func ExampleQueue() {
	queue := informer.NewQueue(informer.QueueConfig[informer.Key]{})
	queue.AddWith(informer.AddOptions{Priority: informer.LowPriority}, informer.Key{Name: "from-the-initial-list"})
	queue.Add(informer.Key{Name: "changed"})
	queue.Add(informer.Key{Name: "changed"}) // waits only once

	ctx := context.Background()
	failed := false
	reconcile := func(key informer.Key) error {
		if key.Name == "changed" && !failed {
			failed = true
			return errors.New("conflict")
		}
		return nil
	}
	worker := func() {
		for {
			key, err := queue.Get(ctx)
			if err != nil {
				return
			}
			if err := reconcile(key); err != nil {
				fmt.Println(key.Name, "failed:", err)
				queue.AddRateLimited(key) // returns in 5 ms, 10 ms, …
			} else {
				fmt.Println(key.Name, "is done after", queue.NumRequeues(key), "retries")
				queue.Forget(key)
			}
			queue.Done(key)
			if queue.Status().Delayed+queue.Len() == 0 {
				return
			}
		}
	}
	worker()
	// Output:
	// changed failed: conflict
	// from-the-initial-list is done after 0 retries
	// changed is done after 1 retries
}
