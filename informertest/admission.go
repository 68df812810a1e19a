package informertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/typedinformer/informer"
)

// The resources whose objects register webhooks. A server without them calls none.
var (
	mutatingConfigurations   = registrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	validatingConfigurations = registrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
	namespaces               = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// admission asks the webhooks about one write of a client.
type admission struct {
	c   *collection
	w   http.ResponseWriter
	r   *http.Request
	req Request

	mutating, validating []webhook
}

// admission returns what asks the webhooks about a request, or nil if there is none to ask.
func (c *collection) admission(w http.ResponseWriter, r *http.Request, req Request) (*admission, error) {
	if c.resource.Group == registrationv1.GroupName || slices.Contains([]string{"get", "list", "watch"}, req.Verb) {
		return nil, nil // webhooks cannot keep others from changing them
	}
	a := &admission{c: c, w: w, r: r, req: req}
	var err error
	if a.mutating, err = c.server.mutatingWebhooks(); err != nil {
		return nil, err
	}
	if a.validating, err = c.server.validatingWebhooks(); err != nil {
		return nil, err
	}
	if len(a.mutating)+len(a.validating) == 0 {
		return nil, nil
	}
	return a, nil
}

// write is a write that webhooks are asked about. obj is nil for a deletion, and old for a creation.
type write struct {
	operation admissionv1.Operation
	obj, old  object
	dryRun    bool
	deletion  metav1.DeleteOptions // of a deletion
}

// mutate returns the object of a write as the mutating webhooks want it, or why they refuse the write. If a later
// webhook has changed the object, mutate calls the earlier ones again that ask for it.
func (a *admission) mutate(write write) (object, error) {
	if a == nil {
		return write.obj, nil
	}
	var hooks, again []webhook
	for _, hook := range a.mutating {
		changed, invoked, err := a.callMutating(hook, &write)
		if err != nil {
			return nil, err
		}
		if changed {
			again = slices.Clone(hooks)
		}
		if invoked && hook.again {
			hooks = append(hooks, hook)
		}
	}
	for _, hook := range again {
		if _, _, err := a.callMutating(hook, &write); err != nil {
			return nil, err
		}
	}
	return write.obj, nil
}

// callMutating calls a webhook, unless the write is none of its business, and patches the object.
func (a *admission) callMutating(hook webhook, write *write) (changed, invoked bool, err error) {
	response, as, err := a.ask(hook, *write)
	if err != nil || response == nil {
		return false, response != nil, err
	}
	if len(response.Patch) == 0 {
		return false, true, nil
	}
	if write.obj == nil {
		return false, true, apierrors.NewInternalError(fmt.Errorf(
			"admission webhook %q attempted to modify the object, which is not supported for this operation", hook.name))
	}
	operations, err := jsonpatch.DecodePatch(response.Patch)
	if err != nil {
		return false, true, hook.failed(fmt.Errorf("received undecodable patch in webhook response: %w", err))
	}
	obj, err := as.patchedBy(operations, as.versioned(write.obj))
	if err != nil {
		return false, true, apierrors.NewInternalError(err)
	}
	obj = a.c.versioned(obj)
	changed = !equality.Semantic.DeepEqual(obj, write.obj)
	write.obj = obj
	return changed, true, nil
}

// patchedBy returns obj with the patch of a webhook applied.
func (c *collection) patchedBy(operations jsonpatch.Patch, obj object) (object, error) {
	before, err := c.marshal(obj)
	if err != nil {
		return nil, err
	}
	after, err := applyJSONPatch(before, operations)
	if err != nil {
		return nil, err
	}
	patched := c.newObject()
	if err := unmarshal(after, runtime.ContentTypeJSON, patched); err != nil {
		return nil, err
	}
	if c.resource.Hooks.Decode != nil {
		if _, err := c.resource.Hooks.Decode(patched); err != nil {
			return nil, err
		}
	}
	return c.own(patched), nil
}

// validate returns why the validating webhooks refuse a write, or nil.
func (a *admission) validate(write write) error {
	if a == nil {
		return nil
	}
	for _, hook := range a.validating {
		if _, _, err := a.ask(hook, write); err != nil {
			return err
		}
	}
	return nil
}

// ask calls a webhook and returns its response, or nil if it is not called, or its failure is ignored. as is the
// collection of the version that the webhook gets the objects in.
func (a *admission) ask(hook webhook, write write) (_ *admissionv1.AdmissionResponse, as *collection, err error) {
	if as = a.concerned(hook, write); as == nil {
		return nil, nil, nil
	}
	if selected, err := a.selects(hook, write); err != nil || !selected {
		return nil, nil, err
	}
	request, err := a.request(write, as)
	if err != nil {
		return nil, nil, apierrors.NewInternalError(err)
	}
	if matches, err := a.meets(hook, request); err != nil || !matches {
		return nil, nil, err
	}
	if write.dryRun && !hook.harmless {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", hook.name))
	}
	response, err := hook.call(a.r.Context(), request)
	if err != nil {
		if hook.ignore && a.r.Context().Err() == nil {
			return nil, nil, nil
		}
		return nil, nil, hook.failed(err)
	}
	for _, text := range response.Warnings {
		warn(a.w, text)
	}
	if !response.Allowed {
		return nil, nil, denied(hook.name, response.Result)
	}
	return response, as, nil
}

// meets reports whether a request meets the matchConditions of a webhook. If that is unknown, the failure policy decides.
func (a *admission) meets(hook webhook, request *admissionv1.AdmissionRequest) (bool, error) {
	if len(hook.conditions) == 0 {
		return true, nil
	}
	evaluate := a.c.server.options.MatchConditions
	if evaluate == nil { // an error with any failurePolicy, so that a test does not go on without the webhook
		return false, apierrors.NewInternalError(fmt.Errorf("webhook %q has matchConditions, and "+
			"informertest.Options.MatchConditions is not set", hook.name))
	}
	matches, err := evaluate(hook.conditions, request)
	switch {
	case err == nil:
		return matches, nil
	case hook.ignore:
		return false, nil
	}
	return false, apierrors.NewForbidden(a.c.resource.GroupResource(), request.Name, err)
}

// request returns the request that describes a write to a webhook, with the objects in the version of as.
func (a *admission) request(write write, as *collection) (*admissionv1.AdmissionRequest, error) {
	kind, resource := as.resource.names()
	requestKind, requestResource := a.c.resource.names()
	request := &admissionv1.AdmissionRequest{
		UID:                uuid.NewUUID(),
		Kind:               kind,
		Resource:           resource,
		SubResource:        a.req.Subresource,
		RequestKind:        &requestKind,
		RequestResource:    &requestResource,
		RequestSubResource: a.req.Subresource,
		Operation:          write.operation,
		UserInfo:           a.c.server.userOf(a.req),
		DryRun:             &write.dryRun,
	}
	request.Name, request.Namespace = write.name(a.c.resource)
	if a.req.Verb == "deletecollection" {
		request.Name = "" // as in kube-apiserver: the client names no object
	}
	var err, oldErr, optionsErr error
	request.Options.Raw, optionsErr = json.Marshal(a.options(write))
	if write.obj != nil {
		request.Object.Raw, err = as.marshal(as.versioned(write.obj))
	}
	if write.old != nil {
		request.OldObject.Raw, oldErr = as.marshal(as.versioned(write.old))
	}
	return request, errors.Join(err, oldErr, optionsErr)
}

// names returns the names of the kind and of the resource in requests to webhooks.
func (r Resource) names() (metav1.GroupVersionKind, metav1.GroupVersionResource) {
	return metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind},
		metav1.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
}

