package informertest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// attributes returns what an authorizer is asked about a request.
func (r Request) attributes(raw *http.Request) authorizationv1.SubjectAccessReviewSpec {
	review := reviewOf(r.User)
	if r.Verb == "" || r.Resource.Resource == "" {
		review.NonResourceAttributes = &authorizationv1.NonResourceAttributes{
			Path: r.Path,
			Verb: strings.ToLower(raw.Method),
		}
		return review
	}
	attributes := &authorizationv1.ResourceAttributes{
		Namespace:   r.Namespace,
		Verb:        r.Verb,
		Group:       r.Resource.Group,
		Version:     r.Resource.Version,
		Resource:    r.Resource.Resource,
		Subresource: r.Subresource,
		Name:        r.Name,
	}
	if r.Resource.Group == "" && r.Resource.Resource == "namespaces" {
		attributes.Namespace = r.Name // as in kube-apiserver, a namespace is in itself
	}
	if selector, err := fields.ParseSelector(r.Query.Get("fieldSelector")); err == nil && r.Name == "" {
		if name, ok := selector.RequiresExactMatch("metadata.name"); ok {
			attributes.Name = name
		}
	}
	review.ResourceAttributes = attributes
	return review
}

func reviewOf(user authenticationv1.UserInfo) authorizationv1.SubjectAccessReviewSpec {
	review := authorizationv1.SubjectAccessReviewSpec{User: user.Username, UID: user.UID, Groups: user.Groups}
	if len(user.Extra) > 0 {
		review.Extra = map[string]authorizationv1.ExtraValue{}
		for key, values := range user.Extra {
			review.Extra[key] = authorizationv1.ExtraValue(values)
		}
	}
	return review
}

// authorize returns nil, or the 403 of kube-apiserver.
func (u *users) authorize(review authorizationv1.SubjectAccessReviewSpec) error {
	if status := u.review(review); !status.Allowed || status.Denied {
		return forbidden(review, status.Reason)
	}
	return nil
}

// review decides whether a request may be done.
func (u *users) review(review authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
	allowed := authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	isUser := slices.Contains(review.Groups, authenticated)
	switch {
	case slices.Contains(review.Groups, masters), isPublic(review.NonResourceAttributes):
		return allowed
	case isUser && (isDiscovery(review.NonResourceAttributes) || isSelfReview(review.ResourceAttributes)):
		return allowed
	case u == nil || u.auth.Authorize == nil:
		return authorizationv1.SubjectAccessReviewStatus{Allowed: u == nil || isUser}
	}
	return u.auth.Authorize(review)
}

// isPublic, isDiscovery and isSelfReview report what the roles system:public-info-viewer, system:discovery and
// system:basic-user of every cluster allow.

func isPublic(a *authorizationv1.NonResourceAttributes) bool {
	return a != nil && a.Verb == "get" &&
		slices.Contains([]string{"/healthz", "/livez", "/readyz", "/version", "/version/"}, a.Path)
}

func isDiscovery(a *authorizationv1.NonResourceAttributes) bool {
	if a == nil || a.Verb != "get" {
		return false
	}
	top, _, _ := strings.Cut(strings.TrimPrefix(a.Path, "/"), "/")
	return slices.Contains([]string{"api", "apis", "openapi"}, top)
}

func isSelfReview(a *authorizationv1.ResourceAttributes) bool {
	return a != nil && a.Verb == "create" && a.Subresource == "" &&
		(a.Group == authorizationv1.GroupName && a.Resource == "selfsubjectaccessreviews" ||
			a.Group == authenticationv1.GroupName && a.Resource == "selfsubjectreviews")
}

// sanitizer is kube-apiserver's, which keeps markup out of an error.
var sanitizer = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

