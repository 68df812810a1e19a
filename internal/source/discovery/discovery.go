// Package discovery reads an API server's discovery documents.
//
//	/api                               APIVersions: the versions of the core group
//	/apis                              APIGroupList: the other groups and their versions
//	/api/VERSION, /apis/GROUP/VERSION  APIResourceList: the resources of one version
//
// A server since Kubernetes 1.26 has all of that in two documents, if asked for them: see [Reader].
//
//	/api, /apis                        APIGroupDiscoveryList of apidiscovery.k8s.io
//
// It sends no requests, and trusts no document: a proxy's page, or a document of another kind, shows nothing.
package discovery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// MaxBytes is the size limit for one document. 1,000 resources of one version need about 400 KB. Decoding needs a few
// times the memory of the document, also if it is hostile.
const MaxBytes = 4 << 20

// maxVersions is the limit for the versions of one group, each of which needs a request. Groups of Kubernetes have up
// to three.
const maxVersions = 32

// maxVerbs is the limit for the verbs of one resource, and for its categories and short names. Those of Kubernetes have
// up to eight.
const maxVerbs = 64

// Served describes a resource that a version of its group has.
type Served struct {
	Version    string
	Namespaced bool
	Kind       string // of the objects
	NoList     bool   // its verbs lack list; false if the document has no verbs
}

// Find looks for a resource in every version of its group: first in its own version, then in the others. It returns
// false if the documents show that no version has it. Any document that cannot show this is an error: get fails, or
// returns a body of another kind, or the server lists a version but not its resources.
//
// get returns the body of a path, such as "apis/apps/v1". Find calls it for the list of the versions, and then for
// versions until one has the resource.
func Find(resource schema.GroupVersionResource, get func(path string) ([]byte, error)) (in Served, ok bool, err error) {
	root := "apis"
	if resource.Group == "" {
		root = "api"
	}
	body, err := get(root)
	if err != nil {
		return Served{}, false, err
	}
	versions, err := versionsOf(resource.Group, body)
	if err != nil {
		return Served{}, false, fmt.Errorf("/%s: %w", root, err)
	}
	if i := slices.Index(versions, resource.Version); i > 0 {
		versions[0], versions[i] = versions[i], versions[0]
	}
	for _, version := range versions {
		resource.Version = version
		if in, ok, err = FindVersion(resource, get); ok || err != nil {
			return in, ok, err
		}
	}
	return Served{}, false, nil
}

// FindVersion is like [Find], but looks only in the version of the resource.
func FindVersion(resource schema.GroupVersionResource, get func(path string) ([]byte, error)) (in Served, ok bool,
	err error) {
	path := versionPath(resource.GroupVersion())
	body, err := get(path)
	if err != nil {
		return Served{}, false, err
	}
	in, ok, err = resourceIn(resource.GroupVersion(), resource.Resource, body)
	if err != nil {
		return Served{}, false, fmt.Errorf("/%s: %w", path, err)
	}
	return in, ok, nil
}

// The parts of the documents that Find reads, as package metav1 has them. Lists are decoded one item at a time.
type (
	document struct { // metav1.APIVersions, APIGroupList or APIResourceList, or apidiscovery.APIGroupDiscoveryList
		Kind         string          `json:"kind"`
		APIVersion   string          `json:"apiVersion"`
		Versions     json.RawMessage `json:"versions"`
		Groups       json.RawMessage `json:"groups"`
		GroupVersion string          `json:"groupVersion"`
		Resources    json.RawMessage `json:"resources"`
		Items        json.RawMessage `json:"items"`
	}
	group struct { // metav1.APIGroup
		Name     string          `json:"name"`
		Versions json.RawMessage `json:"versions"`
		Prefers  groupVersion    `json:"preferredVersion"`
	}
	groupVersion struct { // metav1.GroupVersionForDiscovery
		GroupVersion string `json:"groupVersion"`
		Version      string `json:"version"`
	}
	resource struct { // metav1.APIResource
		Name       string          `json:"name"`
		Namespaced bool            `json:"namespaced"`
		Kind       string          `json:"kind"`
		Verbs      json.RawMessage `json:"verbs"`
		ShortNames json.RawMessage `json:"shortNames"`
		Categories json.RawMessage `json:"categories"`
	}
)

