package informer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/transport"
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
	http   *transport.Client
	server *serverIdentity
}

// errNoClient indicates a nil *Client.
var errNoClient = errors.New("the client is nil: create one with NewClient")

// NewClient returns a client for config, which it does not keep or change.
//
// QPS, Burst and RateLimiter limit the requests of all informers of the client together; zero QPS means client-go's
// default of 5 per second. Timeout limits lists, not watches. AcceptContentTypes, or else ContentType, sets the media
// types to request. Empty means protobuf for types that support it, and JSON.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := transport.New(config)
	if err != nil {
		return nil, err
	}
	return &Client{client, &serverIdentity{ca: sumOfCA(config), asking: make(chan struct{}, 1)}}, nil
}

// WithTracer returns a client that is like c, and reports each request to tracer. Both share the connections, the rate
// limit and the status. A nil tracer means none.
func (c *Client) WithTracer(tracer Tracer) *Client {
	if tracer == nil {
		return &Client{c.http.WithTracer(nil), c.server}
	}
	traced := c.http.WithTracer(func(ctx context.Context,
		t transport.Trace) (context.Context, func(transport.Result)) {
		ctx, ended := tracer.Request(ctx, RequestTrace(t))
		return ctx, func(r transport.Result) { ended(RequestResult(r)) }
	})
	return &Client{traced, c.server}
}

// Status returns the present status of the client.
func (c *Client) Status() ClientStatus { return clientStatus(c.http.Base.Host, c.http.Status()) }

// ErrTooLarge indicates that the response exceeds a size limit: 32 MiB for an object or a watch frame, 256 MiB for a
// decoded object in memory, 1 MiB for the parts of a list other than its items, 64 KiB for a Status.
var ErrTooLarge = decode.ErrTooLarge

// ErrNoProgress indicates that the server did not answer in time, or stopped sending in the middle of a response.
var ErrNoProgress = transport.ErrNoProgress

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
	if err := c.http.Wait(ctx); err != nil {
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
	resp, err := c.http.Send(ctx, transport.Request{
		Method:   http.MethodGet,
		URL:      c.http.Base.JoinPath("api/v1/namespaces", metav1.NamespaceSystem),
		Accept:   "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		Resource: schema.GroupResource{Resource: "namespaces"},
		Name:     metav1.NamespaceSystem,
	})
	if err != nil {
		return "", err
	}
	defer resp.Close()
	body, err := io.ReadAll(io.LimitReader(resp, 1<<20))
	if err != nil {
		return "", err
	}
	if resp.Format != decode.JSON {
		return "", errors.New("the server sent another format than requested")
	}
	meta, err := resp.Format.Metadata(body)
	if err != nil {
		return "", err
	}
	return string(meta.UID), nil
}
