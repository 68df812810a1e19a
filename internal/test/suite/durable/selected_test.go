package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// of runs an informer of pods of that resource.
func of(w world.World, resource informer.Resource, m *memory) (*informer.Informer[*corev1.Pod], *recorder[*corev1.Pod], func()) {
	w.Helper()
	inf, rec := informer.New(w.Client(), resource, world.Quiet[*corev1.Pod]()), &recorder[*corev1.Pod]{}
	inf.Subscribe(rec, podSubscription{Durable: in(m)})
	return inf, rec, world.Start(w.T, inf)
}

// An informer of other namespaces or of another shard continues: what it no longer selects is deleted, and what is new
// is added.
// Guarantees: H15
func TestOtherSelectionContinues(t *testing.T) {
	shardOf := func(namespace string) informer.Shard {
		hash := informer.HashOf(namespace)
		return informer.Shard{Field: informer.ShardByNamespace, Ranges: []informer.HashRange{{First: hash, Last: hash}}}
	}
	for name, only := range map[string]func(namespaces ...string) informer.Resource{
		"namespaces": func(namespaces ...string) informer.Resource {
			return informer.Resource{GroupVersionResource: world.PodGVR, Namespaces: namespaces}
		},
		"shard": func(namespaces ...string) informer.Resource {
			r := informer.Resource{GroupVersionResource: world.PodGVR}
			for _, namespace := range namespaces {
				r.Shard.Field = informer.ShardByNamespace
				r.Shard.Ranges = append(r.Shard.Ranges, shardOf(namespace).Ranges...)
			}
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) {
				m := newMemory()
				w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("b", "x", "v=1"), world.NewPod("c", "x", "v=1"))
				_, rec, stop := of(w, only("a", "b"), m)
				rec.want(w.T, "add a/x 1 initial=true", "add b/x 1 initial=true")
				stop()
				_, rec, stop = of(w, only("b", "c"), m)
				rec.want(w.T, "delete a/x 1 (metadata) final=false", "add c/x 1 initial=false")
				w.Relabel("c", "x", "2")
				rec.want(w.T, "update c/x 2 from 1")
				stop()
				_, rec, stop = of(w, only("b", "c"), m)
				rec.want(w.T)
				stop()
			})
		})
	}
	t.Run("SetShard", func(t *testing.T) {
		world.Bubble(t, func(w world.World) {
			m := newMemory()
			w.Create(world.NewPod("a", "x", "v=1"), world.NewPod("b", "x", "v=1"))
			resource := informer.Resource{GroupVersionResource: world.PodGVR, Shard: shardOf("b")}
			inf, rec, stop := of(w, resource, m)
			rec.want(w.T, "add b/x 1 initial=true")
			if err := inf.SetShard(w.Context(), shardOf("a")); err != nil {
				w.Fatal(err)
			}
			time.Sleep(time.Second) // the addition waits for the next save
			rec.want(w.T, "add a/x 1 initial=false", "delete b/x 1 final=false")
			stop()
			_, rec, stop = of(w, resource, m)
			rec.want(w.T, "delete a/x 1 (metadata) final=false", "add b/x 1 initial=false")
			stop()
		})
	})
}

// After Retire, the state is saved, and has nothing.
// Guarantees: H15
func TestRetiredInformerSavesDeletions(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		m := newMemory()
		w.Create(world.NewPod("ns", "a", "v=1"), world.NewPod("ns", "b", "v=1"))
		inf, rec := informer.New(w.Client(), pods, world.Quiet[*corev1.Pod]()), &recorder[*corev1.Pod]{}
		sub := inf.Subscribe(rec, podSubscription{Durable: in(m)})
		ended := make(chan error, 1)
		go func() { ended <- inf.Run(w.Context()) }()
		if err := sub.WaitSynced(w.Context()); err != nil {
			w.Fatal(err)
		}
		rec.want(w.T, "add ns/a 1 initial=true", "add ns/b 1 initial=true")
		inf.Retire()
		if err := <-ended; !errors.Is(err, informer.ErrStopped) {
			w.Errorf("Run: %v", err)
		}
		<-sub.Done()
		rec.want(w.T, "delete ns/a 1 final=false", "delete ns/b 1 final=false")
		w.Delete("ns", "b")
		next := again(w, world.Quiet[*corev1.Pod](), m)
		next.rec.want(w.T, "add ns/a 1 initial=false")
		next.stop()
	})
}

// A storage that fails once ends the subscription with an error, which does not ask to delete the state. The next process
// continues.
// Guarantees: H17
func TestUnreadableStorage(t *testing.T) {
	base, changes := names()
	for _, file := range []string{base, changes} {
		for _, after := range []int{-1, 0, 9, 100} {
			t.Run(fmt.Sprintf("%s after %d", file, after), func(t *testing.T) {
				world.Bubble(t, func(w world.World) {
					m := newMemory()
					begin(w, world.Quiet[*corev1.Pod](), m)
					w.Relabel("ns", "a", "2")
					durable := in(m)
					durable.Storage = flaky{m, file, after}
					second := live(w, w.Client(), world.Quiet[*corev1.Pod](), podSubscription{Durable: durable})
					second.rec.want(w.T)
					err := second.Err()
					if !errors.Is(err, informer.ErrDurableState) || !errors.Is(err, errRead) || !strings.Contains(err.Error(), file) ||
						strings.Contains(err.Error(), "delete") {
						w.Errorf("%v", err)
					}
					if err := second.Informer.WaitSynced(context.Background()); err != nil {
						w.Errorf("the informer: %v", err)
					}
					second.stop()
					third := again(w, world.Quiet[*corev1.Pod](), m)
					third.rec.want(w.T, "update ns/a 2 from 1 (metadata)")
					third.stop()
				})
			})
		}
	}
}
