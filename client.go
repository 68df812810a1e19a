package informer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/notfound"
)

// Client sends requests to one API server. The rest.Config sets TLS, authentication, proxies, HTTP/2, the user agent,
// the warning handler and the request rate; client-go's own code implements them. It is safe for concurrent use and
// meant to be shared.
//
// An invalid response of a broken or hostile server is an error of that request or object, and the informer retries. A
// server cannot crash the process, block an informer forever, or redirect the client's credentials to another host. The
// limits are:
//
//   - 32 MiB for an object or a watch frame, 1 MiB for the parts of a list other than its items: [ErrTooLarge]
//   - 10,000 levels of nesting in an object. A type that contains itself is requested in JSON, since its nesting in
//     protobuf would have no limit
//   - 90 s for the headers of a response, and 90 s for each 16 KiB of a list, without the time of decoding:
//     [ErrNoProgress]. A streaming list has 10 s for each KiB. A watch has until 30 s after the server should have
//     ended it
//   - 256 MiB of memory for one decoded object without its strings: ErrTooLarge. A kilobyte of memory can come from a
//     few encoded bytes, such as a list of empty structs. An informer decodes at most four objects at once, however
//     many namespaces it follows
//   - 64 KiB and 10 s for the body of an error, and 8 KiB for its message
//   - 4 MiB and 10 s for a discovery document, which an informer reads only after a 404
//
// There is no limit on the number of objects in a collection. The informer keeps all of them, so its memory depends on
// the server and on everybody who may create objects.
type Client struct {
	base    *url.URL
	http    *http.Client
	watches *http.Client // http without a time limit on the body
	limiter flowcontrol.RateLimiter
	accept  string // the configured media types; empty means those of the object's type
	warn    func(ctx context.Context, code int, agent, text string)
	traffic *traffic
	server  *serverIdentity
	tracer  Tracer // nil for none
}

// errNoClient indicates a nil *Client.
var errNoClient = errors.New("the client is nil: create one with NewClient")

