package discovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/status"
)

// aggregatedKind is the kind of an aggregated document.
const aggregatedKind = "APIGroupDiscoveryList"

// The parts of an aggregated document that a Reader reads, as package apidiscovery has them. Lists are decoded one item
// at a time.
type (
	groupDiscovery struct { // apidiscovery.APIGroupDiscovery
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Versions json.RawMessage `json:"versions"`
	}
	versionDiscovery struct { // apidiscovery.APIVersionDiscovery
		Name      string          `json:"version"`
		Freshness string          `json:"freshness"`
		Resources json.RawMessage `json:"resources"`
	}
	resourceDiscovery struct { // apidiscovery.APIResourceDiscovery
		Resource     string `json:"resource"`
		ResponseKind struct {
			Kind string `json:"kind"`
		} `json:"responseKind"`
		Scope      string          `json:"scope"`
		Verbs      json.RawMessage `json:"verbs"`
		ShortNames json.RawMessage `json:"shortNames"`
		Categories json.RawMessage `json:"categories"`
	}
)

// aggregated returns the groups of a document at the root, "api" or "apis". It returns errPlain if the document is not
// aggregated. An error of a group or version does not affect the others.
func aggregated(root string, body []byte) (groups []status.APIGroup, err error) {
	if len(body) > maxAggregated {
		return nil, fmt.Errorf("the document exceeds %d MiB", maxAggregated>>20)
	}
	var d document
	if err := json.Unmarshal(body, &d); err != nil {
		return nil, errors.New("the document is not JSON") // the decoder's error may have content of a page
	}
	if d.Kind != aggregatedKind {
		return nil, errPlain
	}
	if group, _, _ := strings.Cut(d.APIVersion, "/"); group != "apidiscovery.k8s.io" {
		return nil, fmt.Errorf("the %s is of the API version %.100q", aggregatedKind, d.APIVersion)
	}
	left := maxResources
	err = each(d.Items, "items", func(g groupDiscovery) error {
		group := status.APIGroup{Name: g.Metadata.Name}
		if err := addGroup(&groups, root, group.Name); err != nil {
			return err
		}
		group.Versions, group.Err = versionsIn(group.Name, g.Versions, &left)
		groups[len(groups)-1] = group
		if left < 0 {
			return errResources
		}
		return nil
	})
	return groups, err
}

// errPlain indicates that a document is not aggregated.
var errPlain = errors.New("the document is not an " + aggregatedKind)

var errResources = fmt.Errorf("the server has more than %d resources", maxResources)

// addGroup adds a group without versions. root is "api" or "apis": only the core group is in the first one.
func addGroup(groups *[]status.APIGroup, root, name string) error {
	switch {
	case (name == "") != (root == "api") || name != "" && len(path.IsValidPathSegmentName(name)) > 0:
		return fmt.Errorf("%.100q is not the name of a group", name)
	case slices.ContainsFunc(*groups, func(g status.APIGroup) bool { return g.Name == name }):
		return fmt.Errorf("the group %q is listed twice", name)
	case len(*groups) == maxGroups:
		return fmt.Errorf("the server has more than %d groups", maxGroups)
	}
	*groups = append(*groups, status.APIGroup{Name: name})
	return nil
}

// versionsIn returns the versions of a group in an aggregated document. It subtracts the number of resources from left.
func versionsIn(group string, list json.RawMessage, left *int) (versions []status.APIVersion, err error) {
	var names []string
	err = each(list, "versions", func(v versionDiscovery) error {
		if slices.Contains(names, v.Name) {
			return nil
		}
		if err := addVersion(&names, group, v.Name); err != nil {
			return err
		}
		version := status.APIVersion{Version: v.Name}
		gv := schema.GroupVersion{Group: group, Version: v.Name}
		version.Resources, version.Err = resourcesIn(gv, v.Resources, left)
		if version.Err == nil && v.Freshness == status.FreshnessCurrent.String() {
			version.Freshness = status.FreshnessCurrent
		}
		versions = append(versions, version)
		return nil
	})
	if err == nil && len(versions) == 0 {
		err = errors.New("it is listed without a version")
	}
	if err != nil {
		return nil, err
	}
	return versions, nil
}

// resourcesIn returns the resources of a version in an aggregated document. A version that was never read may have
// none.
func resourcesIn(gv schema.GroupVersion, list json.RawMessage, left *int) (all []status.APIResource, err error) {
	if absent(list) {
		return nil, nil
	}
	err = each(list, "resources", func(r resourceDiscovery) error {
		if *left--; *left < 0 {
			return errResources
		}
		if r.Scope != "Namespaced" && r.Scope != "Cluster" {
			return fmt.Errorf("the resource %.100q has the scope %.100q", r.Resource, r.Scope)
		}
		resource := status.APIResource{
			GroupVersionResource: gv.WithResource(r.Resource),
			Kind:                 r.ResponseKind.Kind,
			Namespaced:           r.Scope == "Namespaced",
		}
		if err := describe(&resource, r.Verbs, r.ShortNames, r.Categories); err != nil {
			return err
		}
		all = append(all, resource)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// describe checks the name of a resource, and sets its lists.
func describe(r *status.APIResource, verbs, shortNames, categories json.RawMessage) (err error) {
	if r.Resource == "" || len(path.IsValidPathSegmentName(r.Resource)) > 0 {
		return fmt.Errorf("%.100q is not the name of a resource", r.Resource)
	}
	if r.Verbs, err = names(verbs, "verbs"); err != nil {
		return err
	}
	if r.ShortNames, err = names(shortNames, "short names"); err != nil {
		return err
	}
	r.Categories, err = names(categories, "categories")
	return err
}

// names returns a list of strings. It may be missing or null.
func names(list json.RawMessage, name string) (all []string, err error) {
	if absent(list) {
		return nil, nil
	}
	err = each(list, name, func(text string) error {
		if len(all) == maxVerbs {
			return fmt.Errorf("a resource has more than %d %s", maxVerbs, name)
		}
		all = append(all, text)
		return nil
	})
	return all, err
}

// absent reports whether a list is missing or null.
func absent(list json.RawMessage) bool { return len(list) == 0 || string(list) == "null" }
