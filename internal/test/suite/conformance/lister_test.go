package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
)

// A lister answers like client-go's lister, which has no order.
func TestListerAnswersAsClientGo(t *testing.T) {
	world.ForEachMode(t, func(w world.World, client *informer.Client, config informer.Config[*corev1.Pod]) {
		t := w.T
		nodes := informertest.Register[*corev1.Node](w.Server, informertest.Resource{GroupVersionResource: world.NodeGVR, ClusterScoped: true})
		w.Create(world.NewPod("b", "x", "app=web", "v=1"), world.NewPod("a", "y", "app=web"), world.NewPod("a", "x", "v=2"), world.NewPod("a", "z"))
		for _, name := range []string{"n2", "n1"} {
			nodes.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}})
		}
		podInformer := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		nodeConfig := world.Quiet[*corev1.Node]()
		nodeConfig.Layout = config.Layout
		nodeInformer := informer.New(client, informer.Resource{GroupVersionResource: world.NodeGVR}, nodeConfig)
		podLister, nodeLister := informer.NewLister(podInformer, world.PodGVR.GroupResource()), informer.NewClusterLister(nodeInformer, world.NodeGVR.GroupResource())
		if list := podLister.List(nil); len(list) != 0 {
			t.Errorf("%d objects before the start", len(list))
		}
		defer world.Start(w.T, podInformer)()
		defer world.Start(w.T, nodeInformer)()

		peer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		for pod := range podInformer.Store().All() {
			peer.Add(pod)
		}
		podPeer := corelisters.NewPodLister(peer)
		nodeStore := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		for node := range nodeInformer.Store().All() {
			nodeStore.Add(node)
		}
		nodePeer := corelisters.NewNodeLister(nodeStore)

		for _, text := range []string{"", "app=web", "app=web,v=1", "v in (1,2)", "!app", "app=none", "zone=n1", "zone"} {
			selector, err := labels.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			same := func(what string, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s with %q: %q, client-go: %q", what, text, got, want)
				}
			}
			sorted := func(pods []*corev1.Pod, err error) string {
				slices.SortFunc(pods, func(a, b *corev1.Pod) int {
					return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
				})
				return world.Names(pods)
			}
			same("pods", world.Names(podLister.List(selector)), sorted(podPeer.List(selector)))
			for _, namespace := range []string{"", "a", "b", "c"} {
				same("pods in "+namespace, world.Names(podLister.Namespace(namespace).List(selector)), sorted(podPeer.Pods(namespace).List(selector)))
			}
			want, err := nodePeer.List(selector)
			if err != nil {
				t.Error(err)
			}
			slices.SortFunc(want, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
			same("nodes", world.Names(nodeLister.List(selector)), world.Names(want))
		}
		if got, want := world.Names(podLister.List(nil)), "a/x a/y a/z b/x"; got != want {
			t.Errorf("nil selector: %q, want %q", got, want)
		}
		if got, want := world.Names(slices.Collect(podLister.Namespace("a").All())), "a/x a/y a/z"; got != want {
			t.Errorf("all of a namespace: %q, want %q", got, want)
		}
		if got, want := world.Names(slices.Collect(podLister.All())), "a/x a/y a/z b/x"; got != want {
			t.Errorf("all: %q, want %q", got, want)
		}

		for _, key := range []informer.Key{{Namespace: "a", Name: "x"}, {Namespace: "b", Name: "y"}, {Namespace: "c", Name: "x"}, {Name: "x"}} {
			want, wantErr := podPeer.Pods(key.Namespace).Get(key.Name)
			got, err := podLister.Get(key)
			if inNamespace, errIn := podLister.Namespace(key.Namespace).Get(key.Name); inNamespace != got || fmt.Sprint(err) != fmt.Sprint(errIn) {
				t.Errorf("%v: %v, %v from the lister of its namespace", key, inNamespace, errIn)
			}
			if got != want || apierrors.IsNotFound(err) != apierrors.IsNotFound(wantErr) || (err == nil) != (wantErr == nil) {
				t.Errorf("%v: %v, %v, client-go: %v, %v", key, got, err, want, wantErr)
			}
		}
		if node, err := nodeLister.Get("n1"); err != nil || node.Name != "n1" {
			t.Errorf("%v, %v", node, err)
		}
		if _, err := nodeLister.Get("n3"); !apierrors.IsNotFound(err) || err.Error() != `nodes "n3" not found` {
			t.Errorf("error %v", err)
		}
	})
}

// A lister of a store answers like one of an informer.
func TestListerOfAStore(t *testing.T) {
	store, writer := informer.NewStore[*corev1.Pod]()
	lister := informer.NewLister(store, world.PodGVR.GroupResource())
	pod := world.NewPod("a", "x", "app=web")
	if err := writer.Apply(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: pod}); err != nil {
		t.Fatal(err)
	}
	if got, err := lister.Get(informer.KeyOf(pod)); got != pod || err != nil {
		t.Errorf("Get: %v, %v", got, err)
	}
	if _, err := lister.Namespace("a").Get("y"); !apierrors.IsNotFound(err) || err.Error() != `pods "y" not found` {
		t.Errorf("error %v", err)
	}
}
