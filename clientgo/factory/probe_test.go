package factory

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Each type of the API has an example that survives its encoding. So a transform can be compared with it.
func TestExamples(t *testing.T) {
	count := 0
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		p := reflect.PointerTo(goType)
		if _, ok := reflect.New(goType).Interface().(metav1.ObjectMetaAccessor); !ok {
			continue
		}
		count++
		example, err := exampleOf(p)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		encoded, err := json.Marshal(example)
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		decoded := reflect.New(goType).Interface()
		if err := json.Unmarshal(encoded, decoded); err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		if again, err := json.Marshal(decoded); err != nil || !bytes.Equal(again, encoded) {
			t.Errorf("%s: %s became %s, %v", kind, encoded, again, err)
		}
		if m := decoded.(metav1.ObjectMetaAccessor).GetObjectMeta(); len(m.GetManagedFields()) != 1 || len(m.GetLabels()) != 1 {
			t.Errorf("%s: metadata %v", kind, m)
		}
	}
	if count < 100 {
		t.Errorf("%d types", count)
	}
	for _, wrong := range []any{0, new(int), &struct{}{}} {
		if _, err := exampleOf(reflect.TypeOf(wrong)); err == nil {
			t.Errorf("no error for a %T", wrong)
		}
	}
}
