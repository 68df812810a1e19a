package kinds

import (
	"cmp"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/status"
)

// catalog is what one discovery says about kinds, each in one version and one group. Nobody changes it.
type catalog struct {
	kinds   map[schema.GroupResource]status.APIResource // also those without the verbs list and watch
	unknown []Unknown
	merged  map[schema.GroupResource]schema.GroupResource // twins, to the kind that has their objects
}

// Unknown is an API group or version whose present resources are not known.
type Unknown struct {
	// GroupVersion is the version. An empty Version means the whole group.
	schema.GroupVersion
	// Err says why.
	Err error `json:"-"`
}

// ErrStale indicates that the API server of a group does not answer, so that discovery has its resources from before,
// or none.
var ErrStale = errors.New("discovery is stale: the API server of the group does not answer")

// twins are kinds whose objects another group has, too, with that group. A set takes the kind of that group, if the
// server has it.
var twins = map[schema.GroupResource]string{
	{Group: "events.k8s.io", Resource: "events"}:           "",
	{Group: "extensions", Resource: "daemonsets"}:          "apps",
	{Group: "extensions", Resource: "deployments"}:         "apps",
	{Group: "extensions", Resource: "replicasets"}:         "apps",
	{Group: "extensions", Resource: "ingresses"}:           "networking.k8s.io",
	{Group: "extensions", Resource: "networkpolicies"}:     "networking.k8s.io",
	{Group: "extensions", Resource: "podsecuritypolicies"}: "policy",
}

// isFollowable reports whether an informer can follow a resource.
func isFollowable(r status.APIResource) bool { return r.Has("list", "watch") }

// newCatalog reads a discovery. before are the present members: each keeps its version while the server serves it.
func newCatalog(d status.Discovery, before map[schema.GroupResource]status.APIResource) *catalog {
	c := &catalog{
		kinds:  map[schema.GroupResource]status.APIResource{},
		merged: map[schema.GroupResource]schema.GroupResource{},
	}
	for _, group := range d.Groups {
		if group.Err != nil {
			c.unknown = append(c.unknown, Unknown{schema.GroupVersion{Group: group.Name}, group.Err})
		}
		for _, version := range group.Versions {
			if !version.Known() {
				gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
				c.unknown = append(c.unknown, Unknown{gv, errors.Join(version.Err, staleness(version))})
			}
			for _, r := range version.Resources {
				c.add(r, before)
			}
		}
	}
	for twin, group := range twins {
		other := schema.GroupResource{Group: group, Resource: twin.Resource}
		r, ok := c.kinds[other]
		_, isMember := before[twin]
		if ok && isFollowable(r) || !ok && !isMember && !c.knows(group) { // what is not known may be there
			delete(c.kinds, twin)
			c.merged[twin] = other
		}
	}
	return c
}

// staleness returns ErrStale for a version that was read, and is not known.
func staleness(v status.APIVersion) error {
	if v.Err != nil {
		return nil
	}
	return ErrStale
}

// add adds a resource, unless there is a better version of it: that of the member, or else the first that informers can
// follow.
func (c *catalog) add(r status.APIResource, before map[schema.GroupResource]status.APIResource) {
	id := r.GroupResource()
	other, ok := c.kinds[id]
	member, isMember := before[id]
	switch {
	case !ok, isFollowable(r) && !isFollowable(other):
	case isMember && isFollowable(r) && member.Version == r.Version:
	default:
		return
	}
	c.kinds[id] = r
}

// canonical returns the identifier of the member that has the objects of a kind: that of another group, if both have
// the same objects.
func (c *catalog) canonical(id schema.GroupResource) schema.GroupResource {
	if c == nil {
		return id
	}
	return cmp.Or(c.merged[id], id)
}

// knows reports whether the discovery knows everything that the server serves in a group.
func (c *catalog) knows(group string) bool { return c.whyUnknown(group) == nil }

// whyUnknown returns why the discovery does not know everything in a group, or nil.
func (c *catalog) whyUnknown(group string) error {
	i := slices.IndexFunc(c.unknown, func(u Unknown) bool { return u.Group == group })
	if i < 0 {
		return nil
	}
	return c.unknown[i].Err
}
