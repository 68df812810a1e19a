package cache_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/sharding"
	clientcache "k8s.io/client-go/tools/cache"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/cache"
	"github.com/typedinformer/informer/clientgo/internal/world"
)

// sharded is what the interface of client-go has since 0.38.
type sharded interface {
	SetShardSelector(sharding.Selector) error
}

// An informer with a shard selector has the objects of the shard only, whatever the server and the ListerWatcher know
// of shards.
// Guarantees: P1, S1
func TestShardSelector(t *testing.T) {
	for name, over := range map[string]func(w *world.World) clientcache.ListerWatcher{
		"collection": func(w *world.World) clientcache.ListerWatcher {
			return cache.NewFilteredListWatchFromClient(w.Clientset().CoreV1().RESTClient(), "pods", "", func(*metav1.ListOptions) {})
		},
		"ListerWatcher": func(w *world.World) clientcache.ListerWatcher {
			return clientcache.NewFilteredListWatchFromClient(w.Clientset().CoreV1().RESTClient(), "pods", "", func(*metav1.ListOptions) {})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := world.New(t)
				defer w.Server.Close()
				want := w.Spread("one")
				i := cache.NewSharedIndexInformer(over(w), &corev1.Pod{}, 0, clientcache.Indexers{})
				if err := i.(sharded).SetShardSelector(world.Half()); err != nil {
					t.Fatal(err)
				}
				stop := run(t, i)
				wait(t, i.HasSyncedChecker())
				if got := world.Namespaces(i.GetStore().List()); !slices.Equal(got, want) {
					t.Errorf("the store has pods of %q, want %q", got, want)
				}
				w.Spread("two")
				time.Sleep(time.Second)
				synctest.Wait()
				if got := i.GetStore().ListKeys(); len(got) != 2*len(want) {
					t.Errorf("after more pods, the store has %q", got)
				}
				if err := i.(sharded).SetShardSelector(nil); err == nil {
					t.Error("an informer that runs accepts another selector")
				}
				stop()
			})
		})
	}
}

// A selector that servers refuse is refused at once, and leaves the informer as it was. Nil and the selector of everything
// select all objects.
// Guarantees: P1
func TestShardSelectorIsChecked(t *testing.T) {
	w := world.New(t)
	i, err := cache.New(cache.Config{Client: w.Client(), Object: &corev1.Pod{},
		Resource: informer.Resource{GroupVersionResource: world.Pods}})
	if err != nil {
		t.Fatal(err)
	}
	part := func(start, end string) sharding.ShardRangeRequirement {
		return sharding.ShardRangeRequirement{Key: "object.metadata.uid", Start: start, End: end}
	}
	const zero, middle, end = "0x0000000000000000", "0x8000000000000000", "0x10000000000000000"
	for name, wrong := range map[string]sharding.Selector{
		"another field": sharding.NewSelector(sharding.ShardRangeRequirement{Key: "object.metadata.name", Start: zero, End: end}),
		"two fields":    sharding.NewSelector(part(zero, middle), sharding.ShardRangeRequirement{Key: "object.metadata.namespace", Start: middle, End: end}),
		"no range":      sharding.NewSelector(part(middle, middle)),
		"no number":     sharding.NewSelector(part("0x", end)),
		"many ranges":   sharding.NewSelector(slices.Repeat([]sharding.ShardRangeRequirement{part(zero, middle)}, 65)...),
	} {
		if err := i.(sharded).SetShardSelector(wrong); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, right := range map[string]sharding.Selector{
		"nil": nil, "everything": sharding.Everything(), "all": sharding.NewSelector(part(zero, end)),
	} {
		if err := i.(sharded).SetShardSelector(right); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	over := cache.NewFilteredListWatchFromClient(w.Clientset().CoreV1().RESTClient(), "pods", "", func(o *metav1.ListOptions) {
		o.ShardSelector = "nonsense"
	})
	if _, err := cache.Over(over, &corev1.Pod{}, clientcache.SharedIndexInformerOptions{}, cache.Options{}); err == nil || errors.Is(err, cache.ErrNoRESTClient) {
		t.Errorf("a ListWatch with a selector that is none: %v", err)
	}
}
