package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/gzipstream"
)

// Client sends requests to one API server. It is safe for concurrent use. Do not change its fields.
type Client struct {
	Base   *url.URL
	Accept string // the configured media types; empty means those of the object's type
	// Precedence is that of lists over requests in the background. Clients of WithTracer share it.
	Precedence *Precedence
	// Suspension ends the watches after the system was suspended. Clients of WithTracer share it.
	Suspension *Suspension
	Values     Values // nil for a server

	objects *http.Client // for single objects and documents, with the time limit of rest.Config
	lists   *http.Client // objects without that limit, which ends a long body
	watches *http.Client
	header  time.Duration // the time limit for the header of a list
	limiter flowcontrol.RateLimiter
	warn    func(ctx context.Context, code int, agent, text string)
	traffic *traffic
	tracer  Tracer // nil for none
}

// Tracer is called before a request is sent. It returns the context of the request, and a function that is called once,
// when the request ends.
type Tracer func(context.Context, Trace) (context.Context, func(Result))

// Trace describes a request to a tracer, as informer.RequestTrace does.
type Trace struct {
	Verb               string
	Resource           schema.GroupResource
	Name               string
	Method, Host, Path string
	Header             http.Header
}

// Result describes the end of a request to a tracer, as informer.RequestResult does.
type Result struct {
	Code int
	Err  error
}

// New returns a client for config, which it does not keep or change. TLS, authentication, proxies and the request rate
// are those of client-go.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	if config.UserAgent == "" {
		config.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("transport to the API server: %w", err)
	}
	objects := *httpClient // a copy: httpClient may be http.DefaultClient
	objects.CheckRedirect = checkRedirect
	lists := objects
	lists.Timeout = 0
	c := &Client{
		Base:       base,
		Accept:     config.AcceptContentTypes,
		Precedence: newPrecedence(),
		Suspension: newSuspension(func() { utilnet.CloseIdleConnectionsFor(objects.Transport) }),
		objects:    &objects,
		lists:      &lists,
		watches:    &lists,
		header:     maxSilence,
		limiter:    config.RateLimiter,
		traffic:    &traffic{},
	}
	if objects.Timeout > 0 {
		c.header = min(c.header, objects.Timeout)
	}
	if c.Accept == "" {
		c.Accept = config.ContentType
	}
	c.Values, _ = config.Transport.(Values)
	if c.limiter == nil && config.QPS >= 0 {
		qps, burst := config.QPS, config.Burst
		if qps == 0 {
			qps = rest.DefaultQPS
		}
		if burst == 0 {
			burst = rest.DefaultBurst
		}
		c.limiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	}
	switch {
	case config.WarningHandlerWithContext != nil:
		c.warn = config.WarningHandlerWithContext.HandleWarningHeaderWithContext
	case config.WarningHandler != nil:
		c.warn = func(_ context.Context, code int, agent, text string) {
			config.WarningHandler.HandleWarningHeader(code, agent, text)
		}
	default:
		c.warn = rest.WarningLogger{}.HandleWarningHeaderWithContext
	}
	return c, nil
}

// WithTracer returns a client that is like c, and reports each request to tracer. Both share the connections, the rate
// limit and the counters. A nil tracer means none.
func (c *Client) WithTracer(tracer Tracer) *Client {
	traced := *c
	traced.tracer = tracer
	return &traced
}

// Status returns the counts of the requests until now.
func (c *Client) Status() Status { return c.traffic.status() }

// checkRedirect rejects redirects to other servers: client-go's transports add the credentials to each request,
// whatever its host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	switch {
	case req.URL.Scheme != from.Scheme || req.URL.Host != from.Host:
		return fmt.Errorf("the server redirects to another one, %.10s://%.100s", req.URL.Scheme, req.URL.Host)
	case len(via) >= 10:
		return errors.New("the server redirects too often")
	}
	return nil
}

