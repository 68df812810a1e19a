package durable

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/world"
)

// A warm start is older than the state, and the newest version of an object cannot be decoded. So the store has what the
// object was at the warm start. The handler, which has had later changes, does not receive that: no older version, no
// deletion of what exists, and no addition of what is deleted, also not at a resync. When the object can be decoded, it receives what differs.
// Guarantees: H15, H17
func TestOldWarmStartOfAnUndecodableObject(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w world.World) // while the handler receives changes
		then   func(w world.World) // while no process runs
		want   []string            // when the object can be decoded
		gone   []string            // if it is deleted instead
	}{
		"changed": {
			func(w world.World) { w.Relabel("ns", "a", "2") }, func(world.World) {},
			[]string{"update ns/a 2 from 2 (metadata)"}, []string{"delete ns/a 2 (metadata) final=false"},
		},
		"another one": {
			func(w world.World) { w.Delete("ns", "a"); w.Create(world.NewPod("ns", "a", "v=2")) }, func(world.World) {},
			[]string{"update ns/a 2 from 2 (metadata)"}, []string{"delete ns/a 2 (metadata) final=false"},
		},
		"deleted": {
			func(w world.World) { w.Delete("ns", "a") }, func(w world.World) { w.Create(world.NewPod("ns", "a", "v=2")) },
			[]string{"add ns/a 2 initial=false"}, nil,
		},
	} {
		for _, delivery := range []informer.Delivery{{}, informer.DeliverEvery(0)} {
			for _, filter := range []func(*corev1.Pod) bool{nil, func(*corev1.Pod) bool { return true }} {
				for _, gone := range []bool{false, true} {
					t.Run(name, func(t *testing.T) {
						world.Bubble(t, func(w world.World) {
							want := c.want
							if gone {
								want = c.gone
							}
							sub := podSubscription{Durable: in(newMemory()), Delivery: delivery, Filter: filter}
							oldWarmStart(w, sub, c.change, c.then, gone, want)
						})
					})
				}
			}
		}
	}
}

func oldWarmStart(w world.World, sub podSubscription, change, then func(world.World), gone bool, want []string) {
	cold := world.Quiet[*corev1.Pod]()
	cold.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
		if isBad(pod) {
			return nil, errors.New("bad")
		}
		return pod, nil
	}
	warm := cold
	warm.WarmStart.Storage, warm.WarmStart.Revision = newMemory(), "1"
	w.Create(world.NewPod("ns", "a", "v=1"))
	first := live(w, w.Client(), warm, sub)
	first.stop()
	second := live(w, w.Client(), cold, sub)
	change(w)
	time.Sleep(time.Minute)
	second.stop()
	then(w)
	w.Label("ns", "a", "bad", "1")
	w.Server.Compact() // otherwise, a watch continues the warm start, and has the versions between
	if sub.Filter == nil {
		resyncs := sub
		resyncs.Resync = 10 * time.Second
		again := live(w, w.Client(), warm, resyncs)
		time.Sleep(time.Minute)
		again.rec.want(w.T)
		again.stop()
	}
	third := live(w, w.Client(), warm, sub)
	time.Sleep(time.Minute)
	third.rec.want(w.T)
	if gone {
		w.Delete("ns", "a")
	} else {
		w.Label("ns", "a", "bad", "")
	}
	time.Sleep(time.Minute)
	third.rec.want(w.T, want...)
	third.stop()
	fourth := live(w, w.Client(), cold, sub)
	fourth.rec.want(w.T)
	fourth.stop()
}
