package cache

import (
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// ErrNoRESTClient indicates a client of client-go that sends no requests over HTTP, such as the fake clientset of a
// test.
var ErrNoRESTClient = errors.New("the client has no *rest.RESTClient")

// ClientFor returns a client that sends its requests as client does: to the same server, with the same transport and
// rate limit. client is the result of a clientset's method RESTClient. If it is nil or not a *rest.RESTClient, the
// error wraps [ErrNoRESTClient].
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

// sameAgent removes the user agent of requests, so next, a transport of client-go, sets its own.
type sameAgent struct{ next http.RoundTripper }

func (s sameAgent) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Del("User-Agent")
	return s.next.RoundTrip(req)
}