// NewClient returns a client for config, which it does not keep or change.
//
// QPS, Burst and RateLimiter limit the requests of all informers of the client together; zero QPS means client-go's
// default of 5 per second. Timeout limits lists, not watches. AcceptContentTypes, or else ContentType, sets the media
// types to request. Empty means protobuf for types that support it, and JSON.
func NewClient(config *rest.Config) (*Client, error) {
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
	lists := *httpClient // a copy: httpClient may be http.DefaultClient
	lists.CheckRedirect = checkRedirect
	watches := lists
	watches.Timeout = 0
	c := &Client{
		base:    base,
		http:    &lists,
		watches: &watches,
		limiter: config.RateLimiter,
		accept:  config.AcceptContentTypes,
		traffic: &traffic{},
		server:  &serverIdentity{ca: sumOfCA(config), asking: make(chan struct{}, 1)},
	}
	if c.accept == "" {
		c.accept = config.ContentType
	}
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
// limit and the status. A nil tracer means none.
func (c *Client) WithTracer(tracer Tracer) *Client {
	traced := *c
	traced.tracer = tracer
	return &traced
}

// Status returns the present status of the client.
func (c *Client) Status() ClientStatus {
	s := c.traffic.status()
	s.Host = c.base.Host
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

// ErrTooLarge indicates that the response exceeds a size limit: 32 MiB for an object or a watch frame, 256 MiB for a
// decoded object in memory, 1 MiB for the parts of a list other than its items, 64 KiB for a Status.
var ErrTooLarge = decode.ErrTooLarge

// wait waits until the rate limit allows one more request. Call it before send: the deadlines of send are for the
// server alone.
func (c *Client) wait(ctx context.Context) error {
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

// request is one HTTP request.
type request struct {
	method      string
	url         *url.URL
	watch       bool // send sets no time limit for the body
	accept      string
	contentType string // of body
	body        []byte
	resource    schema.GroupResource // for errors; empty for discovery
	name        string               // for errors
}

// response is the response to a request that succeeded. The caller must close it.
type response struct {
	io.ReadCloser
	format decode.Format
	end    func()
}

// Close ends the request.
func (r *response) Close() error {
	defer r.end()
	return r.ReadCloser.Close()
}

// verb returns the verb of the Kubernetes API.
func (r *request) verb() string {
	switch {
	case r.watch:
		return "watch"
	case r.method == http.MethodGet && r.name == "" && r.resource.Resource != "":
		return "list"
	case r.method == http.MethodDelete && r.name == "":
		return "deletecollection"
	case r.method == http.MethodPost:
		return "create"
	case r.method == http.MethodPut:
		return "update"
	}
	return strings.ToLower(r.method)
}

// send sends one request. For a response that does not report success, it returns an [apierrors.APIStatus] with the
// server's error.
func (c *Client) send(ctx context.Context, r request) (*response, error) {
	header := http.Header{"Accept": {r.accept}}
	if r.contentType != "" {
		header.Set("Content-Type", r.contentType)
	}
	ended := func(RequestResult) {}
	if c.tracer != nil {
		name := r.name
		if r.method == http.MethodPost { // the path has no name
			name = ""
		}
		ctx, ended = c.tracer.Request(ctx, RequestTrace{
			Verb: r.verb(), Resource: r.resource, Name: name, Method: r.method, Host: r.url.Host,
			Path: "/" + strings.TrimPrefix(r.url.Path, "/"), Header: header,
		})
	}
	began := time.Now()
	resp, code, err := c.exchange(ctx, r, header)
	c.traffic.answered(ctx, r.method, code, err, time.Since(began))
	if err != nil {
		ended(RequestResult{code, err})
		return nil, err
	}
	if c.tracer != nil {
		end := resp.end
		resp.end = sync.OnceFunc(func() { end(); ended(RequestResult{Code: code}) })
	}
	return resp, nil
}

// exchange is send without status and traces. It also returns the status code of the response, or 0.
func (c *Client) exchange(ctx context.Context, r request, header http.Header) (_ *response, code int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(maxSilence, func() { cancel(ErrNoProgress) })
	end := func() { timer.Stop(); cancel(nil) }
	fail := func(err error) (*response, int, error) {
		end()
		return nil, code, fmt.Errorf("%s /%s: %w", r.method, strings.TrimPrefix(r.url.Path, "/"), err)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return fail(err)
	}
	req.Header = header
	httpClient := c.http
	if r.watch {
		httpClient = c.watches
	}
	resp, err := httpClient.Do(req)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // fail adds the method and the path
		}
		return fail(because(ctx, err))
	}
	code = resp.StatusCode
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, w := range warnings {
		c.warn(ctx, w.Code, w.Agent, w.Text)
	}
	if resp.StatusCode != http.StatusOK && (r.method == http.MethodGet || resp.StatusCode < 200 || resp.StatusCode > 299) {
		timer.Reset(statusTimeout)
		defer end()
		defer resp.Body.Close()
		return nil, code, responseError(resp, r.method, r.resource, r.name)
	}
	timer.Stop() // the caller limits a watch
	f, err := decode.FormatOf(resp.Header.Get("Content-Type"))
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" { // http removes gzip
		err = fmt.Errorf("the server sent content encoding %.100q, which was not requested", encoding)
	}
	if err != nil {
		resp.Body.Close()
		return fail(err)
	}
	body := resp.Body
	if !r.watch {
		body = newProgress(ctx, body, timer, maxSilence, listProgress)
	}
	return &response{body, f, end}, code, nil
}

// responseError returns the same error as client-go does for resp.
func responseError(resp *http.Response, method string, resource schema.GroupResource, name string) error {
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	retryAfter = min(retryAfter, math.MaxInt32)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, decode.MaxStatusBytes))
	f, err := decode.FormatOf(resp.Header.Get("Content-Type"))
	if f == decode.Protobuf {
		body, err = decode.Unwrap(body)
	}
	status := &metav1.Status{}
	if err == nil {
		status, err = f.Status(body)
	}
	if err != nil || status.Status != metav1.StatusFailure {
		message := "unknown"
		if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil ||
			strings.HasPrefix(media, "text/") {
			message = strings.TrimSpace(string(body[:min(len(body), 2048)]))
		}
		return apierrors.NewGenericServerResponse(resp.StatusCode, method, resource, name, message, retryAfter, true)
	}
	if retryAfter > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		if status.Details.RetryAfterSeconds == 0 {
			status.Details.RetryAfterSeconds = int32(retryAfter)
		}
	}
	return &apierrors.StatusError{ErrStatus: *status}
}

