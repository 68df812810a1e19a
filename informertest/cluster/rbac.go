package cluster

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateBinding checks the binding of a role, which may not change. kinds are those of the roles that it can bind.
func validateBinding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, kinds []string,
	old metav1.Object) (errs field.ErrorList) {
	path := field.NewPath("roleRef")
	if !slices.Contains(kinds, ref.Kind) {
		errs = append(errs, field.NotSupported(path.Child("kind"), ref.Kind, kinds))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	for i, subject := range subjects {
		if subject.Name == "" {
			errs = append(errs, field.Required(field.NewPath("subjects").Index(i).Child("name"), ""))
		}
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
	if ref.Kind != before.Kind || ref.Name != before.Name {
		errs = append(errs, field.Invalid(path, ref, "cannot change roleRef"))
	}
	return errs
}

// validateRules checks the rules of a role.
func validateRules(rules []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i, rule := range rules {
		path := field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(path.Child("verbs"), "verbs must contain at least one value"))
		}
		if namespaced && len(rule.NonResourceURLs) > 0 {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), rule.NonResourceURLs,
				"namespaced rules cannot apply to non-resource URLs"))
		}
	}
	return errs
}
