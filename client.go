package informer

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/saved"
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
	http    *transport.Client
	cluster *saved.Cluster // of the server; clients of WithTracer share it
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
	return &Client{client, saved.NewCluster(config)}, nil
}

// WithTracer returns a client that is like c, and reports each request to tracer. Both share the connections, the rate
// limit and the status. A nil tracer means none.
func (c *Client) WithTracer(tracer Tracer) *Client {
	if tracer == nil {
		return &Client{c.http.WithTracer(nil), c.cluster}
	}
	traced := c.http.WithTracer(func(ctx context.Context,
		t transport.Trace) (context.Context, func(transport.Result)) {
		ctx, ended := tracer.Request(ctx, RequestTrace(t))
		return ctx, func(r transport.Result) { ended(RequestResult(r)) }
	})
	return &Client{traced, c.cluster}
}

// Status returns the present status of the client.
func (c *Client) Status() ClientStatus { return clientStatus(c.http.Base.Host, c.http.Status()) }

// ErrTooLarge indicates that the response exceeds a size limit: 32 MiB for an object or a watch frame, 256 MiB for a
// decoded object in memory, 1 MiB for the parts of a list other than its items, 64 KiB for a Status.
var ErrTooLarge = decode.ErrTooLarge

// ErrNoProgress indicates that the server did not answer in time, or stopped sending in the middle of a response.
var ErrNoProgress = transport.ErrNoProgress
