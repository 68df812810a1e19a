package crds

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openAPI returns the schema for clients, or nil if the version has none.
func (s *schema) openAPI() any {
	if s.structural == nil {
		return nil
	}
	model := s.structural.ToKubeOpenAPI()
	addEmbedded(model, spec.Schema{SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{refToMetadata("#/components/schemas/")}}})
	return model
}

// refToMetadata refers to the model of metadata. prefix begins a reference to a model.
func refToMetadata(prefix string) spec.Schema {
	return *spec.RefSchema(prefix + metav1.ObjectMeta{}.OpenAPIModelName())
}

// addEmbedded adds the fields of every object to the fields with x-kubernetes-embedded-resource.
func addEmbedded(model *spec.Schema, metadata spec.Schema) {
	for name, field := range model.Properties {
		addEmbedded(&field, metadata)
		model.Properties[name] = field
	}
	if model.Items != nil {
		addEmbedded(model.Items.Schema, metadata)
	}
	if model.AdditionalProperties != nil && model.AdditionalProperties.Schema != nil {
		addEmbedded(model.AdditionalProperties.Schema, metadata)
	}
	if embedded, _ := model.Extensions.GetBool("x-kubernetes-embedded-resource"); !embedded {
		return
	}
	addFields(model, metadata)
	for _, name := range []string{"kind", "apiVersion"} {
		if !slices.Contains(model.Required, name) {
			model.Required = append(slices.Clip(model.Required), name) // s.structural has the array too
		}
	}
}

// addFields adds the fields of every object, as kube-apiserver describes them in embedded objects.
func addFields(model *spec.Schema, metadata spec.Schema) {
	const conventions = " More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#"
	model.SetProperty("apiVersion", *spec.StringProperty().WithDescription(
		"apiVersion defines the versioned schema of this representation of an object." + conventions + "resources"))
	model.SetProperty("kind", *spec.StringProperty().WithDescription(
		"kind is a string value representing the type of this object. In CamelCase." + conventions + "types-kinds"))
	model.SetProperty("metadata", *metadata.WithDescription(
		"Standard object's metadata." + conventions + "metadata"))
}
