package crds_test

import (
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (w *world) patch(body string, subresources ...string) error {
	_, err := w.in(widgets).Patch(w.t.Context(), "a", types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresources...)
	return err
}

// wantInvalid checks that err is a 422 with text.
func (w *world) wantInvalid(what string, err error, text string) {
	w.t.Helper()
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), text) {
		w.t.Errorf("%s: got %v, want 422 with %q", what, err, text)
	}
}

// change submits the definition of widgets with another spec or status.
func (w *world) change(field string, change func(properties map[string]apiextensionsv1.JSONSchemaProps)) {
	w.t.Helper()
	crd := w.definition()
	change(crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties[field].Properties)
	w.must(w.submit(crd))
}

func TestEmbeddedResources(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		preserve := true
		w.change("spec", func(p map[string]apiextensionsv1.JSONSchemaProps) {
			p["template"] = apiextensionsv1.JSONSchemaProps{Type: "object", XEmbeddedResource: true, XPreserveUnknownFields: &preserve}
		})
		const template = `{color: red, template: {apiVersion: v1, kind: Pod, metadata: %}}`
		with := func(metadata string) string { return strings.Replace(template, "%", metadata, 1) }
		for what, c := range map[string]struct{ spec, want string }{
			"a name":               {with("{name: b/c}"), `spec.template.metadata.name: Invalid value: "b/c"`},
			"metadata as a string": {with("x"), `metadata: Invalid value`},
			"no kind":              {`{color: red, template: {apiVersion: v1}}`, "spec.template.kind: Required value"},
		} {
			_, err := w.create(widgets, widget("a", c.spec))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %s", what, err, c.want)
			}
		}
		_, err := w.create(widgets, widget("a", with("{name: b}")))
		w.must(err)
		w.wantInvalid("an update", w.patch(`{"spec":{"template":{"metadata":{"name":"b/c"}}}}`), "spec.template.metadata.name")
		response, _ := w.send(http.MethodPost, "/apis/example.com/v1/namespaces/default/widgets", `{"apiVersion":"example.com/v1","kind":"Widget",`+
			`"metadata":{"name":"c"},"spec":{"color":"red","template":{"apiVersion":"v1","kind":"Pod","metadata":{"nosuch":1}}}}`)
		equal(t, "warnings", response.Header.Values("Warning"), `299 - "unknown field \"spec.template.metadata.nosuch\""`)
	})
}

// Metadata is validated in creations and in updates.
func TestMetadataIsValidated(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		_, err := w.create(widgets, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, labels: {'not valid': x}}, spec: {color: red}}")
		w.wantInvalid("a creation", err, "metadata.labels")
		_, err = w.create(widgets, widget("a", "{color: red}"))
		w.must(err)
		w.wantInvalid("an update", w.patch(`{"metadata":{"labels":{"not valid":"x"}}}`), "metadata.labels")
	})
}

func TestClusterScope(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		crd := w.definition()
		crd.Spec.Scope = apiextensionsv1.ClusterScoped
		w.must(w.submit(crd))
		if lines := w.discovered(); lines[0] != "v1 widgets widget Widget false [wd] [all]" {
			t.Errorf("discovery: %q", lines)
		}
		obj, err := w.client.Resource(widgets).Create(t.Context(), w.parse(widget("a", "{color: red}")), metav1.CreateOptions{})
		w.must(err)
		if obj.GetNamespace() != "" {
			t.Errorf("it is in the namespace %s", obj.GetNamespace())
		}
		if _, err := w.create(widgets, widget("b", "{color: red}")); !apierrors.IsNotFound(err) {
			t.Errorf("within a namespace: %v", err)
		}
	})
}

// The limits of the scale subresource hold for the fields that it reads.
func TestScaleLimits(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		_, err := w.create(widgets, widget("a", "{color: red, replicas: 2147483648}"))
		w.wantInvalid("too many", err, ".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647")
		_, err = w.create(widgets, widget("a", "{color: red, replicas: 2147483647}"))
		w.must(err)
		w.wantInvalid("a selector", w.patch(`{"status":{"selector":5}}`, "status"), ".status.selector: Invalid value")
	})
}

// What was stored before a schema became stricter stays valid while it does not change.
func TestRatcheting(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		w.change("spec", func(p map[string]apiextensionsv1.JSONSchemaProps) {
			parts := p["parts"]
			parts.XListType, parts.XListMapKeys = nil, nil
			p["parts"] = parts
		})
		_, err := w.create(widgets, widget("a", "{color: red, size: 9, parts: [{name: x}, {name: x}]}"))
		w.must(err)
		w.must(w.patch(`{"status":{"phase":"Failed"}}`, "status"))

		w.must(w.definitions.InstallCRDs("testdata/widgets.yaml")) // the list is a map again
		if err := w.patch(`{"spec":{"color":"blue"}}`); err != nil {
			t.Errorf("duplicates in a list map: %v", err)
		}
		w.must(w.patch(`{"spec":{"parts":[{"name":"x"}]}}`))
		w.wantInvalid("new duplicates", w.patch(`{"spec":{"parts":[{"name":"x"},{"name":"x"}]}}`), "Duplicate value")

		w.change("spec", func(p map[string]apiextensionsv1.JSONSchemaProps) {
			size := p["size"]
			size.XValidations = apiextensionsv1.ValidationRules{{Rule: "self < 5"}}
			p["size"] = size
		})
		if err := w.patch(`{"spec":{"color":"green"}}`); err != nil {
			t.Errorf("a rule: %v", err)
		}
		w.wantInvalid("a change against the rule", w.patch(`{"spec":{"size":8}}`), "failed rule: self < 5")

		w.change("status", func(p map[string]apiextensionsv1.JSONSchemaProps) {
			phase := p["phase"]
			phase.Enum = phase.Enum[:1]
			p["phase"] = phase
		})
		if err := w.patch(`{"status":{"replicas":1}}`, "status"); err != nil {
			t.Errorf("a status: %v", err)
		}
	})
}
