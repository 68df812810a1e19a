package informer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	core "github.com/typedinformer/informer/internal/informer"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
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
	// Selections make the informer follow the objects that match at least one of them, each by a list and a watch of its
	// own; see [Informer.SetSelections]. Namespaces, LabelSelector and FieldSelector must then be empty. Empty means one
	// collection.
	Selections []Selection
	// Shard restricts the collection to the objects whose UID or namespace has a hash in some ranges; see
	// [Informer.SetShard]. The zero Shard means all objects.
	Shard Shard
}

// Selection is a part of a collection, for Resource.Selections. The zero Selection is the whole collection.
type Selection struct {
	// Namespace is the namespace of the objects. Empty means all namespaces.
	Namespace string
	// LabelSelector and FieldSelector are those of [Resource].
	LabelSelector, FieldSelector string
	// Optional makes the informer sync without the selection while the server refuses it with 403 Forbidden, for example
	// until a RoleBinding allows it. The informer retries as after any failure; see [status.Reflector]. If the server
	// refuses it later, the store keeps its objects, and no wait includes their changes. False means that the informer
	// does not sync until the server sends the objects.
	Optional bool
}

// part returns the resource that has the objects of one selection.
func (r Resource) part(s Selection) Resource {
	r.Selections, r.Namespaces = nil, nil
	if s.Namespace != "" {
		r.Namespaces = []string{s.Namespace}
	}
	r.LabelSelector, r.FieldSelector = s.LabelSelector, s.FieldSelector
	return r
}

// isLike reports whether both select the same objects.
func (s Selection) isLike(other Selection) bool {
	s.Optional = other.Optional
	return s == other
}

// part returns s as a part of a collection r with selections.
func (s Selection) part(r Resource) core.Part {
	return core.Part{Namespace: s.Namespace, Labels: s.LabelSelector, Fields: s.FieldSelector, Optional: s.Optional,
		Text: r.part(s).where()}
}

// parts returns the parts of r that need a list and a watch each.
func (r Resource) parts() (parts []core.Part) {
	if len(r.Selections) > 0 {
		return r.selected()
	}
	for _, namespace := range r.sources() {
		s := Selection{Namespace: namespace, LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector}
		parts = append(parts, s.part(r))
	}
	return parts
}

// selected returns the selections of r.
func (r Resource) selected() (parts []core.Part) {
	for _, selection := range r.Selections {
		parts = append(parts, selection.part(r))
	}
	return parts
}

// selectionOf returns a part as a selection.
func selectionOf(p core.Part) Selection {
	return Selection{Namespace: p.Namespace, LabelSelector: p.Labels, FieldSelector: p.Fields, Optional: p.Optional}
}

// String returns a description for messages, such as "apps/v1 deployments in a,b with labels app=web". It omits the
// shard, which may change.
func (r Resource) String() string {
	text := r.kind() + r.where()
	for i, selection := range r.Selections {
		if i > 0 {
			text += " or"
		}
		text += cmp.Or(r.part(selection).where(), " in all namespaces")
	}
	return text
}

// kind returns the part of String before the place, such as "apps/v1 deployments".
func (r Resource) kind() string { return r.GroupVersion().String() + " " + r.Resource }

// where returns the part of String after the name of the resource, without Selections.
func (r Resource) where() (text string) {
	if len(r.Namespaces) > 0 {
		text += " in " + strings.Join(r.Namespaces, ",")
	}
	if r.LabelSelector != "" {
		text += " with labels " + r.LabelSelector
	}
	if r.FieldSelector != "" {
		text += " with fields " + r.FieldSelector
	}
	return text
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
	if err := r.validateSelections(); err != nil {
		return fmt.Errorf("Resource.Selections of %s: %w", r.Resource, err)
	}
	if err := shardset.Shard(r.Shard).Validate(); err != nil {
		return fmt.Errorf("%s: Resource.%w", r.Resource, err)
	}
	return nil
}

func (r Resource) validateSelections() error {
	if len(r.Selections) > 0 && (len(r.Namespaces) > 0 || r.LabelSelector != "" || r.FieldSelector != "") {
		return errors.New("leave Namespaces, LabelSelector and FieldSelector empty: each selection has its own")
	}
	for i, selection := range r.Selections {
		if slices.ContainsFunc(r.Selections[:i], selection.isLike) {
			return fmt.Errorf("selection %d repeats another one, %+v", i, selection)
		}
		if err := r.part(selection).validate(); err != nil {
			return err
		}
	}
	return nil
}

// follows reports whether the collection may contain obj. It ignores field selectors on fields other than name and
// namespace. If obj has no GetLabels, its labels are unknown, and no label selector selects it.
func (r Resource) follows(obj object.Named) bool {
	if r.Selections != nil {
		return slices.ContainsFunc(r.Selections, func(s Selection) bool { return r.part(s).follows(obj) })
	}
	if len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, obj.GetNamespace()) {
		return false
	}
	if selector, err := labels.Parse(r.LabelSelector); err == nil && !selector.Empty() {
		labeled, ok := obj.(interface{ GetLabels() map[string]string })
		if !ok || !selector.Matches(labels.Set(labeled.GetLabels())) {
			return false
		}
	}
	if selector, err := fields.ParseSelector(r.FieldSelector); err == nil {
		if name, ok := selector.RequiresExactMatch("metadata.name"); ok && name != obj.GetName() {
			return false
		}
		if namespace, ok := selector.RequiresExactMatch("metadata.namespace"); ok && namespace != obj.GetNamespace() {
			return false
		}
	}
	return true
}

// sources returns the namespaces that need a list and a watch each. A single "" means one for all namespaces.
func (r Resource) sources() []string {
	if len(r.Namespaces) == 0 {
		return []string{""}
	}
	return r.Namespaces
}
