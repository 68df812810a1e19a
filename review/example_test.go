package review_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/review"
)

// guard returns next behind a check that the caller may get /report.
func guard(client *informer.Client, next http.Handler) http.Handler {
	allowed := review.New(client, review.Config{}).Authorize(review.Path("get", "/report"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !allowed(r) {
			http.Error(w, "forbidden", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func showAnswers() error {
	server := informertest.NewServer(informertest.Options{Auth: &informertest.Auth{
		Authorize: func(access authorizationv1.SubjectAccessReviewSpec) authorizationv1.SubjectAccessReviewStatus {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: access.User == "alice"}
		},
	}})
	defer server.Close()
	informertest.RegisterReviews(server)
	client, err := informer.NewClient(server.Config()) // of an administrator
	if err != nil {
		return err
	}
	report := guard(client, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {}))
	for _, user := range []string{"alice", "bob"} {
		request := httptest.NewRequest(http.MethodGet, "/report", nil)
		request.Header.Set("Authorization", "Bearer "+server.TokenFor(authenticationv1.UserInfo{Username: user}))
		answer := httptest.NewRecorder()
		report.ServeHTTP(answer, request)
		fmt.Println(user, answer.Code)
	}
	return nil
}

func Example() {
	if err := showAnswers(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// alice 200
	// bob 403
}
