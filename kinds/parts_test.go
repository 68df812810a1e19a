package kinds_test

import (
	"maps"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/kinds"
)

// Objects of different kinds share equal parts.
func TestKindsShareParts(t *testing.T) {
	bubble(t, kinds.Config[object]{}, func(w *world) {
		labels := map[string]string{"app.kubernetes.io/name": "shop", "app.kubernetes.io/part-of": "shop", "team": "web"}
		for _, resource := range []string{"gadgets", "widgets"} {
			c := w.serve("example.com/v1", resource, "Kind-"+resource, false)
			for _, name := range []string{"a", "b", "c"} {
				obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Kind-" + resource}}
				obj.SetNamespace("default")
				obj.SetName(name)
				obj.SetLabels(maps.Clone(labels))
				if _, err := c.Create(obj); err != nil {
					w.Fatal(err)
				}
			}
		}
		w.run()
		addresses := map[uintptr]int{}
		for _, obj := range w.set.Snapshot().All() {
			if maps.Equal(obj.Labels, labels) {
				addresses[reflect.ValueOf(obj.Labels).Pointer()]++
			}
		}
		for _, n := range addresses {
			if n == 6 {
				return
			}
		}
		w.Errorf("six objects of two kinds have their equal labels at %d addresses", len(addresses))
	})
}
