package fleet

import (
	"fmt"
	"iter"
	"reflect"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// objects yields the pods of the first n changes.
func objects(changes iter.Seq[Change], n int) iter.Seq[*corev1.Pod] {
	return func(yield func(*corev1.Pod) bool) {
		for c := range changes {
			if n--; n < 0 || !yield(c.Object) {
				return
			}
		}
	}
}

// The changes of a stream are consistent with a plain map.
func TestChangesAreConsistent(t *testing.T) {
	for _, pods := range []int{1, 10, 300, 3000} {
		t.Run(strconv.Itoa(pods), func(t *testing.T) {
			f := New(Config{Seed: 5, Pods: pods})
			model := make(map[types.NamespacedName]*corev1.Pod)
			uids := make(map[types.UID]bool)
			for pod := range f.All() {
				model[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
				uids[pod.UID] = true
			}
			counts := map[watch.EventType]int{}
			rv, err := strconv.ParseUint(f.ResourceVersion(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			const total = 3_000
			made := 0
			for c := range f.Changes(9) {
				if made++; made > total {
					break
				}
				counts[c.Type]++
				pod := c.Object
				next, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
				if err != nil || next <= rv {
					t.Fatalf("change %d: resourceVersion is %s after %d", made, pod.ResourceVersion, rv)
				}
				rv = next
				key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
				old, ok := model[key]
				if ok == (c.Type == watch.Added) {
					t.Fatalf("change %d: %s of %s, which exists: %t", made, c.Type, key, ok)
				}
				if ok && old.UID != pod.UID {
					t.Fatalf("change %d: %s of %s has another UID", made, c.Type, key)
				}
				switch c.Type {
				case watch.Added:
					if uids[pod.UID] {
						t.Fatalf("change %d: UID %s is reused", made, pod.UID)
					}
					uids[pod.UID] = true
					if pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending || pod.Status.PodIP != "" {
						t.Errorf("change %d: new pod %s has node %q, phase %s, IP %q", made, key, pod.Spec.NodeName, pod.Status.Phase, pod.Status.PodIP)
					}
					model[key] = pod
				case watch.Modified:
					checkStep(t, old, pod)
					model[key] = pod
				case watch.Deleted:
					delete(model, key)
				}
				if n := len(model); n < pods-max(pods/10, 1) || n > pods+max(pods/10, 1) {
					t.Fatalf("change %d: there are %d pods, initially %d", made, n, pods)
				}
			}
			for typ, percent := range map[watch.EventType]int{watch.Added: 10, watch.Modified: 80, watch.Deleted: 10} {
				got := counts[typ] * 100 / total
				// A fleet of one pod has no other pods that could change.
				if pods > 1 && (got < percent-2 || got > percent+2) {
					t.Errorf("%d%% of changes are %s, want %d%%", got, typ, percent)
				}
			}
			if pods > 1 {
				seen := unique{}
				for _, pod := range model {
					seen.addPod(t, pod)
				}
			}
		})
	}
}

// checkStep checks that a modification is possible in a pod's life.
func checkStep(t *testing.T, old, pod *corev1.Pod) {
	t.Helper()
	if old.Spec.NodeName != "" && old.Spec.NodeName != pod.Spec.NodeName {
		t.Errorf("%s moved to another node", pod.Name)
	}
	if old.Status.PodIP != "" && old.Status.PodIP != pod.Status.PodIP {
		t.Errorf("%s changed its IP", pod.Name)
	}
	if old.DeletionTimestamp != nil && !old.DeletionTimestamp.Equal(pod.DeletionTimestamp) {
		t.Errorf("%s changed its deletionTimestamp", pod.Name)
	}
	if old.Status.Phase == corev1.PodSucceeded || old.Status.Phase == corev1.PodFailed {
		t.Errorf("%s is modified after it finished", pod.Name)
	}
	if old.Status.Phase == corev1.PodPending && pod.Status.Phase == corev1.PodRunning && old.Spec.NodeName == "" {
		t.Errorf("%s is running, but was not scheduled", pod.Name)
	}
	a, b := old.DeepCopy(), pod.DeepCopy()
	a.ResourceVersion, b.ResourceVersion = "", ""
	if reflect.DeepEqual(a, b) {
		t.Errorf("%s is modified, but unchanged", pod.Name)
	}
	// The spec is immutable except for the node.
	a.Spec.NodeName, b.Spec.NodeName = "", ""
	if !reflect.DeepEqual(a.Spec, b.Spec) {
		t.Errorf("%s has another spec:\n%s", pod.Name, cmp.Diff(a.Spec, b.Spec))
	}
	for i := range old.Status.ContainerStatuses {
		before, after := &old.Status.ContainerStatuses[i], &pod.Status.ContainerStatuses[i]
		if after.RestartCount < before.RestartCount {
			t.Errorf("%s: restart count of %s falls", pod.Name, after.Name)
		}
		if before.ContainerID != "" && (before.ContainerID == after.ContainerID) != (before.RestartCount == after.RestartCount) {
			t.Errorf("%s: %s has restarted %d and %d times, with containers %s and %s", pod.Name, after.Name, before.RestartCount, after.RestartCount, before.ContainerID, after.ContainerID)
		}
		if last := after.LastTerminationState.Terminated; after.RestartCount == before.RestartCount+1 && last.ContainerID != before.ContainerID {
			t.Errorf("%s: %s replaces container %s, but names %s", pod.Name, after.Name, before.ContainerID, last.ContainerID)
		}
	}
}

func TestChangesStartAgain(t *testing.T) {
	changes := New(Config{}).Changes(3)
	other := New(Config{}).Changes(4)
	if a, b := digest(t, objects(changes, 500)), digest(t, objects(changes, 500)); a != b {
		t.Errorf("the second iteration has digest %s, the first %s", b, a)
	}
	if a, b := digest(t, objects(changes, 500)), digest(t, objects(other, 500)); a == b {
		t.Error("different seeds yield the same changes")
	}
}

func TestStageNames(t *testing.T) {
	if a, b, c := fmt.Sprint(created), fmt.Sprint(terminated), fmt.Sprint(stage(99)); a != "created" || b != "terminated" || c != "stage(99)" {
		t.Errorf("the names of stages are %s, %s, %s", a, b, c)
	}
}
