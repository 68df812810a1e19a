package informertest

import (
	"net/http"
	"reflect"
	"strings"
)

// openAPIIndex and openAPIDocument serve the part of OpenAPI v3 that kubectl needs for apply, create and explain: which
// kinds there are, and their schemas.
func (s *Server) openAPIIndex() any {
	paths := map[string]any{}
	for _, r := range s.Resources() {
		path := strings.Trim(r.root(), "/")
		paths[path] = map[string]any{"serverRelativeURL": "/openapi/v3/" + path}
	}
	return map[string]any{"paths": paths}
}

// openAPIDocument returns the document of a group version by its path, such as "apis/apps/v1", or nil.
func (s *Server) openAPIDocument(path string) (any, error) {
	paths, all := map[string]any{}, schemas{}
	collections, reviews := s.served(path)
	for _, c := range collections {
		r := c.resource
		kind := map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}
		collection := r.collectionPath()
		paths[collection] = map[string]any{"get": operation("list", kind)}
		patch := operation("patch", kind)
		patch["parameters"] = []any{map[string]any{"name": "fieldValidation", "in": "query",
			"schema": map[string]any{"type": "string"}}}
		paths[collection+"/{name}"] = map[string]any{"get": operation("get", kind), "patch": patch}
		if err := all.add(r, c.typ); err != nil {
			return nil, err
		}
	}
	for _, review := range reviews {
		r := review.resource
		kind := map[string]any{"group": r.Group, "version": r.Version, "kind": r.Kind}
		paths[r.collectionPath()] = map[string]any{"post": operation("post", kind)}
		if err := all.add(r, reflect.TypeOf(review.new())); err != nil {
			return nil, err
		}
	}
	if len(paths) == 0 {
		return nil, nil
	}
	return map[string]any{
		"openapi":    "3.0.0",
		"info":       map[string]any{"title": "Kubernetes", "version": serverVersion.GitVersion},
		"paths":      paths,
		"components": map[string]any{"schemas": all},
	}, nil
}

func operation(action string, kind map[string]any) map[string]any {
	return map[string]any{
		"x-kubernetes-action":             action,
		"x-kubernetes-group-version-kind": kind,
		"responses":                       map[string]any{"200": map[string]any{"description": http.StatusText(http.StatusOK)}},
	}
}

// served returns the collections and the reviews of a group version by its path.
func (s *Server) served(path string) (collections []*collection, reviews []review) {
	here := func(r Resource) bool { return strings.Trim(r.root(), "/") == path }
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		if here(c.resource) {
			collections = append(collections, c)
		}
	}
	for _, review := range s.reviews {
		if here(review.resource) {
			reviews = append(reviews, review)
		}
	}
	return collections, reviews
}

// collectionPath returns the path of the objects of the resource, in one namespace if they have any.
func (r Resource) collectionPath() string {
	if r.ClusterScoped {
		return r.root() + "/" + r.Resource
	}
	return r.root() + "/namespaces/{namespace}/" + r.Resource
}

// root returns the path below which the group version of the resource is served.
func (r Resource) root() string {
	if r.Group == "" {
		return "/api/" + r.Version
	}
	return "/apis/" + r.Group + "/" + r.Version
}
