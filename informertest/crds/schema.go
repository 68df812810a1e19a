package crds

import (
	"context"
	"fmt"
	"math"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// schema describes the objects of one version of a CustomResourceDefinition. Its methods call the packages of
// apiextensions-apiserver in the order in which that server does. They may be called concurrently.
type schema struct {
	clusterScoped bool
	structural    *structuralschema.Structural // nil if the version has no schema
	whole         validation.SchemaValidator
	status        validation.SchemaValidator // nil if the schema does not have a status
	rules         *cel.Validator             // of x-kubernetes-validations; nil if there are none
	scale         *apiextensionsv1.CustomResourceSubresourceScale
}

// newSchema returns the schema of a version of a definition that has been validated.
func newSchema(version apiextensionsv1.CustomResourceDefinitionVersion, clusterScoped bool) (*schema, error) {
	s := &schema{clusterScoped: clusterScoped}
	if version.Subresources != nil {
		s.scale = version.Subresources.Scale
	}
	internal := &apiextensions.CustomResourceValidation{}
	if version.Schema != nil {
		err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema,
			internal, nil)
		if err != nil {
			return nil, err
		}
	}
	var err error
	if s.whole, _, err = validation.NewSchemaValidator(internal.OpenAPIV3Schema); err != nil {
		return nil, err
	}
	if internal.OpenAPIV3Schema == nil {
		return s, nil
	}
	if status, ok := internal.OpenAPIV3Schema.Properties["status"]; ok {
		if s.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			return nil, err
		}
	}
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	s.structural = structural.DeepCopy() // it shares the defaults with the definition
	if err := defaulting.PruneDefaults(s.structural); err != nil {
		return nil, err
	}
	s.rules = cel.NewValidator(s.structural, true, celconfig.PerCallLimit)
	return s, nil
}

// complete prunes an object that a client has sent and fills in defaults. It returns the paths of the pruned fields.
func (s *schema) complete(obj metav1.Object) (dropped []string, err error) {
	content := obj.(*unstructured.Unstructured).Object
	if dropped, err = s.prune(content); err == nil {
		defaulting.Default(content, s.structural)
	}
	return dropped, err
}

// read returns an object of this version as clients read it after it has been stored in a version with the schema
// storage. As in kube-apiserver, only the defaults of that one are filled in.
func (s *schema) read(obj metav1.Object, storage *schema) metav1.Object {
	u := obj.(*unstructured.Unstructured).DeepCopy()
	if _, err := storage.complete(u); err != nil {
		return obj // only a Collection may have stored it
	}
	if s != storage {
		if _, err := s.prune(u.Object); err != nil {
			return obj
		}
	}
	return u
}

// prune drops the fields of an object that the schema does not have, and returns their paths.
func (s *schema) prune(content map[string]any) (dropped []string, err error) {
	apiVersion, kind := content["apiVersion"], content["kind"]
	meta, found, dropped, err := objectmeta.GetObjectMetaWithOptions(content,
		objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true})
	if err != nil {
		return nil, err
	}
	options := structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	dropped = append(dropped, pruning.PruneWithOptions(content, s.structural, true, options)...)
	defaulting.PruneNonNullableNullsWithoutDefaults(content, s.structural)
	invalid, unknown := objectmeta.CoerceWithOptions(nil, content, s.structural, false,
		objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
	if invalid != nil {
		return nil, invalid
	}
	dropped = append(dropped, unknown...)
	if apiVersion != nil {
		content["apiVersion"] = apiVersion
	}
	if kind != nil {
		content["kind"] = kind
	}
	if found {
		if err := objectmeta.SetObjectMeta(content, meta); err != nil {
			return nil, err
		}
	}
	return dropped, nil
}

// validate returns the errors in a new object, or in a change of one.
func (s *schema) validate(obj, old metav1.Object, subresource string) field.ErrorList {
	content := obj.(*unstructured.Unstructured).Object
	if old == nil {
		errs := apivalidation.ValidateObjectMetaAccessor(obj, !s.clusterScoped, apivalidation.NameIsDNSSubdomain,
			field.NewPath("metadata"))
		errs = append(errs, validation.ValidateCustomResource(nil, content, s.whole)...)
		errs = append(errs, s.validateScale(content, subresource)...)
		errs = append(errs, validateEmbedded(content, s.structural)...)
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, content)...)
		return s.validateRules(content, nil, errs)
	}
	before := old.(*unstructured.Unstructured).Object
	correlated := common.NewCorrelatedObject(content, before, &model.Structural{Structural: s.structural})
	errs := apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))
	if subresource == "" {
		errs = append(errs, validation.ValidateCustomResourceUpdate(nil, content, before, s.whole,
			validation.WithRatcheting(correlated))...)
	} else if status, ok := content["status"]; ok && s.status != nil {
		errs = append(errs, validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, before["status"],
			s.status, validation.WithRatcheting(correlated.Key("status")))...)
	}
	errs = append(errs, s.validateScale(content, subresource)...)
	if subresource == "" {
		errs = append(errs, validateEmbedded(content, s.structural)...)
	}
	if len(listtype.ValidateListSetsAndMaps(nil, s.structural, before)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, content)...)
	}
	return s.validateRules(content, before, errs, cel.WithRatcheting(correlated))
}

// validateRules appends to errs the errors that the rules of the schema find. It skips the rules if errs says that the
// object does not fit the schema.
func (s *schema) validateRules(content, before map[string]any, errs field.ErrorList,
	options ...cel.Option) field.ErrorList {
	if s.rules == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
			field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil, "some validation rules were not checked because the object was "+
				"invalid; correct the existing errors to complete validation"))
		}
	}
	var old any
	if before != nil {
		old = before
	}
	found, _ := s.rules.Validate(context.Background(), nil, s.structural, content, old, celconfig.RuntimeCELCostBudget,
		options...)
	return append(errs, found...)
}

// validateScale returns the errors in the fields of the scale subresource.
func (s *schema) validateScale(content map[string]any, subresource string) field.ErrorList {
	if s.scale == nil {
		return nil
	}
	errs := validateReplicas(content, s.scale.StatusReplicasPath)
	if subresource == "" {
		errs = append(validateReplicas(content, s.scale.SpecReplicasPath), errs...)
	}
	if path := s.scale.LabelSelectorPath; path != nil {
		if selector, _, err := unstructured.NestedString(content, split(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), selector, err.Error()))
		}
	}
	return errs
}

func validateReplicas(content map[string]any, path string) field.ErrorList {
	replicas, _, err := unstructured.NestedInt64(content, split(path)...)
	text := ""
	switch {
	case err != nil:
		text = err.Error()
	case replicas < 0:
		text = "should be a non-negative integer"
	case replicas > math.MaxInt32:
		text = fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)
	default:
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath(path), replicas, text)}
}

// split returns the names of a path such as .spec.replicas.
func split(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
