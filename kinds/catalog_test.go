package kinds

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/status"
)

// version returns a version of a discovery whose resources can be followed, except those whose names begin with "-".
func version(group, name string, freshness status.Freshness, resources ...string) status.APIVersion {
	v := status.APIVersion{Version: name, Freshness: freshness}
	for _, resource := range resources {
		verbs := []string{"get", "list", "watch"}
		if rest, ok := strings.CutPrefix(resource, "-"); ok {
			resource, verbs = rest, []string{"list"}
		}
		gvr := schema.GroupVersionResource{Group: group, Version: name, Resource: resource}
		v.Resources = append(v.Resources, status.APIResource{GroupVersionResource: gvr, Verbs: verbs})
	}
	return v
}

// Each kind is there once, in the version that the server prefers, or that a member has.
// Guarantees: N6
func TestCatalog(t *testing.T) {
	const fresh, stale = status.FreshnessCurrent, status.FreshnessStale
	broken := errors.New("broken")
	group := func(name string, versions ...status.APIVersion) status.APIGroup {
		return status.APIGroup{Name: name, Versions: versions}
	}
	for name, c := range map[string]struct {
		groups  []status.APIGroup
		before  string // the version of the member things.a
		want    string
		unknown string
	}{
		"the first version":              {groups: []status.APIGroup{group("a", version("a", "v1", fresh, "things"), version("a", "v1beta1", fresh, "things", "others"))}, want: "others.a:v1beta1 things.a:v1"},
		"the version of the member":      {groups: []status.APIGroup{group("a", version("a", "v1", fresh, "things"), version("a", "v1beta1", fresh, "things"))}, before: "v1beta1", want: "things.a:v1beta1"},
		"the member's version is gone":   {groups: []status.APIGroup{group("a", version("a", "v1", fresh, "things"))}, before: "v1beta1", want: "things.a:v1"},
		"the member's cannot be watched": {groups: []status.APIGroup{group("a", version("a", "v1", fresh, "things"), version("a", "v1beta1", fresh, "-things"))}, before: "v1beta1", want: "things.a:v1"},
		"the first cannot be watched":    {groups: []status.APIGroup{group("a", version("a", "v1", fresh, "-things"), version("a", "v1beta1", fresh, "things"))}, want: "things.a:v1beta1"},
		"none can be watched":            {groups: []status.APIGroup{group("a", version("a", "v1", fresh, "-things"))}, want: "-things.a:v1"},
		"a stale version":                {groups: []status.APIGroup{group("a", version("a", "v1", stale, "things"))}, want: "things.a:v1", unknown: "a/v1"},
		"an unreadable version":          {groups: []status.APIGroup{group("a", status.APIVersion{Version: "v1", Err: broken})}, unknown: "a/v1"},
		"an unreadable group":            {groups: []status.APIGroup{{Name: "a", Err: broken}, group("b", version("b", "v1", fresh, "things"))}, want: "things.b:v1", unknown: "a"},
		"two groups of events":           {groups: []status.APIGroup{group("", version("", "v1", fresh, "events")), group("events.k8s.io", version("events.k8s.io", "v1", fresh, "events"))}, want: "events:v1"},
		"only the other events":          {groups: []status.APIGroup{group("events.k8s.io", version("events.k8s.io", "v1", fresh, "events"))}, want: "events.events.k8s.io:v1"},
		"events that cannot be watched":  {groups: []status.APIGroup{group("", version("", "v1", fresh, "-events")), group("events.k8s.io", version("events.k8s.io", "v1", fresh, "events"))}, want: "-events:v1 events.events.k8s.io:v1"},
		"extensions":                     {groups: []status.APIGroup{group("extensions", version("extensions", "v1beta1", fresh, "ingresses", "deployments", "things")), group("networking.k8s.io", version("networking.k8s.io", "v1", fresh, "ingresses"))}, want: "deployments.extensions:v1beta1 ingresses.networking.k8s.io:v1 things.extensions:v1beta1"},
	} {
		t.Run(name, func(t *testing.T) {
			before := map[schema.GroupResource]status.APIResource{}
			if c.before != "" {
				member := version("a", c.before, fresh, "things").Resources[0]
				before[member.GroupResource()] = member
			}
			got := newCatalog(status.Discovery{Groups: c.groups}, before)
			var texts []string
			for id, r := range got.kinds {
				text := fmt.Sprintf("%s:%s", id, r.Version)
				if !isFollowable(r) {
					text = "-" + text
				}
				texts = append(texts, text)
			}
			slices.Sort(texts)
			if text := strings.Join(texts, " "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			var unknown []string
			for _, u := range got.unknown {
				unknown = append(unknown, strings.TrimSuffix(u.GroupVersion.String(), "/"))
				if u.Err == nil {
					t.Errorf("%s is not known for no reason", u.GroupVersion)
				}
				if got.knows(u.Group) {
					t.Errorf("the group %s is known", u.Group)
				}
			}
			if text := strings.Join(unknown, " "); text != c.unknown {
				t.Errorf("not known: %s, want %s", text, c.unknown)
			}
		})
	}
	for id := range maps.Keys(twins) {
		if id.Group == twins[id] {
			t.Errorf("%s is its own twin", id)
		}
	}
}
