package cluster

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/typedinformer/informer/informertest"
)

// hooks do the work of kube-apiserver's own code for the kinds that programs write most.
var hooks = informertest.Hooks{Decode: complete, Validate: validate}

// complete moves the stringData of a Secret to its data, and sets its default type.
func complete(obj metav1.Object) (dropped []string, err error) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, nil
	}
	if secret.Data == nil && len(secret.StringData) > 0 {
		secret.Data = map[string][]byte{}
	}
	for key, value := range secret.StringData {
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
	if secret.Type == "" {
		secret.Type = corev1.SecretTypeOpaque
	}
	return nil, nil
}

// validate returns the errors in an object, with kube-apiserver's texts.
func validate(obj, old metav1.Object, subresource string) field.ErrorList {
	metadata := field.NewPath("metadata")
	errs := apivalidation.ValidateObjectMetaAccessor(obj, obj.GetNamespace() != "", nameRule(obj), metadata)
	if old != nil {
		errs = append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, metadata)...)
	}
	if pod, ok := obj.(*corev1.Pod); ok && subresource == "ephemeralcontainers" {
		names := map[string]bool{}
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			names[c.Name] = true
		}
		for i, c := range pod.Spec.EphemeralContainers {
			errs = append(errs, validateContainer(corev1.Container(c.EphemeralContainerCommon), names,
				field.NewPath("spec", "ephemeralContainers").Index(i))...)
		}
	}
	if subresource != "" {
		return errs
	}
	return append(errs, validateContent(obj, old)...)
}

// nameRule returns the rule for the names of objects of the type of obj.
func nameRule(obj metav1.Object) apivalidation.ValidateNameFunc {
	switch obj.(type) {
	case *corev1.Namespace:
		return apivalidation.ValidateNamespaceName
	case *corev1.Service:
		return apivalidation.NameIsDNSLabel
	case *corev1.Pod, *corev1.ConfigMap, *corev1.Secret, *corev1.ServiceAccount, *corev1.Node, *appsv1.Deployment,
		*appsv1.ReplicaSet, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job, *batchv1.CronJob,
		*registrationv1.ValidatingWebhookConfiguration, *registrationv1.MutatingWebhookConfiguration:
		return apivalidation.NameIsDNSSubdomain
	}
	return path.ValidatePathSegmentName // for kinds without a rule of their own
}

// validateContent returns the errors in the content of an object. old is nil for a new one.
func validateContent(obj, old metav1.Object) field.ErrorList {
	spec := field.NewPath("spec")
	switch obj := obj.(type) {
	case *corev1.Pod:
		return append(validatePod(obj.Spec, spec), validatePodUpdate(obj.Spec, old)...)
	case *corev1.Service:
		return validateService(obj.Spec, old)
	case *corev1.PersistentVolumeClaim:
		return validateClaim(obj, old)
	case *corev1.ConfigMap:
		return append(validateConfigMap(obj, old), validateConfigData(obj)...)
	case *corev1.Secret:
		return append(validateSecret(obj, old), validateSecretData(obj)...)
	case *appsv1.Deployment:
		return append(validateWorkload("deployment", obj.Spec.Selector, obj.Spec.Template, old),
			validateCount(obj.Spec.Replicas, spec.Child("replicas"))...)
	case *appsv1.ReplicaSet:
		return append(validateWorkload("deployment", obj.Spec.Selector, obj.Spec.Template, old),
			validateCount(obj.Spec.Replicas, spec.Child("replicas"))...)
	case *appsv1.DaemonSet:
		return validateWorkload("daemonset", obj.Spec.Selector, obj.Spec.Template, old)
	case *appsv1.StatefulSet:
		return append(validateStatefulSet(obj, old), validateCount(obj.Spec.Replicas, spec.Child("replicas"))...)
	case *batchv1.Job:
		return validateJob(obj, old)
	case *batchv1.CronJob:
		errs := validateJobSpec(obj.Spec.JobTemplate.Spec, spec.Child("jobTemplate", "spec"))
		if obj.Spec.Schedule == "" {
			errs = append(errs, field.Required(spec.Child("schedule"), ""))
		}
		return errs
	case *autoscalingv2.HorizontalPodAutoscaler:
		return validateAutoscaler(obj, old)
	case *policyv1.PodDisruptionBudget:
		if obj.Spec.MinAvailable != nil && obj.Spec.MaxUnavailable != nil {
			return field.ErrorList{field.Invalid(spec, obj.Spec, "minAvailable and maxUnavailable cannot be both set")}
		}
	case *rbacv1.RoleBinding:
		return validateBinding(obj.RoleRef, obj.Subjects, []string{"Role", "ClusterRole"}, old)
	case *rbacv1.ClusterRoleBinding:
		return validateBinding(obj.RoleRef, obj.Subjects, []string{"ClusterRole"}, old)
	case *rbacv1.Role:
		return validateRules(obj.Rules, true)
	case *rbacv1.ClusterRole:
		return validateRules(obj.Rules, false)
	case *registrationv1.ValidatingWebhookConfiguration:
		return validateValidating(obj.Webhooks, old)
	case *registrationv1.MutatingWebhookConfiguration:
		return validateMutating(obj.Webhooks, old)
	}
	return nil
}