// options returns the options of a write, as the client sent them. A patch has those of an update or a create, as in
// kube-apiserver.
func (a *admission) options(write write) any {
	kind := func(name string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: metav1.SchemeGroupVersion.String(), Kind: name}
	}
	query := a.req.Query
	switch write.operation {
	case admissionv1.Create:
		return metav1.CreateOptions{TypeMeta: kind("CreateOptions"), DryRun: query["dryRun"],
			FieldManager: query.Get("fieldManager"), FieldValidation: query.Get("fieldValidation")}
	case admissionv1.Update:
		return metav1.UpdateOptions{TypeMeta: kind("UpdateOptions"), DryRun: query["dryRun"],
			FieldManager: query.Get("fieldManager"), FieldValidation: query.Get("fieldValidation")}
	}
	write.deletion.TypeMeta = kind("DeleteOptions")
	return write.deletion
}

// name returns the name and namespace of a write. For a Namespace, both are its own name.
func (w write) name(resource Resource) (name, namespace string) {
	obj := w.obj
	if obj == nil {
		obj = w.old
	}
	if resource.GroupVersionResource == namespaces {
		return obj.GetName(), obj.GetName()
	}
	return obj.GetName(), obj.GetNamespace()
}

// concerned returns the collection of the version that the rules of a webhook want a write in, or nil if they do not match.
// The version of the client comes first. A webhook whose matchPolicy is Equivalent, the default, takes another one, by its
// earliest rule.
func (a *admission) concerned(hook webhook, write write) *collection {
	_, namespace := write.name(a.c.resource)
	first := func(versions ...*collection) *collection {
		for _, rule := range hook.rules {
			for _, c := range versions {
				if a.matches(rule, c.resource, write.operation, namespace) && (c.resource.StatusSubresource || a.req.Subresource != "status") {
					return c
				}
			}
		}
		return nil
	}
	if as := first(a.c); as != nil || hook.exact {
		return as
	}
	a.c.server.mu.Lock()
	members := slices.Clone(a.c.kin.members)
	a.c.server.mu.Unlock()
	return first(members...)
}

