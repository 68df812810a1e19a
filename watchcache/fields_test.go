package watchcache

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// TestBuiltinFieldsAreThere checks that the Go types of each kind, in all versions, have its selectable fields.
//
// Guarantees: W4
func TestBuiltinFieldsAreThere(t *testing.T) {
	found := map[schema.GroupKind]bool{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		kind, ok := builtinKinds[gvk.GroupKind()]
		if !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		found[gvk.GroupKind()] = true
		for _, f := range kind.fields {
			for _, path := range f.paths {
				index, _, ok := locate(typ, strings.Split(path, "."))
				if !ok {
					t.Errorf("%v has no field %s, which is selected as %s", gvk, path, f.label)
					continue
				}
				value := reflect.New(typ).Elem().FieldByIndex(index)
				switch absent := fieldValue(value); {
				case value.Kind() == reflect.Pointer && value.Type().Elem().Kind() == reflect.String:
				case value.Kind() != reflect.String && value.Kind() != reflect.Bool && value.Kind() != reflect.Int32:
					t.Errorf("%v: %s is of type %v", gvk, path, value.Type())
				case absent != f.absent:
					t.Errorf("%v: %s is %q when it is absent from JSON, but %q in Go", gvk, path, f.absent, absent)
				}
			}
		}
	}
	for kind := range builtinKinds {
		if !found[kind] {
			t.Errorf("there is no kind %v", kind)
		}
	}
}

type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              gadgetSpec `json:"spec"`
}

type gadgetSpec struct {
	size    `json:",inline"`
	*color  `json:",inline"`
	Always  bool  `json:"always"`
	Omitted bool  `json:"omitted,omitempty"`
	Number  *int8 `json:"number,omitempty"`
	Nothing map[string]string
}

type size struct {
	Width int `json:"width"`
}

type color struct {
	Name string `json:"name"`
}

// The values of a custom resource are those in its JSON, as in kube-apiserver.
//
// Guarantees: W4
func TestSelectableFieldsOfCustomResources(t *testing.T) {
	number := int8(1)
	paths := []string{"spec.width", "spec.name", "spec.always", "spec.omitted", "spec.number", "spec.Nothing"}
	for _, test := range []struct {
		obj  *gadget
		want string
	}{
		{&gadget{}, "0||false|||"},
		{&gadget{Spec: gadgetSpec{size: size{2}, color: &color{"red"}, Always: true, Omitted: true, Number: &number}}, "2|red|true|true|1|"},
	} {
		config := Config{GroupVersionResource: schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}, Kind: "Gadget", SelectableFields: paths}
		join := func(has func(string) bool, get func(string) string) string {
			var values []string
			for _, path := range paths {
				if !has(path) {
					t.Errorf("no %s", path)
				}
				values = append(values, get(path))
			}
			return strings.Join(values, "|")
		}
		typed := fieldsOf[*gadget]{test.obj, newSelectableFields[*gadget](config, true).values}
		if got := join(typed.Has, typed.Get); got != test.want {
			t.Errorf("typed: %s, want %s", got, test.want)
		}
		content := map[string]any{"spec": map[string]any{"width": int64(test.obj.Spec.Width), "always": test.obj.Spec.Always}}
		if test.obj.Spec.Omitted {
			content["spec"] = map[string]any{"width": int64(2), "name": "red", "always": true, "omitted": true, "number": int64(1)}
		}
		dynamic := fieldsOf[*unstructured.Unstructured]{&unstructured.Unstructured{Object: content}, newSelectableFields[*unstructured.Unstructured](config, true).values}
		if got := join(dynamic.Has, dynamic.Get); got != test.want {
			t.Errorf("unstructured: %s, want %s", got, test.want)
		}
		if typed.Has("spec.none") || typed.Get("spec.none") != "" || dynamic.Get("spec.none") != "" {
			t.Error("spec.none")
		}
	}
}
