package informertest_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// cordon marks the nodes of failed pods as unschedulable until ctx ends. Example tests it.
func cordon(ctx context.Context, config *rest.Config) error {
	client, err := informer.NewClient(config)
	if err != nil {
		return err
	}
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	pods := informer.New(client, informer.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
		FieldSelector:        "status.phase=Failed",
	}, informer.Config[*corev1.Pod]{})
	pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		AddFunc: func(pod *corev1.Pod, _ bool) {
			patch := []byte(`{"spec":{"unschedulable":true}}`)
			for ctx.Err() == nil {
				_, err := clients.CoreV1().Nodes().Patch(ctx, pod.Spec.NodeName, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
				if err == nil || apierrors.IsNotFound(err) {
					return
				}
			}
		},
	})
	return pods.Run(ctx)
}

// This tests a controller against the API, and against a failure.
func Example() {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
	nodes := informertest.Register[*corev1.Node](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true})
	nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})

	// The first patch of a node fails.
	server.Inject(informertest.Fault{Verb: "patch", Resource: "nodes", Times: 1, Error: apierrors.NewServiceUnavailable("try again")})

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- cordon(ctx, server.Config()) }()

	// Read the node as any client can.
	client, _ := informer.NewClient(server.Config())
	watched := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes")}, informer.Config[*corev1.Node]{})
	go watched.Run(ctx)

	pods.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0"},
		Spec:       corev1.PodSpec{NodeName: "node-1"},
		Status:     corev1.PodStatus{Phase: corev1.PodFailed},
	})
	node, err := watched.Await(ctx, informer.Key{Name: "node-1"}, func(n *corev1.Node) bool { return n.Spec.Unschedulable })
	fmt.Println(node.Name, "unschedulable:", node.Spec.Unschedulable, err)

	patches := 0
	for _, r := range server.Requests() {
		if r.Verb == "patch" {
			patches++
		}
	}
	fmt.Println("patches:", patches)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// node-1 unschedulable: true <nil>
	// patches: 2
	// context canceled
}
