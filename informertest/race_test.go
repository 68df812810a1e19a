package informertest_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// nodeInformer returns an informer of nodes that has synced. It runs until the test ends.
func nodeInformer(t *testing.T, server *informertest.Server) *informer.Informer[*corev1.Node] {
	t.Helper()
	client, err := informer.NewClient(server.Config())
	must(t, err)
	nodes := informer.New(client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes")}, informer.Config[*corev1.Node]{})
	runUntilEnd(t, nodes.Run)
	must(t, nodes.WaitSynced(t.Context()))
	return nodes
}

// placements describes what a controller that joins pods with their nodes sees: for each pod the node, by its UID.
func placements(pods *informer.Informer[*corev1.Pod], nodes *informer.Informer[*corev1.Node]) (seen []string) {
	for pod := range pods.Store().All() {
		node, ok := nodes.Store().Get(informer.Key{Name: pod.Spec.NodeName})
		if !ok {
			seen = append(seen, fmt.Sprintf("%s on missing %s", pod.Name, pod.Spec.NodeName))
			continue
		}
		owned := ""
		for _, owner := range pod.OwnerReferences {
			if owned = " of its owner"; owner.UID != node.UID {
				owned = " of another than its owner"
			}
		}
		seen = append(seen, fmt.Sprintf("%s on %s%s", pod.Name, node.Name, owned))
	}
	return seen
}

func wantPlacements(t *testing.T, server *informertest.Server, pods *informer.Informer[*corev1.Pod], nodes *informer.Informer[*corev1.Node], want ...string) {
	t.Helper()
	must(t, server.Settle(t.Context(), pods, nodes))
	if got := placements(pods, nodes); !slices.Equal(got, want) {
		t.Errorf("the controller sees %q, want %q", got, want)
	}
}

func newNode(name string, uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

// A node is created, and a pod is bound to it. The informer of pods is the first to see its event.
func TestRace_APodIsSeenBoundBeforeItsNode(t *testing.T) {
	eachTime(t, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		nodes := informertest.Register[*corev1.Node](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true})
		podCache, nodeCache := podInformer(t, server), nodeInformer(t, server)
		hold := server.Hold(informertest.Watches{Resource: "nodes"})
		_, err := nodes.Create(newNode("n1", "first"))
		must(t, err)
		createPods(t, pods, "a") // on n1
		wantPlacements(t, server, podCache, nodeCache, "a on missing n1")
		hold.Release()
		wantPlacements(t, server, podCache, nodeCache, "a on n1")
	})
}

// A node is deleted and created again under its name, and a pod of the new one appears. The informer of nodes still has the old
// node, then none, then the new one.
func TestRace_ANodeIsRecreatedBetweenTwoInformers(t *testing.T) {
	eachTime(t, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		nodes := informertest.Register[*corev1.Node](server, informertest.Resource{
			GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes"), ClusterScoped: true})
		_, err := nodes.Create(newNode("n1", "first"))
		must(t, err)
		podCache, nodeCache := podInformer(t, server), nodeInformer(t, server)
		hold := server.Hold(informertest.Watches{Resource: "nodes"})
		_, err = nodes.Delete(informer.Key{Name: "n1"})
		must(t, err)
		_, err = nodes.Create(newNode("n1", "second"))
		must(t, err)
		pod := newPod("ns", "a")
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "second"}}
		_, err = pods.Create(pod)
		must(t, err)
		wantPlacements(t, server, podCache, nodeCache, "a on n1 of another than its owner")
		if n := hold.Deliver(func(e informertest.HeldEvent) bool { return e.Type == "DELETED" }); n != 1 {
			t.Errorf("delivered %d events, want the deletion", n)
		}
		wantPlacements(t, server, podCache, nodeCache, "a on missing n1")
		hold.Release()
		wantPlacements(t, server, podCache, nodeCache, "a on n1 of its owner")
	})
}
