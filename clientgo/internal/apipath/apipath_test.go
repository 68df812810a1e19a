package apipath

import "testing"

// Collection finds group, version, namespace and resource, and rejects paths of other things.
func TestCollection(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/pods":                           "v1 pods",
		"/api/v1/namespaces":                     "v1 namespaces",
		"/api/v1/namespaces/a/pods":              "v1 pods in a",
		"/apis/apps/v1/deployments":              "apps/v1 deployments",
		"/apis/apps/v1/namespaces/b/deployments": "apps/v1 deployments in b",
		"/":                                      "",
		"/version":                               "",
		"/api/v1":                                "",
		"/apis/apps/v1":                          "",
		"/api/v1/namespaces/a":                   "",
		"/api/v1/namespaces/a/pods/one":          "",
		"/apis/apps/v1/deployments/d/scale":      "",
	} {
		got, err := Collection(path)
		if want == "" {
			if err == nil {
				t.Errorf("%s: %v, want an error", path, got)
			}
			continue
		}
		if err != nil || got.String() != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}
