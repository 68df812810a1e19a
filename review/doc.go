// Package review asks the API server who sent a request, and what they may do, as the components of Kubernetes do for
// their own endpoints: a TokenReview for the bearer token, then a SubjectAccessReview.
//
//	reviewer := review.New(client, review.Config{})
//	debugpage.Config{…, Authorize: reviewer.Authorize(review.Path("get", "/debug/informers"))}
//
// The program needs the rights of the ClusterRole system:auth-delegator. Callers need a rule for the path or resource,
// such as
//
//	rules:
//	- nonResourceURLs: [/debug/informers]
//	  verbs: [get]
//
// Everything fails closed: no token, a token that the server does not know, an error and a timeout all mean no.
package review
