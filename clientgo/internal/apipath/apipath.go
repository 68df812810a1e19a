// Package apipath reads the paths of requests to an API server.
package apipath

import (
	"fmt"
	"strings"

	"github.com/typedinformer/informer"
)

// Collection returns the collection of a path such as /api/v1/namespaces/default/pods.
func Collection(path string) (informer.Resource, error) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var r informer.Resource
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		r.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		r.Group, r.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return informer.Resource{}, fmt.Errorf("the path %s is not that of a collection", path)
	}
	switch {
	case len(parts) == 1:
	case len(parts) == 3 && parts[0] == "namespaces":
		r.Namespaces, parts = []string{parts[1]}, parts[2:]
	default:
		return informer.Resource{}, fmt.Errorf("the path %s is not that of a collection", path)
	}
	r.Resource = parts[0]
	return r, nil
}
