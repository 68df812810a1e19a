package cluster

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodUpdate returns an error for each field of the spec that an update of a pod may not change. old is nil for a new pod.
func validatePodUpdate(pod corev1.PodSpec, old metav1.Object) field.ErrorList {
	stored, _ := old.(*corev1.Pod)
	if stored == nil {
		return nil
	}
	before, path := stored.Spec, field.NewPath("spec")
	for _, list := range []struct {
		name     string
		now, old []corev1.Container
	}{{"containers", pod.Containers, before.Containers}, {"initContainers", pod.InitContainers, before.InitContainers}} {
		if len(list.now) != len(list.old) {
			return field.ErrorList{field.Forbidden(path.Child(list.name), "pod updates may not add or remove containers")}
		}
	}
	errs := validateDeadline(pod.ActiveDeadlineSeconds, before.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))
	for _, toleration := range before.Tolerations {
		if !addedByDefault(toleration) && !slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool {
			t.TolerationSeconds = toleration.TolerationSeconds
			return equality.Semantic.DeepEqual(t, toleration)
		}) {
			errs = append(errs, field.Forbidden(path.Child("tolerations"),
				"existing toleration can not be modified except its tolerationSeconds"))
			break
		}
	}
	for i, gate := range pod.SchedulingGates {
		if !slices.Contains(before.SchedulingGates, gate) {
			errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i).Child("name"),
				"only deletion is allowed, but found new scheduling gate '"+gate.Name+"'"))
		}
	}
	if !unchanged(withUpdatable(pod, before), before) || !sameProcesses(pod, before) {
		errs = append(errs, field.Forbidden(path, "pod updates may not change fields other than `spec.containers[*].image`,"+
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "+
			"tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"))
	}
	return errs
}

// validateDeadline checks the change of a deadline, which can only come closer.
func validateDeadline(now, before *int64, path *field.Path) field.ErrorList {
	switch {
	case now == nil && before != nil:
		return field.ErrorList{field.Invalid(path, now, "must not update from a positive integer to nil value")}
	case now == nil:
		return nil
	case *now < 0 || *now > math.MaxInt32:
		return field.ErrorList{field.Invalid(path, *now, validation.InclusiveRangeError(0, math.MaxInt32))}
	case before != nil && *before < *now:
		return field.ErrorList{field.Invalid(path, *now, "must be less than or equal to previous value")}
	}
	return nil
}

// withUpdatable returns the spec of a pod in which the fields that may change have the values that they have in before.
// The placement of a pod with scheduling gates may change, and so may a field that repeats another one that may change.
func withUpdatable(pod, before corev1.PodSpec) corev1.PodSpec {
	pod = *pod.DeepCopy()
	for i := range pod.Containers {
		pod.Containers[i].Image = before.Containers[i].Image
	}
	for i := range pod.InitContainers {
		pod.InitContainers[i].Image = before.InitContainers[i].Image
	}
	if grace := before.TerminationGracePeriodSeconds; grace != nil && *grace < 0 &&
		pod.TerminationGracePeriodSeconds != nil && *pod.TerminationGracePeriodSeconds == 1 {
		pod.TerminationGracePeriodSeconds = grace
	}
	pod.ActiveDeadlineSeconds, pod.Tolerations = before.ActiveDeadlineSeconds, before.Tolerations
	if len(before.SchedulingGates) > 0 {
		pod.NodeSelector = before.NodeSelector
		pod.Affinity = withNodeAffinity(pod.Affinity, before.Affinity)
	}
	pod.SchedulingGates = before.SchedulingGates
	pod.DeprecatedServiceAccount = before.DeprecatedServiceAccount // that of serviceAccountName
	return pod
}

// sameProcesses reports whether pods of as many containers run the same commands on the same node: fields without defaults.
func sameProcesses(pod, before corev1.PodSpec) bool {
	same := func(a, b corev1.Container) bool {
		return slices.Equal(a.Command, b.Command) && slices.Equal(a.Args, b.Args)
	}
	return pod.NodeName == before.NodeName && slices.EqualFunc(pod.Containers, before.Containers, same) &&
		slices.EqualFunc(pod.InitContainers, before.InitContainers, same)
}

// addedByDefault reports whether kube-apiserver adds a toleration to each pod without one like it, also in an update.
func addedByDefault(t corev1.Toleration) bool {
	return (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable) &&
		t.Operator == corev1.TolerationOpExists && t.Effect == corev1.TaintEffectNoExecute && t.Value == ""
}
