package crds_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// Embedded objects have the fields of every object, which a definition need not list.
func TestOpenAPI_OfEmbeddedObjects(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		crd, preserve := w.definition(), true
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["object"] = apiextensionsv1.JSONSchemaProps{
			Type:                   "object",
			XEmbeddedResource:      true,
			XPreserveUnknownFields: &preserve,
			Required:               []string{"kind"},
			Properties:             map[string]apiextensionsv1.JSONSchemaProps{"data": {Type: "string"}},
		}
		w.must(w.submit(crd))
		client, err := discovery.NewDiscoveryClientForConfig(w.server.Config())
		w.must(err)
		document, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(schema.GroupVersion{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name})
		w.must(err)
		for name, model := range document.Components.Schemas {
			if !strings.HasSuffix(name, "."+crd.Spec.Names.Kind) {
				continue
			}
			object := model.Properties["object"]
			if !slices.Equal(object.Required, []string{"kind", "apiVersion"}) {
				t.Errorf("required: %q", object.Required)
			}
			fields := slices.Sorted(maps.Keys(object.Properties))
			if !slices.Equal(fields, []string{"apiVersion", "data", "kind", "metadata"}) {
				t.Errorf("fields: %q", fields)
			}
			return
		}
		t.Error("the document does not have the kind")
	})
}
