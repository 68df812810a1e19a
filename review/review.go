package review

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
)

// maxToken is the length of the longest token that is sent to the API server. Tokens of service accounts have about 1
// kB.
const maxToken = 16 << 10 // bytes

// Config is the configuration of a [Reviewer]. The zero value is ready to use.
type Config struct {
	// Audiences are the accepted audiences: a token must be for at least one of them. Nil means those of the API
	// server.
	Audiences []string
	// Logger logs the reviews of Authorize that failed, without tokens. Nil means slog.Default.
	Logger *slog.Logger
}

// Reviewer asks the API server who a client is, and what they may do. Create one with [New]. It uses an answer for ten
// seconds, whether yes or no, as the components of Kubernetes do. So a client may keep a revoked right for ten seconds.
// All methods are safe for concurrent use.
type Reviewer struct {
	tokens    *informer.TypedClient[*authenticationv1.TokenReview]
	accesses  *informer.TypedClient[*authorizationv1.SubjectAccessReview]
	audiences []string
	log       *slog.Logger

	users   answers[*authenticationv1.UserInfo] // nil for a token that is not valid
	allowed answers[bool]
}

// New returns a reviewer. Its requests count toward the rate limit of client. Give the reviewer a client of its own, so
// that callers with ever new tokens cannot delay the informers.
func New(client *informer.Client, config Config) *Reviewer {
	return &Reviewer{
		tokens: informer.NewTypedClient[*authenticationv1.TokenReview](client,
			authenticationv1.SchemeGroupVersion.WithResource("tokenreviews")),
		accesses: informer.NewTypedClient[*authorizationv1.SubjectAccessReview](client,
			authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")),
		audiences: slices.Clone(config.Audiences),
		log:       cmp.Or(config.Logger, slog.Default()),
	}
}

// User returns the user of a bearer token. It returns nil, and no error, if the token is not valid, is longer than 16
// KiB, or is for other audiences. It takes ten seconds at most.
func (r *Reviewer) User(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	if token == "" || len(token) > maxToken {
		return nil, nil
	}
	return r.users.get(ctx, sha256.Sum256([]byte(token)), func(ctx context.Context) (*authenticationv1.UserInfo, error) {
		review, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: r.audiences},
		}, metav1.CreateOptions{})
		switch {
		case err != nil:
			return nil, fmt.Errorf("token review: %w", err)
		case !review.Status.Authenticated || review.Status.Error != "":
			return nil, nil
		case len(r.audiences) > 0 && !slices.ContainsFunc(review.Status.Audiences,
			func(a string) bool { return slices.Contains(r.audiences, a) }):
			return nil, nil // an authenticator that knows no audiences
		}
		return &review.Status.User, nil
	})
}

// Path returns the access to a path that is not a resource, for [Reviewer.Allowed]. Verbs are in lower case, such as
// "get".
func Path(verb, path string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: verb, Path: path}}
}

// Allowed reports whether the API server allows user an access. access has the attributes of a resource, or those of a
// path; its other fields are overwritten. It takes ten seconds at most.
func (r *Reviewer) Allowed(ctx context.Context, user *authenticationv1.UserInfo,
	access authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	if user == nil || user.Username == "" && len(user.Groups) == 0 {
		return false, errors.New("subject access review: no user")
	}
	access.User, access.UID, access.Groups, access.Extra = user.Username, user.UID, user.Groups, nil
	for key, values := range user.Extra {
		if access.Extra == nil {
			access.Extra = map[string]authorizationv1.ExtraValue{}
		}
		access.Extra[key] = authorizationv1.ExtraValue(values)
	}
	key, err := json.Marshal(access)
	if err != nil {
		return false, fmt.Errorf("subject access review: %w", err)
	}
	return r.allowed.get(ctx, sha256.Sum256(key), func(ctx context.Context) (bool, error) {
		review, err := r.accesses.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: access}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("subject access review: %w", err)
		}
		return review.Status.Allowed && !review.Status.Denied, nil
	})
}

// Authorize returns a function that reports whether the sender of a request has a bearer token, and the API server
// allows the access to its user. A review that fails counts as no, and is logged. The function refuses requests that
// impersonate another user: the rights of the sender say nothing about those of the other.
func (r *Reviewer) Authorize(access authorizationv1.SubjectAccessReviewSpec) func(*http.Request) bool {
	return func(request *http.Request) bool {
		for name := range request.Header {
			if strings.HasPrefix(name, "Impersonate-") {
				return false
			}
		}
		user, err := r.User(request.Context(), Token(request))
		if err == nil && user != nil {
			var allowed bool
			if allowed, err = r.Allowed(request.Context(), user, access); allowed && err == nil {
				return true
			}
		}
		if err != nil && request.Context().Err() == nil {
			r.log.Error("a request cannot be authorized", "err", err)
		}
		return false
	}
}

// Token returns the bearer token of a request. Empty means that there is none, or more than one.
func Token(r *http.Request) string {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// Status is the status of a [Reviewer].
type Status struct {
	// Tokens counts the checks of tokens, and Accesses the checks of rights.
	Tokens, Accesses Counts
}

// Counts counts the answers from memory, and the requests to the API server.
type Counts struct{ Remembered, Requested uint64 }

// Status returns the counts since New.
func (r *Reviewer) Status() Status { return Status{r.users.counts(), r.allowed.counts()} }
