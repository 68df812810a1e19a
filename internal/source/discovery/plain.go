package discovery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/status"
)

const (
	// maxDocuments is the limit for the versions of a server without aggregated discovery. Each needs a request.
	maxDocuments = 2_000
	// maxRequests is the limit for the documents that are requested at once.
	maxRequests = 8
)

// plain returns the groups of a plain document at the root, "api" or "apis", and reads the document of each version.
func (r reading) plain(ctx context.Context, root string, body []byte) ([]status.APIGroup, error) {
	groups, err := listed(root, body)
	if err != nil {
		return nil, err
	}
	n := 0
	for _, group := range groups {
		n += len(group.Versions)
	}
	if n > maxDocuments {
		return nil, fmt.Errorf("the server has %d versions of groups, of at most %d", n, maxDocuments)
	}
	var left atomic.Int64
	left.Store(maxResources)
	var requests errgroup.Group
	requests.SetLimit(maxRequests)
	for _, group := range groups {
		for i := range group.Versions {
			version := &group.Versions[i]
			requests.Go(func() error {
				gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
				if version.Resources, version.Err = r.version(ctx, gv); version.Err != nil {
					return nil
				}
				version.Freshness = status.FreshnessCurrent
				if left.Add(-int64(len(version.Resources))) < 0 {
					return errResources
				}
				return nil
			})
		}
	}
	return groups, requests.Wait()
}

// listed returns the groups of a plain document at the root, whose versions have no resources yet.
func listed(root string, body []byte) (groups []status.APIGroup, err error) {
	if root == "api" {
		versions, err := versionsOf("", body)
		if err != nil || len(versions) == 0 {
			return nil, err
		}
		return []status.APIGroup{{Versions: unread(versions)}}, nil
	}
	d, err := decode(body, "APIGroupList")
	if err != nil {
		return nil, err
	}
	err = each(d.Groups, "groups", func(g group) error {
		if err := addGroup(&groups, root, g.Name); err != nil {
			return err
		}
		group := &groups[len(groups)-1]
		var versions []string
		if group.Err = g.addVersions(&versions); group.Err != nil {
			return nil
		}
		if i := slices.Index(versions, g.Prefers.Version); i > 0 {
			versions = slices.Insert(slices.Delete(versions, i, i+1), 0, g.Prefers.Version)
		}
		group.Versions = unread(versions)
		return nil
	})
	return groups, err
}

// unread returns versions without resources.
func unread(names []string) (versions []status.APIVersion) {
	for _, name := range names {
		versions = append(versions, status.APIVersion{Version: name})
	}
	return versions
}

// versionPath returns the path of the document of a version.
func versionPath(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "api/" + gv.Version
	}
	return "apis/" + gv.Group + "/" + gv.Version
}

// version reads the document of a version.
func (r reading) version(ctx context.Context, gv schema.GroupVersion) (resources []status.APIResource, err error) {
	path := versionPath(gv)
	d, err := r.get(ctx, Request{Path: path, Accept: acceptPlain})
	if err != nil {
		return nil, err
	}
	err = eachResource(gv, d.Body, func(in resource) error {
		if strings.Contains(in.Name, "/") { // a subresource
			return nil
		}
		if len(resources) == maxResources {
			return errResources
		}
		out := status.APIResource{GroupVersionResource: gv.WithResource(in.Name), Kind: in.Kind, Namespaced: in.Namespaced}
		if err := describe(&out, in.Verbs, in.ShortNames, in.Categories); err != nil {
			return err
		}
		resources = append(resources, out)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", path, err)
	}
	return resources, nil
}
