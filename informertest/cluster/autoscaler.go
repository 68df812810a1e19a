package cluster

import (
	"errors"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateAutoscaler checks the bounds and the target of a HorizontalPodAutoscaler.
func validateAutoscaler(obj *autoscalingv2.HorizontalPodAutoscaler, old metav1.Object) (errs field.ErrorList) {
	before, _ := old.(*autoscalingv2.HorizontalPodAutoscaler)
	spec, lowest, least := field.NewPath("spec"), int32(1), int32(1)
	if before != nil && before.Spec.MinReplicas != nil {
		lowest = min(lowest, *before.Spec.MinReplicas) // one with 0 can keep it
	}
	if obj.Spec.MinReplicas != nil {
		least = *obj.Spec.MinReplicas
	}
	if least < lowest {
		errs = append(errs, field.Invalid(spec.Child("minReplicas"), least, "must be greater than or equal to 1"))
	}
	most := spec.Child("maxReplicas")
	switch {
	case obj.Spec.MaxReplicas == 0:
		errs = append(errs, field.Required(most, "must be set and greater than 0"))
	case obj.Spec.MaxReplicas < 0:
		errs = append(errs, field.Invalid(most, obj.Spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	if obj.Spec.MaxReplicas < least {
		errs = append(errs, field.Invalid(most, obj.Spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	return append(errs, validateTarget(obj.Spec.ScaleTargetRef, before, spec.Child("scaleTargetRef"))...)
}

// validateTarget checks the reference of a HorizontalPodAutoscaler to what it scales. before is nil for a new one.
func validateTarget(ref autoscalingv2.CrossVersionObjectReference, before *autoscalingv2.HorizontalPodAutoscaler,
	parent *field.Path) (errs field.ErrorList) {
	for _, part := range []struct{ name, value string }{{"kind", ref.Kind}, {"name", ref.Name}} {
		if part.value == "" {
			errs = append(errs, field.Required(parent.Child(part.name), ""))
			continue
		}
		for _, text := range path.IsValidPathSegmentName(part.value) {
			errs = append(errs, field.Invalid(parent.Child(part.name), part.value, text))
		}
	}
	if before != nil && before.Spec.ScaleTargetRef.APIVersion == ref.APIVersion &&
		before.Spec.ScaleTargetRef.Kind == ref.Kind {
		return errs
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err == nil && gv.Group == "" && ref.Kind != "ReplicationController" { // the only kind of the core group that scales
		err = errors.New("apiVersion must specify API group")
	}
	if err != nil {
		errs = append(errs, field.Invalid(parent.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
	return errs
}
