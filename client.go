package informer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/budget"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/discovery"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/internal/source/warmstart"
	"github.com/typedinformer/informer/status"
)

// Client sends requests to one API server. The rest.Config sets TLS, authentication, proxies, HTTP/2, the user agent,
// the warning handler and the request rate; client-go's own code implements them. It is safe for concurrent use and
// meant to be shared.
//
// Over TLS, watches have connections of their own, unless the rest.Config has a Transport: HTTP/2 requests that share a
// connection wait for each other, and the server limits their number. Watches that begin together open no more
// connections than they need. Lists, reads and writes share connections with client-go's clients of the same
// rest.Config.
//
// An invalid response of a broken or hostile server is an error of that request or object, and the informer retries. A
// server cannot crash the process, block an informer forever, or redirect the client's credentials to another host. The
// limits are:
//
//   - 32 MiB for an object or a watch frame, 1 MiB for the parts of a list other than its items: [ErrTooLarge]
//   - 10,000 levels of nesting in an object. A type that contains itself is requested in JSON, since its nesting in
//     protobuf would have no limit
//   - 90 s for the headers of a response, and 90 s for each 16 KiB of a list, not counting decoding: [ErrNoProgress]. A
//     streaming list has 10 s for its headers, and for each KiB. A watch, with its headers, must end within 30 s after
//     its timeoutSeconds
//   - 256 MiB of memory for one decoded object without its strings: ErrTooLarge. A kilobyte of memory can come from a
//     few encoded bytes, such as a list of empty structs. An informer decodes at most four objects at once, however
//     many namespaces it follows
//   - 64 KiB and 10 s for the body of an error, and 8 KiB for its message
//   - 4 MiB and 10 s for a discovery document, which an informer reads only after a 404, and 16 MiB for an aggregated
//     one, which only Client.Discover reads
//
// There is no limit on the number of objects in a collection, unless Config.MaxMemory is set. The informer keeps all of
// them, so its memory depends on the server and on everybody who may create objects. If the first lists of a client are
// going to take more memory than the process has, the informer warns; see [status.Forecast].
type Client struct {
	http    *transport.Client
	cluster *warmstart.Cluster // of the server; those of WithTracer, WithGate and WithObserver share it, and updating
	// updating is held during an update, for http and cluster to have the same config.
	updating *sync.Mutex
	observe  func(obj Object) // see WithObserver; nil for none
	budget   *budget.Budget   // of the informers
	metadata *decode.Pool     // of *metav1.PartialObjectMetadata
	reader   *discovery.Reader
}

// errNoClient indicates a nil *Client.
var errNoClient = errors.New("the client is nil: create one with NewClient")

// NewClient returns a client for config, which it does not keep or change.
//
// QPS, Burst and RateLimiter limit the requests of all users of the client together; zero QPS means client-go's default
// of 5 per second. As in client-go, they do not limit watches and streaming lists, except one that follows another of
// the same informer within a second. Timeout limits requests of single objects, and the headers of lists: a list that
// takes long is no failure while it makes progress. It does not limit watches. AcceptContentTypes, or else ContentType,
// sets the media types to request. Empty means protobuf for types that support it, and JSON.
//
// Over TLS, watches have a transport, and so connections, of their own, unless config has a Transport. Each of the two
// transports is wrapped by WrapTransport.
func NewClient(config *rest.Config) (*Client, error) {
	client, err := transport.New(config)
	if err != nil {
		return nil, err
	}
	metadata, err := decode.NewPool(reflect.TypeFor[*metav1.PartialObjectMetadata](), client.Accept, false, nil)
	if err != nil {
		return nil, err
	}
	return &Client{
		http:     client,
		cluster:  warmstart.NewCluster(config, client.Base()),
		updating: new(sync.Mutex),
		budget:   budget.New(),
		metadata: metadata,
		reader:   new(discovery.Reader),
	}, nil
}

// Update makes the client use the server address, the TLS settings, the credentials, and the proxy, dialer, transport
// and transport wrappers of config, which it does not keep or change. It is for credentials and certificate
// authorities that are replaced while the program runs, and for a server that gets another address. A client of
// WithTracer, WithGate or WithObserver, and the client that it was made from, are updated together, with all their
// informers, typed clients and electors.
//
//   - Open watches end, and resume with the new credentials at the resource version that they have. Nothing is listed,
//     and no handler is called. An informer that waits after a failure, for example of the old credentials, tries again
//     at once.
//   - Other requests that have begun go on with what they have. Requests that have not begun, also the further pages of
//     a list, use config. If the address changes, lists that are under way begin again at the new one.
//   - Connections of the old config are closed when their last request ends.
//   - If the address changes, an audit follows within a minute; see Informer.Audit. The address must be one of the same
//     cluster. If it is not, the audit finds that, and the informers list.
//
// QPS, Burst, RateLimiter, Timeout, AcceptContentTypes, ContentType, UserAgent and the warning handler remain those of
// NewClient. If config is invalid, Update returns an error and changes nothing; it does not connect to the server. Of
// several calls at the same time, one is the last.
func (c *Client) Update(config *rest.Config) error {
	c.updating.Lock()
	defer c.updating.Unlock()
	if err := c.http.Update(config); err != nil {
		return fmt.Errorf("update the client: %w", err)
	}
	c.cluster.Update(config, c.http.Base())
	return nil
}

