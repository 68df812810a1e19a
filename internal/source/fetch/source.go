package fetch

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/status"
)

// Intake takes the encoded objects of one response, decodes them and hands them on in order.
type Intake interface {
	// Add adds an encoded object, whose bytes it copies. list is the list of the object, as far as it has been read, or
	// nil for a watch.
	Add(raw []byte, deleted bool, list *decode.ListInfo)
	// AddValue adds an object that is a Go value; see [Source.HasValues].
	AddValue(obj any, deleted bool)
	// AddLarge adds an object over the size limit, whose bytes are not available.
	AddLarge(large *decode.LargeError, deleted bool)
	// Fill begins to decode what has been added, and then reads more of the response. If the intake has failed, the error
	// may be any; Wait returns the failure.
	Fill(body interface{ Fill() error }) error
	// Wait waits until all added objects have been handed on, and returns the first failure.
	Wait() error
}

// NewIntake returns an intake of a response in format f. The intake calls cancel with its first failure, which ends the
// response.
type NewIntake func(f decode.Format, cancel func(error)) Intake

// Config describes a Source.
type Config struct {
	Client                       *transport.Client
	Path                         string // of the collection
	Resource                     schema.GroupVersionResource
	Kind                         *decode.Kind // of the objects; nil for any
	LabelSelector, FieldSelector string
	Accept, AcceptList           string                    // the media types of a watch and of a list
	Background                   bool                      // requests give way to the lists of the client
	Check                        func(decode.Format) error // returns an error if objects in a format cannot be decoded
	// Torn allows lists whose pages are of different resource versions: later changes to objects of the list are sent
	// again by the watch, and must not replace newer objects.
	Torn bool
}

// Source is one collection of an API server, or one namespace of it. Its methods are for one goroutine, except Traffic.
//
// The last parameter of a request is the selector of a shard, or empty. A server without the feature ignores it.
type Source struct {
	Awaits Awaits // what the source waits for; its user may set it between requests

	watched  time.Time       // when the last watch was opened
	quiet    time.Time       // since when watches have had no event; zero if the last one had some
	worked   bool            // a watch has worked since the last call of Worked
	cuts     cuts            // of watches
	pulse    bookmarks       // of watches
	picky    bool            // the server rejects the media type parameter that drops managedFields
	address  context.Context // transport.Client.Moved of the last watch; nil before the first
	moved    bool            // the last watch had another address than the one before
	config   Config
	lists    atomic.Int64 // requests
	watches  atomic.Int64 // requests
	cutAfter atomic.Int64 // the limit of cuts
	events   atomic.Int64 // events of watches
	bytes    atomic.Int64 // of bodies
	auditID  atomic.Value // of the latest watch; a string
}

// NewSource returns a source. It sends nothing yet.
func NewSource(c Config) *Source { return &Source{config: c} }

// Path returns the path of a collection, or of one namespace of it.
func Path(resource schema.GroupVersionResource, namespace string) string {
	prefix := "apis"
	if resource.Group == "" {
		prefix = "api"
	}
	if namespace != "" {
		namespace = path.Join("namespaces", namespace)
	}
	return path.Join(prefix, resource.Group, resource.Version, namespace, resource.Resource)
}

// Metadata returns a source of the metadata of the objects of s, or of the one with that key if it has a name. pool
// decodes metadata. The requests give way to the lists of the client.
func (s *Source) Metadata(pool *decode.Pool, key object.Key) *Source {
	c := s.config
	if key.Name != "" {
		c.Path = Path(c.Resource, key.Namespace)
		c.FieldSelector = strings.TrimPrefix(c.FieldSelector+",metadata.name="+key.Name, ",")
	}
	return NewSource(Config{
		Client:        c.Client,
		Path:          c.Path,
		Resource:      c.Resource,
		Kind:          c.Kind.WithMetadata(),
		LabelSelector: c.LabelSelector,
		FieldSelector: c.FieldSelector,
		AcceptList:    pool.AcceptList() + "," + c.AcceptList, // not every server has metadata alone
		Background:    true,
		Check:         pool.Check,
	})
}

