package cache

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// ErrNoRESTClient indicates that a client of client-go sends no requests over HTTP, as a fake clientset of a test does.
var ErrNoRESTClient = errors.New("the client has no *rest.RESTClient")

// ClientFor returns a client that sends its requests as client does: to the same server, with the same transport and
// rate limit. client is what the method RESTClient of a clientset returns. The error wraps [ErrNoRESTClient] if it is
// no *rest.RESTClient, or nil.
//
// Two settings of a rest.Config cannot be read from client: the warning handler, so warnings are logged, and the content
// type, so protobuf is used where the type supports it. If they matter, create a client with informer.NewClient.
func ClientFor(client rest.Interface) (*informer.Client, error) {
	c, ok := client.(*rest.RESTClient)
	if !ok || c == nil {
		return nil, fmt.Errorf("client of an informer from a %T: %w", client, ErrNoRESTClient)
	}
	config := &rest.Config{
		Host:        c.Get().AbsPath("/").URL().String(),
		Transport:   sameAgent{http.DefaultTransport},
		RateLimiter: c.GetRateLimiter(),
	}
	if c.Client != nil {
		config.Timeout = c.Client.Timeout
		if c.Client.Transport != nil {
			config.Transport = sameAgent{c.Client.Transport}
		}
	}
	if config.RateLimiter == nil {
		config.QPS = -1 // no limit
	}
	return informer.NewClient(config)
}

// sameAgent sends requests with the user agent of next, a transport of client-go, which sets it if there is none.
type sameAgent struct{ next http.RoundTripper }

func (s sameAgent) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("User-Agent")
	return s.next.RoundTrip(req)
}
