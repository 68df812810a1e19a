package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/discovery"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

// discoveryTimeout is the time limit for one discovery document.
const discoveryTimeout = 10 * time.Second

// kind returns a function that asks discovery for the kind of the objects.
func (s *Source) kind(ctx context.Context) decode.Ask {
	return func() (string, error) {
		awaits := s.Awaits.Get()
		defer s.Awaits.Set(awaits)
		served, ok, err := discovery.FindVersion(s.config.Resource,
			func(path string) ([]byte, error) { return s.document(ctx, path) })
		switch {
		case err != nil:
			return "", err
		case !ok || served.Kind == "":
			return "", errors.New("discovery does not list the kind of the resource")
		}
		return served.Kind, nil
	}
}

// document reads one discovery document.
func (s *Source) document(ctx context.Context, path string) ([]byte, error) {
	d, err := Document(ctx, s.config.Client, discovery.Request{Path: path, Accept: decode.MediaJSON}, s.Awaits.Set)
	return d.Body, err
}

// Document reads one discovery document, in JSON. It reports to awaits what it waits for.
func Document(ctx context.Context, client *transport.Client, r discovery.Request,
	awaits func(status.Awaiting)) (discovery.Document, error) {
	var d discovery.Document
	awaits(status.AwaitingRateLimit)
	if err := client.Wait(ctx); err != nil {
		return d, err
	}
	awaits(status.AwaitingResponse)
	ctx, cancel := context.WithTimeoutCause(ctx, discoveryTimeout, transport.ErrNoProgress)
	defer cancel()
	resp, err := client.Send(ctx, transport.Request{
		Method: http.MethodGet, Path: r.Path, Accept: r.Accept, ETag: r.ETag,
	})
	switch {
	case apierrors.IsForbidden(err):
		return d, fmt.Errorf("GET /%s: %w; bind the ClusterRole system:discovery to the client, "+
			"as it is to all users by default", r.Path, err)
	case errors.As(err, new(apierrors.APIStatus)): // other errors name the path
		return d, fmt.Errorf("GET /%s: %w", r.Path, err)
	case err != nil:
		return d, err
	}
	defer resp.Close()
	d.ETag, d.NotModified = resp.ETag, resp.NotModified
	if d.NotModified {
		return d, nil
	}
	if resp.Format != decode.JSON {
		return d, fmt.Errorf("GET /%s: the server did not send JSON", r.Path)
	}
	awaits(status.AwaitingData)
	limit := r.MaxBytes()
	d.Body, err = io.ReadAll(io.LimitReader(resp, limit+1))
	switch {
	case err != nil:
		return discovery.Document{}, fmt.Errorf("read /%s: %w", r.Path, err)
	case int64(len(d.Body)) > limit:
		return discovery.Document{}, fmt.Errorf("read /%s: %w", r.Path, decode.ErrTooLarge)
	}
	return d, nil
}
