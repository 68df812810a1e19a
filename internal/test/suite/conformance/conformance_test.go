// Package conformance tests an informer in every mode against the rules that hold in each.
package conformance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/internal/test/world"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestConformance checks the rules that hold in every mode of an informer.
func TestConformance(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.String(), func(t *testing.T) {
			switch m.kind {
			case "Pod":
				conform[*corev1.Pod](t, m)
			case "PartialObjectMetadata":
				conform[*metav1.PartialObjectMetadata](t, m)
			case "Unstructured":
				conform[*unstructured.Unstructured](t, m)
			case "slimPod":
				conform[*world.SlimPod](t, m)
			}
		})
	}
}

// conform runs the suite. [follower] checks the rules that hold at each call of a handler; rig.end those that hold at the
// end of each test.
func conform[T labeled](t *testing.T, m mode) {
	for _, rule := range []struct {
		name string
		test func(*rig[T])
	}{
		{"R1R3_InitialSync", (*rig[T]).initialSync},
		{"R8R16_InitialSyncBroken", (*rig[T]).initialSyncBroken},
		{"H1H2H14C6_AddUpdateDelete", (*rig[T]).addUpdateDelete},
		{"H2_Scope", (*rig[T]).scope},
		{"H5_AnotherObjectOfThatName", (*rig[T]).anotherObject},
		{"H3H4H9_SlowHandler", (*rig[T]).slowHandler},
		{"H7H8_LateSubscription", (*rig[T]).lateSubscription},
		{"H10_Panic", (*rig[T]).panics},
		{"H11_Close", (*rig[T]).closes},
		{"H12_Filter", (*rig[T]).filter},
		{"H13_Resync", (*rig[T]).resync},
		{"H2_Changes", (*rig[T]).changes},
		{"R7R15_WatchEnds", (*rig[T]).watchEnds},
		{"R8R12_ConnectionLost", (*rig[T]).connectionLost},
		{"R9R19H14_RelistFindsNothing", (*rig[T]).relistFindsNothing},
		{"R9R19H5H6C10_RelistFindsChanges", (*rig[T]).relistFindsChanges},
		{"R14_AbsentAndBack", (*rig[T]).absentAndBack},
		{"R17_CorruptObject", (*rig[T]).corruptObject},
		{"R20_Transform", (*rig[T]).transformFails},
		{"C1_SnapshotIsForEver", (*rig[T]).snapshotIsForEver},
		{"C3C4C5_IndexAddedLate", (*rig[T]).indexAddedLate},
		{"C9_Wait", (*rig[T]).wait},
		{"L1L2_EndsInTheFirstList", (*rig[T]).endsInTheFirstList},
	} {
		t.Run(rule.name, func(t *testing.T) {
			world.Bubble(t, func(w world.World) { rule.test(newRig[T](w, m)) })
		})
	}
}

// The suite.
