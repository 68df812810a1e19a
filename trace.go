package informer

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Tracer receives the spans of requests and reconciles; see [Client.WithTracer] and Controller.Tracer. Its methods are
// called when an operation begins, in the goroutine of the operation, and return the context of the operation and a
// function that is called once, when it ends. Neither context nor function may be nil. Both methods must be safe for
// concurrent use.
type Tracer interface {
	// Request is called before a request is sent.
	Request(ctx context.Context, r RequestTrace) (context.Context, func(RequestResult))
	// Reconcile is called before Controller.Reconcile, with the name of the controller and the key. The function receives
	// the error of the reconcile.
	Reconcile(ctx context.Context, controller string, key any) (context.Context, func(error))
}

// RequestTrace describes a request.
type RequestTrace struct {
	// Verb is the verb of the Kubernetes API: "get", "list", "watch", "create", "update", "patch", "delete" or
	// "deletecollection".
	Verb string
	// Resource is the resource of the request, and Name the name of the object. Name is empty for a list, a watch and a
	// creation. Both are empty for a discovery document.
	Resource schema.GroupResource
	Name     string
	// Method, Host and Path are those of the HTTP request. Path has no query.
	Method, Host, Path string
	// Header is the header of the request, to which Tracer.Request may add fields.
	Header http.Header
}

// RequestResult describes the end of a request: of a watch or a list, when its body was closed.
type RequestResult struct {
	// Code is the HTTP status code. Zero means that there was no response.
	Code int
	// Err is the failure of a request that got no response, or one that reports no success. It is nil if the body of a
	// successful response cannot be read.
	Err error
}
