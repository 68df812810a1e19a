package intake

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
)

// allBut returns the shard of all objects but those with that UID.
func allBut(uid string) shardset.Shard {
	hash := shardset.Hash(uid)
	rest, _, _ := shardset.Shard{}.Rest(shardset.Shard{Ranges: []shardset.Range{{First: hash, Last: hash}}})
	return rest
}

func valuePod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u", ResourceVersion: "1",
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
}

// Go values pass the filter, the shard and the transform. One of another type, or nil, is an object that cannot be
// decoded: it is reported with what is known of it, and the others go on. A version that is held is not taken for the
// value.
// Guarantees: P5, R17, R20, R21
func TestValues(t *testing.T) {
	d := newDecoder[*corev1.Pod](t)
	d.DropManagedFields = true
	var reported []string
	d.Report = func(key object.Key, err error) { reported = append(reported, fmt.Sprintf("%s: %v", key, err)) }
	d.Filter = func(m *metav1.PartialObjectMetadata) bool {
		if len(m.ManagedFields) > 0 {
			t.Error("the filter gets managedFields")
		}
		m.Name = "changed" // the filter may do that
		return m.Annotations == nil
	}
	d.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
		pod.Spec.NodeName = "seen"
		return pod, nil
	}
	d.Held = func(object.Key) (*corev1.Pod, bool) { return valuePod("held"), true }
	var results []Result[*corev1.Pod]
	in := newTestIntake(d, func(r Result[*corev1.Pod]) error { results = append(results, r); return nil })
	in.asked.Shard = allBut("out")
	good, out, filtered, other := valuePod("good"), valuePod("out"), valuePod("filtered"), &unstructured.Unstructured{}
	out.UID = "out"
	filtered.Annotations = map[string]string{}
	other.SetName("other")
	other.SetUID("v")
	for _, v := range []any{good, out, filtered, other, (*corev1.Pod)(nil), nil, 7} {
		in.AddValue(v, v == any(filtered))
	}
	if err := in.Wait(); err != nil || len(results) != 7 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	if r := results[0]; r.Object != good || r.Err != nil || good.Spec.NodeName != "seen" || good.ManagedFields != nil ||
		r.Key.Name != "good" || r.Version != "1" {
		t.Errorf("the good one: %+v", r)
	}
	if r := results[1]; !r.Outside || !r.Filtered || out.Spec.NodeName != "" {
		t.Errorf("the one outside: %+v", r)
	}
	if r := results[2]; !r.Filtered || !r.Deleted || r.Key.Name != "filtered" || filtered.ManagedFields == nil {
		t.Errorf("the filtered one: %+v", r)
	}
	if r := results[3]; r.Err == nil || r.Key.Name != "other" || r.UID != "v" {
		t.Errorf("the other type: %+v", r)
	}
	for _, r := range results[4:] {
		if r.Err == nil || r.Key != (object.Key{}) {
			t.Errorf("nil or no object: %+v", r)
		}
	}
	want := []string{
		"/other: it is a *unstructured.Unstructured instead of a *v1.Pod", "/: it is a nil *v1.Pod",
		"/: it is a <nil> instead of a *v1.Pod", "/: it is a int instead of a *v1.Pod",
	}
	if !slices.Equal(reported, want) {
		t.Errorf("reported %q", reported)
	}
}
