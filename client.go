package informer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Client talks to one API server. TLS, authentication, proxies, HTTP/2, the user agent, warnings and the request rate
// are as the rest.Config says, by client-go's own code. It is safe for concurrent use and meant to be shared.
//
// What a broken or hostile server sends ends in an error of that request, or of that object, and the informer tries
// again. A server cannot crash the process, keep an informer waiting for ever, or be sent on to another host with the
// client's credentials. The limits are:
//
//   - 32 MiB for an object or a watch frame, 1 MiB for all that a list has beside its items: [ErrTooLarge]
//   - 10,000 levels of nesting in an object; types that contain themselves, which could be nested in protobuf without
//     a limit, are asked for in JSON
//   - 90 s for the headers of an answer, and as much for each 16 KiB of a list: [ErrSilent]; time that the informer
//     takes to decode does not count. A streaming list has 10 s for each KiB, a watch until it should have ended
//   - 256 MiB of memory for what one object becomes when it is decoded, other than its strings: ErrTooLarge. A list of
//     empty structs has a few bytes for each kilobyte. An informer decodes four objects at once, at most
//   - 64 KiB and 10 s for the body of an error, and 8 KiB for its message
//
// There is no limit to how many objects a collection has. They all are kept, so it is up to the server, and to those
// who may create objects, how much memory an informer takes.
type Client struct {
	base    *url.URL
	http    *http.Client
	watches *http.Client // http without a time limit on the body
	limiter flowcontrol.RateLimiter
	accept  string // what the configuration asks for; empty lets the type decide
	warn    func(ctx context.Context, code int, agent, text string)
}

// NewClient returns a client for config, which it does not keep or change.
//
// QPS, Burst and RateLimiter limit the requests of all informers of the client together; zero QPS means client-go's
// default of 5 a second. Timeout limits lists, not watches. ContentType and AcceptContentTypes, where set, decide
// what is asked for; otherwise it is protobuf for types that can decode it, and JSON.
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
	lists := *httpClient // which may be http.DefaultClient
	lists.CheckRedirect = checkRedirect
	watches := lists
	watches.Timeout = 0
	c := &Client{
		base:    base,
		http:    &lists,
		watches: &watches,
		limiter: config.RateLimiter,
		accept:  config.AcceptContentTypes,
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

// Resource says which collection an [Informer] follows.
type Resource struct {
	schema.GroupVersionResource
	// Namespaces are the namespaces to follow, each by a list and a watch of its own. Empty means all of them, and
	// is the only choice for cluster-scoped resources.
	Namespaces []string
	// LabelSelector and FieldSelector restrict the collection, in the syntax of metav1.ListOptions. The server
	// evaluates them: an object that stops matching is deleted as far as the informer can see. Empty means all.
	LabelSelector, FieldSelector string
}

// String describes the resource for messages: "apps/v1 deployments in a,b with labels app=web".
func (r Resource) String() string {
	var b strings.Builder
	b.WriteString(r.GroupVersion().String())
	b.WriteByte(' ')
	b.WriteString(r.Resource)
	if len(r.Namespaces) > 0 {
		b.WriteString(" in " + strings.Join(r.Namespaces, ","))
	}
	if r.LabelSelector != "" {
		b.WriteString(" with labels " + r.LabelSelector)
	}
	if r.FieldSelector != "" {
		b.WriteString(" with fields " + r.FieldSelector)
	}
	return b.String()
}

// validate names the field that is wrong.
func (r Resource) validate() error {
	switch {
	case r.Resource == "":
		return errors.New("Resource.Resource is empty: it names the collection in the URL, like \"pods\"")
	case r.Version == "":
		return fmt.Errorf("Resource.Version of %s is empty: it is the API version, like \"v1\"", r.Resource)
	}
	for _, segment := range slices.Concat([]string{r.Group, r.Version, r.Resource}, r.Namespaces) {
		if reasons := rest.IsValidPathSegmentName(segment); len(reasons) > 0 {
			return fmt.Errorf("Resource %s: %q: %s", r, segment, strings.Join(reasons, ", "))
		}
	}
	for i, ns := range r.Namespaces {
		switch {
		case ns == "":
			return fmt.Errorf("Resource.Namespaces[%d] of %s is empty: to follow all namespaces, name none", i, r.Resource)
		case slices.Contains(r.Namespaces[:i], ns):
			return fmt.Errorf("Resource.Namespaces[%d] of %s repeats %q", i, r.Resource, ns)
		}
	}
	if _, err := labels.Parse(r.LabelSelector); err != nil {
		return fmt.Errorf("Resource.LabelSelector of %s: %w", r.Resource, err)
	}
	if _, err := fields.ParseSelector(r.FieldSelector); err != nil {
		return fmt.Errorf("Resource.FieldSelector of %s: %w", r.Resource, err)
	}
	return nil
}

// sources returns the namespaces that are listed and watched one by one; "" stands for all at once.
func (r Resource) sources() []string {
	if len(r.Namespaces) == 0 {
		return []string{""}
	}
	return r.Namespaces
}

func (r Resource) path(namespace string) string {
	prefix := "apis"
	if r.Group == "" {
		prefix = "api"
	}
	if namespace == "" {
		return path.Join(prefix, r.Group, r.Version, r.Resource)
	}
	return path.Join(prefix, r.Group, r.Version, "namespaces", namespace, r.Resource)
}

// checkRedirect lets a request go to no other server: client-go's transports put the credentials into each request,
// wherever it goes.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	switch {
	case req.URL.Scheme != from.Scheme || req.URL.Host != from.Host:
		return fmt.Errorf("the server redirects to another one, %.10s://%.100s", req.URL.Scheme, req.URL.Host)
	case len(via) >= 10:
		return errors.New("the server redirects for ever")
	}
	return nil
}

