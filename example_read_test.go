package informer_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// podGVR and podResource name the pods of all namespaces.
var (
	podGVR      = corev1.SchemeGroupVersion.WithResource("pods")
	podResource = informer.Resource{GroupVersionResource: podGVR}
)

// servePods serves two pods of the application web, each on a node of its own, and one of db. It returns a client of the
// server, and a function that ends it.
func servePods() (*informer.Client, func()) {
	server := informertest.NewServer(informertest.Options{})
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: podGVR})
	for _, pod := range []struct{ name, app, node string }{
		{"web-0", "web", "n1"}, {"web-1", "web", "n2"}, {"db-0", "db", "n1"},
	} {
		if _, err := pods.Create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: pod.name, Labels: map[string]string{"app": pod.app}},
			Spec:       corev1.PodSpec{NodeName: pod.node},
		}); err != nil {
			log.Fatal(err)
		}
	}
	client, err := informer.NewClient(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	return client, server.Close
}

// start runs an informer until the function that it returns is called. The informer has synced when start returns.
func start(i *informer.Informer[*corev1.Pod]) func() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- i.Run(ctx) }()
	if err := i.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	return func() {
		cancel()
		<-ended
	}
}

// An informer keeps a local copy of a collection. This program prints the pods when it has them, and their changes.
func ExampleNew() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	added := pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{
		AddFunc: func(pod *corev1.Pod, initial bool) { fmt.Println("added", pod.Name, initial) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	if err := added.WaitSynced(ctx); err != nil { // the handler has had all pods
		log.Fatal(err)
	}
	cancel()
	fmt.Println(<-ended)
	// Output:
	// added db-0 true
	// added web-0 true
	// added web-1 true
	// context canceled
}

// A read of the store takes no lock. Several reads of one snapshot see the same state.
func ExampleStore() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	defer start(pods)()
	snapshot := pods.Store().Snapshot()
	for pod := range snapshot.Namespace("default") {
		fmt.Println(pod.Name)
	}
	pod, ok := snapshot.Get(informer.Key{Namespace: "default", Name: "web-1"})
	fmt.Println(snapshot.Len(), ok, pod.Spec.NodeName)
	// Output:
	// db-0
	// web-0
	// web-1
	// 3 true n2
}

// An index finds pods by any key that a function returns.
func ExampleNewIndex() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	byNode := informer.NewIndex(pods, func(pod *corev1.Pod) []string { return []string{pod.Spec.NodeName} })
	defer start(pods)()
	for pod := range byNode.Lookup("n1") {
		fmt.Println(pod.Name)
	}
	fmt.Println(byNode.Count("n2"))
	// Output:
	// db-0
	// web-0
	// 1
}

// A lister reads a store as client-go's listers do.
func ExampleNewLister() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	lister := informer.NewLister(pods, podGVR.GroupResource())
	defer start(pods)()
	fmt.Println(len(lister.List(labels.SelectorFromSet(labels.Set{"app": "web"}))))
	_, err := lister.Namespace("default").Get("web-2")
	fmt.Println(err)
	// Output:
	// 2
	// pods "web-2" not found
}

// Select reads the objects of a snapshot by their labels, without making a list.
func ExampleSelect() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	defer start(pods)()
	selector, err := labels.Parse("app in (db)")
	if err != nil {
		log.Fatal(err)
	}
	for pod := range informer.Select(pods.Store().Snapshot(), "default", selector) {
		fmt.Println(pod.Name)
	}
	// Output: db-0
}

// A program waits until an object meets a condition, without polling.
func ExampleInformer_Await() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	defer start(pods)()
	writer := informer.NewTypedClient[*corev1.Pod](client, podGVR)
	ctx, key := context.Background(), informer.Key{Namespace: "default", Name: "web-0"}
	var writing sync.WaitGroup
	defer writing.Wait() // before the server closes
	writing.Go(func() {
		patch := []byte(`{"metadata":{"labels":{"checked":"yes"}}}`)
		if _, err := writer.Patch(ctx, key, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			log.Fatal(err)
		}
	})
	pod, err := pods.Await(ctx, key, func(pod *corev1.Pod) bool { return pod != nil && pod.Labels["checked"] != "" })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(pod.Name, pod.Labels["checked"])
	// Output: web-0 yes
}

