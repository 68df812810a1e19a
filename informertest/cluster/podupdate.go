package cluster

import (
	"math"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validatePodUpdate refuses changes of the spec of a pod, most of which may not change. old is nil for a new pod.
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
		if !slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool {
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
	if !equality.Semantic.DeepEqual(withUpdatable(pod, before), *before.DeepCopy()) {
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

// withUpdatable returns the spec of a pod with the fields that may change as they were before. So are fields that
// kube-apiserver would have filled in, if they are or were empty, and the placement of a pod that is not ready for a node.
func withUpdatable(pod, before corev1.PodSpec) corev1.PodSpec {
	pod = *pod.DeepCopy()
	for i := range pod.Containers {
		restoreContainer(&pod.Containers[i], before.Containers[i])
	}
	for i := range pod.InitContainers {
		restoreContainer(&pod.InitContainers[i], before.InitContainers[i])
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
	for _, defaulted := range []func(*corev1.PodSpec) any{
		func(s *corev1.PodSpec) any { return &s.RestartPolicy },
		func(s *corev1.PodSpec) any { return &s.TerminationGracePeriodSeconds },
		func(s *corev1.PodSpec) any { return &s.DNSPolicy },
		func(s *corev1.PodSpec) any { return &s.SecurityContext },
		func(s *corev1.PodSpec) any { return &s.SchedulerName },
		func(s *corev1.PodSpec) any { return &s.EnableServiceLinks },
		func(s *corev1.PodSpec) any { return &s.PreemptionPolicy },
		func(s *corev1.PodSpec) any { return &s.Priority },
		func(s *corev1.PodSpec) any { return &s.ServiceAccountName },
		func(s *corev1.PodSpec) any { return &s.DeprecatedServiceAccount },
	} {
		asBefore(defaulted(&pod), defaulted(&before))
	}
	return pod
}

// restoreContainer sets what may change in a container, or would have been filled in, to its state before.
func restoreContainer(c *corev1.Container, before corev1.Container) {
	c.Image = before.Image
	asBefore(&c.ImagePullPolicy, &before.ImagePullPolicy)
	asBefore(&c.TerminationMessagePath, &before.TerminationMessagePath)
	asBefore(&c.TerminationMessagePolicy, &before.TerminationMessagePolicy)
	for i := range min(len(c.Ports), len(before.Ports)) {
		asBefore(&c.Ports[i].Protocol, &before.Ports[i].Protocol)
	}
}

// asBefore sets a field to its state before if it is empty or was. Both are pointers to the field.
func asBefore(now, before any) {
	value, old := reflect.ValueOf(now).Elem(), reflect.ValueOf(before).Elem()
	if value.IsZero() || old.IsZero() {
		value.Set(old)
	}
}
