package informertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// heldNames returns the held events, as TYPE name.
func heldNames(events []informertest.HeldEvent) (names []string) {
	for _, e := range events {
		names = append(names, fmt.Sprint(e.Type, " ", e.Key.Name))
	}
	return names
}

func wantHeld(t *testing.T, hold *informertest.Hold, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := heldNames(hold.Events()); !slices.Equal(got, want) {
		t.Errorf("held %q, want %q", got, want)
	}
}

func createPods(t *testing.T, pods *informertest.Collection[*corev1.Pod], names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := pods.Create(newPod("default", name))
		must(t, err)
	}
}

// none fails if a watch has delivered something.
func none(t *testing.T, events watch.Interface) {
	t.Helper()
	synctest.Wait()
	select {
	case e := <-events.ResultChan():
		t.Errorf("delivered %s", describe(e))
	default:
	}
}

func TestHold_KeepsEventsUntilTheyAreDelivered(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(contentType, func(t *testing.T) {
			bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
				clients := clientset(t, server, contentType)
				events, err := clients.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
				must(t, err)
				defer events.Stop()
				createPods(t, pods, "before")
				wantEvents(t, events, "ADDED before 2")
				hold := server.Hold(informertest.Watches{Resource: "pods"})
				createPods(t, pods, "a", "b", "c")
				wantHeld(t, hold, "ADDED a", "ADDED b", "ADDED c")
				none(t, events)
				held := hold.Events()[0]
				if stored, _ := pods.Get(held.Key); held.ResourceVersion != stored.ResourceVersion || held.Watch.Resource.Resource != "pods" {
					t.Errorf("got %+v", held)
				}
				if n := hold.Deliver(func(e informertest.HeldEvent) bool { return e.Key.Name == "b" }); n != 1 {
					t.Errorf("delivered %d events", n)
				}
				wantEvents(t, events, "ADDED b 4")
				none(t, events)
				wantHeld(t, hold, "ADDED a", "ADDED c")
				if n := hold.Deliver(nil); n != 2 {
					t.Errorf("delivered %d events", n)
				}
				wantEvents(t, events, "ADDED a 3", "ADDED c 5")
				createPods(t, pods, "d")
				wantHeld(t, hold, "ADDED d")
				hold.Release()
				wantEvents(t, events, "ADDED d 6")
				createPods(t, pods, "e")
				wantEvents(t, events, "ADDED e 7")
				if got := hold.Events(); len(got) > 0 {
					t.Errorf("held after the release: %v", got)
				}
			})
		})
	}
}

func TestHold_SelectsWatches(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		config := server.Config()
		config.UserAgent = "slow"
		slow, err := clientsetFor(t, config).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		defer slow.Stop()
		fast, err := clientsetFor(t, server.Config()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
		must(t, err)
		defer fast.Stop()
		hold := server.Hold(informertest.Watches{Match: func(req informertest.Request) bool { return req.Header.Get("User-Agent") == "slow" }})
		createPods(t, pods, "a")
		wantEvents(t, fast, "ADDED a 2")
		wantHeld(t, hold, "ADDED a")
		others := server.Hold(informertest.Watches{Resource: "pods", Namespace: "elsewhere"})
		createPods(t, pods, "b")
		wantEvents(t, fast, "ADDED b 3")
		if got := others.Events(); len(got) > 0 {
			t.Errorf("held %v", got)
		}
		hold.Release()
		wantEvents(t, slow, "ADDED a 2", "ADDED b 3")
	})
}

// What a client has not received when its watch ends comes with the next one.
func TestHold_AWatchThatEndsDropsWhatIsHeld(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		i := podInformer(t, server)
		hold := server.Hold(informertest.Watches{Resource: "pods"})
		createPods(t, pods, "a")
		wantHeld(t, hold, "ADDED a")
		server.EndWatches()
		synctest.Wait()
		if i.Store().Len() != 0 {
			t.Errorf("the informer has the pod")
		}
		time.Sleep(time.Minute)
		wantHeld(t, hold, "ADDED a")
		hold.Release()
		synctest.Wait()
		if i.Store().Len() != 1 {
			t.Errorf("the informer lacks the pod")
		}
	})
}

