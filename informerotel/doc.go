// Package informerotel makes OpenTelemetry spans of the requests and reconciles of informers, clients and controllers.
//
//	tracer := informerotel.New(informerotel.Config{})
//	client = client.WithTracer(tracer)
//	controller.Tracer = tracer
//
// A reconcile has a span, and each request that it makes with its context is a child of that span. A request that the
// API server traces continues in a span of the server, because the request carries the context of its span.
//
// # Requests
//
// The span of a request is of kind client. Its name is the verb and the resource, such as "update deployments.apps", or
// "get discovery" for a discovery document. It ends when the client has read or closed the body of the response. So the
// span of a watch is as long as the watch: usually several minutes. It has the attributes of the semantic conventions
// for HTTP clients and three others:
//
//	http.request.method       such as "GET"
//	http.response.status_code missing if there was no response
//	url.path                  the path without the query
//	server.address            the host of the API server
//	server.port               its port, if the address has one
//	error.type                the kind of the failure
//	k8s.request.verb          such as "list"
//	k8s.request.resource      such as "pods" or "deployments.apps"
//	k8s.request.name          the name of the object; missing for a list, a watch and a creation
//
// # Reconciles
//
// The span of a reconcile is of kind internal. Its name is "reconcile" and the name of the controller. It has these
// attributes:
//
//	controller.name           the name of the controller
//	reconcile.key             the key, as fmt.Sprint formats it
//	error.type                the kind of the failure
//
// # What a span never contains
//
// A span contains neither an object nor the text of an error, which may quote an object or a message of the server.
// error.type is the status code of an API error such as "409"; "timeout" or "canceled"; otherwise the Go type of the
// error, or "_OTHER". The log of the program contains the whole error. With Config.OmitNames, a span contains no name
// of an object either.
package informerotel
