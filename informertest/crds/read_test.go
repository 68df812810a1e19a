package crds_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var newerWidgets = schema.GroupVersionResource{Group: "example.com", Version: "v2", Resource: "widgets"}

// withSpec returns a version of widgets, which is stored if it is v1, whose spec has the given fields.
func withSpec(name string, fields map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinitionVersion {
	return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: name == "v1",
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: fields}}}}}
}

func text(value string) apiextensionsv1.JSONSchemaProps {
	if value == "" {
		return apiextensionsv1.JSONSchemaProps{Type: "string"}
	}
	return apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"` + value + `"`)}}
}

// wantSpec checks that the spec of obj has exactly these fields.
func (w *world) wantSpec(what string, obj *unstructured.Unstructured, err error, want map[string]any) {
	w.t.Helper()
	w.must(err)
	if got := obj.Object["spec"]; !reflect.DeepEqual(got, want) {
		w.t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// An object is stored in one version, with its defaults; a read in another one has only the fields of both.
func TestEachVersionHasItsFields(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		crd := w.definition()
		type fields = map[string]apiextensionsv1.JSONSchemaProps
		crd.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{
			withSpec("v1", fields{"a": text(""), "b": text("B")}), withSpec("v2", fields{"a": text(""), "c": text("C")})}
		w.must(w.submit(crd))
		obj, err := w.create(newerWidgets, "{apiVersion: example.com/v2, kind: Widget, metadata: {name: w}, spec: {a: x}}")
		w.wantSpec("created in v2", obj, err, map[string]any{"a": "x"})
		obj, err = w.in(widgets).Get(t.Context(), "w", metav1.GetOptions{})
		w.wantSpec("read in v1", obj, err, map[string]any{"a": "x", "b": "B"})
		_, err = w.in(widgets).Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"b":"changed"}}`), metav1.PatchOptions{})
		w.must(err)
		obj, err = w.in(newerWidgets).Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"a":"y"}}`), metav1.PatchOptions{})
		w.wantSpec("written in v2", obj, err, map[string]any{"a": "y"})
		obj, err = w.in(widgets).Get(t.Context(), "w", metav1.GetOptions{})
		w.wantSpec("what v2 does not have is lost", obj, err, map[string]any{"a": "y", "b": "B"})
		version := obj.GetResourceVersion()

		crd.Spec.Versions[0] = withSpec("v1", fields{"a": text(""), "d": text("D")})
		w.must(w.submit(crd))
		obj, err = w.in(widgets).Get(t.Context(), "w", metav1.GetOptions{})
		w.wantSpec("another schema", obj, err, map[string]any{"a": "y", "d": "D"})
		if obj.GetResourceVersion() != version {
			t.Errorf("another schema changes the resource version from %s to %s", version, obj.GetResourceVersion())
		}
	})
}

func TestACreationNamesItsKind(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		for _, c := range []struct {
			body string
			code int
			want string
		}{
			{`{"metadata":{"name":"a"}}`, http.StatusBadRequest, "Object 'Kind' is missing in"},
			{`{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"a"}}`, http.StatusBadRequest,
				"(example.com/v2) does not match the expected API version (example.com/v1)"},
			{`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"a"}}`, http.StatusUnprocessableEntity, "must be Widget"},
		} {
			if response, body := w.send(http.MethodPost, "/apis/example.com/v1/namespaces/default/widgets", c.body); response.StatusCode != c.code ||
				!strings.Contains(body, c.want) {
				t.Errorf("%s: got %d %s, want %d %s", c.body, response.StatusCode, body, c.code, c.want)
			}
		}
	})
}

func TestScaleOfAVersion(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		_, err := w.create(widgets, widget("a", "{color: red, replicas: 1}"))
		w.must(err)
		for _, c := range []struct {
			version, replicas string
			code              int
			want              string
		}{
			{"v1", "2", http.StatusOK, `"replicas":2`},
			{"v1", "-1", http.StatusUnprocessableEntity, `"kind":"Widget"`},
			{"v1alpha1", "2", http.StatusNotFound, `"reason":"NotFound"`},
		} {
			response, body := w.send(http.MethodPut, "/apis/example.com/"+c.version+"/namespaces/default/widgets/a/scale",
				`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"a","namespace":"default"},"spec":{"replicas":`+c.replicas+`}}`)
			if response.StatusCode != c.code || !strings.Contains(body, c.want) {
				t.Errorf("%s: got %d %s, want %d %s", c.version, response.StatusCode, body, c.code, c.want)
			}
		}
		obj, err := w.in(widgets).Get(t.Context(), "a", metav1.GetOptions{})
		w.must(err)
		obj.SetResourceVersion("")
		_, err = w.in(widgets).Update(t.Context(), obj, metav1.UpdateOptions{})
		if status, ok := err.(apierrors.APIStatus); !ok || status.Status().Details.Kind != "widgets" {
			t.Errorf("an update without a version: %v", err)
		}
	})
}
