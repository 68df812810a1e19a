package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// sortedKeys returns the keys that queue hands out once all goroutines wait.
func sortedKeys(w world.World, queue *informer.Queue[string]) (keys []string) {
	w.Helper()
	synctest.Wait()
	for queue.Len() > 0 {
		key, err := queue.Get(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		queue.Done(key)
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// A change that is undone before the enqueuer handles it still counts: Reconcile may have seen it in the store.
func TestEveryChangeIsEnqueued(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pods := w.QuietInformer()
		slow := make(chan struct{})
		queue := informer.NewQueue(informer.QueueConfig[string]{})
		defer queue.Close()
		ctl := &informer.Controller[string]{Queue: queue, Reconcile: func(context.Context, string) (informer.Result, error) { return informer.Result{}, nil }}
		ctl.Watch(informer.Enqueue(pods, func(pod *corev1.Pod) []string {
			<-slow
			return []string{pod.Labels["owner"]}
		}))
		defer world.Start(w.T, pods)()
		synctest.Wait()
		w.Create(world.NewPod("ns", "first", "owner=a"))
		synctest.Wait()
		w.Create(world.NewPod("ns", "second", "owner=b"))
		w.Create(world.NewPod("ns", "third", "owner=c"))
		synctest.Wait()
		w.Label("ns", "third", "owner", "d")
		synctest.Wait()
		w.Delete("ns", "second")
		w.Delete("ns", "third")
		synctest.Wait()
		close(slow)
		if keys := sortedKeys(w, queue); !slices.Equal(keys, []string{"a", "b", "c", "d"}) {
			w.Errorf("enqueued %q", keys)
		}
	})
}

// A source enqueues the keys of old and new at every change: a full backlog makes the store wait.
func TestSourceMissesNothing(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pods := w.QuietInformer()
		defer world.Start(w.T, pods)()
		w.Create(world.NewPod("ns", "a", "owner=0"))
		calls := make(chan struct{}, 1)
		calls <- struct{}{}
		queue := informer.NewQueue(informer.QueueConfig[string]{Name: "all"})
		defer queue.Close()
		ctl := &informer.Controller[string]{Queue: queue, Reconcile: func(context.Context, string) (informer.Result, error) { return informer.Result{}, nil }}
		sub := ctl.Watch(informer.Enqueue(pods, func(pod *corev1.Pod) []string {
			<-calls
			return []string{pod.Labels["owner"]}
		}))
		if keys := sortedKeys(w, queue); !slices.Equal(keys, []string{"0"}) {
			w.Errorf("enqueued %q", keys)
		}
		want := []string{"0"}
		for i := 1; i <= 1100; i++ { // more than may wait
			owner := fmt.Sprint(i)
			w.Label("ns", "a", "owner", owner)
			synctest.Wait()
			want = append(want, owner)
		}
		if !sub.Status().Blocking {
			w.Error("the informer does not wait for the source")
		}
		close(calls)
		slices.Sort(want)
		if keys := sortedKeys(w, queue); !slices.Equal(keys, want) || sub.Err() != nil {
			w.Errorf("enqueued %q, and the subscription has ended with %v", keys, sub.Err())
		}
		if name := sub.Status().Name; name != "queue all" {
			w.Errorf("the subscription has the name %q", name)
		}
	})
}

// Guarantees: S3
func TestReplayAddsTheKeysOfAllObjectsThatMatch(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		pods := w.QuietInformer()
		for _, name := range []string{"a", "b", "c"} {
			w.Create(world.NewPod("ns", name))
		}
		queue := informer.NewQueue(informer.QueueConfig[string]{})
		defer queue.Close()
		ctl := &informer.Controller[string]{Queue: queue, Reconcile: func(context.Context, string) (informer.Result, error) { return informer.Result{}, nil }}
		ctl.Own(func(string) informer.Ownership { return informer.KeyAwaited })
		source := func(prefix string, delay time.Duration) informer.Source[string] {
			return informer.EnqueueBy(pods, func(q *informer.Queue[string]) informer.Handler[*corev1.Pod] {
				return informer.HandlerFuncs[*corev1.Pod]{AddFunc: func(pod *corev1.Pod, _ bool) { q.AddAfter(prefix+pod.Name, delay) }}
			}, informer.SubscriptionConfig[*corev1.Pod]{})
		}
		ctl.Watch(informer.Enqueue(pods, func(pod *corev1.Pod) []string { return []string{pod.Name} }))
		closed := ctl.Watch(source("closed ", 0))
		ctl.Watch(source("delayed ", time.Hour))
		defer world.Start(w.T, pods)()
		synctest.Wait()
		closed.Close()
		for _, key := range []string{"a", "b", "c", "closed a", "closed b", "closed c", "delayed a", "delayed b", "delayed c"} {
			queue.Cancel(key)
		}
		match := func(key string) bool { return !strings.HasSuffix(key, "b") }
		if err := ctl.Replay(w.Context(), match); err != nil {
			w.Fatal(err)
		}
		ctl.Own(nil)
		time.Sleep(2 * time.Hour)
		if keys := sortedKeys(w, queue); !slices.Equal(keys, []string{"a", "c", "delayed a", "delayed c"}) {
			w.Errorf("the keys are %q", keys)
		}
		if n := len(pods.Status().Handlers); n != 2 {
			w.Errorf("%d subscriptions are left, want 2", n)
		}
	})
}