// selects reports whether the selectors of a webhook match a write.
func (a *admission) selects(hook webhook, write write) (bool, error) {
	objects, err := metav1.LabelSelectorAsSelector(hook.objectSelector)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	if !objects.Empty() && !(selects(objects, write.obj) || selects(objects, write.old)) {
		return false, nil
	}
	_, namespace := write.name(a.c.resource)
	if namespace == "" {
		return true, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(hook.namespaceSelector)
	if err != nil {
		return false, apierrors.NewInternalError(err)
	}
	return selector.Matches(a.namespaceLabels(write, namespace)), nil
}

func selects(selector labels.Selector, obj object) bool {
	return obj != nil && selector.Matches(labels.Set(obj.GetLabels()))
}

// namespaceLabels returns the labels of the namespace of a write, which need not exist.
func (a *admission) namespaceLabels(write write, namespace string) labels.Set {
	set := labels.Set{"kubernetes.io/metadata.name": namespace}
	obj := write.obj
	if a.c.resource.GroupVersionResource != namespaces || obj == nil {
		a.c.server.mu.Lock()
		c := a.c.server.collections[namespaces]
		a.c.server.mu.Unlock()
		if c == nil {
			return set
		}
		var ok bool
		if obj, ok = c.cache.Get(informer.Key{Name: namespace}); !ok {
			return set
		}
	}
	return labels.Merge(set, obj.GetLabels())
}

// matches reports whether a rule is about a write to a resource.
func (a *admission) matches(rule registrationv1.RuleWithOperations, resource Resource, operation admissionv1.Operation,
	namespace string) bool {
	isNamespace := resource.GroupVersionResource == namespaces
	if rule.Scope != nil {
		clusterScoped := isNamespace || namespace == ""
		if *rule.Scope == registrationv1.NamespacedScope && clusterScoped ||
			*rule.Scope == registrationv1.ClusterScope && !clusterScoped {
			return false
		}
	}
	has := func(all []string, value string) bool { return slices.Contains(all, "*") || slices.Contains(all, value) }
	if !has(rule.APIGroups, resource.Group) || !has(rule.APIVersions, resource.Version) ||
		!slices.Contains(rule.Operations, registrationv1.OperationAll) &&
			!slices.Contains(rule.Operations, registrationv1.OperationType(operation)) {
		return false
	}
	return slices.ContainsFunc(rule.Resources, func(text string) bool {
		name, subresource, _ := strings.Cut(text, "/")
		return (name == "*" || name == resource.Resource) && (subresource == "*" || subresource == a.req.Subresource)
	})
}

// denied returns the error of a write that a webhook refuses. The texts are kube-apiserver's.
func denied(webhook string, result *metav1.Status) error {
	status := metav1.Status{}
	if result != nil {
		status = *result
	}
	status.Code = max(status.Code, http.StatusBadRequest)
	status.Status = metav1.StatusFailure
	prefix := fmt.Sprintf("admission webhook %q denied the request", webhook)
	switch {
	case status.Message != "":
		status.Message = prefix + ": " + status.Message
	case status.Reason != "":
		status.Message = prefix + ": " + string(status.Reason)
	default:
		status.Message = prefix + " without explanation"
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// configurations returns the objects of a resource that registers webhooks, ordered by name.
func configurations[T any](s *Server, resource schema.GroupVersionResource) (all []T, err error) {
	s.mu.Lock()
	c := s.collections[resource]
	s.mu.Unlock()
	if c == nil {
		return nil, nil
	}
	for obj := range c.cache.All() {
		var configuration T
		b, err := c.marshal(obj)
		if err == nil {
			err = json.Unmarshal(b, &configuration)
		}
		if err != nil {
			return nil, apierrors.NewInternalError(fmt.Errorf("%s %s: %w", resource.Resource, obj.GetName(), err))
		}
		all = append(all, configuration)
	}
	return all, nil
}
