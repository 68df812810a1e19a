package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

const (
	// reviewTTL is how long the answer to a review is used, whether yes or no: what a client was allowed, it keeps for so long.
	// API servers of extensions have the same (DelegatingAuthenticationOptions in k8s.io/apiserver).
	reviewTTL     = 10 * time.Second
	reviewTimeout = 10 * time.Second
	maxAnswers    = 10_000 // of each kind
	// reviewQPS bounds what clients with ever new tokens can cost the API server.
	reviewQPS, reviewBurst = 50, 100
)

// reviewer asks the API server who a client is, and what it may read.
type reviewer struct {
	tokens    *informer.TypedClient[*authenticationv1.TokenReview]
	accesses  *informer.TypedClient[*authorizationv1.SubjectAccessReview]
	audiences []string // nil means those of the API server

	users   answers[*authenticationv1.UserInfo] // nil for a token that is not valid
	allowed answers[bool]
}

func newReviewer(config *rest.Config, audiences []string) (*reviewer, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewQPS, reviewBurst
	client, err := informer.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &reviewer{
		tokens:    informer.NewTypedClient[*authenticationv1.TokenReview](client, authenticationv1.SchemeGroupVersion.WithResource("tokenreviews")),
		accesses:  informer.NewTypedClient[*authorizationv1.SubjectAccessReview](client, authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")),
		audiences: audiences,
	}, nil
}

// user returns the user of a bearer token, or nil if the token is not valid.
func (r *reviewer) user(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	return r.users.get(ctx, sha256.Sum256([]byte(token)), func(ctx context.Context) (*authenticationv1.UserInfo, error) {
		review, err := r.tokens.Create(ctx, &authenticationv1.TokenReview{
			Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: r.audiences},
		}, metav1.CreateOptions{})
		switch {
		case err != nil:
			return nil, fmt.Errorf("token review: %w", err)
		case !review.Status.Authenticated:
			return nil, nil
		case len(r.audiences) > 0 && !slices.ContainsFunc(review.Status.Audiences, func(a string) bool { return slices.Contains(r.audiences, a) }):
			return nil, nil // an authenticator that knows no audiences
		}
		return &review.Status.User, nil
	})
}

// may reports whether the API server would allow a request.
func (r *reviewer) may(ctx context.Context, user *authenticationv1.UserInfo, attributes *authorizationv1.ResourceAttributes) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributes, User: user.Username, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authorizationv1.ExtraValue{}
		}
		spec.Extra[key] = authorizationv1.ExtraValue(values)
	}
	key, err := json.Marshal(spec)
	if err != nil {
		return false, err
	}
	return r.allowed.get(ctx, sha256.Sum256(key), func(ctx context.Context) (bool, error) {
		review, err := r.accesses.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("subject access review: %w", err)
		}
		return review.Status.Allowed && !review.Status.Denied, nil
	})
}

// answers remembers at most maxAnswers answers, each for reviewTTL. Requests for one answer at a time share a review. It does not
// remember errors. The zero value is ready.
type answers[V any] struct {
	mu           sync.Mutex // protects the fields below
	byKey        map[[sha256.Size]byte]*answer[V]
	hits, misses uint64
}

type answer[V any] struct {
	done  chan struct{} // closed when the fields below are set
	value V
	err   error
	until time.Time // zero before done, protected by answers.mu
}

var errReviewFailed = errors.New("the review did not return")

func (a *answers[V]) get(ctx context.Context, key [sha256.Size]byte, review func(context.Context) (V, error)) (value V, err error) {
	a.mu.Lock()
	known := a.byKey[key]
	if known != nil && (known.until.IsZero() || time.Now().Before(known.until)) {
		a.hits++
		a.mu.Unlock()
	} else {
		a.misses++
		known = &answer[V]{done: make(chan struct{}), err: errReviewFailed}
		a.makeRoomLocked()
		a.byKey[key] = known
		a.mu.Unlock()
		go func() { // others may wait for it too, so it does not end with this request
			defer a.finish(key, known)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reviewTimeout)
			defer cancel()
			known.value, known.err = review(ctx)
		}()
	}
	select {
	case <-known.done:
		return known.value, known.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
}

func (a *answers[V]) finish(key [sha256.Size]byte, known *answer[V]) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known.until = time.Now().Add(reviewTTL)
	if known.err != nil && a.byKey[key] == known {
		delete(a.byKey, key)
	}
	close(known.done)
}

// makeRoomLocked forgets what is too old or, if that is not enough, something else.
func (a *answers[V]) makeRoomLocked() {
	if a.byKey == nil {
		a.byKey = map[[sha256.Size]byte]*answer[V]{}
	}
	if len(a.byKey) < maxAnswers {
		return
	}
	now := time.Now()
	for key, known := range a.byKey {
		if !known.until.IsZero() && now.After(known.until) {
			delete(a.byKey, key)
		}
	}
	for key := range a.byKey {
		if len(a.byKey) < maxAnswers {
			return
		}
		delete(a.byKey, key)
	}
}

func (a *answers[V]) counts() (hits, misses uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hits, a.misses
}
