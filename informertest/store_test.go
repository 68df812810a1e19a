package informertest_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	corev1informers "github.com/typedinformer/informer/k8s/core/v1"
)

// unschedulable is the code under test: it returns the names of the pods that no ready node can take.
func unschedulable(pods corev1informers.PodLister, nodes corev1informers.NodeLister) (names []string) {
	for pod := range pods.All() {
		if node, err := nodes.Get(pod.Spec.NodeName); err != nil || node.Spec.Unschedulable {
			names = append(names, pod.Name)
		}
	}
	return names
}

// A unit test seeds the listers that the code under test takes. It needs no server.
func ExampleNewStore() {
	t := new(testing.T) // that of the test
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: node}}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	pods, podWriter := informertest.NewStore(t, pod("web", "node-1"), pod("db", "node-2"))
	nodes, _ := informertest.NewStore(t, node)
	podLister, nodeLister := corev1informers.NewPodLister(pods), corev1informers.NewNodeLister(nodes)
	fmt.Println(unschedulable(podLister, nodeLister))

	err := podWriter.Apply(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: pod("db", "node-1")})
	fmt.Println(unschedulable(podLister, nodeLister), err)
	// Output:
	// [db]
	// [] <nil>
}

// A store of NewStore has exactly the objects, in the order of their keys, and its writer changes it.
func TestNewStore(t *testing.T) {
	node := func(name, zone string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
	}
	b, a := node("b", "east"), node("a", "west")
	store, writer := informertest.NewStore(t, b, a)
	lister := corev1informers.NewNodeLister(store)
	if got := lister.List(labels.Everything()); len(got) != 2 || got[0] != a || got[1] != b {
		t.Errorf("got %v", got)
	}
	if err := writer.Apply(informer.Delta[*corev1.Node]{Type: informer.Removed, Key: informer.Key{Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	if got := lister.List(labels.SelectorFromSet(labels.Set{"zone": "west"})); len(got) != 0 {
		t.Errorf("got %v", got)
	}
	if empty, _ := informertest.NewStore[*corev1.Node](t); empty.Len() != 0 {
		t.Errorf("%d objects", empty.Len())
	}
}

// ended is a test that notes why it ended.
type ended struct {
	testing.TB
	why string
}

func (e *ended) Fatalf(format string, args ...any) {
	e.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// NewStore ends the test for objects that cannot be in one store.
func TestNewStoreRejects(t *testing.T) {
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	for want, nodes := range map[string][]*corev1.Node{
		"delta 2 of 2: Upserted has a nil object":             {node("a"), nil},
		"delta 1 of 1: Upserted has an object without a name": {node("")},
		"*v1.Node: two objects have the key /a":               {node("a"), node("b"), node("a")},
	} {
		e, done := &ended{TB: t}, make(chan bool)
		go func() {
			defer close(done)
			informertest.NewStore(e, nodes...)
		}()
		<-done
		if !strings.Contains(e.why, want) {
			t.Errorf("got %q, want %q", e.why, want)
		}
	}
}