// versionsOf returns the versions of a group in the document at the root. There are none if the server does not have
// the group.
func versionsOf(name string, body []byte) (versions []string, err error) {
	if name == "" {
		d, err := decode(body, "APIVersions")
		if err != nil {
			return nil, err
		}
		return versions, each(d.Versions, "versions", func(v string) error { return addVersion(&versions, name, v) })
	}
	d, err := decode(body, "APIGroupList")
	if err != nil {
		return nil, err
	}
	err = each(d.Groups, "groups", func(g group) error {
		if g.Name != name {
			return nil
		}
		return g.addVersions(&versions)
	})
	return versions, err
}

// addVersions adds the versions of a group.
func (g group) addVersions(versions *[]string) error {
	listed := false
	err := each(g.Versions, "versions", func(v groupVersion) error {
		listed = true
		if v.GroupVersion != g.Name+"/"+v.Version {
			return fmt.Errorf("the version %.100q of the group %s is listed as %.100q", v.Version, g.Name, v.GroupVersion)
		}
		return addVersion(versions, g.Name, v.Version)
	})
	if err == nil && !listed {
		err = fmt.Errorf("the group %s is listed without a version", g.Name)
	}
	return err
}

// addVersion adds a version of a group, if it is new.
func addVersion(versions *[]string, group, version string) error {
	switch {
	case version == "" || len(path.IsValidPathSegmentName(version)) > 0: // it becomes a part of the next path
		return fmt.Errorf("%.100q is not the name of a version", version)
	case slices.Contains(*versions, version):
		return nil
	case len(*versions) == maxVersions:
		return fmt.Errorf("the group %q has more than %d versions", group, maxVersions)
	}
	*versions = append(*versions, version)
	return nil
}

// resourceIn looks for a resource in the document of one version.
func resourceIn(gv schema.GroupVersion, name string, body []byte) (in Served, ok bool, err error) {
	err = eachResource(gv, body, func(r resource) error {
		if r.Name != name {
			return nil
		}
		in, ok = Served{Version: gv.Version, Namespaced: r.Namespaced, Kind: r.Kind}, true
		in.NoList, err = noList(r.Verbs)
		return err
	})
	if err != nil {
		return Served{}, false, err
	}
	return in, ok, nil
}

// eachResource calls do for each resource in the document of one version.
func eachResource(gv schema.GroupVersion, body []byte, do func(resource) error) error {
	d, err := decode(body, "APIResourceList")
	if err != nil {
		return err
	}
	if d.GroupVersion != gv.String() {
		return fmt.Errorf("the APIResourceList is of the version %.100q", d.GroupVersion)
	}
	return each(d.Resources, "resources", do)
}

// noList reports whether the verbs of a resource lack list. They may be missing or null, which shows nothing.
func noList(verbs json.RawMessage) (bool, error) {
	if absent(verbs) {
		return false, nil
	}
	all, err := names(verbs, "verbs")
	return !slices.Contains(all, "list"), err
}

// decode decodes a document of the given kind.
func decode(body []byte, kind string) (d document, err error) {
	if len(body) > MaxBytes {
		return d, fmt.Errorf("the document exceeds %d MiB", MaxBytes>>20)
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return d, fmt.Errorf("the document is not an %s in JSON", kind) // the decoder's error may have content of a page
	}
	if d.Kind != kind {
		return d, fmt.Errorf("the document is of the kind %.100q, not %s", d.Kind, kind)
	}
	return d, nil
}

// each calls do for each item of a list, until it returns an error. name is for errors. A list that is missing or null
// is an error.
func each[T any](list json.RawMessage, name string, do func(T) error) error {
	in := json.NewDecoder(bytes.NewReader(list))
	if begin, err := in.Token(); err != nil || begin != json.Delim('[') {
		return fmt.Errorf("the document has no %s", name)
	}
	var item T
	for in.More() {
		item = *new(T)
		if err := in.Decode(&item); err != nil {
			return fmt.Errorf("the document has %s of another type", name)
		}
		if err := do(item); err != nil {
			return err
		}
	}
	return nil
}
