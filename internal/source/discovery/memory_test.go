//go:build !race

// With the race detector, sync.Pool drops values at random, so encoding/json of Go 1.27 allocates memory for each item.
package discovery

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A hostile document of many small items needs no more memory than another.
func TestMemoryIsLimited(t *testing.T) {
	for name, c := range map[string]struct{ path, head, item, tail string }{
		"groups":    {"apis", `{"kind":"APIGroupList","groups":[`, "{}", "]}"},
		"versions":  {"apis", `{"kind":"APIGroupList","groups":[{"versions":[`, "{}", "]}]}"},
		"resources": {"apis/apps/v1", `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[`, "{}", "]}"},
		"verbs":     {"apis/apps/v1", `{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","verbs":[`, `""`, "]}]}"},
		"names":     {"api", `{"kind":"APIVersions","versions":[`, `""`, "]}"},
	} {
		t.Run(name, func(t *testing.T) {
			n := (MaxBytes - len(c.head) - len(c.tail)) / (len(c.item) + 1)
			s := server{"api": core, "apis": apps}
			s[c.path] = c.head + strings.Repeat(c.item+",", n-1) + c.item + c.tail
			resource := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
			if c.path == "api" {
				resource.Group = ""
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var asked []string
			_, _, _ = Find(resource, s.get(&asked))
			runtime.ReadMemStats(&after)
			if !slices.Contains(asked, c.path) {
				t.Fatalf("asked for %q", asked)
			}
			if needs := after.TotalAlloc - before.TotalAlloc; needs > 8*MaxBytes {
				t.Errorf("%d bytes for a document of %d", needs, len(s[c.path]))
			} else {
				t.Logf("%.1f times the document", float64(needs)/float64(len(s[c.path])))
			}
		})
	}
}
