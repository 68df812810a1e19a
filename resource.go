package informer

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Resource identifies the collection that an [Informer] follows.
type Resource struct {
	schema.GroupVersionResource
	// Namespaces are the namespaces to follow, each by a list and a watch of its own. Empty means all namespaces. It must
	// be empty for cluster-scoped resources.
	Namespaces []string
	// LabelSelector and FieldSelector restrict the collection, in the syntax of metav1.ListOptions. The server evaluates
	// them, and reports an object that stops matching as deleted. Empty means all objects.
	LabelSelector, FieldSelector string
	// Shard restricts the collection to the objects whose UID or namespace has a hash in some ranges; see
	// [Informer.SetShard]. The zero Shard means all objects.
	Shard Shard
}

// String returns a description for messages, such as "apps/v1 deployments in a,b with labels app=web". It lacks the
// shard, which may change.
func (r Resource) String() string {
	var b strings.Builder
	b.WriteString(r.GroupVersion().String())
	b.WriteByte(' ')
	b.WriteString(r.Resource)
	if len(r.Namespaces) > 0 {
		b.WriteString(" in " + strings.Join(r.Namespaces, ","))
	}
	if r.LabelSelector != "" {
		b.WriteString(" with labels " + r.LabelSelector)
	}
	if r.FieldSelector != "" {
		b.WriteString(" with fields " + r.FieldSelector)
	}
	return b.String()
}

// validate names the field that is wrong.
func (r Resource) validate() error {
	switch {
	case r.Resource == "":
		return errors.New("Resource.Resource is empty: it names the collection in the URL, like \"pods\"")
	case r.Version == "":
		return fmt.Errorf("Resource.Version of %s is empty: it is the API version, like \"v1\"", r.Resource)
	}
	for _, segment := range slices.Concat([]string{r.Group, r.Version, r.Resource}, r.Namespaces) {
		if reasons := rest.IsValidPathSegmentName(segment); len(reasons) > 0 {
			return fmt.Errorf("Resource %s: %q: %s", r, segment, strings.Join(reasons, ", "))
		}
	}
	for i, ns := range r.Namespaces {
		switch {
		case ns == "":
			return fmt.Errorf("Resource.Namespaces[%d] of %s is empty: leave Namespaces empty to follow all namespaces", i,
				r.Resource)
		case slices.Contains(r.Namespaces[:i], ns):
			return fmt.Errorf("Resource.Namespaces[%d] of %s repeats %q", i, r.Resource, ns)
		}
	}
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		return fmt.Errorf("Resource.LabelSelector of %s: %w", r.Resource, err)
	}
	if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
		return fmt.Errorf("Resource.FieldSelector of %s: %w", r.Resource, err)
	}
	if err := r.Shard.validate(); err != nil {
		return fmt.Errorf("%s: Resource.%w", r.Resource, err)
	}
	return nil
}

// sources returns the namespaces that need a list and a watch each. A single "" means one for all namespaces.
func (r Resource) sources() []string {
	if len(r.Namespaces) == 0 {
		return []string{""}
	}
	return r.Namespaces
}

func (r Resource) path(namespace string) string {
	prefix := "apis"
	if r.Group == "" {
		prefix = "api"
	}
	if namespace == "" {
		return path.Join(prefix, r.Group, r.Version, r.Resource)
	}
	return path.Join(prefix, r.Group, r.Version, "namespaces", namespace, r.Resource)
}
