package review_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/review"
)

func TestMain(m *testing.M) { leak.Main(m) }

// server answers reviews without a network: the token "of-NAME" is that of the user NAME. "admin" may get the path /debug, and
// "reader" may list pods.
type server struct {
	mu               sync.Mutex // protects the fields below
	tokens, accesses int
	failing          func(*http.Request) (*http.Response, error)
	change           func(*authenticationv1.TokenReview)
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var answer any
	switch r.URL.Path {
	case "/apis/authentication.k8s.io/v1/tokenreviews":
		s.tokens++
		var review authenticationv1.TokenReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		if name, ok := strings.CutPrefix(review.Spec.Token, "of-"); ok {
			review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{
				Username: name, UID: "u", Groups: []string{"g"}, Extra: map[string]authenticationv1.ExtraValue{"e": {"v"}},
			}}
		}
		if s.change != nil {
			s.change(&review)
		}
		answer = &review
	case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		s.accesses++
		var review authorizationv1.SubjectAccessReview
		_ = json.NewDecoder(r.Body).Decode(&review)
		whole := review.Spec.UID == "u" && review.Spec.Groups[0] == "g" && review.Spec.Extra["e"][0] == "v"
		path, resource := review.Spec.NonResourceAttributes, review.Spec.ResourceAttributes
		review.Status.Allowed = whole && (review.Spec.User == "admin" && path != nil && path.Verb == "get" && path.Path == "/debug" ||
			review.Spec.User == "reader" && resource != nil && resource.Verb == "list" && resource.Resource == "pods")
		if review.Spec.User == "both" {
			review.Status.Allowed, review.Status.Denied = true, true
		}
		answer = &review
	default:
		return nil, fmt.Errorf("a request for %s", r.URL)
	}
	if s.failing != nil {
		s.mu.Unlock()
		defer s.mu.Lock()
		return s.failing(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
	return w.Result(), nil
}

// inRig calls test in a bubble, with a reviewer that logs into log.
func inRig(t *testing.T, config review.Config, test func(t *testing.T, s *server, r *review.Reviewer, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		client, err := informer.NewClient(&rest.Config{Host: "http://server", Transport: s, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		test(t, s, review.New(client, config), &log)
	})
}

func request(headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/debug", nil)
	for n := 0; n < len(headers); n += 2 {
		r.Header.Add(headers[n], headers[n+1])
	}
	return r
}

// Only a request with one bearer token, whose user has the right, is allowed.
func TestAuthorize(t *testing.T) {
	inRig(t, review.Config{}, func(t *testing.T, s *server, r *review.Reviewer, log *bytes.Buffer) {
		path := r.Authorize(review.Path("get", "/debug"))
		pods := r.Authorize(authorizationv1.SubjectAccessReviewSpec{User: "admin", ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods"}})
		for _, test := range []struct {
			headers []string
			path    bool
			pods    bool
		}{
			{[]string{"Authorization", "Bearer of-admin"}, true, false},
			{[]string{"Authorization", "bearer  of-admin "}, true, false},
			{[]string{"Authorization", "Bearer of-reader"}, false, true},
			{[]string{"Authorization", "Bearer of-both"}, false, false},
			{[]string{"Authorization", "Bearer of-"}, false, false},
			{[]string{"Authorization", "Bearer admin"}, false, false},
			{[]string{"Authorization", "Bearer "}, false, false},
			{[]string{"Authorization", "Bearer"}, false, false},
			{[]string{"Authorization", "Basic of-admin"}, false, false},
			{[]string{"Authorization", "Bearer of-admin", "Authorization", "Bearer of-reader"}, false, false},
			{[]string{"Authorization", "Bearer of-admin", "Impersonate-User", "reader"}, false, false},
			{[]string{"Authorization", "Bearer of-admin" + strings.Repeat("x", 16<<10)}, false, false},
			{nil, false, false},
		} {
			if gotPath, gotPods := path(request(test.headers...)), pods(request(test.headers...)); gotPath != test.path || gotPods != test.pods {
				t.Errorf("%.60q: path %v, pods %v", test.headers, gotPath, gotPods)
			}
		}
		if log.Len() > 0 && strings.Contains(log.String(), "of-admin") {
			t.Errorf("the log has a token: %s", log)
		}
		if s.tokens != 5 { // admin, reader, both, "of-" and "admin": no token that is too long
			t.Errorf("%d token reviews", s.tokens)
		}
	})
}

// Every failure means no: an error, an answer that is not a review, and a server that does not answer in time.
func TestFailuresMeanNo(t *testing.T) {
	for name, test := range map[string]struct {
		fail   func(*http.Request) (*http.Response, error)
		logged string
	}{
		"error": {func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }, "no route"},
		"forbidden": {func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{}, Body: http.NoBody}, nil
		}, "token review"},
		"no review": {func(*http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1"}`)
			return w.Result(), nil
		}, ""},
		"hang": {func(r *http.Request) (*http.Response, error) { <-r.Context().Done(); return nil, r.Context().Err() }, "deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, review.Config{}, func(t *testing.T, s *server, r *review.Reviewer, log *bytes.Buffer) {
				authorize := r.Authorize(review.Path("get", "/debug"))
				s.failing = test.fail
				began := time.Now()
				if authorize(request("Authorization", "Bearer of-admin")) {
					t.Error("allowed")
				}
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("it took %v", took)
				}
				if got := log.String(); test.logged != "" && !strings.Contains(strings.ToLower(got), test.logged) || strings.Contains(got, "of-admin") {
					t.Errorf("the log is %q, want one with %q, and without the token", got, test.logged)
				}
				s.failing = nil
				<-time.After(11 * time.Second) // the answer that is not a review is remembered as no
				if !authorize(request("Authorization", "Bearer of-admin")) {
					t.Error("not allowed after the failure")
				}
			})
		})
	}
}

