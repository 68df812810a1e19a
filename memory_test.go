package informer

import (
	"testing"
	"testing/synctest"
	"time"
)

// Objects are measured again after a minute, or when their number has doubled or halved, and not for each status.
func TestMemoryIsMeasuredSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := NewStore[*thing]()
		m := memoryEstimate[*thing]{measure: unpacked[*thing]{}.Measure}
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
