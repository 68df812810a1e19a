package fetch

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/source/discovery"
)

const (
	// settleTime is how long discovery must show the absence of a resource before its objects count as gone. When a custom
	// resource definition changes, kube-apiserver updates its documents one after the other. In between, they can lack a
	// version that is being enabled. With several API servers, one may lag behind the others.
	settleTime = 10 * time.Second
	// proofTime is how long a proof of absence by discovery stays valid. Until then, a retry costs one request.
	proofTime = 5 * time.Minute
)

// Absence decides whether a 404 means that the server does not serve the resource of a source. A proxy without a
// backend, a disabled API version and a wrong scope cause a 404, too, so Absence asks discovery: the resource is absent
// only if the documents show that no version of its group has it. If there may be objects, each retry within settleTime
// must show it. It is for one goroutine.
type Absence struct {
	source     *Source
	namespaced bool // the requests name a namespace

	objects bool // there may be objects
	// when discovery first showed the absence; zero if a request since had another outcome
	since  time.Time
	proven time.Time // when the absence was last certain; zero if the server has served the resource since
}

// NewAbsence returns an Absence for the resource of source, before the first 404. namespaced is true if the requests of
// source name a namespace.
func NewAbsence(source *Source, namespaced bool) Absence {
	return Absence{source: source, namespaced: namespaced}
}

// unprovenError is a 404 that does not show that the resource is absent.
type unprovenError struct{ notFound, cause error }

func (e *unprovenError) Error() string {
	return fmt.Sprintf("%v; this does not show that the resource is gone: %v", e.notFound, e.cause)
}

// Unwrap returns the cause first, so that its Retry-After and its status count.
func (e *unprovenError) Unwrap() []error { return []error{e.cause, e.notFound} }

// Explain takes the outcome of each list and watch, and returns it. If it is a 404, Explain returns an error that wraps
// ErrNotServed, or an unprovenError. That wraps ErrNoList if discovery shows the resource without the verb list.
func (a *Absence) Explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		a.objects, a.since, a.proven = true, time.Time{}, time.Time{}
		return nil
	case !apierrors.IsNotFound(err):
		a.since = time.Time{}
		return err
	case a.proven.IsZero() || time.Since(a.proven) >= proofTime:
		if why := a.prove(ctx); why != nil {
			return &unprovenError{err, why}
		}
		a.objects, a.proven = false, time.Now()
	}
	return fmt.Errorf("%w: %w", err, ErrNotServed)
}

// prove returns nil if the resource is absent, and otherwise why that is not certain.
func (a *Absence) prove(ctx context.Context) error {
	in, served, err := discovery.Find(a.source.config.Resource,
		func(path string) ([]byte, error) { return a.source.document(ctx, path) })
	switch {
	case err != nil:
	case served && in.Version != a.source.config.Resource.Version:
		err = fmt.Errorf("the server serves it in version %s: use that as Resource.Version", in.Version)
	case served && in.NoList:
		err = ErrNoList
	case served && !in.Namespaced && a.namespaced:
		err = errors.New("it is cluster-scoped: leave Resource.Namespaces empty")
	case served:
		err = errors.New("discovery lists it, so the 404 is from a proxy, or the server does not serve it yet")
	}
	if err != nil {
		a.since = time.Time{}
		return err
	}
	if a.since.IsZero() {
		a.since = time.Now()
	}
	if shown := time.Since(a.since); a.objects && shown < settleTime {
		return fmt.Errorf("discovery has not listed it for %v; the objects are deleted after %v",
			shown.Round(time.Millisecond), settleTime)
	}
	return nil
}