// ErrSilent indicates that the server did not answer in time, or stopped sending in the middle of an answer.
var ErrSilent = errors.New("the server is silent")

const (
	// maxSilence is how long the server may let us wait for the headers of an answer, and then for each listProgress
	// bytes of a list. kube-apiserver itself gives up on a list after a minute.
	maxSilence   = 90 * time.Second
	listProgress = 16 << 10
)

// answer is the body of an answer. Closing it ends the request.
type answer struct {
	io.ReadCloser
	end func()
}

func (a answer) Close() error {
	defer a.end()
	return a.ReadCloser.Close()
}

// patience is the body of a list, and ends the request when the server takes too long to send it. Who sends a byte now and
// then makes no progress.
type patience struct {
	io.ReadCloser
	ctx   context.Context // of the request
	timer *time.Timer     // ends ctx; runs while Read waits
	limit time.Duration   // for each so many bytes
	bytes int
	left  time.Duration // of limit
	read  int           // of bytes
	ended bool          // what has a limit was read
}

func newPatience(ctx context.Context, body io.ReadCloser, timer *time.Timer, limit time.Duration, bytes int) *patience {
	timer.Stop()
	return &patience{ReadCloser: body, ctx: ctx, timer: timer, limit: limit, bytes: bytes, left: limit}
}

func (p *patience) Read(b []byte) (int, error) {
	if p.ended {
		return p.ReadCloser.Read(b)
	}
	began := time.Now()
	p.timer.Reset(p.left)
	n, err := p.ReadCloser.Read(b)
	p.timer.Stop()
	p.left -= time.Since(began)
	if p.read += n; p.read >= p.bytes {
		p.read, p.left = 0, p.limit
	}
	if err != nil && err != io.EOF {
		err = because(p.ctx, err)
	}
	return n, err
}

// wait waits for the turn of one more request. It comes before get, so that a deadline can be for the server alone.
func (c *Client) wait(ctx context.Context) error {
	if c.limiter != nil {
		if err := c.limiter.Wait(ctx); err != nil {
			return fmt.Errorf("wait for the client's own rate limit: %w", err)
		}
	}
	return nil
}

// get sends one request for the collection and returns its answer, whose body the caller closes. Any answer but 200
// is an error, an [apierrors.APIStatus] with what the server said.
func (c *Client) get(ctx context.Context, r Resource, namespace string, query url.Values, accept string) (resp *http.Response, err error) {
	u := c.base.JoinPath(r.path(namespace))
	if r.LabelSelector != "" {
		query.Set("labelSelector", r.LabelSelector)
	}
	if r.FieldSelector != "" {
		query.Set("fieldSelector", r.FieldSelector)
	}
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(maxSilence, func() { cancel(ErrSilent) })
	end := func() { timer.Stop(); cancel(nil) }
	defer func() {
		if err != nil {
			end()
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	httpClient, isWatch := c.http, query.Get("watch") != ""
	if isWatch {
		httpClient = c.watches
	}
	resp, err = httpClient.Do(req)
	if err != nil {
		if failed := (*url.Error)(nil); errors.As(err, &failed) {
			err = failed.Err // what was asked for is said once, and shorter, by the caller
		}
		return nil, fmt.Errorf("GET /%s: %w", strings.TrimPrefix(u.Path, "/"), because(ctx, err))
	}
	warnings, _ := utilnet.ParseWarningHeaders(resp.Header["Warning"])
	for _, w := range warnings {
		c.warn(ctx, w.Code, w.Agent, w.Text)
	}
	if resp.StatusCode != http.StatusOK {
		timer.Reset(statusTimeout)
		defer resp.Body.Close()
		return nil, responseError(resp, http.MethodGet, r.GroupResource(), "")
	}
	timer.Stop()                                                                                   // what limits a watch, is up to the caller
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" { // gzip is gone by now
		resp.Body.Close()
		return nil, fmt.Errorf("GET /%s: the server sent content encoding %.100q, which was not asked for", strings.TrimPrefix(u.Path, "/"), encoding)
	}
	resp.Body = answer{resp.Body, end}
	if !isWatch {
		resp.Body = newPatience(ctx, resp.Body, timer, maxSilence, listProgress)
	}
	return resp, nil
}

const (
	// maxStatusBytes limits how much of an error's body is read, statusTimeout how long it takes.
	maxStatusBytes = 64 << 10
	statusTimeout  = 10 * time.Second
)

// responseError makes the error that client-go makes of the same answer.
func responseError(resp *http.Response, method string, resource schema.GroupResource, name string) error {
	retryAfter, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	retryAfter = min(retryAfter, math.MaxInt32)
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxStatusBytes))
	f, err := formatOf(resp.Header.Get("Content-Type"))
	if f == formatProtobuf {
		body, err = unwrapProtobuf(body)
	}
	status := &metav1.Status{}
	if err == nil {
		status, err = f.status(body)
	}
	if err != nil || status.Status != metav1.StatusFailure {
		message := "unknown"
		if media, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || strings.HasPrefix(media, "text/") {
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
