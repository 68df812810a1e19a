package informertest

import (
	"errors"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var approvalSubresource = subresource{
	name:  "approval",
	verbs: statusVerbs,
	part:  (*collection).withApproval,
}

// withApproval returns a CertificateSigningRequest with the conditions of another version of it.
func (c *collection) withApproval(old, obj object) (object, error) {
	before, after := &certificatesv1.CertificateSigningRequest{}, &certificatesv1.CertificateSigningRequest{}
	if err := errors.Join(c.into(old, before), c.into(obj, after)); err != nil {
		return nil, err
	}
	conditions := after.Status.Conditions
	if err := c.invalid(old.GetName(), validateApproval(before.Status.Conditions, conditions)); err != nil {
		return nil, err
	}
	now := metav1.Now().Rfc3339Copy()
	for i := range conditions {
		if conditions[i].LastUpdateTime.IsZero() {
			conditions[i].LastUpdateTime = now
		}
		if conditions[i].LastTransitionTime.IsZero() {
			conditions[i].LastTransitionTime = transition(before.Status.Conditions, conditions[i], now)
		}
	}
	after.Spec, after.Status = before.Spec, before.Status
	after.Status.Conditions = conditions
	return c.from(after)
}

// transition returns the time since when a request has a condition.
func transition(before []certificatesv1.CertificateSigningRequestCondition,
	condition certificatesv1.CertificateSigningRequestCondition, now metav1.Time) metav1.Time {
	for _, old := range before {
		if old.Type == condition.Type && old.Status == condition.Status && !old.LastTransitionTime.IsZero() {
			return old.LastTransitionTime
		}
	}
	return now
}

// validateApproval returns what is wrong with a change of conditions. The texts are kube-apiserver's.
func validateApproval(before, after []certificatesv1.CertificateSigningRequestCondition) (errs field.ErrorList) {
	path := field.NewPath("status", "conditions")
	count := func(conditions []certificatesv1.CertificateSigningRequestCondition,
		t certificatesv1.RequestConditionType) (n int) {
		for _, condition := range conditions {
			if condition.Type == t {
				n++
			}
		}
		return n
	}
	decisions := []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved,
		certificatesv1.CertificateDenied, certificatesv1.CertificateFailed}
	for i, condition := range after {
		if condition.Type == "" {
			errs = append(errs, field.Required(path.Index(i).Child("type"), ""))
		}
		if condition.Status == "" {
			errs = append(errs, field.Required(path.Index(i).Child("status"), ""))
		} else if slices.Contains(decisions, condition.Type) && condition.Status != "True" {
			errs = append(errs, field.NotSupported(path.Index(i).Child("status"), condition.Status, []string{"True"}))
		}
	}
	if count(after, decisions[0]) > 0 && count(after, decisions[1]) > 0 {
		errs = append(errs, field.Invalid(path, after[len(after)-1].Type,
			"Approved and Denied conditions are mutually exclusive"))
	}
	for _, t := range decisions {
		if count(after, t) < count(before, t) {
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("updates may not remove a condition of type %q", t)))
		}
	}
	return errs
}
