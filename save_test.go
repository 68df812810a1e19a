package informer_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// Each save writes an object in an encoding that loses nothing, also an object that an earlier save has checked: those
// that only JSON can hold, and those of a protobuf type that lose something in protobuf.
// Guarantees: S4
func TestLaterSavesLoseNothing(t *testing.T) {
	t.Run("unstructured", func(t *testing.T) { testLaterSaves[*unstructured.Unstructured](t, nil) })
	t.Run("slim", func(t *testing.T) { testLaterSaves[*slimPod](t, nil) })
	t.Run("protobuf", func(t *testing.T) { testLaterSaves[*corev1.Pod](t, nil) })
	t.Run("an empty list", func(t *testing.T) {
		testLaterSaves(t, func(p *corev1.Pod) (*corev1.Pod, error) {
			p.Spec.Containers = []corev1.Container{} // nil after protobuf
			return p, nil
		})
	})
}

func testLaterSaves[T informer.Object](t *testing.T, transform func(T) (T, error)) {
	for _, compact := range []bool{false, true} {
		t.Run(fmt.Sprintf("compact=%v", compact), func(t *testing.T) {
			bubble(t, func(w world) {
				config := quiet[T]()
				config.Compact, config.Transform = compact, transform
				config.WarmStart = warmStartDir(t)
				config.WarmStart.Interval = 10 * time.Minute
				config.WarmStart.Revision = "1"
				w.create(newPod("ns", "a", "v=1"), newPod("ns", "b", "v=1"))
				first := informer.New(w.client(), pods, config)
				stop := start(w.T, first)
				time.Sleep(61 * time.Second)
				for saves := 1; saves <= 3; saves++ {
					want := first.Store().List()
					if s := first.Status().Reflectors[0].WarmStart; s.Saves != saves || s.SaveError != nil || s.SavedVersion != w.server.ResourceVersion() {
						t.Errorf("save %d: %+v", saves, s)
					}
					copied := config
					copied.WarmStart.Storage = copyOf(t, config.WarmStart)
					again := informer.New(w.client(), pods, copied)
					start(w.T, again)()
					if s := again.Status().Reflectors[0].WarmStart; !s.Loaded || s.LoadedObjects != 2 {
						t.Errorf("save %d: %+v", saves, s)
					}
					if got := again.Store().List(); !reflect.DeepEqual(got, want) {
						t.Errorf("save %d (-saved +loaded):\n%s", saves, cmp.Diff(want, got))
					}
					w.relabel("ns", "a", fmt.Sprint("save-", saves))
					time.Sleep(config.WarmStart.Interval)
				}
				stop()
			})
		})
	}
}

// While nothing changes, a save each MaxAge/2 keeps the saved state young enough for a start, also after a warm start.
// Guarantees: S4
func TestQuietCollectionIsSavedAgain(t *testing.T) {
	forEachCompactPod(t, "quiet", func(w world, compact bool) {
		config := quiet[*corev1.Pod]()
		config.Compact = compact
		config.WarmStart = warmStartDir(t) // with an Interval of 5 minutes, and a MaxAge of an hour
		w.create(newPod("ns", "a", "v=1"))
		inf := w.live(w.client(), pods, config)
		time.Sleep(30 * time.Minute)
		if s := inf.status(); s.Saves != 1 {
			t.Errorf("after 30 minutes: %+v", s)
		}
		time.Sleep(6 * time.Minute)
		if s := inf.status(); s.Saves != 2 || time.Since(s.SavedAt) > 6*time.Minute {
			t.Errorf("after 36 minutes: %+v", s)
		}
		time.Sleep(time.Hour)
		killed := config
		killed.WarmStart.Storage = copyOf(t, config.WarmStart)
		inf.stop()
		time.Sleep(20 * time.Minute) // the saved state is then at least as old
		warm := w.live(w.client(), pods, killed)
		if s := warm.status(); !s.Loaded || s.LoadedAge < 20*time.Minute {
			t.Errorf("a warm start: %+v", s)
		}
		time.Sleep(16 * time.Minute) // the saved state has passed half of MaxAge, the process has not
		if s := warm.status(); s.Saves != 1 {
			t.Errorf("16 minutes after a warm start: %+v", s)
		}
		warm.stop()
	})
}

// A save after a change of the shard saves the objects of the new shard, although the resource version is that of the
// save before.
// Guarantees: S4
func TestChangeOfTheShardIsSaved(t *testing.T) {
	bubbleWith(t, informertest.Options{Shards: true}, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		for i := range 20 {
			w.create(newPod("ns", fmt.Sprint("p", i)))
		}
		whole := informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64}}}
		resource := pods
		resource.Shard = informer.Shard{Ranges: []informer.HashRange{{First: 0, Last: math.MaxUint64 / 2}}}
		first := w.live(w.client(), resource, config)
		time.Sleep(time.Minute) // until a save
		if s := first.status(); s.Saves != 1 || s.SavedObjects == 20 {
			t.Errorf("the first shard: %+v", s)
		}
		if err := first.SetShard(w.Context(), whole); err != nil {
			t.Fatal(err)
		}
		first.stop()
		if s := first.status(); s.Saves != 2 || s.SavedObjects != 20 {
			t.Errorf("the second shard: %+v", s)
		}
		resource.Shard = whole
		again := w.live(w.client(), resource, config)
		if s := again.status(); !s.Loaded || s.LoadedObjects != 20 {
			t.Errorf("%+v", s)
		}
		again.stop()
	})
}

// A server that was restored can send other content under the same UID and resource version: what an earlier save has
// found out about the encoding does not hold for it.
// Guarantees: S4
func TestSaveChecksTheContentOfARestoredServer(t *testing.T) {
	bubble(t, func(w world) {
		config := quiet[*corev1.Pod]()
		config.WarmStart = warmStartDir(t)
		config.WarmStart.Revision = "1"
		config.WarmStart.Interval = time.Hour // no save comes between the two that matter
		config.Transform = func(p *corev1.Pod) (*corev1.Pod, error) {
			if p.Labels["v"] == "empty" {
				p.Spec.Containers = []corev1.Container{} // nil after protobuf
			}
			return p, nil
		}
		w.create(newPod("ns", "a", "v=1"))
		backup := w.server.Snapshot()
		w.relabel("ns", "a", "full")
		first := w.live(w.client(), pods, config)
		time.Sleep(7 * time.Minute) // until a save
		w.server.Restore(backup)
		w.server.EndWatches()
		time.Sleep(15 * time.Minute) // until the informer notices
		w.relabel("ns", "a", "empty")
		version := w.server.ResourceVersion()
		time.Sleep(time.Hour) // until the next save
		want := first.Store().List()
		if len(want) != 1 || want[0].ResourceVersion != version || want[0].Labels["v"] != "empty" {
			t.Fatalf("the store has %v", want)
		}
		first.stop()
		if s := first.status(); s.Saves < 2 || s.SaveError != nil {
			t.Errorf("%+v", s)
		}
		again := w.live(w.client(), pods, config)
		if s := again.status(); !s.Loaded {
			t.Errorf("%+v", s)
		}
		if got := again.Store().List(); !reflect.DeepEqual(got, want) {
			t.Errorf("(-saved +loaded):\n%s", cmp.Diff(want, got))
		}
		again.stop()
	})
}
