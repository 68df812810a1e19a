package crds

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// These functions of apiextensions-apiserver have no context before version 0.37.

// validateStatus returns the errors in a change of a definition's status.
func validateStatus(crd, old *apiextensions.CustomResourceDefinition) field.ErrorList {
	type definition = *apiextensions.CustomResourceDefinition
	switch validate := any(apiextensionsvalidation.ValidateUpdateCustomResourceDefinitionStatus).(type) {
	case func(definition, definition) field.ErrorList:
		return validate(crd, old)
	case func(context.Context, definition, definition) field.ErrorList:
		return validate(context.Background(), crd, old)
	default:
		panic(fmt.Sprintf("crds: this version of apiextensions-apiserver is not supported: %T", validate))
	}
}

// validateEmbedded returns the errors in the metadata of the resources in an object.
func validateEmbedded(content map[string]any, s *structuralschema.Structural) field.ErrorList {
	type structural = *structuralschema.Structural
	switch validate := any(objectmeta.Validate).(type) {
	case func(*field.Path, any, structural, bool) field.ErrorList:
		return validate(nil, content, s, false)
	case func(context.Context, *field.Path, any, structural, bool) field.ErrorList:
		return validate(context.Background(), nil, content, s, false)
	default:
		panic(fmt.Sprintf("crds: this version of apiextensions-apiserver is not supported: %T", validate))
	}
}
