package informer

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/fleet"
)

// The estimate of the memory is close to what the heap has more with the store than without.
// Guarantees: O1
func TestMemoryEstimate(t *testing.T) {
	const pods = 2000
	for name, config := range map[string]Config[*corev1.Pod]{
		"default":   {},
		"Share":     {Share: true},
		"Compact":   {Compact: true},
		"Transform": {Compact: true, Transform: func(p *corev1.Pod) (*corev1.Pod, error) { p.Status = corev1.PodStatus{}; return p, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			server := cannedList(t, "application/vnd.kubernetes.protobuf", fleet.New(fleet.Config{Pods: pods}).All())
			_, stop := runOwn(t, server, config) // allocates what is allocated once
			stop()
			before := liveMemory()
			inf, stop := runOwn(t, server, config)
			held := liveMemory() - before
			s := inf.Status()
			stop()
			if s.Objects != pods {
				t.Fatalf("%d objects", s.Objects)
			}
			low, high := 0.7, 1.4
			if config.Compact {
				low = 0.4 // half a megabyte of dictionaries and encoders does not count
			}
			if config.Share {
				high = 2.5 // what thousands of pods share counts as often as among 32
			}
			if ratio := float64(s.Memory) / float64(held); ratio < low || ratio > high {
				t.Errorf("the estimate is %d B an object, the heap has %d: %.2f times as much", s.Memory/pods, held/pods, ratio)
			} else {
				t.Logf("the estimate is %d B an object, the heap has %d: %.2f times as much", s.Memory/pods, held/pods, ratio)
			}
		})
	}
}

// Objects are measured again after a minute, or when their number has doubled or halved, and not for each status.
func TestMemoryIsMeasuredSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := NewStore[*thing]()
		var m memoryEstimate[*thing]
		if n := m.of(store.Snapshot()); n != 0 {
			t.Errorf("%d bytes without objects", n)
		}
		mustApply(t, store, nil, list(1, "a", "b", "c"))
		small := m.of(store.Snapshot())
		if small < 3*overheadStore || small > 3000 {
			t.Errorf("%d bytes for three objects", small)
		}
		measured := m.at
		<-time.After(time.Second)
		mustApply(t, store, nil, upsert(2, "d"))
		if n := m.of(store.Snapshot()); m.at != measured || n-small*4/3 > 1 || n-small*4/3 < -1 {
			t.Errorf("measured again, or %d bytes for four objects after %d for three", n, small)
		}
		mustApply(t, store, nil, list(3, "a"))
		m.of(store.Snapshot())
		if m.at == measured {
			t.Error("not measured again with a third of the objects")
		}
		measured = m.at
		<-time.After(2 * time.Minute)
		m.of(store.Snapshot())
		if m.at == measured {
			t.Error("not measured again after a minute")
		}
	})
}

