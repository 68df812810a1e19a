package crcache

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"

	"github.com/typedinformer/informer"
)

// newClient returns a client that sends its requests with httpClient. As in controller-runtime, each informer has a
// client, so the rate limit of config applies to each informer.
func newClient(config *rest.Config, httpClient *http.Client, form form) (*informer.Client, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	// httpClient does what the other fields of config say, such as TLS and authentication.
	own := &rest.Config{
		Host:                      base.String(),
		Transport:                 newCounted(httpClient),
		Timeout:                   httpClient.Timeout,
		UserAgent:                 config.UserAgent,
		QPS:                       config.QPS,
		Burst:                     config.Burst,
		RateLimiter:               config.RateLimiter,
		WarningHandler:            config.WarningHandler,
		WarningHandlerWithContext: config.WarningHandlerWithContext,
	}
	if form == typed { // clients of other forms choose their media types themselves
		own.AcceptContentTypes, own.ContentType = config.AcceptContentTypes, config.ContentType
	}
	return informer.NewClient(own)
}

// counted sends requests with an HTTP client, and counts them in the metrics of client-go, which controller-runtime
// registers.
type counted struct{ client http.Client }

// newCounted returns a counted with the transport, the Jar and the CheckRedirect of client. Without CheckRedirect, the
// informer follows redirects to the same server only. The informer also applies the Timeout, which must not end
// watches.
func newCounted(client *http.Client) *counted {
	c := &counted{*client}
	c.client.Timeout = 0
	if c.client.CheckRedirect == nil {
		c.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return c
}

// RoundTrip implements [http.RoundTripper].
func (c *counted) RoundTrip(req *http.Request) (*http.Response, error) {
	start := time.Now()
	resp, err := c.client.Do(req.Clone(req.Context())) // Do adds the cookies of a Jar
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	} else {
		resp = nil
		if failure := (*url.Error)(nil); errors.As(err, &failure) {
			err = failure.Err // the informer's client adds method and URL
		}
	}
	ctx, where := req.Context(), *req.URL
	where.RawQuery = ""
	clientmetrics.RequestLatency.Observe(ctx, req.Method, where, time.Since(start))
	clientmetrics.RequestResult.Increment(ctx, code, req.Method, where.Host)
	return resp, err
}