// A typed client reads and writes at the server. The informer has the change a moment later.
func ExampleTypedClient() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	defer start(pods)()
	ctx, writer := context.Background(), informer.NewTypedClient[*corev1.Pod](client, podGVR)
	pod, err := writer.Get(ctx, informer.Key{Namespace: "default", Name: "web-0"}, metav1.GetOptions{})
	if err != nil {
		log.Fatal(err)
	}
	pod.Labels["app"] = "api"
	if pod, err = writer.Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := pods.WaitForObject(ctx, pod); err != nil {
		log.Fatal(err)
	}
	have, _ := pods.Store().Get(informer.KeyOf(pod))
	fmt.Println(have.Labels["app"])
	// Output: api
}

// Parts of a program that request the same pods from a group share one informer.
func ExampleShared() {
	client, closeServer := servePods()
	defer closeServer()
	group := informer.NewGroup(client)
	first, release, err := informer.Shared(group, podResource, informer.Config[*corev1.Pod]{})
	if err != nil {
		log.Fatal(err)
	}
	defer release()
	second, releaseSecond, err := informer.Shared(group, podResource, informer.Config[*corev1.Pod]{})
	if err != nil {
		log.Fatal(err)
	}
	defer releaseSecond()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- group.Run(ctx) }()
	if err := group.WaitSynced(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(first == second, second.Store().Len())
	cancel()
	<-ended
	// Output: true 3
}

// A controller reconciles the key of a pod's owner when the pod changes.
func ExampleEnqueueOwner() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, podResource, informer.Config[*corev1.Pod]{})
	controller := &informer.Controller[informer.Key]{
		Reconcile: func(ctx context.Context, set informer.Key) (informer.Result, error) {
			return informer.Result{}, nil // brings the StatefulSet to what it should be
		},
	}
	controller.Watch(informer.EnqueueOwner(pods, informer.Owner{
		GroupKind: schema.GroupKind{Group: "apps", Kind: "StatefulSet"},
	}, informer.GenerationChanged))
	fmt.Println(controller.Status().Running)
	// Output: false
}

// printer is a sink that prints what it receives.
type printer struct{ done context.CancelFunc }

func (p printer) Put(_ context.Context, d informer.Delta[*corev1.Pod]) error {
	fmt.Println(d.Type, len(d.Items))
	p.done()
	return nil
}

// A reflector reads a collection into a sink of your own, without a store.
func ExampleReflector() {
	client, closeServer := servePods()
	defer closeServer()
	ctx, cancel := context.WithCancel(context.Background())
	reflector, err := informer.NewReflector(client, podResource, printer{cancel}, informer.Config[*corev1.Pod]{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(reflector.Run(ctx))
	// Output:
	// Replaced 3
	// context canceled
}

// An informer that saves its objects starts from them the next time. The server then sends the changes since the save,
// and not the whole collection.
func ExampleWarmStartConfig() {
	client, closeServer := servePods()
	defer closeServer()
	dir, err := os.MkdirTemp("", "warm")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	var config informer.Config[*corev1.Pod]
	config.WarmStart.Storage = informer.WarmStartDir(dir)
	for range 2 {
		pods := informer.New(client, podResource, config)
		stop := start(pods)
		fmt.Println(pods.Store().Len(), pods.Status().Reflectors[0].WarmStart.Loaded)
		stop() // saves
	}
	// Output:
	// 3 false
	// 3 true
}

// One store holds the pods of two applications, then those of one of them and of a namespace that RBAC may not allow
// yet.
func ExampleInformer_SetSelections() {
	client, closeServer := servePods()
	defer closeServer()
	pods := informer.New(client, informer.Resource{GroupVersionResource: podGVR, Selections: []informer.Selection{
		{LabelSelector: "app=web"},
		{LabelSelector: "app=db"},
	}}, informer.Config[*corev1.Pod]{})
	defer start(pods)()
	fmt.Println(pods.Store().Len(), pods.Resource())

	err := pods.SetSelections(context.Background(),
		informer.Selection{LabelSelector: "app=db"},
		informer.Selection{Namespace: "tenant", Optional: true})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(pods.Store().Len(), pods.Status().Resource)
	// Output:
	// 3 v1 pods with labels app=web or with labels app=db
	// 1 v1 pods with labels app=db or in tenant
}
