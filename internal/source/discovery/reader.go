package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/typedinformer/informer/status"
)

const (
	// maxAggregated is the size limit for an aggregated document. A resource takes 300 to 900 bytes of it, and large
	// clusters have some thousand.
	maxAggregated = 16 << 20
	// maxGroups and maxResources are the limits for the groups and the resources of a server. Each resource may become an
	// informer.
	maxGroups    = 2_000
	maxResources = 20_000
)

// acceptAggregated asks for an aggregated document, and for a plain one from a server that has none. Version v2beta1 is
// that of Kubernetes 1.26 to 1.29, with the same fields.
const (
	acceptPlain      = "application/json"
	acceptAggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
		"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList," + acceptPlain
)

// Request is a GET for a document.
type Request struct {
	Path   string // such as "apis/apps/v1"
	Accept string
	ETag   string // of a document that the caller has; empty for none
}

// MaxBytes returns the size limit for the document.
func (r Request) MaxBytes() int64 {
	if r.Accept == acceptAggregated {
		return maxAggregated
	}
	return MaxBytes
}

// Document is the answer to a [Request].
type Document struct {
	Body        []byte
	ETag        string // empty if the server gives none
	NotModified bool   // the document with Request.ETag is still right; Body is nil
}

// Get reads a document. It must be safe for concurrent use.
type Get func(ctx context.Context, r Request) (Document, error)

// Reader reads everything that a server serves. It asks for aggregated discovery, which takes two documents, and reads
// the plain ones of a server that does not have it:
//
//	a root, aggregated: cached by its ETag
//	a root, plain --> the versions that it lists, each by a document of its own
//
// The zero value is ready to use. It is safe for concurrent use.
type Reader struct {
	mu    sync.Mutex      // protects roots
	roots map[string]root // by path; only aggregated documents
}

// root is an aggregated document. Nobody changes its groups.
type root struct {
	base   string // the address of its server
	etag   string // empty if the server gave none
	groups []status.APIGroup
}

// reading is one Read.
type reading struct {
	*Reader
	base string
	get  Get
}

// Read reads what the server with the address base serves. It returns an error if not even the groups are known. A
// group or version that is not known has its error in the result, which nobody may change.
func (r *Reader) Read(ctx context.Context, base string, get Get) (status.Discovery, error) {
	in := reading{r, base, get}
	var core, others []status.APIGroup
	var coreErr error
	var both errgroup.Group
	both.Go(func() error {
		core, coreErr = in.root(ctx, "api")
		return nil
	})
	both.Go(func() (err error) {
		others, err = in.root(ctx, "apis")
		return err
	})
	if err := both.Wait(); err != nil {
		return status.Discovery{}, err
	}
	if coreErr != nil {
		core = []status.APIGroup{{Err: coreErr}}
	}
	return status.Discovery{Groups: slices.Concat(core, others)}, nil
}

// root reads the groups of one root, "api" or "apis".
func (r reading) root(ctx context.Context, path string) ([]status.APIGroup, error) {
	old := r.cached(path)
	d, err := r.get(ctx, Request{Path: path, Accept: acceptAggregated, ETag: old.etag})
	switch {
	case err != nil:
		return nil, err
	case d.NotModified && old.etag == "":
		return nil, fmt.Errorf("/%s: the server says that a document has not changed that it never sent", path)
	case d.NotModified:
		return old.groups, nil
	}
	groups, err := r.decode(ctx, path, d)
	if err != nil {
		return nil, fmt.Errorf("/%s: %w", path, err)
	}
	return groups, nil
}

// decode returns the groups of a document at a root. If it is a plain one, decode reads the documents of the versions.
func (r reading) decode(ctx context.Context, path string, d Document) ([]status.APIGroup, error) {
	groups, err := aggregated(path, d.Body)
	switch {
	case errors.Is(err, errPlain):
		return r.plain(ctx, path, d.Body)
	case err != nil:
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.roots == nil {
		r.roots = map[string]root{}
	}
	r.roots[path] = root{r.base, d.ETag, groups}
	return groups, nil
}

// cached returns the document of the server that the Reader has, or one without an ETag.
func (r reading) cached(path string) root {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.roots[path]; old.base == r.base {
		return old
	}
	return root{}
}
