package informertest_test

import (
	"encoding/json"
	"net/http"
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/informertest"
)

// openAPI returns a document of OpenAPI v3.
func openAPI(t *testing.T, server *informertest.Server, path string) map[string]any {
	t.Helper()
	client, err := rest.HTTPClientFor(server.Config())
	must(t, err)
	defer client.CloseIdleConnections()
	response, err := client.Get(server.URL + "/openapi/v3/" + path)
	must(t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, response.Status)
	}
	var document map[string]any
	must(t, json.NewDecoder(response.Body).Decode(&document))
	return document
}

// at returns what is at a path of keys.
func at(t *testing.T, value any, keys ...string) any {
	t.Helper()
	for _, key := range keys {
		next, ok := value.(map[string]any)[key]
		if !ok {
			t.Fatalf("there is no %q of %q", key, keys)
		}
		value = next
	}
	return value
}

func TestOpenAPI_HasTheSchemasOfGoTypes(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		all := at(t, openAPI(t, server, "api/v1"), "components", "schemas").(map[string]any)
		const core, meta = "io.k8s.api.core.v1.", "io.k8s.apimachinery.pkg.apis.meta.v1."
		for _, c := range []struct {
			path []string
			want any
		}{
			{[]string{core + "Pod", "x-kubernetes-group-version-kind"},
				[]any{map[string]any{"group": "", "version": "v1", "kind": "Pod"}}},
			{[]string{core + "Pod", "properties", "kind", "type"}, "string"},
			{[]string{core + "Pod", "properties", "spec", "allOf"}, []any{map[string]any{"$ref": "#/components/schemas/" + core + "PodSpec"}}},
			{[]string{core + "PodSpec", "required"}, []any{"containers"}},
			{[]string{core + "PodSpec", "properties", "containers", "items"}, map[string]any{"$ref": "#/components/schemas/" + core + "Container"}},
			{[]string{core + "PodSpec", "properties", "nodeSelector", "additionalProperties"}, map[string]any{"type": "string"}},
			{[]string{core + "PodSpec", "properties", "activeDeadlineSeconds", "format"}, "int64"},
			{[]string{core + "PodSpec", "properties", "hostNetwork", "type"}, "boolean"},
			{[]string{core + "PodSpec", "properties", "nodeName", "description"}, corev1.PodSpec{}.SwaggerDoc()["nodeName"]},
			{[]string{core + "Volume", "properties", "emptyDir", "allOf"}, // of an embedded struct
				[]any{map[string]any{"$ref": "#/components/schemas/" + core + "EmptyDirVolumeSource"}}},
			{[]string{meta + "Time", "format"}, "date-time"},
			{[]string{"io.k8s.apimachinery.pkg.api.resource.Quantity", "type"}, "string"},
			{[]string{"io.k8s.apimachinery.pkg.util.intstr.IntOrString", "format"}, "int-or-string"},
		} {
			if got := at(t, all, c.path...); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: got %v, want %v", c.path, got, c.want)
			}
		}
	})
}

func TestOpenAPI_HasReviews(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		informertest.RegisterReviews(server)
		for _, c := range []struct{ path, kind string }{
			{"apis/authentication.k8s.io/v1", "io.k8s.api.authentication.v1.TokenReview"},
			{"apis/authorization.k8s.io/v1", "io.k8s.api.authorization.v1.LocalSubjectAccessReview"},
		} {
			at(t, openAPI(t, server, c.path), "components", "schemas", c.kind, "properties", "spec")
		}
	})
}

func TestOpenAPI_HasTheSchemaOfAResource(t *testing.T) {
	bubble(t, informertest.Options{}, func(t *testing.T, server *informertest.Server, _ *informertest.Collection[*corev1.Pod]) {
		informertest.Register[*appsv1.Deployment](server, informertest.Resource{
			GroupVersionResource: appsv1.SchemeGroupVersion.WithResource("deployments"),
			Schema: map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "description": "is given"}}},
		})
		all := at(t, openAPI(t, server, "apis/apps/v1"), "components", "schemas", "apis.apps.v1.Deployment", "properties")
		if got := at(t, all, "spec", "description"); got != "is given" {
			t.Errorf("got %v", got)
		}
		at(t, all, "metadata", "allOf")
		at(t, all, "apiVersion", "description")
	})
}
