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
	s.Awaits.Set(status.AwaitingRateLimit)
	client := s.config.Client
	if err := client.Wait(ctx); err != nil {
		return nil, err
	}
	s.Awaits.Set(status.AwaitingResponse)
	ctx, cancel := context.WithTimeoutCause(ctx, discoveryTimeout, transport.ErrNoProgress)
	defer cancel()
	resp, err := client.Send(ctx, transport.Request{
		Method: http.MethodGet, Path: path, Accept: decode.MediaJSON,
	})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("GET /%s: %w; bind the ClusterRole system:discovery to the client, "+
			"as it is to all users by default", path, err)
	case errors.As(err, new(apierrors.APIStatus)): // other errors name the path
		return nil, fmt.Errorf("GET /%s: %w", path, err)
	case err != nil:
		return nil, err
	}
	defer resp.Close()
	if resp.Format != decode.JSON {
		return nil, fmt.Errorf("GET /%s: the server did not send JSON", path)
	}
	s.Awaits.Set(status.AwaitingData)
	body, err := io.ReadAll(io.LimitReader(resp, discovery.MaxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read /%s: %w", path, err)
	case len(body) > discovery.MaxBytes:
		return nil, fmt.Errorf("read /%s: %w", path, decode.ErrTooLarge)
	}
	return body, nil
}
