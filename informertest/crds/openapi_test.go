package crds_test

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
)

// In the schema of a definition, fields of any type have no type.
func TestOpenAPI_OfDefinitions(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		client, err := discovery.NewDiscoveryClientForConfig(w.server.Config())
		w.must(err)
		document, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(apiextensionsv1.SchemeGroupVersion)
		w.must(err)
		for name, types := range map[string]int{"JSON": 0, "JSONSchemaPropsOrArray": 0, "JSONSchemaPropsOrBool": 0,
			"JSONSchemaPropsOrStringArray": 0, "JSONSchemaProps": 1, "CustomResourceDefinition": 1} {
			found := false
			for full, schema := range document.Components.Schemas {
				if strings.HasSuffix(full, ".v1."+name) {
					found = true
					if len(schema.Type) != types {
						t.Errorf("%s has the types %q, want %d", full, schema.Type, types)
					}
				}
			}
			if !found {
				t.Errorf("there is no schema of %s", name)
			}
		}
	})
}
