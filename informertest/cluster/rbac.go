package cluster

import (
	"cmp"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	pathvalidation "k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateBinding checks the binding of a role, which may not change. kinds are those of the roles that it can bind.
func validateBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, kinds []string,
	old metav1.Object) (errs field.ErrorList) {
	path := field.NewPath("roleRef")
	ref.APIGroup = cmp.Or(ref.APIGroup, rbacv1.GroupName) // the default
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	if !slices.Contains(kinds, ref.Kind) {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	for _, text := range pathvalidation.ValidatePathSegmentName(ref.Name, false) {
		errs = append(errs, field.Invalid(path.Child("name"), ref.Name, text))
	}
	namespaced := slices.Contains(kinds, "Role")
	for i, subject := range subjects {
		errs = append(errs, validateSubject(subject, namespaced, field.NewPath("subjects").Index(i))...)
	}
	var before rbacv1.RoleRef
	switch old := old.(type) {
	case *rbacv1.RoleBinding:
		before = old.RoleRef
	case *rbacv1.ClusterRoleBinding:
		before = old.RoleRef
	default:
		return errs
	}
	before.APIGroup = cmp.Or(before.APIGroup, rbacv1.GroupName)
	if ref != before {
		errs = append(errs, field.Invalid(path, ref, "cannot change roleRef"))
	}
	return errs
}

// validateSubject checks a subject of a binding.
func validateSubject(subject rbacv1.Subject, namespaced bool, path *field.Path) (errs field.ErrorList) {
	group := rbacv1.GroupName // also the default
	if subject.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	switch subject.Kind {
	case rbacv1.UserKind, rbacv1.GroupKind:
	case rbacv1.ServiceAccountKind:
		group = ""
		if subject.Name != "" {
			for _, text := range apivalidation.ValidateServiceAccountName(subject.Name, false) {
				errs = append(errs, field.Invalid(path.Child("name"), subject.Name, text))
			}
		}
		if !namespaced && subject.Namespace == "" {
			errs = append(errs, field.Required(path.Child("namespace"), ""))
		}
	default:
		return append(errs, field.NotSupported(path.Child("kind"), subject.Kind,
			[]string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	if subject.APIGroup != "" && subject.APIGroup != group {
		errs = append(errs, field.NotSupported(path.Child("apiGroup"), subject.APIGroup, []string{group}))
	}
	return errs
}

// validateRules checks the rules of a role.
func validateRules(rules []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i, rule := range rules {
		path := field.NewPath("rules").Index(i)
		urls := path.Child("nonResourceURLs")
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
		}
		switch {
		case len(rule.NonResourceURLs) > 0:
			if namespaced {
				errs = append(errs, field.Invalid(urls, rule.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(urls, rule.NonResourceURLs,
					"rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		case len(rule.APIGroups) == 0:
			errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}