// Counter returns a source for [Source.Count] while s lists. pool decodes metadata.
func (s *Source) Counter(pool *decode.Pool) *Source {
	counter := s.Metadata(pool, object.Key{})
	counter.config.Background = false
	return counter
}

// Updated returns a context that the next update of the client ends.
func (s *Source) Updated() context.Context { return s.config.Client.Updated() }

// Moved reports whether the client has another address at the last watch than at the one before.
func (s *Source) Moved() bool { return s.moved }

// Traffic returns the counts of the source until now: those of requests and received data, AuditID and CutAfter. Any
// goroutine may call it.
func (s *Source) Traffic() status.ReflectorTraffic {
	auditID, _ := s.auditID.Load().(string)
	return status.ReflectorTraffic{
		Lists:    int(s.lists.Load()),
		Watches:  int(s.watches.Load()),
		Bytes:    s.bytes.Load(),
		Events:   s.events.Load(),
		AuditID:  auditID,
		CutAfter: time.Duration(s.cutAfter.Load()),
	}
}

// Received returns the number of bytes that the source has received. Any goroutine may call it.
func (s *Source) Received() int64 { return s.bytes.Load() }

// Awaits is a [status.Awaiting] that one goroutine changes and others read.
type Awaits struct{ value atomic.Uint32 }

// Set sets the value.
func (a *Awaits) Set(to status.Awaiting) { a.value.Store(uint32(to)) }

// Get returns the value.
func (a *Awaits) Get() status.Awaiting { return status.Awaiting(a.value.Load()) }

// readyToWatch waits until a watch may be opened. As in client-go, the rate limit does not delay it. A watch that
// follows another within shortWatch waits, though, since nothing else limits the requests to a server that ends each
// watch early.
func (s *Source) readyToWatch(ctx context.Context) error {
	if time.Since(s.watched) < shortWatch {
		if err := s.ready(ctx); err != nil {
			return err
		}
	}
	s.watched = time.Now()
	if s.quiet.IsZero() {
		s.quiet = s.watched
	}
	return nil
}

// Worked reports whether a watch that has ended since the last call of Worked did work: it delivered an event or a
// bookmark, or stood for a while.
func (s *Source) Worked() bool {
	worked := s.worked
	s.worked = false
	return worked
}

// ready waits until the rate limit allows one more request.
func (s *Source) ready(ctx context.Context) error {
	if s.config.Background {
		if err := s.config.Client.Precedence.GiveWay(ctx); err != nil {
			return err
		}
	}
	s.Awaits.Set(status.AwaitingRateLimit)
	return s.config.Client.Wait(ctx)
}

// send sends one request for the collection.
func (s *Source) send(ctx context.Context, query url.Values, accept, shard string) (*transport.Response, error) {
	if s.config.LabelSelector != "" {
		query.Set("labelSelector", s.config.LabelSelector)
	}
	if s.config.FieldSelector != "" {
		query.Set("fieldSelector", s.config.FieldSelector)
	}
	if shard != "" {
		query.Set("shardSelector", shard)
	}
	resp, err := s.request(ctx, query, accept)
	refused := transport.StatusCode(err) == http.StatusNotAcceptable
	if refused && !s.picky && strings.Contains(accept, decode.DropManagedFields) {
		s.picky = true
		resp, err = s.request(ctx, query, accept)
	}
	if err != nil {
		return nil, err
	}
	if err := s.config.Check(resp.Format); err != nil {
		resp.Close()
		return nil, err
	}
	s.Awaits.Set(status.AwaitingData)
	resp.ReadCloser = countedBody{resp.ReadCloser, &s.bytes}
	return resp, nil
}

// request sends one request.
func (s *Source) request(ctx context.Context, query url.Values, accept string) (*transport.Response, error) {
	if s.picky {
		accept = strings.ReplaceAll(accept, decode.DropManagedFields, "")
	}
	s.Awaits.Set(status.AwaitingResponse)
	return s.config.Client.Send(ctx, transport.Request{
		Method: http.MethodGet, Path: s.config.Path, Query: query, Watch: query.Has("watch"), Accept: accept,
		Resource: s.config.Resource.GroupResource(),
	})
}

// countedBody is the body of a response whose bytes are counted.
type countedBody struct {
	io.ReadCloser
	bytes *atomic.Int64
}

func (c countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}
