package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/gzipstream"
	"github.com/typedinformer/informer/status"
)

// Client sends requests to one API server. It is safe for concurrent use. Do not change its fields.
type Client struct {
	Accept string // the configured media types; empty means those of the object's type
	// Precedence is that of lists over requests in the background. Clients of WithTracer share it.
	Precedence *Precedence
	// Suspension ends the watches after the system was suspended. Clients of WithTracer share it.
	Suspension *Suspension
	Values     Values // nil for a server

	server  *server
	header  time.Duration // the time limit for the header of a list
	limiter flowcontrol.RateLimiter
	warn    func(ctx context.Context, code int, agent, text string)
	traffic *traffic
	tracer  Tracer // nil for none
	gate    Gate   // nil for none
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
	server, err := newServer(config)
	if err != nil {
		return nil, err
	}
	c := &Client{
		Accept:     config.AcceptContentTypes,
		Precedence: newPrecedence(),
		Suspension: newSuspension(server.closeIdle),
		server:     server,
		header:     maxSilence,
		limiter:    config.RateLimiter,
		traffic:    &traffic{},
	}
	if config.Timeout > 0 {
		c.header = min(c.header, config.Timeout)
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

// Update makes the client and its copies use the address, the transport and the credentials of config; see
// informer.Client. If config is invalid, it changes nothing.
func (c *Client) Update(config *rest.Config) error { return c.server.update(config) }

// Base returns the present address of the server, below which all paths are. Do not change it.
func (c *Client) Base() *url.URL { return c.server.access.Load().base }

// HadBase reports whether the client has had an address of the server.
func (c *Client) HadBase(address string) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return slices.Contains(c.server.addresses, address)
}

// Updated returns a context that the next Update ends, with the cause ErrUpdated.
func (c *Client) Updated() context.Context { return c.server.access.Load().replaced }

// Moved returns a context that the next Update with another address ends, with the cause ErrUpdated.
func (c *Client) Moved() context.Context { return c.server.access.Load().moved }

// Status returns the counts of the requests until now.
func (c *Client) Status() status.Client {
	s := c.traffic.status()
	s.Host = c.Base().Host
	return s
}

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
// server's error. It sends a write only with a pass of the client's gate.
func (c *Client) Send(ctx context.Context, r Request) (*Response, error) {
	ctx, leave, err := c.enter(ctx, r)
	if err != nil {
		return nil, err
	}
	sent := false
	defer func() {
		if !sent { // also if a transport or a tracer panics
			leave()
		}
	}()
	resp, err := c.send(ctx, r)
	if err != nil {
		return nil, err
	}
	sent = true
	if c.gate != nil {
		end := resp.end
		resp.end = sync.OnceFunc(func() { end(); leave() })
	}
	return resp, nil
}

// send is Send without the gate.
func (c *Client) send(ctx context.Context, r Request) (*Response, error) {
	header := http.Header{"Accept": {r.Accept}}
	if r.ContentType != "" {
		header.Set("Content-Type", r.ContentType)
	}
	if r.ETag != "" {
		header.Set("If-None-Match", r.ETag)
	}
	if r.Watch {
		// A server that compresses streaming lists would compress each later event of the stream, too. That costs more
		// processor time than it saves.
		header.Set("Accept-Encoding", "identity")
	}
	a := c.server.access.Load()
	u := a.base.JoinPath(r.Path)
	u.RawQuery = r.Query.Encode()
	ended := func(Result) {}
	if c.tracer != nil {
		name := r.Name
		if r.Method == http.MethodPost { // the path has no name
			name = ""
		}
		ctx, ended = c.tracer(ctx, Trace{
			Verb: r.verb(), Resource: r.Resource, Name: name, Method: r.Method, Host: u.Host,
			Path: "/" + strings.TrimPrefix(u.Path, "/"), Header: header,
		})
	}
	began := time.Now()
	resp, code, err := c.exchange(ctx, a, r, u, header)
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

// exchange sends r to u. It is send without status and traces. It also returns the status code of the response, or 0.
func (c *Client) exchange(ctx context.Context, a *access, r Request, u *url.URL,
	header http.Header) (_ *Response, code int, err error) {
	httpClient, limit := a.objects, maxSilence
	switch r.verb() {
	case "list":
		httpClient, limit = a.lists, c.header
	case "watch": // the caller limits it: a proxy may hold the header back until the first event
		httpClient, limit = a.watches, math.MaxInt64
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(ErrNoProgress) })
	done := a.begin()
	end := func() { timer.Stop(); cancel(nil); done() }
	fail := func(err error) (*Response, int, error) {
		end()
		return nil, code, fmt.Errorf("%s /%s: %w", r.Method, strings.TrimPrefix(u.Path, "/"), err)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return fail(err)
	}
	req.Header = header
	connected := func() {}
	if r.Watch && a.turns != nil {
		traced, end, err := a.turns.take(ctx)
		if err != nil {
			return fail(err)
		}
		req, connected = req.WithContext(traced), end
	}
	resp, err := httpClient.Do(req)
	connected()
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
	if !r.succeeded(code) {
		timer.Reset(statusTimeout)
		defer end()
		defer resp.Body.Close()
		return nil, code, responseError(resp, r.Method, r.Resource, r.Name)
	}
	timer.Stop()
	f, err := formatOf(resp)
	if err != nil {
		resp.Body.Close()
		return fail(err)
	}
	if !r.Watch {
		resp.Body = NewProgress(ctx, resp.Body, timer, maxSilence, listProgress)
	}
	return newResponse(resp, f, end), code, nil
}

// formatOf returns the format of the body of a response.
func formatOf(resp *http.Response) (decode.Format, error) {
	if resp.StatusCode == http.StatusNotModified { // it has no body
		return decode.JSON, nil
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return decode.JSON, fmt.Errorf("the server sent content encoding %.100q, which was not requested", encoding)
	}
	return decode.FormatOf(resp.Header.Get("Content-Type"))
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
