package cluster

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMutating checks the webhooks of a configuration. It does not compile their matchConditions.
func validateMutating(webhooks []registrationv1.MutatingWebhook, old metav1.Object) field.ErrorList {
	errs := validateWebhooks(webhooks)
	if old, ok := old.(*registrationv1.MutatingWebhookConfiguration); ok {
		return newErrors(errs, validateWebhooks(old.Webhooks))
	}
	return errs
}

// validateValidating is validateMutating for webhooks that only validate.
func validateValidating(webhooks []registrationv1.ValidatingWebhook, old metav1.Object) field.ErrorList {
	errs := validateWebhooks(mutating(webhooks))
	if old, ok := old.(*registrationv1.ValidatingWebhookConfiguration); ok {
		return newErrors(errs, validateWebhooks(mutating(old.Webhooks)))
	}
	return errs
}

// newErrors returns the errors of an update without those of the same kind that the old object had. kube-apiserver keeps
// accepting what an earlier version of it accepted.
func newErrors(errs, old field.ErrorList) field.ErrorList {
	kind := func(err *field.Error) string {
		name, _, _ := strings.Cut(err.Field[strings.LastIndexByte(err.Field, '.')+1:], "[")
		return string(err.Type) + " " + name
	}
	had := map[string]bool{}
	for _, err := range old {
		had[kind(err)] = true
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return had[kind(err)] })
}

// mutating returns webhooks of the other type, which has one field more.
func mutating(webhooks []registrationv1.ValidatingWebhook) (all []registrationv1.MutatingWebhook) {
	for _, w := range webhooks {
		all = append(all, registrationv1.MutatingWebhook{
			Name:                    w.Name,
			ClientConfig:            w.ClientConfig,
			Rules:                   w.Rules,
			FailurePolicy:           w.FailurePolicy,
			MatchPolicy:             w.MatchPolicy,
			NamespaceSelector:       w.NamespaceSelector,
			ObjectSelector:          w.ObjectSelector,
			SideEffects:             w.SideEffects,
			TimeoutSeconds:          w.TimeoutSeconds,
			AdmissionReviewVersions: w.AdmissionReviewVersions,
			MatchConditions:         w.MatchConditions,
		})
	}
	return all
}

func validateWebhooks(webhooks []registrationv1.MutatingWebhook) (errs field.ErrorList) {
	names := map[string]bool{}
	for i, w := range webhooks {
		path := field.NewPath("webhooks").Index(i)
		errs = append(errs, validateWebhook(w, path)...)
		if names[w.Name] && w.Name != "" {
			errs = append(errs, field.Duplicate(path.Child("name"), w.Name))
		}
		names[w.Name] = true
	}
	return errs
}

func validateWebhook(w registrationv1.MutatingWebhook, path *field.Path) field.ErrorList {
	errs := utilvalidation.IsFullyQualifiedName(path.Child("name"), w.Name)
	for i, rule := range w.Rules {
		errs = append(errs, validateWebhookRule(rule, path.Child("rules").Index(i))...)
	}
	errs = append(errs, validateChoice(w.FailurePolicy, path.Child("failurePolicy"), registrationv1.Fail, registrationv1.Ignore)...)
	errs = append(errs, validateChoice(w.MatchPolicy, path.Child("matchPolicy"), registrationv1.Equivalent, registrationv1.Exact)...)
	effects := path.Child("sideEffects")
	if w.SideEffects == nil {
		errs = append(errs, field.Required(effects, "must specify one of None, NoneOnDryRun"))
	}
	errs = append(errs, validateChoice(w.SideEffects, effects,
		registrationv1.SideEffectClassNone, registrationv1.SideEffectClassNoneOnDryRun)...)
	if seconds := w.TimeoutSeconds; seconds != nil && (*seconds < 1 || *seconds > 30) {
		errs = append(errs, field.Invalid(path.Child("timeoutSeconds"), *seconds, "the timeout value must be between 1 and 30 seconds"))
	}
	options := validation.LabelSelectorValidationOptions{}
	errs = append(errs, validation.ValidateLabelSelector(w.NamespaceSelector, options, path.Child("namespaceSelector"))...)
	errs = append(errs, validation.ValidateLabelSelector(w.ObjectSelector, options, path.Child("objectSelector"))...)
	errs = append(errs, validateChoice(w.ReinvocationPolicy, path.Child("reinvocationPolicy"),
		registrationv1.IfNeededReinvocationPolicy, registrationv1.NeverReinvocationPolicy)...)
	errs = append(errs, validateWebhookClient(w.ClientConfig, path.Child("clientConfig"))...)
	errs = append(errs, validateConditions(w.MatchConditions, path.Child("matchConditions"))...)
	return append(errs, validateReviewVersions(w.AdmissionReviewVersions, path.Child("admissionReviewVersions"))...)
}