// validatePod checks that a pod has containers, with names and images, and the restartPolicy.
func validatePod(pod corev1.PodSpec, path *field.Path) (errs field.ErrorList) {
	containers := path.Child("containers")
	if len(pod.Containers) == 0 {
		errs = append(errs, field.Required(containers, ""))
	}
	names := map[string]bool{}
	for i, c := range pod.Containers {
		errs = append(errs, validateContainer(c, names, containers.Index(i))...)
	}
	for i, c := range pod.InitContainers {
		errs = append(errs, validateContainer(c, names, path.Child("initContainers").Index(i))...)
	}
	policies := []corev1.RestartPolicy{corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}
	if pod.RestartPolicy != "" && !slices.Contains(policies, pod.RestartPolicy) {
		errs = append(errs, field.NotSupported(path.Child("restartPolicy"), pod.RestartPolicy, policies))
	}
	return errs
}

// validateContainer checks a container, and adds its name to names.
func validateContainer(c corev1.Container, names map[string]bool, path *field.Path) (errs field.ErrorList) {
	switch {
	case c.Name == "":
		errs = append(errs, field.Required(path.Child("name"), ""))
	case names[c.Name]:
		errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
	default:
		for _, text := range apivalidation.NameIsDNSLabel(c.Name, false) {
			errs = append(errs, field.Invalid(path.Child("name"), c.Name, text))
		}
	}
	names[c.Name] = true
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	return errs
}

// validateConfigMap refuses changes of an immutable ConfigMap.
func validateConfigMap(obj *corev1.ConfigMap, old metav1.Object) (errs field.ErrorList) {
	before, _ := old.(*corev1.ConfigMap)
	if before == nil || before.Immutable == nil || !*before.Immutable {
		return nil
	}
	if obj.Immutable == nil || !*obj.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
	}
	if !maps.Equal(obj.Data, before.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
	}
	if !maps.EqualFunc(obj.BinaryData, before.BinaryData, bytes.Equal) {
		errs = append(errs, field.Forbidden(field.NewPath("binaryData"), "field is immutable when `immutable` is set"))
	}
	return errs
}

// validateSecret refuses changes of the type of a Secret, and of an immutable Secret.
func validateSecret(obj *corev1.Secret, old metav1.Object) (errs field.ErrorList) {
	before, _ := old.(*corev1.Secret)
	if before == nil {
		return nil
	}
	errs = apivalidation.ValidateImmutableField(obj.Type, cmp.Or(before.Type, corev1.SecretTypeOpaque), field.NewPath("type"))
	if before.Immutable == nil || !*before.Immutable {
		return errs
	}
	if obj.Immutable == nil || !*obj.Immutable {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
	}
	if !maps.EqualFunc(obj.Data, before.Data, bytes.Equal) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set"))
	}
	return errs
}