// Wait waits until the rate limit allows one more request. Call it before Send: the deadlines of Send are for the
// server alone.
func (c *Client) Wait(ctx context.Context) error {
	if c.limiter == nil {
		return nil
	}
	began := time.Now()
	if err := c.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("wait for the client's own rate limit: %w", err)
	}
	c.traffic.waited(time.Since(began))
	return nil
}

// Send sends one request. For a response that does not report success, it returns an [apierrors.APIStatus] with the
// server's error.
func (c *Client) Send(ctx context.Context, r Request) (*Response, error) {
	header := http.Header{"Accept": {r.Accept}}
	if r.ContentType != "" {
		header.Set("Content-Type", r.ContentType)
	}
	if r.Watch {
		// A server that compresses streaming lists would compress each later event of the stream, too. That costs more
		// processor time than it saves.
		header.Set("Accept-Encoding", "identity")
	}
	ended := func(Result) {}
	if c.tracer != nil {
		name := r.Name
		if r.Method == http.MethodPost { // the path has no name
			name = ""
		}
		ctx, ended = c.tracer(ctx, Trace{
			Verb: r.verb(), Resource: r.Resource, Name: name, Method: r.Method, Host: r.URL.Host,
			Path: "/" + strings.TrimPrefix(r.URL.Path, "/"), Header: header,
		})
	}
	began := time.Now()
	resp, code, err := c.exchange(ctx, r, header)
	c.traffic.answered(ctx, r.Method, code, err, time.Since(began))
	if err != nil {
		ended(Result{code, err})
		return nil, err
	}
	if c.tracer != nil {
		end := resp.end
		resp.end = sync.OnceFunc(func() { end(); ended(Result{Code: code}) })
	}
	return resp, nil
}

// exchange is Send without status and traces. It also returns the status code of the response, or 0.
func (c *Client) exchange(ctx context.Context, r Request, header http.Header) (_ *Response, code int, err error) {
	httpClient, limit := c.objects, maxSilence
	switch r.verb() {
	case "list":
		httpClient, limit = c.lists, c.header
	case "watch": // the caller limits it: a proxy may hold the header back until the first event
		httpClient, limit = c.watches, math.MaxInt64
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(ErrNoProgress) })
	end := func() { timer.Stop(); cancel(nil) }
	fail := func(err error) (*Response, int, error) {
		end()
		return nil, code, fmt.Errorf("%s /%s: %w", r.Method, strings.TrimPrefix(r.URL.Path, "/"), err)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, r.URL.String(), bytes.NewReader(r.Body))
	if err != nil {
		return fail(err)
	}
	req.Header = header
	resp, err := httpClient.Do(req)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // fail adds the method and the path
		}
		return fail(Because(ctx, err))
	}
	code = resp.StatusCode
	if strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") { // not removed by package http, which did not ask
		resp.Header.Del("Content-Encoding")
		resp.Body = gzipstream.NewReader(resp.Body)
	}
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, w := range warnings {
		c.warn(ctx, w.Code, w.Agent, w.Text)
	}
	if resp.StatusCode != http.StatusOK && (r.Method == http.MethodGet || resp.StatusCode < 200 || resp.StatusCode > 299) {
		timer.Reset(statusTimeout)
		defer end()
		defer resp.Body.Close()
		return nil, code, responseError(resp, r.Method, r.Resource, r.Name)
	}
	timer.Stop()
	f, err := decode.FormatOf(resp.Header.Get("Content-Type"))
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		err = fmt.Errorf("the server sent content encoding %.100q, which was not requested", encoding)
	}
	if err != nil {
		resp.Body.Close()
		return fail(err)
	}
	body := resp.Body
	if !r.Watch {
		body = NewProgress(ctx, body, timer, maxSilence, listProgress)
	}
	return &Response{body, f, auditID(resp.Header), end}, code, nil
}

// maxAuditID is the length of an Audit-Id that kube-apiserver accepts.
const maxAuditID = 64

// auditID returns the Audit-Id of a response, or "" if it has none.
func auditID(header http.Header) string {
	if id := header.Get("Audit-Id"); len(id) <= maxAuditID {
		return id
	}
	return ""
}
