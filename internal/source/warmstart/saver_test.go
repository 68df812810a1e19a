package warmstart

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/object"
)

// saverRig has a saver of states, whose content has another version at each save.
type saverRig struct {
	*Saver
	began   time.Time
	asked   []time.Duration // when Content was called, since the beginning
	empty   string          // the namespace without content
	version int
}

// newSaverRig returns a rig whose saver has an interval of ten minutes, and a state for each namespace.
func newSaverRig(t *testing.T, namespaces ...string) *saverRig {
	r := &saverRig{began: time.Now(), empty: "none"}
	r.Saver = &Saver{Interval: 10 * time.Minute, Content: func(namespace string) (Content, bool) {
		r.asked = append(r.asked, time.Since(r.began))
		r.version++
		pod := newPod("a", "1")
		pod.Namespace = namespace
		return Content{Objects: slices.Values([]object.Object{pod}), Version: fmt.Sprint(r.version), Listed: r.began}, namespace != r.empty
	}}
	for _, namespace := range namespaces {
		config := newRig[*corev1.Pod](t, false).config
		config.Identity.Namespace = namespace
		r.States = append(r.States, New(config))
	}
	return r
}

// run runs the saver for a time.
func (r *saverRig) run(t *testing.T, d time.Duration, synced <-chan struct{}) {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r.Run(ctx, synced)
}

// The first save follows soon after the first list, and the next ones at intervals that differ a little.
// Guarantees: S4
func TestSaverSavesAtIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = 5 * time.Minute
		r, synced := newSaverRig(t, "ns"), make(chan struct{})
		time.AfterFunc(after, func() { close(synced) })
		r.run(t, 3*time.Hour, synced)
		if r.asked[0] != after+r.Interval/10 {
			t.Errorf("the first save after %v", r.asked[0])
		}
		waits := map[time.Duration]bool{}
		for i, asked := range r.asked[1:] {
			wait := asked - r.asked[i]
			if waits[wait] = true; wait > r.Interval || wait < r.Interval*9/10 {
				t.Errorf("a save after %v", wait)
			}
		}
		if len(waits) < 2 {
			t.Error("all intervals are equal")
		}
		if s := r.States[0].Status(); s.Saves != len(r.asked) || s.SaveError != nil {
			t.Errorf("%d saves: %+v", len(r.asked), s)
		}
	})
}

// Without a first list nothing is saved.
// Guarantees: S4
func TestSaverWaitsForTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSaverRig(t, "ns")
		r.run(t, time.Hour, nil)
		if len(r.asked) > 0 {
			t.Errorf("saves at %v", r.asked)
		}
	})
}

// Each namespace has a state of its own. One without content delays no other.
// Guarantees: S4
func TestSaverSavesEachNamespace(t *testing.T) {
	r := newSaverRig(t, "a", "none", "b")
	r.Save(t.Context(), true)
	for i, want := range []int{1, 0, 1} {
		if s := r.States[i].Status(); s.Saves != want || s.SaveError != nil {
			t.Errorf("namespace %s: %+v", r.States[i].Namespace(), s)
		}
	}
	if r.empty = ""; len(r.asked) != 3 {
		t.Errorf("asked for %d namespaces", len(r.asked))
	}
	r.Save(t.Context(), true)
	if s := r.States[1].Status(); s.Saves != 1 {
		t.Errorf("with content: %+v", s)
	}
}