// A bookmark does not overtake an event, which the client would then never ask for.
func TestHold_BookmarksWaitForTheEventsBeforeThem(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		events, err := clientsetFor(t, server.Config()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{AllowWatchBookmarks: true, ResourceVersion: server.ResourceVersion()})
		must(t, err)
		defer events.Stop()
		hold := server.Hold(informertest.Watches{Resource: "pods"})
		createPods(t, pods, "a")
		time.Sleep(2 * time.Minute)
		none(t, events)
		wantHeld(t, hold, "ADDED a")
		hold.Deliver(nil)
		if e := <-events.ResultChan(); e.Type != watch.Added {
			t.Errorf("got %s", describe(e))
		}
		if e := <-events.ResultChan(); e.Type != watch.Bookmark {
			t.Errorf("got %s", describe(e))
		}
	})
}

func TestHold_OverTCP(t *testing.T) {
	server := informertest.NewServer(informertest.Options{})
	defer server.Close()
	pods := informertest.Register[*corev1.Pod](server, podResource)
	hold := server.Hold(informertest.Watches{Resource: "pods"})
	events, err := clientsetFor(t, server.Config()).CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{})
	must(t, err)
	defer events.Stop()
	createPods(t, pods, "a", "b")
	must(t, hold.Wait(t.Context(), 2))
	hold.Deliver(func(e informertest.HeldEvent) bool { return e.Key.Name == "b" })
	wantEvents(t, events, "ADDED b 3")
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("too late"))
	if err := hold.Wait(ended, 2); err == nil || err.Error() != "too late" {
		t.Errorf("got %v", err)
	}
	hold.Release()
	wantEvents(t, events, "ADDED a 2")
}

// podInformer returns an informer of pods that has synced. It runs until the test ends.
func podInformer(t *testing.T, server *informertest.Server) *informer.Informer[*corev1.Pod] {
	t.Helper()
	return runPodInformer(t, server.Config(), informer.Config[*corev1.Pod]{})
}

// runPodInformer is podInformer for a client and a configuration, of some namespaces or all.
func runPodInformer(t *testing.T, client *rest.Config, config informer.Config[*corev1.Pod], namespaces ...string) *informer.Informer[*corev1.Pod] {
	t.Helper()
	i := startPodInformer(t, client, config, namespaces...)
	must(t, i.WaitSynced(t.Context()))
	return i
}

// startPodInformer is runPodInformer without the wait.
func startPodInformer(t *testing.T, client *rest.Config, config informer.Config[*corev1.Pod], namespaces ...string) *informer.Informer[*corev1.Pod] {
	t.Helper()
	c, err := informer.NewClient(client)
	must(t, err)
	i := informer.New(c, informer.Resource{GroupVersionResource: podResource.GroupVersionResource, Namespaces: namespaces}, config)
	runUntilEnd(t, i.Run)
	return i
}

// runUntilEnd runs an informer until the test ends.
func runUntilEnd(t *testing.T, run func(context.Context) error) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
}

// eachTime runs test in real time over TCP, and in a bubble.
func eachTime(t *testing.T, test func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod])) {
	t.Run("bubble", func(t *testing.T) { bubble(t, informertest.Options{}, test) })
	t.Run("real time", func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{})
		t.Cleanup(server.Close)
		test(t, server, informertest.Register[*corev1.Pod](server, podResource))
	})
}