// An answer is used for ten seconds, and no longer. Requests for one answer share a review. A caller that goes away does not end the
// review of the others.
func TestAnswersAreUsedForTenSeconds(t *testing.T) {
	inRig(t, review.Config{}, func(t *testing.T, s *server, r *review.Reviewer, _ *bytes.Buffer) {
		authorize := r.Authorize(review.Path("get", "/debug"))
		for range 3 {
			authorize(request("Authorization", "Bearer of-admin"))
			<-time.After(4 * time.Second)
		}
		if s.tokens != 1 || s.accesses != 1 || r.Status().Tokens != (review.Counts{Remembered: 2, Requested: 1}) {
			t.Errorf("%d token reviews, %d access reviews, %+v", s.tokens, s.accesses, r.Status())
		}
		s.change = func(review *authenticationv1.TokenReview) { review.Status = authenticationv1.TokenReviewStatus{} } // the token is revoked
		if authorize(request("Authorization", "Bearer of-admin")) {
			t.Error("allowed 12 s after the last review")
		}

		s.change = nil
		release := make(chan struct{})
		s.failing = func(*http.Request) (*http.Response, error) { <-release; return nil, errors.New("slow") }
		ctx, cancel := context.WithCancel(t.Context())
		var tasks sync.WaitGroup
		errs := make(chan error, 2)
		for _, ctx := range []context.Context{ctx, t.Context()} {
			tasks.Go(func() { _, err := r.User(ctx, "of-late"); errs <- err })
		}
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(release)
		if err := <-errs; err == nil || !strings.Contains(err.Error(), "slow") {
			t.Error(err)
		}
		tasks.Wait()
		if s.tokens != 3 {
			t.Errorf("%d token reviews, want one for both callers", s.tokens)
		}
	})
}

// At most 100 token reviews are under way: ever new tokens take a bounded amount of memory.
func TestReviewsAreBounded(t *testing.T) {
	inRig(t, review.Config{}, func(t *testing.T, s *server, r *review.Reviewer, _ *bytes.Buffer) {
		release := make(chan struct{})
		s.failing = func(*http.Request) (*http.Response, error) { <-release; return nil, errors.New("slow") }
		var tasks sync.WaitGroup
		for n := range 100 {
			tasks.Go(func() { _, _ = r.User(t.Context(), fmt.Sprint(n)) })
		}
		synctest.Wait()
		if _, err := r.User(t.Context(), "one more"); !errors.Is(err, review.ErrBusy) {
			t.Error(err)
		}
		close(release)
		tasks.Wait()
		s.failing = nil
		if user, err := r.User(t.Context(), "of-a"); err != nil || user.Username != "a" {
			t.Error(user, err)
		}
	})
}

// With Config.Audiences, a token must be for one of them. A server that knows no audiences vouches for none.
func TestAudiences(t *testing.T) {
	inRig(t, review.Config{Audiences: []string{"page", "other"}}, func(t *testing.T, s *server, r *review.Reviewer, _ *bytes.Buffer) {
		for n, test := range []struct {
			audiences []string
			want      bool
		}{{[]string{"page"}, true}, {[]string{"x", "other"}, true}, {[]string{"x"}, false}, {nil, false}} {
			s.change = func(review *authenticationv1.TokenReview) { review.Status.Audiences = test.audiences }
			if user, err := r.User(t.Context(), fmt.Sprint("of-", n)); err != nil || (user != nil) != test.want {
				t.Errorf("%v: %v, %v", test.audiences, user, err)
			}
		}
	})
}

// A review without a user is an error: the API server would give it the rights of everybody.
func TestNobodyIsNotAllowed(t *testing.T) {
	inRig(t, review.Config{}, func(t *testing.T, s *server, r *review.Reviewer, _ *bytes.Buffer) {
		for _, user := range []*authenticationv1.UserInfo{nil, {}} {
			if ok, err := r.Allowed(t.Context(), user, review.Path("get", "/debug")); ok || err == nil {
				t.Errorf("%v: %v, %v", user, ok, err)
			}
		}
		if s.accesses != 0 {
			t.Error("the server was asked")
		}
	})
}
