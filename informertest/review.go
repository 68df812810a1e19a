package informertest

import (
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/typedinformer/informer/watchcache"
)

// review is a resource without objects: a client creates one to ask a question, and the response has the answer.
type review struct {
	resource Resource
	new      func() reviewObject
	// answer sets the status of obj, which is what new returned, with the content of the request.
	answer func(s *Server, req Request, obj reviewObject) error
}

// reviewObject is a type of k8s.io/api.
type reviewObject interface {
	runtime.Object
	metav1.Object
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

// RegisterReviews makes server answer the reviews of authentication and authorization: SelfSubjectReview, TokenReview,
// SelfSubjectAccessReview, SubjectAccessReview and LocalSubjectAccessReview. Access is allowed as Options.Auth says, and
// always if that is nil; then each user is system:anonymous, and no token is known. It may be called again.
func RegisterReviews(server *Server) {
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.reviews == nil {
		server.reviews = map[schema.GroupVersionResource]review{}
	}
	for _, r := range reviews {
		r.resource.ClusterScoped = r.resource.Kind != "LocalSubjectAccessReview"
		r.resource.verbs = createVerb
		server.reviews[r.resource.GroupVersionResource] = r
	}
}

var reviews = []review{
	{
		resource: Resource{
			GroupVersionResource: authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews"),
			Kind:                 "SelfSubjectReview",
		},
		new: func() reviewObject { return &authenticationv1.SelfSubjectReview{} },
		answer: func(s *Server, req Request, obj reviewObject) error {
			review := obj.(*authenticationv1.SelfSubjectReview)
			*review = authenticationv1.SelfSubjectReview{}
			review.CreationTimestamp = metav1.Now().Rfc3339Copy()
			review.Status.UserInfo = s.userOf(req)
			return nil
		},
	},
	{
		resource: Resource{
			GroupVersionResource: authenticationv1.SchemeGroupVersion.WithResource("tokenreviews"),
			Kind:                 "TokenReview",
		},
		new: func() reviewObject { return &authenticationv1.TokenReview{} },
		answer: func(s *Server, req Request, obj reviewObject) error {
			review := obj.(*authenticationv1.TokenReview)
			if review.Spec.Token == "" {
				return apierrors.NewBadRequest("token is required for TokenReview in authentication")
			}
			review.Status = authenticationv1.TokenReviewStatus{Error: "invalid bearer token"}
			if s.users == nil {
				return nil
			}
			if user, known := s.users.byToken(review.Spec.Token); known {
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: user,
					Audiences: []string{audience}}
			}
			return nil
		},
	},
	{
		resource: Resource{
			GroupVersionResource: authorizationv1.SchemeGroupVersion.WithResource("selfsubjectaccessreviews"),
			Kind:                 "SelfSubjectAccessReview",
		},
		new: func() reviewObject { return &authorizationv1.SelfSubjectAccessReview{} },
		answer: func(s *Server, req Request, obj reviewObject) error {
			review := obj.(*authorizationv1.SelfSubjectAccessReview)
			spec := reviewOf(s.userOf(req))
			spec.ResourceAttributes = review.Spec.ResourceAttributes
			spec.NonResourceAttributes = review.Spec.NonResourceAttributes
			return s.answerAccess(obj, spec, &review.Status)
		},
	},
	{
		resource: Resource{
			GroupVersionResource: authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews"),
			Kind:                 "SubjectAccessReview",
		},
		new: func() reviewObject { return &authorizationv1.SubjectAccessReview{} },
		answer: func(s *Server, req Request, obj reviewObject) error {
			review := obj.(*authorizationv1.SubjectAccessReview)
			return s.answerAccess(obj, review.Spec, &review.Status)
		},
	},
	{
		resource: Resource{
			GroupVersionResource: authorizationv1.SchemeGroupVersion.WithResource("localsubjectaccessreviews"),
			Kind:                 "LocalSubjectAccessReview",
		},
		new: func() reviewObject { return &authorizationv1.LocalSubjectAccessReview{} },
		answer: func(s *Server, req Request, obj reviewObject) error {
			review := obj.(*authorizationv1.LocalSubjectAccessReview)
			if review.Namespace == "" {
				review.Namespace = req.Namespace
			}
			return s.answerAccess(obj, review.Spec, &review.Status)
		},
	},
}

// userOf returns the user of a request, also if the server has no users.
func (s *Server) userOf(req Request) authenticationv1.UserInfo {
	if s.users == nil {
		return authenticationv1.UserInfo{Username: anonymous, Groups: []string{unauthenticated}}
	}
	return req.User
}

// answerAccess sets the status of a review of access, unless that is invalid.
func (s *Server) answerAccess(obj reviewObject, spec authorizationv1.SubjectAccessReviewSpec,
	status *authorizationv1.SubjectAccessReviewStatus) error {
	path := field.NewPath("spec")
	var errs field.ErrorList
	switch {
	case spec.ResourceAttributes != nil && spec.NonResourceAttributes != nil:
		errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), spec.NonResourceAttributes,
			"cannot be specified in combination with resourceAttributes"))
	case spec.ResourceAttributes == nil && spec.NonResourceAttributes == nil:
		errs = append(errs, field.Invalid(path.Child("resourceAttributes"), spec.NonResourceAttributes,
			"exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(path.Child("user"), spec.User,
			"at least one of user or group must be specified"))
	}
	kind := "SelfSubjectAccessReview"
	switch obj.(type) {
	case *authorizationv1.SubjectAccessReview:
		kind = "SubjectAccessReview"
	case *authorizationv1.LocalSubjectAccessReview:
		kind = "LocalSubjectAccessReview"
		if a := spec.ResourceAttributes; a != nil && a.Namespace != obj.GetNamespace() {
			errs = append(errs, field.Invalid(path.Child("resourceAttributes", "namespace"), a.Namespace,
				"must match metadata.namespace"))
		}
		if a := spec.NonResourceAttributes; a != nil {
			errs = append(errs, field.Invalid(path.Child("nonResourceAttributes"), a, "disallowed on this kind of request"))
		}
	}
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName, Kind: kind}, "", errs)
	}
	*status = s.users.review(spec)
	return nil
}

// serveReview answers a review.
func (s *Server) serveReview(w http.ResponseWriter, r *http.Request, req Request, review review) {
	if review.resource.ClusterScoped != (req.Namespace == "") || req.Subresource != "" {
		http.NotFound(w, r)
		return
	}
	err := func() error {
		if req.Verb != "create" || req.Name != "" {
			return apierrors.NewMethodNotSupported(review.resource.GroupResource(), req.Verb)
		}
		obj, opts := review.new(), writeOptions{}
		if err := readCreate(r, req, obj, &opts); err != nil {
			return err
		}
		if err := review.answer(s, req, obj); err != nil {
			return err
		}
		writeTyped(w, r, http.StatusCreated, review.resource.GroupVersion().WithKind(review.resource.Kind), obj)
		return nil
	}()
	if err != nil {
		watchcache.WriteError(w, r, err)
	}
}
