package informer_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
)

// A change that is undone before the enqueuer handles it still counts: Reconcile may have seen it in the store.
func TestEveryChangeIsEnqueued(t *testing.T) {
	bubble(t, func(w world) {
		pods := informer.New(w.client(), informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
		slow := make(chan struct{})
		queue := informer.NewQueue(informer.QueueConfig[string]{})
		defer queue.Close()
		ctl := &informer.Controller[string]{Queue: queue, Reconcile: func(context.Context, string) (informer.Result, error) { return informer.Result{}, nil }}
		ctl.Watch(informer.Enqueue(pods, func(pod *corev1.Pod) []string {
			<-slow
			return []string{pod.Labels["owner"]}
		}))
		defer start(w.T, pods)()
		synctest.Wait()
		w.create(newPod("ns", "first", "owner=a"))
		synctest.Wait()
		w.create(newPod("ns", "second", "owner=b"))
		w.create(newPod("ns", "third", "owner=c"))
		synctest.Wait()
		w.label("ns", "third", "owner", "d")
		synctest.Wait()
		w.delete("ns", "second")
		w.delete("ns", "third")
		synctest.Wait()
		close(slow)
		synctest.Wait()
		var keys []string
		for queue.Len() > 0 {
			key, err := queue.Get(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			queue.Done(key)
			keys = append(keys, key)
		}
		if slices.Sort(keys); !slices.Equal(keys, []string{"a", "b", "c", "d"}) {
			w.Errorf("enqueued %q", keys)
		}
	})
}
