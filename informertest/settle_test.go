package informertest_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// slowPodInformer returns an informer like podInformer that takes a second for each pod, of some namespaces or all.
func slowPodInformer(t *testing.T, config *rest.Config, namespaces ...string) *informer.Informer[*corev1.Pod] {
	t.Helper()
	return runPodInformer(t, config, informer.Config[*corev1.Pod]{Transform: func(pod *corev1.Pod) (*corev1.Pod, error) {
		time.Sleep(time.Second)
		return pod, nil
	}}, namespaces...)
}

// isSlow selects the watches of a client with that user agent.
func isSlow(req informertest.Request) bool { return req.Header.Get("User-Agent") == "slow" }

func wantPods(t *testing.T, i *informer.Informer[*corev1.Pod], want string) {
	t.Helper()
	var names []string
	for pod := range i.Store().All() {
		names = append(names, pod.Name)
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("the informer has the pods %q, want %q", got, want)
	}
}

// What is held of one client says nothing about the other clients of the resource.
func TestSettle_WaitsForAClientWhoseWatchIsNotHeld(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		i := slowPodInformer(t, server.Config())
		config := server.Config()
		config.UserAgent = "slow"
		events, err := clientsetFor(t, config).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		defer events.Stop()
		hold := server.Hold(informertest.Watches{Match: isSlow})
		createPods(t, pods, "a")
		wantHeld(t, hold, "ADDED a")
		must(t, server.Settle(t.Context(), i))
		wantPods(t, i, "a")
	})
}

// Events that were on their way to an informer before the hold arrive.
func TestSettle_WaitsForWhatPassedBeforeTheHold(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		i := slowPodInformer(t, server.Config())
		createPods(t, pods, "a")
		time.Sleep(time.Millisecond)
		wantPods(t, i, "")
		hold := server.Hold(informertest.Watches{Resource: "pods"})
		createPods(t, pods, "b")
		wantHeld(t, hold, "ADDED b")
		must(t, server.Settle(t.Context(), i))
		wantPods(t, i, "a")
		hold.Release()
		must(t, server.Settle(t.Context(), i))
		wantPods(t, i, "a b")
	})
}

// An informer of several namespaces has several watches.
func TestSettle_WaitsForTheOtherWatchesOfAnInformer(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		i := slowPodInformer(t, server.Config(), "x", "y")
		hold := server.Hold(informertest.Watches{Namespace: "x"})
		for _, namespace := range []string{"x", "y"} {
			_, err := pods.Create(newPod(namespace, "in-"+namespace))
			must(t, err)
		}
		wantHeld(t, hold, "ADDED in-x")
		must(t, server.Settle(t.Context(), i))
		wantPods(t, i, "in-y")
	})
}

// An informer whose initial events are held has no version, even if some of them are delivered.
func TestSettle_WithInitialEventsThatAreHeld(t *testing.T) {
	eachTime(t, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		createPods(t, pods, "a", "b")
		hold := server.Hold(informertest.Watches{Resource: "pods"})
		i := startPodInformer(t, server.Config(), informer.Config[*corev1.Pod]{})
		must(t, hold.Wait(t.Context(), 2))
		must(t, server.Settle(t.Context(), i))
		hold.Deliver(func(e informertest.HeldEvent) bool { return e.Key.Name == "a" })
		must(t, server.Settle(t.Context(), i))
		if i.HasSynced() {
			t.Error("the informer has synced")
		}
		hold.Release()
		must(t, server.Settle(t.Context(), i))
		wantPods(t, i, "a b")
	})
}

// While the garbage collector is at work, the server is not settled.
func TestSettle_WaitsForTheControllersOverTCP(t *testing.T) {
	server := informertest.NewServer(informertest.Options{Controllers: informertest.Controllers{GarbageCollection: true}})
	defer server.Close()
	begun, proceed := make(chan struct{}), make(chan struct{})
	configMaps := informertest.Register[*corev1.ConfigMap](server, informertest.Resource{
		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps"),
		Hooks: informertest.Hooks{Changed: func(key informer.Key) {
			if key.Name == "child" {
				close(begun)
				<-proceed
			}
		}},
	})
	parent, err := configMaps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "parent"}})
	must(t, err)
	for _, name := range []string{"child", "other-child"} {
		_, err = configMaps.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			OwnerReferences: []metav1.OwnerReference{owner(parent)}}})
		must(t, err)
	}
	api := clientsetFor(t, server.Config()).CoreV1().ConfigMaps("ns")
	must(t, api.Delete(t.Context(), "parent", metav1.DeleteOptions{}))
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := server.Settle(ctx); err == nil || !strings.Contains(err.Error(), "the controllers of the server") {
		t.Errorf("got %v, want that the controllers are busy", err)
	}
	close(proceed)
	must(t, server.Settle(t.Context()))
	if n := configMaps.Len(); n != 0 {
		t.Errorf("settled with %d ConfigMaps", n)
	}
}
