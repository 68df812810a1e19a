package informer

import (
	"bytes"
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/fleet"
)

// decodeFleet decodes the pods of a fleet from a list.
func decodeFleet(t *testing.T, f format, pods int, share bool) []*corev1.Pod {
	t.Helper()
	var list bytes.Buffer
	write := fleet.WriteListJSON
	if f == formatProtobuf {
		write = fleet.WriteListProtobuf
	}
	if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, fleet.New(fleet.Config{Pods: pods}).All()); err != nil {
		t.Fatal(err)
	}
	c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
	var info listInfo
	var decoded []*corev1.Pod
	err := readList(&list, f, &info, func(raw []byte) {
		pod, err := c.decode(f, raw, &info, share)
		if err != nil {
			t.Fatal(err)
		}
		decoded = append(decoded, pod)
	})
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// Objects that share parts are equal to those that do not, and take much less memory.
func TestShare(t *testing.T) {
	const pods = 3000
	for _, f := range []format{formatJSON, formatProtobuf} {
		before := liveMemory()
		own := decodeFleet(t, f, pods, false)
		between := liveMemory()
		shared := decodeFleet(t, f, pods, true)
		ownSize, sharedSize := between-before, liveMemory()-between
		if !reflect.DeepEqual(own, shared) {
			t.Fatalf("format %d: differs (-own +shared):\n%s", f, cmp.Diff(own, shared))
		}
		if sharedSize*10 > ownSize*7 {
			t.Errorf("format %d: %d bytes shared, %d own", f, sharedSize, ownSize)
		}
		seen := map[*corev1.Toleration]bool{}
		for _, pod := range own {
			for i := range pod.Spec.Tolerations {
				if at := &pod.Spec.Tolerations[i]; seen[at] {
					t.Fatalf("format %d: %s shares without Share", f, pod.Name)
				} else {
					seen[at] = true
				}
			}
		}
	}
}

// What is remembered of what may be shared goes with the next garbage collection.
func TestShareHoldsWeakly(t *testing.T) {
	var w weakSharer
	w.get().put([]byte("raw"), reflect.TypeFor[*int](), reflect.ValueOf(new(*int)).UnsafePointer())
	runtime.GC()
	if w.Value() != nil {
		t.Error("still there")
	}
}

// The parts of an object that did not change are those of the version before, which is not written to.
func TestShareAdopts(t *testing.T) {
	adopter := adopter{}
	pods := fleet.New(fleet.Config{Pods: 200})
	for i := range 200 {
		old := pods.Pod(i)
		for name, change := range map[string]func(*corev1.Pod){
			"nothing":      func(*corev1.Pod) {},
			"name":         func(p *corev1.Pod) { p.Name += "x" },
			"label":        func(p *corev1.Pod) { p.Labels["new"] = "x" },
			"no labels":    func(p *corev1.Pod) { p.Labels = nil },
			"empty labels": func(p *corev1.Pod) { p.Labels = map[string]string{} },
			"container":    func(p *corev1.Pod) { p.Spec.Containers[0].Image = "x" },
			"container+":   func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x"}) },
			"no volumes":   func(p *corev1.Pod) { p.Spec.Volumes = nil },
			"volumes-":     func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[:len(p.Spec.Volumes)-1] },
			"pointer":      func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64) },
			"time":         func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() },
		} {
			want := old.DeepCopy()
			change(want)
			before, got := old.DeepCopy(), want.DeepCopy()
			adopter.adopt(old, got)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(old, before) {
				t.Fatalf("%s: now (-want +got):\n%s\nold:\n%s", name, cmp.Diff(want, got), cmp.Diff(before, old))
			}
			if len(old.Spec.Containers) > 0 && len(old.Spec.Containers[0].Env) > 0 && &got.Spec.Containers[0].Env[0] != &old.Spec.Containers[0].Env[0] {
				t.Errorf("%s: the environment is another", name)
			}
			if name == "label" && unsafe.SliceData(got.Spec.Containers) != unsafe.SliceData(old.Spec.Containers) {
				t.Errorf("%s: the containers are others", name)
			}
		}
	}
	old := &unstructured.Unstructured{Object: map[string]any{"a": map[string]any{"b": []any{"c"}, "d": int64(1)}, "e": nil, "f": []any{map[string]any{}}}}
	got := old.DeepCopy()
	got.Object["a"].(map[string]any)["d"] = int64(2)
	want := got.DeepCopy()
	adopter.adopt(old, got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("unstructured: %v instead of %v", got, want)
	}
	if of := func(u *unstructured.Unstructured) *any { return &u.Object["a"].(map[string]any)["b"].([]any)[0] }; of(got) != of(old) {
		t.Error("unstructured: b is another")
	}
}

// Strings that repeat stay one, however many others there are, and the others are not kept.
func TestInternerIsBounded(t *testing.T) {
	n := newInterner()
	often := n.get([]byte("often"))
	for i := range 200_000 {
		n.get(fmt.Append(nil, "seldom", i))
		if i%10 == 0 {
			if again := n.get([]byte("often")); unsafe.StringData(again) != unsafe.StringData(often) {
				t.Fatal("not the same")
			}
		}
	}
	if len(n.sets) != maxInterned {
		t.Errorf("%d sets", len(n.sets))
	}
}
