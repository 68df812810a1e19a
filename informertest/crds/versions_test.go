package crds_test

import (
	"net/http"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// The warning of a deprecated version is its own, or names the newest version to use: one that is served, newer and not
// deprecated itself.
func TestDeprecationNamesAServedNewerVersion(t *testing.T) {
	type version = apiextensionsv1.CustomResourceDefinitionVersion
	with := func(name string, change func(*version)) version {
		v := withSpec(name, nil)
		v.Storage = false
		if change != nil {
			change(&v)
		}
		return v
	}
	deprecated := func(v *version) { v.Deprecated = true }
	own := "widgets end in May"
	for _, c := range []struct {
		name     string
		versions []version
		want     string
	}{
		{"own text", []version{with("v2", func(v *version) { v.Deprecated, v.DeprecationWarning = true, &own }), with("v3", nil)}, own},
		{"newer", []version{with("v2", deprecated), with("v3", nil)}, "example.com/v2 Widget is deprecated; use example.com/v3 Widget"},
		{"the newest", []version{with("v2", deprecated), with("v4", nil), with("v3", nil)},
			"example.com/v2 Widget is deprecated; use example.com/v4 Widget"},
		{"not served", []version{with("v2", deprecated), with("v3", func(v *version) { v.Served = false })}, "example.com/v2 Widget is deprecated"},
		{"deprecated", []version{with("v2", deprecated), with("v3", deprecated)}, "example.com/v2 Widget is deprecated"},
		{"older", []version{with("v2", deprecated)}, "example.com/v2 Widget is deprecated"},
	} {
		inBubble(t, func(t *testing.T, w *world) {
			crd := w.definition()
			crd.Spec.Versions = append(c.versions, withSpec("v1", nil))
			w.must(w.submit(crd))
			response, _ := w.send(http.MethodGet, "/apis/example.com/v2/namespaces/default/widgets", "")
			equal(t, c.name, response.Header.Values("Warning"), `299 - "`+c.want+`"`)
		})
	}
}

// A version without the subresource status writes the status like any other field, and has no path for it.
func TestVersionWithoutStatusSubresource(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		crd := w.definition()
		crd.Spec.Versions[0].Subresources.Status = nil
		w.must(w.submit(crd))
		if lines := w.discovered(); slices.Contains(lines, "v1 widgets/status  Widget true [] []") {
			t.Errorf("discovery: %q", lines)
		}
		obj, err := w.create(widgets, "{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {color: red}, status: {phase: Ready}}")
		w.must(err)
		if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase != "Ready" {
			t.Errorf("the status is dropped: %v", obj.Object)
		}
		if _, err := w.in(widgets).UpdateStatus(t.Context(), obj, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("a write of the status: %v", err)
		}
	})
}

// A version that objects may be stored in stays in the status when another one stores new objects, until a client
// removes it there.
func TestStoredVersions(t *testing.T) {
	withWidgets(t, func(t *testing.T, w *world) {
		crd := w.definition()
		crd.Spec.Versions[0].Storage, crd.Spec.Versions[1].Storage = false, true
		w.must(w.submit(crd))
		api := w.client.Resource(definitionResource)
		stored := func(want ...string) {
			t.Helper()
			u, err := api.Get(t.Context(), crd.Name, metav1.GetOptions{})
			w.must(err)
			got, _, _ := unstructured.NestedStringSlice(u.Object, "status", "storedVersions")
			equal(t, "stored versions", got, want...)
		}
		write := func(status string) error {
			_, err := api.Patch(t.Context(), crd.Name, types.MergePatchType, []byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
			return err
		}
		stored("v1", "v1alpha1")
		crd.Spec.Versions = crd.Spec.Versions[1:]
		if err := w.submit(crd); !apierrors.IsInvalid(err) {
			t.Errorf("a definition without a stored version: %v", err)
		}
		if err := write(`{"acceptedNames":{"shortNames":["not valid"]}}`); !apierrors.IsInvalid(err) {
			t.Errorf("a status with a wrong name: %v", err)
		}
		w.must(write(`{"storedVersions":["v1","v1alpha1","former"]}`)) // the versions of the specification do not matter there
		w.must(write(`{"storedVersions":["v1alpha1"]}`))
		stored("v1alpha1")
		w.must(w.submit(crd))
	})
}