// validateConditions checks that there are not too many conditions, and that each has an expression and a name of its own.
func validateConditions(conditions []registrationv1.MatchCondition, path *field.Path) (errs field.ErrorList) {
	const most = 64
	if len(conditions) > most {
		errs = append(errs, field.TooMany(path, len(conditions), most))
	}
	names := map[string]bool{}
	for i, condition := range conditions {
		name := path.Index(i).Child("name")
		if strings.TrimSpace(condition.Expression) == "" {
			errs = append(errs, field.Required(path.Index(i).Child("expression"), ""))
		}
		if condition.Name == "" {
			errs = append(errs, field.Required(name, ""))
			continue
		}
		for _, text := range utilvalidation.IsQualifiedName(condition.Name) {
			errs = append(errs, field.Invalid(name, condition.Name, text))
		}
		if names[condition.Name] {
			errs = append(errs, field.Duplicate(name, condition.Name))
		}
		names[condition.Name] = true
	}
	return errs
}

// validateChoice checks that a field, if it is set, has one of some values.
func validateChoice[T ~string](value *T, path *field.Path, values ...T) field.ErrorList {
	if value == nil || slices.Contains(values, *value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *value, values)}
}

func validateWebhookRule(rule registrationv1.RuleWithOperations, path *field.Path) (errs field.ErrorList) {
	errs = append(errs, validateAlternatives(rule.Operations, path.Child("operations"), "operations")...)
	operations := []registrationv1.OperationType{registrationv1.OperationAll, registrationv1.Connect, registrationv1.Create,
		registrationv1.Delete, registrationv1.Update}
	for i, operation := range rule.Operations {
		errs = append(errs, validateChoice(&operation, path.Child("operations").Index(i), operations...)...)
	}
	errs = append(errs, validateAlternatives(rule.APIGroups, path.Child("apiGroups"), "API groups")...)
	errs = append(errs, validateAlternatives(rule.APIVersions, path.Child("apiVersions"), "API versions")...)
	for i, version := range rule.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(path.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, validateWebhookResources(rule.Resources, path.Child("resources"))...)
	return append(errs, validateChoice(rule.Scope, path.Child("scope"),
		registrationv1.AllScopes, registrationv1.ClusterScope, registrationv1.NamespacedScope)...)
}