// forbidden returns the error for a request that its user may not do. The texts are kube-apiserver's.
func forbidden(review authorizationv1.SubjectAccessReviewSpec, reason string) error {
	text, resource, name := "", schema.GroupResource{}, ""
	if path := review.NonResourceAttributes; path != nil {
		text = fmt.Sprintf("User %q cannot %s path %q", review.User, path.Verb, path.Path)
	}
	if a := review.ResourceAttributes; a != nil {
		resource, name = schema.GroupResource{Group: a.Group, Resource: a.Resource}, a.Name
		where := "at the cluster scope"
		if a.Namespace != "" {
			where = fmt.Sprintf("in the namespace %q", a.Namespace)
		}
		what := a.Resource
		if a.Subresource != "" {
			what += "/" + a.Subresource
		}
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", review.User, a.Verb, what, a.Group, where)
	}
	text = sanitizer.Replace(text)
	if reason != "" {
		text += ": " + reason
	}
	return apierrors.NewForbidden(resource, name, errors.New(text))
}

// impersonated returns the user that the headers of a request by user impersonate, or user itself.
func (u *users) impersonated(headers http.Header, user authenticationv1.UserInfo) (authenticationv1.UserInfo, error) {
	as := authenticationv1.UserInfo{
		Username: headers.Get(authenticationv1.ImpersonateUserHeader),
		UID:      headers.Get(authenticationv1.ImpersonateUIDHeader),
		Groups:   slices.Clone(headers[authenticationv1.ImpersonateGroupHeader]),
		Extra:    impersonatedExtra(headers),
	}
	if as.Username == "" {
		if as.UID != "" || len(as.Groups) > 0 || len(as.Extra) > 0 {
			return user, apierrors.NewBadRequest("requested groups, a UID or extra without impersonating a user")
		}
		return user, nil
	}
	for _, asked := range impersonations(as) {
		asked.Verb = "impersonate"
		review := reviewOf(user)
		review.ResourceAttributes = &asked
		if err := u.authorize(review); err != nil {
			return user, err
		}
	}
	if rest, ok := strings.CutPrefix(as.Username, serviceAccount); ok && len(as.Groups) == 0 {
		namespace, _, _ := strings.Cut(rest, ":")
		as.Groups = []string{serviceAccounts, serviceAccounts + ":" + namespace}
	}
	switch {
	case as.Username == anonymous:
		as = withGroup(as, unauthenticated)
	case !slices.Contains(as.Groups, unauthenticated):
		as = withGroup(as, authenticated)
	}
	return as, nil
}

func impersonatedExtra(headers http.Header) map[string]authenticationv1.ExtraValue {
	extra := map[string]authenticationv1.ExtraValue{}
	for header, values := range headers {
		if key, ok := strings.CutPrefix(header, authenticationv1.ImpersonateUserExtraHeaderPrefix); ok {
			key = strings.ToLower(key)
			if decoded, err := url.PathUnescape(key); err == nil {
				key = decoded
			}
			extra[key] = values
		}
	}
	return extra
}

// impersonations returns what a user has to be allowed to impersonate in order to be as, without the verb.
func impersonations(as authenticationv1.UserInfo) []authorizationv1.ResourceAttributes {
	asked := []authorizationv1.ResourceAttributes{{Version: "v1", Resource: "users", Name: as.Username}}
	if rest, ok := strings.CutPrefix(as.Username, serviceAccount); ok {
		namespace, name, _ := strings.Cut(rest, ":")
		asked[0] = authorizationv1.ResourceAttributes{Version: "v1", Resource: "serviceaccounts", Namespace: namespace,
			Name: name}
	}
	for _, group := range as.Groups {
		asked = append(asked, authorizationv1.ResourceAttributes{Version: "v1", Resource: "groups", Name: group})
	}
	for _, key := range slices.Sorted(maps.Keys(as.Extra)) {
		for _, value := range as.Extra[key] {
			asked = append(asked, authorizationv1.ResourceAttributes{Group: authenticationv1.GroupName, Version: "v1",
				Resource: "userextras", Subresource: key, Name: value})
		}
	}
	if as.UID != "" {
		asked = append(asked, authorizationv1.ResourceAttributes{Group: authenticationv1.GroupName, Version: "v1",
			Resource: "uids", Name: as.UID})
	}
	return asked
}
