package warmstart

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/object"
)

// slim has a part of the fields of a pod, and an encoding in JSON only.
type slim struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

// lossy has a field that has no encoding.
type lossy struct {
	slim
	seen bool
}

// Each save writes an object in an encoding that loses nothing, also an object that an earlier save has checked: those
// that only JSON can hold, and those of a protobuf type that lose something in protobuf.
// Guarantees: S4
func TestLaterSavesLoseNothing(t *testing.T) {
	each(t, func(t *testing.T, compact bool) {
		t.Run("unstructured", func(t *testing.T) {
			laterSaves[*unstructured.Unstructured](t, compact, func(name, version string) object.Object {
				u := &unstructured.Unstructured{Object: map[string]any{"kind": "Pod", "apiVersion": "v1", "spec": map[string]any{"n": int64(1), "none": nil}}}
				u.SetNamespace("ns")
				u.SetName(name)
				u.SetResourceVersion(version)
				return u
			})
		})
		t.Run("slim", func(t *testing.T) {
			laterSaves[*slim](t, compact, func(name, version string) object.Object {
				s := &slim{ObjectMeta: newPod(name, version).ObjectMeta}
				s.Spec.NodeName = "node"
				return s
			})
		})
		t.Run("protobuf", func(t *testing.T) {
			laterSaves[*corev1.Pod](t, compact, func(name, version string) object.Object { return newPod(name, version) })
		})
		t.Run("an empty list", func(t *testing.T) {
			laterSaves[*corev1.Pod](t, compact, func(name, version string) object.Object {
				p := newPod(name, version)
				p.Spec.Containers = []corev1.Container{} // nil after protobuf
				return p
			})
		})
	})
}

func laterSaves[T any](t *testing.T, compact bool, made func(name, version string) object.Object) {
	r := newRig[T](t, compact)
	s := New(r.config)
	kept := made("b", "1")
	c := r.content("1", kept)
	for i := range 4 {
		version := fmt.Sprint(i + 1)
		changed := made("a", version)
		next := r.content(version, changed)
		both := next
		both.Objects = func(yield func(object.Object) bool) {
			for obj := range next.Objects {
				if !yield(obj) {
					return
				}
			}
			for obj := range c.Objects { // the same one in each save
				yield(obj)
			}
		}
		s.Save(t.Context(), both, true)
		if st := s.Status(); st.SaveError != nil || st.Saves != i+1 || st.SavedObjects != 2 {
			t.Fatalf("save %d: %+v", i, st)
		}
		got, _, err := r.load()
		if err != nil {
			t.Fatal(err)
		}
		if want := []any{changed, kept}; !reflect.DeepEqual(got, want) {
			t.Errorf("save %d (-saved +loaded):\n%s", i, cmp.Diff(want, got))
		}
	}
}

// A server that was restored can send other content under the same UID and resource version: what an earlier save has
// found out about the encoding does not hold for it.
// Guarantees: S4
func TestEncodingIsCheckedForOtherContent(t *testing.T) {
	each(t, func(t *testing.T, compact bool) {
		r := newRig[*corev1.Pod](t, compact)
		s := New(r.config)
		if err := r.save(s, "6", newPod("a", "5")); err != nil {
			t.Fatal(err)
		}
		other := newPod("a", "5")
		other.Spec.Containers = []corev1.Container{} // nil after protobuf
		if err := r.save(s, "7", other); err != nil {
			t.Fatal(err)
		}
		got, _, err := r.load()
		if want := []any{other}; err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v (-saved +loaded):\n%s", err, cmp.Diff(want, got))
		}
	})
}

// Nothing is saved that a start would read differently.
// Guarantees: S4
func TestLossyObjectsAreNotSaved(t *testing.T) {
	each(t, func(t *testing.T, compact bool) {
		r := newRig[*lossy](t, compact)
		obj := &lossy{slim: slim{ObjectMeta: newPod("a", "5").ObjectMeta}, seen: true}
		if err := r.save(New(r.config), "7", obj); err == nil || !strings.Contains(err.Error(), "ns/a: it changes when it is encoded") {
			t.Error(err)
		}
		if len(r.storage) > 0 {
			t.Error("something was saved")
		}
	})
}