// WithTracer returns a client that is like c, and reports each request to tracer. Both share the connections, the rate
// limit and the status. A nil tracer means none.
func (c *Client) WithTracer(tracer Tracer) *Client {
	traced := *c
	if tracer == nil {
		traced.http = c.http.WithTracer(nil)
		return &traced
	}
	traced.http = c.http.WithTracer(func(ctx context.Context,
		t transport.Trace) (context.Context, func(transport.Result)) {
		ctx, ended := tracer.Request(ctx, RequestTrace(t))
		return ctx, func(r transport.Result) { ended(RequestResult(r)) }
	})
	return &traced
}

// WithGate returns a client that is like c, and whose writes stop at gate: all requests but GET, so also reviews such
// as a SubjectAccessReview. While the gate is closed, a write is refused with an error that wraps [ErrGateClosed].
// When the gate closes, the context of each write under way ends, and its error wraps ErrGateClosed. The server may
// have executed such a write. Informers and reads go on. Both clients share the connections, the rate limit and the
// status. A nil gate means none.
func (c *Client) WithGate(gate *Gate) *Client {
	gated := *c
	if gate == nil {
		gated.http = c.http.WithGate(nil)
		return &gated
	}
	gated.http = c.http.WithGate(gate.Enter)
	return &gated
}

// WithObserver returns a client that is like c, and with which informers pass each object to observe before anybody
// else sees it, after Config.Transform. Both clients share the connections, the rate limit and the status. Several
// informers call observe at the same time. Their Config.Layout is ignored, so that each object has memory of
// its own: it is for tests, such as those with informertest.DetectAllMutations. A nil observe means none.
func (c *Client) WithObserver(observe func(obj Object)) *Client {
	observed := *c
	observed.observe = observe
	return &observed
}

// account returns the account of one informer that may hold so many bytes. A nil client has none.
func (c *Client) account(most int64) *budget.Account {
	if c == nil {
		return nil
	}
	return c.budget.Account(most)
}

// Status returns the present status of the client.
func (c *Client) Status() status.Client { return c.http.Status() }

// Discover asks the server for all groups, versions and resources that it serves. It uses aggregated discovery, which
// takes two requests, and none of the two bodies if nothing has changed since the last call. From a server before
// Kubernetes 1.26 it reads the document of each version, eight at once.
//
// An error means that not even the groups are known. A group or version that is not known has an error in the result,
// beside the others; see [status.Discovery]. So a resource that is missing in a result is not served only if its group
// has no error, and the version is missing or known. The requests wait for the rate limit. A server without aggregated
// discovery may have 2,000 versions, and each server 2,000 groups and 20,000 resources. Calls share results: do not
// change them.
func (c *Client) Discover(ctx context.Context) (status.Discovery, error) {
	if c == nil {
		return status.Discovery{}, errNoClient
	}
	d, err := c.reader.Read(ctx, c.http.Base().String(),
		func(ctx context.Context, r discovery.Request) (discovery.Document, error) {
			return fetch.Document(ctx, c.http, r, func(status.Awaiting) {})
		})
	if err != nil {
		return d, fmt.Errorf("discovery: %w", err)
	}
	return d, nil
}

// ErrTooLarge indicates that the response exceeds a size limit: 32 MiB for an object or a watch frame, 256 MiB for a
// decoded object in memory, 1 MiB for the parts of a list other than its items, 64 KiB for a Status.
var ErrTooLarge = decode.ErrTooLarge

// ErrNoProgress indicates that the server did not answer in time, or stopped sending in the middle of a response.
var ErrNoProgress = transport.ErrNoProgress

// Tracer receives the spans of requests and reconciles; see [Client.WithTracer] and Controller.Tracer. Its methods are
// called when an operation begins, in the goroutine of the operation, and return the context of the operation and a
// function that is called once, when it ends. Neither context nor function may be nil. Both methods must be safe for
// concurrent use.
type Tracer interface {
	// Request is called before a request is sent.
	Request(ctx context.Context, r RequestTrace) (context.Context, func(RequestResult))
	// Reconcile is called before Controller.Reconcile, with the name of the controller and the key. The function receives
	// the error of the reconcile.
	Reconcile(ctx context.Context, controller string, key any) (context.Context, func(error))
}

// RequestTrace describes a request.
type RequestTrace struct {
	// Verb is the verb of the Kubernetes API: "get", "list", "watch", "create", "update", "patch", "delete" or
	// "deletecollection".
	Verb string
	// Resource is the resource of the request, and Name the name of the object. Name is empty for a list, a watch and a
	// creation. Both are empty for a discovery document.
	Resource schema.GroupResource
	Name     string
	// Method, Host and Path are those of the HTTP request. Path has no query.
	Method, Host, Path string
	// Header is the header of the request, to which Tracer.Request may add fields.
	Header http.Header
}

// RequestResult describes the end of a request. A watch or a list ends when its body is closed.
type RequestResult struct {
	// Code is the HTTP status code. Zero means that there was no response.
	Code int
	// Err is the failure of a request without a response or with an error status. It is nil if the body of a successful
	// response cannot be read.
	Err error
}
