package generated

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer/codegen/testdata/deepcopy/parts"
	copiedv1 "github.com/typedinformer/informer/codegen/testdata/deepcopy/shop/v1"
)

// copied returns a widget that has something behind every pointer.
func copied() *copiedv1.Widget {
	w := &copiedv1.Widget{ObjectMeta: metav1.ObjectMeta{Name: "car", Labels: map[string]string{"a": "b"}},
		Spec: copiedv1.WidgetSpec{
			Labels:    map[string]string{"a": "b"},
			Lists:     map[string][]string{"a": {"b"}},
			Replicas:  new(int32(3)),
			Parts:     []parts.Part{{Name: "wheel", Labels: map[string]string{"a": "b"}}},
			ByName:    map[string]copiedv1.Inner{"a": {Values: []string{"b"}}},
			Pointers:  []*copiedv1.Inner{nil, {Values: []string{"b"}}},
			Template:  corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}}}},
			Resources: corev1.ResourceList{"cpu": resource.MustParse("1")},
			Raw:       &runtime.RawExtension{Raw: []byte("{}")},
			Object:    &copiedv1.Config{Names: []string{"a"}},
			Any:       map[string]any{"a": []any{"b"}},
			Matrix:    [2][]int{{1}, {2}},
			Selector:  &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Embedded:  copiedv1.Embedded{LabelSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, More: []string{"a"}},
			Tree:      &copiedv1.Tree{Children: []copiedv1.Tree{{Parent: &copiedv1.Tree{}}}},
		},
		Status: &copiedv1.WidgetStatus{Phase: "Made"},
	}
	w.Hide("a")
	return w
}

// A change of a copy does not change the original.
func TestDeepCopies(t *testing.T) {
	w := copied()
	c, ok := w.DeepCopyObject().(*copiedv1.Widget)
	if !ok {
		t.Fatal("the copy has another type")
	}
	unexported := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(w, c, unexported); diff != "" {
		t.Fatalf("the copy differs (-want +got):\n%s", diff)
	}
	c.Labels["a"], c.Spec.Labels["a"], c.Spec.Lists["a"][0], *c.Spec.Replicas = "x", "x", "x", 4
	c.Spec.Parts[0].Labels["a"], c.Spec.ByName["a"].Values[0], c.Spec.Pointers[1].Values[0] = "x", "x", "x"
	c.Spec.Template.Spec.Containers[0].Name = "x"
	c.Spec.Resources["cpu"] = resource.MustParse("2")
	c.Spec.Raw.Raw[0] = 'x'
	c.Spec.Object.(*copiedv1.Config).Names[0] = "x"
	c.Spec.Any.(map[string]any)["a"].([]any)[0] = "x"
	c.Spec.Matrix[1][0] = 3
	c.Spec.Selector.MatchLabels["a"], c.Spec.Embedded.MatchLabels["a"], c.Spec.More[0] = "x", "x", "x"
	c.Spec.Tree.Children[0].Parent.Children = []copiedv1.Tree{{}}
	c.Hidden()[0] = "x"
	c.Status.Phase = "Lost"
	if diff := cmp.Diff(copied(), w, unexported); diff != "" {
		t.Errorf("the original changed (-want +got):\n%s", diff)
	}
	if (*copiedv1.Widget)(nil).DeepCopyObject() != nil {
		t.Error("the copy of nil is not nil")
	}
}