func TestSettle_WaitsForInformersAndControllers(t *testing.T) {
	eachTime(t, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		i := podInformer(t, server)
		reconciled := map[informer.Key]int{}
		ctl := &informer.Controller[informer.Key]{Name: "test", Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
			reconciled[key]++
			if pod, ok := i.Store().Get(key); ok && pod.Labels["seen"] == "" { // a write, which comes back as an event
				pod = pod.DeepCopy()
				pod.Labels["seen"] = "yes"
				_, err := pods.Update(pod)
				return informer.Result{}, err
			}
			return informer.Result{}, nil
		}}
		ctl.Watch(informer.EnqueueObject(i))
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			ctl.Run(ctx)
		}()
		for range 20 {
			createPods(t, pods, "a", "b")
			must(t, server.Settle(t.Context(), i, ctl))
			for pod := range i.Store().All() {
				if pod.Labels["seen"] == "" || reconciled[informer.KeyOf(pod)] < 2 {
					t.Errorf("settled before the second reconcile of %s", pod.Name)
				}
			}
			if i.Store().Len() != 2 {
				t.Errorf("settled with %d pods", i.Store().Len())
			}
			for _, name := range []string{"a", "b"} {
				_, err := pods.Delete(informer.Key{Namespace: "default", Name: name})
				must(t, err)
			}
			must(t, server.Settle(t.Context(), i, ctl))
			if i.Store().Len() != 0 {
				t.Errorf("settled with %d pods", i.Store().Len())
			}
			clear(reconciled)
		}
		stop()
		<-done
	})
}

// An informer whose selector excludes the latest change settles too.
func TestSettle_Selectors(t *testing.T) {
	eachTime(t, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		client, err := informer.NewClient(server.Config())
		must(t, err)
		i := informer.New(client, informer.Resource{GroupVersionResource: podResource.GroupVersionResource, LabelSelector: "app=none",
			Namespaces: []string{"x", "y"}}, informer.Config[*corev1.Pod]{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			i.Run(ctx)
		}()
		createPods(t, pods, "a")
		must(t, server.Settle(t.Context(), i))
		if got, want := i.Status().ResourceVersion, server.ResourceVersion(); got != want {
			t.Errorf("settled at %s, want %s", got, want)
		}
		stop()
		<-done
		if err := server.Settle(t.Context(), i); err != nil {
			t.Errorf("it has everything, but: %v", err)
		}
		createPods(t, pods, "b")
		if err := server.Settle(t.Context(), i); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
	})
}

// The race of two informers, as a fixed case: the pod is held, so the controller sees only its node.
func TestSettle_WithWhatIsHeld(t *testing.T) {
	eachTime(t, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		i := podInformer(t, server)
		hold := server.Hold(informertest.Watches{Resource: "pods"})
		createPods(t, pods, "a", "b")
		must(t, hold.Wait(t.Context(), 2))
		must(t, server.Settle(t.Context(), i))
		if i.Store().Len() != 0 {
			t.Errorf("the informer has %d pods", i.Store().Len())
		}
		hold.Deliver(func(e informertest.HeldEvent) bool { return e.Key.Name == "a" })
		must(t, server.Settle(t.Context(), i))
		if i.Store().Len() != 1 {
			t.Errorf("the informer has %d pods", i.Store().Len())
		}
		hold.Release()
		must(t, server.Settle(t.Context(), i))
		if i.Store().Len() != 2 {
			t.Errorf("the informer has %d pods", i.Store().Len())
		}
	})
}

func TestSettle_SaysWhatIsNotSettled(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, pods *informertest.Collection[*corev1.Pod]) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("too late"))
		defer cancel()
		queue := informer.NewQueue[string](informer.QueueConfig[string]{Name: "work"})
		defer queue.Close()
		queue.Add("x")
		err := server.Settle(ctx, queue)
		if err == nil || err.Error() != `informertest: not settled: the queue "work" has 1 keys that are ready, and 0 in work: too late` {
			t.Errorf("got %v", err)
		}
		if err := server.Settle(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "string") {
			t.Errorf("got %v", err)
		}
		calls := 0
		must(t, server.Settle(t.Context(), func() bool { calls++; return calls > 5 }))
		if calls <= 5 {
			t.Errorf("settled after %d calls", calls)
		}
	})
}
