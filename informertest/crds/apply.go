package crds

import (
	"maps"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	generated "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// refPrefix begins a reference to one of models.
const refPrefix = "#/definitions/"

// models returns the models of OpenAPI for metadata and for definitions themselves, by name.
var models = sync.OnceValue(func() map[string]*spec.Schema {
	all := map[string]*spec.Schema{}
	for name, model := range generated.GetOpenAPIDefinitions(func(name string) spec.Ref {
		return spec.MustCreateRef(refPrefix + name)
	}) {
		all[name] = &model.Schema
	}
	return all
})

// newConverter returns the converter for server-side apply of objects of a kind.
func newConverter(kind runtimeschema.GroupVersionKind, model spec.Schema) (managedfields.TypeConverter, error) {
	extensions := maps.Clone(model.Extensions)
	if extensions == nil {
		extensions = spec.Extensions{}
	}
	model.Extensions = extensions
	model.AddExtension("x-kubernetes-group-version-kind", []any{map[string]any{
		"group": kind.Group, "version": kind.Version, "kind": kind.Kind}})
	all := maps.Clone(models())
	all["served."+kind.Kind] = &model
	return managedfields.NewTypeConverter(all, false)
}

// definitionConverter returns the converter for server-side apply of definitions.
func definitionConverter() (managedfields.TypeConverter, error) {
	kind := apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition")
	return newConverter(kind, *models()[apiextensionsv1.CustomResourceDefinition{}.OpenAPIModelName()])
}

// converter returns the converter for server-side apply of objects of a kind, or nil if the version has no schema.
func (s *schema) converter(kind runtimeschema.GroupVersionKind) (managedfields.TypeConverter, error) {
	if s.structural == nil {
		return nil, nil
	}
	model := s.structural.ToKubeOpenAPI()
	metadata := refToMetadata(refPrefix)
	addEmbedded(model, metadata)
	addFields(model, metadata)
	return newConverter(kind, *model)
}
