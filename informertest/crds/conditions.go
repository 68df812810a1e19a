package crds

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	admissioncel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

// NewMatchConditions returns a function for informertest.Options.MatchConditions. It evaluates the matchConditions of
// admission webhooks with kube-apiserver's package:
//
//	server := informertest.NewServer(informertest.Options{MatchConditions: crds.NewMatchConditions()})
//
// The variable authorizer is not supported: a condition with it is an error. The function may be called concurrently.
func NewMatchConditions() func([]registrationv1.MatchCondition, *admissionv1.AdmissionRequest) (bool, error) {
	c := &conditions{
		compiler: admissioncel.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())),
	}
	return c.match
}

// conditions compiles matchConditions, and keeps the results.
type conditions struct {
	compiler admissioncel.ConditionCompiler
	compiled sync.Map // of matchconditions.Matcher, by the text of the conditions
}

// match reports whether all conditions are true for a request. It returns an error if that is unknown.
func (c *conditions) match(all []registrationv1.MatchCondition, request *admissionv1.AdmissionRequest) (bool, error) {
	attributes, err := attributesOf(request)
	if err != nil {
		return false, err
	}
	result := c.matcher(all).Match(context.Background(), attributes, nil, nil)
	return result.Matches, result.Error
}

// matcher returns the matcher of conditions.
func (c *conditions) matcher(all []registrationv1.MatchCondition) matchconditions.Matcher {
	key := fmt.Sprintf("%q", all)
	if found, ok := c.compiled.Load(key); ok {
		return found.(matchconditions.Matcher)
	}
	expressions := make([]admissioncel.ExpressionAccessor, len(all))
	for i, condition := range all {
		expressions[i] = (*matchconditions.MatchCondition)(&condition)
	}
	evaluator := c.compiler.CompileCondition(expressions, admissioncel.OptionalVariableDeclarations{},
		environment.StoredExpressions)
	fail := registrationv1.Fail // the server decides what a failure means
	matcher := matchconditions.NewMatcher(evaluator, &fail, "webhook", "admit", "")
	c.compiled.Store(key, matcher)
	return matcher
}

// attributesOf returns a request in the form that kube-apiserver's admission uses.
func attributesOf(request *admissionv1.AdmissionRequest) (*admission.VersionedAttributes, error) {
	obj, err := decoded(request.Object)
	if err != nil {
		return nil, err
	}
	old, err := decoded(request.OldObject)
	if err != nil {
		return nil, err
	}
	kind := runtimeschema.GroupVersionKind(request.Kind)
	options, err := optionsOf(request)
	if err != nil {
		return nil, err
	}
	attributes := admission.NewAttributesRecord(obj, old, kind, request.Namespace, request.Name,
		runtimeschema.GroupVersionResource(request.Resource), request.SubResource, admission.Operation(request.Operation),
		options, request.DryRun != nil && *request.DryRun, userOf(request.UserInfo))
	return admission.NewVersionedAttributes(attributes, kind, admission.NewObjectInterfacesFromScheme(runtime.NewScheme()))
}

// optionsOf returns the options of a request, in the type of its operation.
func optionsOf(request *admissionv1.AdmissionRequest) (runtime.Object, error) {
	var options runtime.Object = &metav1.CreateOptions{}
	switch request.Operation {
	case admissionv1.Update:
		options = &metav1.UpdateOptions{}
	case admissionv1.Delete:
		options = &metav1.DeleteOptions{}
	}
	if len(request.Options.Raw) == 0 {
		return options, nil
	}
	return options, json.Unmarshal(request.Options.Raw, options)
}

// decoded returns the object of a request, or nil if it has none.
func decoded(raw runtime.RawExtension) (runtime.Object, error) {
	if len(raw.Raw) == 0 {
		return nil, nil
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw.Raw); err != nil {
		return nil, err
	}
	return u, nil
}

func userOf(info authenticationv1.UserInfo) user.Info {
	extra := map[string][]string{}
	for key, values := range info.Extra {
		extra[key] = values
	}
	return &user.DefaultInfo{Name: info.Username, UID: info.UID, Groups: info.Groups, Extra: extra}
}