// validateAlternatives checks that a list has values, and that * is alone.
func validateAlternatives[T ~string](values []T, path *field.Path, what string) field.ErrorList {
	switch {
	case len(values) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(values) > 1 && slices.Contains(values, "*"):
		return field.ErrorList{field.Invalid(path, values, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// validateWebhookResources checks the resources and subresources of a rule. Something that an earlier wildcard covers is
// an error.
func validateWebhookResources(resources []string, path *field.Path) (errs field.ErrorList) {
	if len(resources) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	plain := false // the last one without a subresource has a name
	wild := map[string]bool{}
	for i, full := range resources {
		resource, sub, isSub := strings.Cut(full, "/")
		switch {
		case full == "":
			errs = append(errs, field.Required(path.Index(i), ""))
			continue
		case !isSub:
			plain = full != "*"
			continue
		}
		for _, wildcard := range []string{resource + "/*", "*/" + sub} {
			if wild[wildcard] {
				errs = append(errs, field.Invalid(path.Index(i), full, fmt.Sprintf("if '%s' is present, must not specify %s", wildcard, full)))
			}
		}
		if resource == "*" || sub == "*" {
			wild[full] = true
		}
	}
	if len(resources) > 1 && slices.Contains(resources, "*/*") {
		errs = append(errs, field.Invalid(path, resources, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(resources, "*") {
		errs = append(errs, field.Invalid(path, resources,
			"if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

func validateWebhookClient(client registrationv1.WebhookClientConfig, path *field.Path) field.ErrorList {
	switch {
	case (client.URL == nil) == (client.Service == nil):
		return field.ErrorList{field.Required(path, "exactly one of url or service is required")}
	case client.URL != nil:
		return validateWebhookURL(*client.URL, path.Child("url"))
	}
	return validateWebhookService(client.Service, path.Child("service"))
}

// validateWebhookURL checks the URL of a webhook. Unlike those of kube-apiserver, the errors have no part of the URL that
// can be a credential.
func validateWebhookURL(text string, path *field.Path) (errs field.ErrorList) {
	const form, hidden = "; desired format: https://host[/path]", "xxxxx"
	u, err := url.Parse(text)
	if err != nil {
		return field.ErrorList{field.Required(path, "url must be a valid URL"+form)}
	}
	if u.Scheme != "https" {
		errs = append(errs, field.Invalid(path, u.Scheme, "'https' is the only allowed URL scheme"+form))
	}
	if u.Host == "" {
		errs = append(errs, field.Invalid(path, u.Host, "host must be specified"+form))
	}
	if u.User != nil {
		errs = append(errs, field.Invalid(path, hidden, "user information is not permitted in the URL"))
	}
	if u.Fragment != "" {
		errs = append(errs, field.Invalid(path, hidden, "fragments are not permitted in the URL"))
	}
	if u.RawQuery != "" {
		errs = append(errs, field.Invalid(path, hidden, "query parameters are not permitted in the URL"))
	}
	return errs
}

func validateWebhookService(service *registrationv1.ServiceReference, path *field.Path) (errs field.ErrorList) {
	if service.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if service.Namespace == "" {
		errs = append(errs, field.Required(path.Child("namespace"), ""))
	}
	if service.Port != nil {
		for _, text := range utilvalidation.IsValidPortNum(int(*service.Port)) {
			errs = append(errs, field.Invalid(path.Child("port"), *service.Port, "port is not valid: "+text))
		}
	}
	if service.Path == nil || *service.Path == "" || *service.Path == "/" {
		return errs
	}
	below, absolute := strings.CutPrefix(*service.Path, "/")
	invalid := func(detail string) { errs = append(errs, field.Invalid(path.Child("path"), *service.Path, detail)) }
	if !absolute {
		invalid("must start with a '/'")
	}
	for i, segment := range strings.Split(strings.TrimSuffix(below, "/"), "/") {
		if segment == "" {
			invalid(fmt.Sprintf("segment[%d] may not be empty", i))
			continue
		}
		for _, text := range utilvalidation.IsDNS1123Subdomain(segment) {
			invalid(fmt.Sprintf("segment[%d]: %s", i, text))
		}
	}
	return errs
}

// validateReviewVersions checks the versions of AdmissionReview that a webhook takes.
func validateReviewVersions(versions []string, path *field.Path) (errs field.ErrorList) {
	if len(versions) == 0 {
		return field.ErrorList{field.Required(path, "must specify one of v1, v1beta1")}
	}
	for i, version := range versions {
		if slices.Contains(versions[:i], version) {
			errs = append(errs, field.Invalid(path.Index(i), version, "duplicate version"))
			continue
		}
		for _, text := range utilvalidation.IsDNS1035Label(version) {
			errs = append(errs, field.Invalid(path.Index(i), version, text))
		}
	}
	if !slices.Contains(versions, "v1") && !slices.Contains(versions, "v1beta1") {
		errs = append(errs, field.Invalid(path, versions, "must include at least one of v1, v1beta1"))
	}
	return errs
}
