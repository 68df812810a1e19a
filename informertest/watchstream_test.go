package informertest_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// A client that does not read blocks only its own watch.
func TestHold_DoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		clients := clientsetFor(t, server.Config())
		events, err := clients.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		defer events.Stop()
		i := podInformer(t, server)
		for n := range 100 {
			createPods(t, pods, fmt.Sprint("p", n))
		}
		synctest.Wait() // the server waits until the client reads
		hold := server.Hold(informertest.Watches{Resource: "pods"})
		must(t, server.Settle(t.Context(), i))
		if i.Store().Len() != 100 {
			t.Errorf("the informer has %d pods", i.Store().Len())
		}
		server.Inject(informertest.Fault{Verb: "get", Error: apierrors.NewInternalError(fmt.Errorf("x"))})()
		_, err = clients.CoreV1().Pods("default").Get(t.Context(), "p0", metav1.GetOptions{})
		must(t, err)
		createPods(t, pods, "held")
		must(t, server.Settle(t.Context(), i))
		if i.Store().Len() != 100 {
			t.Errorf("the informer has %d pods", i.Store().Len())
		}
		server.CloseConnections()
		hold.Release()
	})
}

// A client that stops an idle watch does not stop the time of its bubble: net/http of Go 1.27 drains a body that is closed
// early, while client-go still reads it, unless the response says that its connection ends.
func TestWatchInMemory_EndsItsConnection(t *testing.T) {
	defer testkit.Limit(time.Minute)()
	for _, auth := range []*informertest.Auth{nil, {}} {
		bubble(t, informertest.Options{Auth: auth}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
			createPods(t, pods, "a")
			clients := clientsetFor(t, server.Config())
			for range 20 { // the drain and the client's end may overtake each other
				events, err := clients.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
				must(t, err)
				<-events.ResultChan()
				synctest.Wait()
				events.Stop()
				time.Sleep(time.Second)
			}
			for path, want := range map[string]bool{"/api/v1/pods?watch=1": true, "/api/v1/pods": false, "/api/v1/namespaces/default/pods/a": false} {
				if got := endsConnection(t, server, path); got != want {
					t.Errorf("%s: the connection ends: %v", path, got)
				}
			}
		})
	}
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	createPods(t, informertest.Register[*corev1.Pod](server, podResource), "a")
	if endsConnection(t, server, "/api/v1/pods?watch=1") {
		t.Error("a watch over TCP ends its connection")
	}
}

// A server in memory that closes while a client ends its watch. Both say farewell by TLS, and neither reads.
func TestClose_BesidesAClientThatEnds(t *testing.T) {
	defer testkit.Limit(time.Minute)()
	for range 40 { // the two overtake each other
		bubble(t, informertest.Options{Auth: &informertest.Auth{}}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
			endsConnection(t, server, "/api/v1/pods?watch=1")
		})
	}
}

// endsConnection reports whether the response to a request says that its connection ends.
func endsConnection(t *testing.T, server *informertest.Server, path string) bool {
	t.Helper()
	client, err := rest.HTTPClientFor(server.Config())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	must(t, err)
	resp, err := client.Do(req)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Errorf("%s: %s", path, resp.Status)
	}
	return resp.Close
}

// Events that are held are older than those that come during the release.
func TestHold_ReleaseKeepsTheOrder(t *testing.T) {
	const n = 2000
	server := informertest.NewServer(informertest.Options{InMemory: true, Window: 4 * n})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, podResource)
	var running sync.WaitGroup
	defer running.Wait()
	events, err := clientsetFor(t, server.Config()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer events.Stop()
	running.Go(func() {
		for i := range n {
			if _, err := pods.Create(newPod("default", fmt.Sprint("p", i))); err != nil {
				t.Error(err)
			}
		}
	})
	read := make(chan struct{})
	defer close(read)
	running.Go(func() {
		for {
			hold := server.Hold(informertest.Watches{Resource: "pods"})
			runtime.Gosched()
			hold.Release()
			select {
			case <-read:
				return
			default:
			}
		}
	})
	for i := range n {
		e, ok := <-events.ResultChan()
		if !ok {
			t.Fatalf("the watch ended after %d events", i)
		}
		if got, want := e.Object.(metav1.Object).GetName(), fmt.Sprint("p", i); got != want {
			t.Fatalf("event %d is of %s, want %s", i, got, want)
		}
	}
}

// The next hold that selects a watch gets it when the first one is released, without a gap.
func TestHold_ReleaseHandsTheWatchOver(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		events, err := clientsetFor(t, server.Config()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		defer events.Stop()
		first, second := server.Hold(informertest.Watches{}), server.Hold(informertest.Watches{Resource: "pods"})
		createPods(t, pods, "a")
		wantHeld(t, first, "ADDED a")
		first.Release()
		wantEvents(t, events, "ADDED a 2")
		createPods(t, pods, "b")
		wantHeld(t, second, "ADDED b")
		none(t, events)
		first.Release() // once more: it has no watch now
		wantHeld(t, second, "ADDED b")
	})
}

// The race detector finds a write to a response that has ended.
func TestHold_DeliverToAWatchThatEnds(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, podResource)
	clients := clientsetFor(t, server.Config())
	for i := range 50 {
		hold := server.Hold(informertest.Watches{Resource: "pods"})
		events, err := clients.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: server.ResourceVersion()})
		must(t, err)
		createPods(t, pods, fmt.Sprint("p", i))
		must(t, hold.Wait(t.Context(), 1))
		var both sync.WaitGroup
		both.Go(func() { hold.Deliver(nil) })
		both.Go(server.EndWatches)
		for range events.ResultChan() {
		}
		both.Wait()
		hold.Release()
	}
}
