package fleet

import (
	"reflect"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// TestUpdatesChangeOnePart holds each update against the version before: one part differs, in the promised shares.
func TestUpdatesChangeOnePart(t *testing.T) {
	f := New(Config{Seed: 5, Pods: 300})
	held := map[types.UID]*corev1.Pod{}
	for pod := range f.All() {
		held[pod.UID] = pod
	}
	const total = 3000
	var n, status, metadata, spec int
	rv, err := strconv.ParseUint(f.ResourceVersion(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	for change := range f.Updates(9) {
		if n++; n > total {
			break
		}
		pod := change.Object
		old, ok := held[pod.UID]
		if !ok || change.Type != watch.Modified {
			t.Fatalf("update %d: %s of %s, which is there: %t", n, change.Type, pod.Name, ok)
		}
		next, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
		if err != nil || next <= rv {
			t.Fatalf("update %d: resourceVersion %q follows %d", n, pod.ResourceVersion, rv)
		}
		rv = next
		held[pod.UID] = pod
		before, after := old.ObjectMeta, pod.ObjectMeta
		before.ResourceVersion, before.ManagedFields, after.ResourceVersion, after.ManagedFields = "", nil, "", nil
		parts := 0
		for _, part := range []struct {
			count   *int
			changed bool
		}{
			{&status, !reflect.DeepEqual(old.Status, pod.Status)},
			{&metadata, !reflect.DeepEqual(before, after)},
			{&spec, !reflect.DeepEqual(old.Spec, pod.Spec)},
		} {
			if part.changed {
				*part.count++
				parts++
			}
		}
		if parts != 1 {
			t.Fatalf("update %d changes %d parts of %s", n, parts, pod.Name)
		}
	}
	for part, count := range map[int]int{StatusUpdates: status, MetadataUpdates: metadata, SpecUpdates: spec} {
		if percent := count * 100 / total; percent < part-3 || percent > part+3 {
			t.Errorf("%d%% of the updates change a part that %d%% should", percent, part)
		}
	}
}

func TestUpdatesStartAgain(t *testing.T) {
	updates := New(Config{}).Updates(3)
	if a, b := digest(t, objects(updates, 500)), digest(t, objects(updates, 500)); a != b {
		t.Errorf("the second iteration has digest %s, the first %s", b, a)
	}
}
