package status

import (
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Discovery is what an API server serves, as its discovery documents say; see informer.Client.Discover.
type Discovery struct {
	// Groups are the API groups: the core group, whose name is empty, and then the others in the order of the server.
	Groups []APIGroup
}

// Err returns what Discover could not find out, or nil if it knows everything.
func (d Discovery) Err() error {
	var errs []error
	for _, group := range d.Groups {
		if group.Err != nil {
			errs = append(errs, fmt.Errorf("the API group %q: %w", group.Name, group.Err))
		}
		for _, version := range group.Versions {
			if version.Err != nil {
				gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
				errs = append(errs, fmt.Errorf("the API version %s: %w", gv, version.Err))
			}
		}
	}
	return errors.Join(errs...)
}

// APIGroup is an API group of a [Discovery].
type APIGroup struct {
	// Name is the name of the group. It is empty for the core group.
	Name string
	// Versions are the versions of the group, in the order in which the server prefers them.
	Versions []APIVersion
	// Err says why Versions is not known. It is then nil, and the server may serve resources of the group. Nil means that
	// the group has these versions and no others.
	Err error `json:"-"`
}

// APIVersion is a version of an [APIGroup].
type APIVersion struct {
	Version   string
	Freshness Freshness
	// Resources are the resources of the version, without subresources.
	Resources []APIResource
	// Err says why Resources is not known. It is then nil, and the server may serve resources of the version. Nil means
	// that Resources is what the server says.
	Err error `json:"-"`
}

// Known reports whether Resources has each resource that the version has now: the server says so, and is up to date.
func (v APIVersion) Known() bool { return v.Err == nil && v.Freshness == FreshnessCurrent }

// Freshness says how well a server knows the resources of an [APIVersion].
type Freshness uint8

const (
	// FreshnessStale means that the server does not know the present resources. It has those from before, or none: the
	// API server behind an APIService does not answer.
	FreshnessStale Freshness = iota
	// FreshnessCurrent means that the resources are those that the version has now.
	FreshnessCurrent
)

// String returns "Stale" or "Current", as the server says.
func (f Freshness) String() string { return nameOf(f, "Freshness", "Stale", "Current") }

// MarshalText implements encoding.TextMarshaler. It returns the text of String.
func (f Freshness) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// APIResource is a resource of an [APIVersion].
type APIResource struct {
	schema.GroupVersionResource
	// Kind is the kind of its objects. Empty means that the server does not say it.
	Kind string
	// Namespaced is true if its objects are in namespaces. False means that they are cluster-scoped.
	Namespaced bool
	// Verbs are what clients can do with it: "get", "list", "watch" and others.
	Verbs []string
	// Categories are groups of resources, such as "all" for kubectl get all. ShortNames are other names, such as "po".
	Categories, ShortNames []string
}

// Has reports whether the resource has each of these verbs.
func (r APIResource) Has(verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(r.Verbs, verb) })
}
