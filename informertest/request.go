package informertest

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// parseRequest parses a request's path as kube-apiserver does
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-uris):
//
//	/api/v1/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]
//	/apis/GROUP/VERSION/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]]
func parseRequest(r *http.Request) Request {
	req := Request{Time: time.Now(), Path: r.URL.Path, Query: r.URL.Query(), Header: r.Header.Clone()}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
		return req
	}
	// A namespace has its own subresources; any other path below it is in the namespace.
	if parts[0] == "namespaces" && len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
		req.Namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 3 {
		return req
	}
	parts = append(parts, "", "")
	req.Resource, req.Name, req.Subresource = gv.WithResource(parts[0]), parts[1], parts[2]
	req.Verb = verb(r.Method, req.Name != "", req.Query)
	return req
}

func verb(method string, named bool, query url.Values) string {
	switch method {
	case http.MethodGet:
		if named {
			return "get"
		}
		if isWatch(query) {
			return "watch"
		}
		return "list"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	}
	return ""
}

func isWatch(query url.Values) bool {
	var opts metav1.ListOptions
	err := metav1.Convert_url_Values_To_v1_ListOptions(&query, &opts, nil)
	return err == nil && opts.Watch
}
