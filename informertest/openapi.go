package informertest

import (
	"net/http"
	"strings"
)

// openAPIIndex and openAPIDocument serve the minimum of OpenAPI v3 that kubectl apply and create need: the server
// validates fields itself. There are no schemas.

func (s *Server) openAPIIndex() any {
	paths := map[string]any{}
	for _, r := range s.Resources() {
		path := strings.Trim(r.root(), "/")
		paths[path] = map[string]any{"serverRelativeURL": "/openapi/v3/" + path}
	}
	return map[string]any{"paths": paths}
}

// openAPIDocument returns the document of a group version by its path, such as "apis/apps/v1", or nil.
func (s *Server) openAPIDocument(path string) any {
	paths, schemas := map[string]any{}, map[string]any{}
	for _, r := range s.Resources() {
		if strings.Trim(r.root(), "/") != path || r.verbs != nil {
			continue
		}
		kind := map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}
		collection := r.root()
		if !r.ClusterScoped {
			collection += "/namespaces/{namespace}"
		}
		paths[collection+"/"+r.Resource+"/{name}"] = map[string]any{"patch": map[string]any{
			"x-kubernetes-action":             "patch",
			"x-kubernetes-group-version-kind": kind,
			"parameters": []any{map[string]any{"name": "fieldValidation", "in": "query",
				"schema": map[string]any{"type": "string"}}},
			"responses": map[string]any{"200": map[string]any{"description": http.StatusText(http.StatusOK)}},
		}}
		schemas[strings.ReplaceAll(path, "/", ".")+"."+r.Kind] = map[string]any{
			"type":                                 "object",
			"x-kubernetes-preserve-unknown-fields": true,
			"x-kubernetes-group-version-kind":      []any{kind},
		}
	}
	if len(paths) == 0 {
		return nil
	}
	return map[string]any{
		"openapi":    "3.0.0",
		"info":       map[string]any{"title": "Kubernetes", "version": serverVersion.GitVersion},
		"paths":      paths,
		"components": map[string]any{"schemas": schemas},
	}
}

// root returns the path below which the group version of the resource is served.
func (r Resource) root() string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}
