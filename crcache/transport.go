package crcache

import (
	"net/http"
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
		Transport:                 counted{httpClient.Transport},
		Timeout:                   httpClient.Timeout,
		UserAgent:                 config.UserAgent,
		QPS:                       config.QPS,
		Burst:                     config.Burst,
		RateLimiter:               config.RateLimiter,
		WarningHandler:            config.WarningHandler,
		WarningHandlerWithContext: config.WarningHandlerWithContext,
	}
	if own.Timeout == 0 {
		own.Timeout = config.Timeout
	}
	if form == typed { // clients of other forms choose their media types themselves
		own.AcceptContentTypes, own.ContentType = config.AcceptContentTypes, config.ContentType
	}
	return informer.NewClient(own)
}

// counted counts requests in the metrics of client-go, which controller-runtime registers.
type counted struct{ next http.RoundTripper }

func (c counted) RoundTrip(req *http.Request) (*http.Response, error) {
	next := c.next
	if next == nil {
		next = http.DefaultTransport
	}
	start := time.Now()
	resp, err := next.RoundTrip(req)
	code := "<error>"
	if err == nil {
		code = strconv.Itoa(resp.StatusCode)
	}
	ctx, where := req.Context(), *req.URL
	where.RawQuery = ""
	clientmetrics.RequestLatency.Observe(ctx, req.Method, where, time.Since(start))
	clientmetrics.RequestResult.Increment(ctx, code, req.Method, where.Host)
	return resp, err
}