// serverIdentity identifies the server of a client, so that the objects of one server are not taken for those of
// another.
type serverIdentity struct {
	ca     string        // the sum of the certificate authority; empty if the system's are trusted
	asking chan struct{} // holds a token while a request for the UID is under way

	// Only the owner of the token uses these.
	failed   error // the last request had no answer in time
	failedAt time.Time
	pageAt   time.Time // the answer was a 404 without a Status, perhaps of a proxy, at that time; zero if it was not

	mu    sync.Mutex // protects the fields below
	uid   string     // of the namespace kube-system; empty if the client may not get it
	known bool
}

// sumOfCA returns a checksum of the certificate authority in config.
func sumOfCA(config *rest.Config) string {
	ca := config.CAData
	if len(ca) == 0 && config.CAFile != "" {
		ca, _ = os.ReadFile(config.CAFile) // the transport has read it, too
	}
	if len(ca) == 0 {
		return ""
	}
	return fmt.Sprintf("%x", sha256.Sum256(bytes.TrimSpace(ca)))
}

const (
	// identifyTimeout is the time for the answer to a small GET. All starts wait for it, also those that then list.
	identifyTimeout = 5 * time.Second
	// identifyAgain is the time during which no further request follows one that had no answer.
	identifyAgain = time.Minute
)

// errNotIdentified indicates that a request of cluster has failed.
var errNotIdentified = errors.New("identify the server")

// cluster returns the UID of the namespace kube-system, which a cluster has for its whole life. It is empty if the
// client may not get that namespace. Only the first call that succeeds sends a
// request, unless a proxy may have answered it.
func (c *Client) cluster(ctx context.Context) (string, error) {
	select {
	case c.server.asking <- struct{}{}:
		defer func() { <-c.server.asking }()
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	if uid, known := c.knownCluster(); known && (c.server.pageAt.IsZero() || time.Since(c.server.pageAt) < identifyAgain) {
		return uid, nil
	}
	if err := c.wait(ctx); err != nil {
		return "", err
	}
	if c.server.failed != nil && time.Since(c.server.failedAt) < identifyAgain {
		return "", c.server.failed
	}
	short, cancel := context.WithTimeoutCause(ctx, identifyTimeout, ErrNoProgress)
	defer cancel()
	uid, err := c.readCluster(short)
	if c.server.failed = nil; err != nil && short.Err() != nil && ctx.Err() == nil {
		c.server.failed, c.server.failedAt = fmt.Errorf("%w: %w", errNotIdentified, err), time.Now()
	}
	if c.server.pageAt = (time.Time{}); apierrors.IsNotFound(err) && !notfound.Is(err) {
		c.server.pageAt = time.Now()
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) ||
		apierrors.IsNotAcceptable(err) {
		uid, err = "", nil
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNotIdentified, err)
	}
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.uid, c.server.known = uid, true
	return uid, nil
}

// knownCluster returns what cluster has returned, and whether it has.
func (c *Client) knownCluster() (uid string, known bool) {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return c.server.uid, c.server.known
}

func (c *Client) readCluster(ctx context.Context) (string, error) {
	resp, err := c.send(ctx, request{
		method:   http.MethodGet,
		url:      c.base.JoinPath("api/v1/namespaces", metav1.NamespaceSystem),
		accept:   "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		resource: schema.GroupResource{Resource: "namespaces"},
		name:     metav1.NamespaceSystem,
	})
	if err != nil {
		return "", err
	}
	defer resp.Close()
	body, err := io.ReadAll(io.LimitReader(resp, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.format != decode.JSON {
		return "", errors.New("the server sent another format than requested")
	}
	meta, err := resp.format.Metadata(body)
	if err != nil {
		return "", err
	}
	return string(meta.UID), nil
}
