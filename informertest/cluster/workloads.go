package cluster

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateWorkload checks that a workload selects the pods that it creates, and does not change its selector. kind
// names it in an error text of kube-apiserver.
func validateWorkload(kind string, selector *metav1.LabelSelector, template corev1.PodTemplateSpec,
	old metav1.Object) (errs field.ErrorList) {
	spec := field.NewPath("spec")
	path, templatePath := spec.Child("selector"), spec.Child("template")
	switch {
	case selector != nil:
		errs = metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(path, selector, "empty selector is invalid for "+kind))
		}
	case kind != "daemonset": // there the labels of the template do not match
		errs = append(errs, field.Required(path, ""))
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector) // nil selects nothing
	if err == nil && !parsed.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(templatePath.Child("metadata", "labels"), template.Labels,
			"`selector` does not match template `labels`"))
	}
	if policy := template.Spec.RestartPolicy; policy != "" && policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(templatePath.Child("spec", "restartPolicy"), policy,
			[]corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if before := selectorOf(old); before != nil {
		errs = append(errs, apivalidation.ValidateImmutableField(selector, before, path)...)
	}
	return append(errs, validatePod(template.Spec, templatePath.Child("spec"))...)
}

// selectorOf returns the selector of a workload that may not change it, or nil.
func selectorOf(obj metav1.Object) *metav1.LabelSelector {
	switch obj := obj.(type) {
	case *appsv1.Deployment:
		return obj.Spec.Selector
	case *appsv1.ReplicaSet:
		return obj.Spec.Selector
	case *appsv1.DaemonSet:
		return obj.Spec.Selector
	}
	return nil
}

// validateStatefulSet checks a StatefulSet, some of whose fields may not change.
func validateStatefulSet(obj *appsv1.StatefulSet, old metav1.Object) field.ErrorList {
	errs := validateWorkload("statefulset", obj.Spec.Selector, obj.Spec.Template, old)
	before, _ := old.(*appsv1.StatefulSet)
	if before == nil {
		return errs
	}
	spec, now, was := field.NewPath("spec"), obj.Spec, before.Spec
	errs = append(errs, apivalidation.ValidateImmutableField(now.Selector, was.Selector, spec.Child("selector"))...)
	errs = append(errs, validateUnchanged(now.VolumeClaimTemplates, was.VolumeClaimTemplates,
		spec.Child("volumeClaimTemplates"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(now.ServiceName, was.ServiceName, spec.Child("serviceName"))...)
	return append(errs, validateUnchanged(now.PodManagementPolicy, was.PodManagementPolicy,
		spec.Child("podManagementPolicy"))...)
}

// validateJobSpec checks the spec of a Job or of the template of a CronJob.
func validateJobSpec(job batchv1.JobSpec, path *field.Path) field.ErrorList {
	pod := path.Child("template", "spec")
	errs := validatePod(job.Template.Spec, pod)
	if policy := job.Template.Spec.RestartPolicy; policy == "" || policy == corev1.RestartPolicyAlways { // the default
		errs = append(errs, field.Required(pod.Child("restartPolicy"), `valid values: "OnFailure", "Never"`))
	}
	errs = append(errs, validateCount(job.Completions, path.Child("completions"))...)
	return append(errs, validateCount(job.Parallelism, path.Child("parallelism"))...)
}

// validateJob checks a Job, most of whose fields may not change.
func validateJob(obj *batchv1.Job, old metav1.Object) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateJobSpec(obj.Spec, spec)
	job, _ := old.(*batchv1.Job)
	if job == nil {
		return errs
	}
	now, before := obj.Spec, job.Spec
	if completionMode(now) != batchv1.IndexedCompletion {
		errs = append(errs, validateUnchanged(now.Completions, before.Completions, spec.Child("completions"))...)
	}
	errs = append(errs, validateUnchanged(now.Selector, before.Selector, spec.Child("selector"))...)
	errs = append(errs, validateJobTemplate(now.Template, job)...)
	errs = append(errs, validateUnchanged(now.PodFailurePolicy, before.PodFailurePolicy, spec.Child("podFailurePolicy"))...)
	for _, fixed := range []struct {
		name        string
		now, before any
	}{
		{"completionMode", completionMode(now), completionMode(before)},
		{"backoffLimitPerIndex", now.BackoffLimitPerIndex, before.BackoffLimitPerIndex},
		{"managedBy", now.ManagedBy, before.ManagedBy},
		{"successPolicy", now.SuccessPolicy, before.SuccessPolicy},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(fixed.now, fixed.before, spec.Child(fixed.name))...)
	}
	return errs
}

// completionMode returns how a Job completes.
func completionMode(job batchv1.JobSpec) batchv1.CompletionMode {
	if job.CompletionMode == nil {
		return batchv1.NonIndexedCompletion // the default
	}
	return *job.CompletionMode
}

// validateJobTemplate checks a new template for the pods of a Job. While the Job is suspended and has no pods, the
// metadata, the resources of containers, and the fields that place a pod on a node may change.
func validateJobTemplate(template corev1.PodTemplateSpec, job *batchv1.Job) field.ErrorList {
	path := field.NewPath("spec", "template")
	if !isSuspended(job) {
		return validateUnchanged(template, job.Spec.Template, path)
	}
	now, allowed := template.Spec, job.Spec.Template.Spec.DeepCopy()
	allowed.NodeSelector = now.NodeSelector
	allowed.Tolerations = now.Tolerations
	allowed.SchedulingGates = now.SchedulingGates
	allowed.Affinity = withNodeAffinity(allowed.Affinity, now.Affinity)
	allowResources(allowed.Containers, now.Containers)
	allowResources(allowed.InitContainers, now.InitContainers)
	return validateUnchanged(now, *allowed, path.Child("spec"))
}

// isSuspended reports whether a Job is suspended and has no pods.
func isSuspended(job *batchv1.Job) bool {
	if job.Spec.Suspend == nil || !*job.Spec.Suspend || job.Status.Active > 0 {
		return false
	}
	stopped := job.Status.StartTime == nil
	for _, c := range job.Status.Conditions {
		stopped = stopped || c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	}
	return stopped
}

// withNodeAffinity returns an affinity with the node affinity of another one. Both may be nil.
func withNodeAffinity(affinity, other *corev1.Affinity) *corev1.Affinity {
	result := corev1.Affinity{}
	if affinity != nil {
		result = *affinity
	}
	if result.NodeAffinity = nil; other != nil {
		result.NodeAffinity = other.NodeAffinity
	} else if result == (corev1.Affinity{}) {
		return nil
	}
	return &result
}

// allowResources sets the resources of containers to those of the containers of the same name in now.
func allowResources(containers, now []corev1.Container) {
	if len(containers) != len(now) {
		return
	}
	for i := range containers {
		if containers[i].Name == now[i].Name {
			containers[i].Resources = now[i].Resources
		}
	}
}
