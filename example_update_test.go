package informer_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// This handler skips updates that change only the status. The comparison is cheap: both versions share the memory of
// unchanged parts.
func ExampleHandlerFuncs_update() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podGVR})
	client, err := informer.NewClient(server.Config())
	if err != nil {
		panic(err)
	}
	pod, err := pods.Create(newPod("default", "web"))
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, informer.Config[*corev1.Pod]{})
	subscription := inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		Update: func(old, new *corev1.Pod) {
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
	// Output: web: i, then web:2
}
