// Package informertest is an API server in the process, for tests and demonstrations of programs that talk to
// Kubernetes: real HTTP, real list and watch (package watchcache), objects in memory.
//
//	server := informertest.NewServer(informertest.Options{})
//	defer server.Close()
//	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{
//		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
//	})
//	pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
//	clientset, err := kubernetes.NewForConfig(server.Config())
//
// Clients need no changes: clientsets, dynamic and metadata clients and their informers, RESTMappers and kubectl work on
// it. Programs that have to be tested against failures of the API server find them in [Server.Inject].
//
// # What there is
//
//   - The resources that are registered, by a Go type or as unstructured objects: create, get, list, watch, update, patch,
//     delete, deletecollection and the status subresource, in JSON, in protobuf for types that have it, and with metadata
//     only. List and watch are those of package watchcache.
//   - Objects as kube-apiserver and etcd treat them: one counter of resource versions for all, optimistic concurrency,
//     uid, generation, creationTimestamp, generateName, finalizers and deletionTimestamp, dry runs, preconditions, and
//     errors as metav1.Status.
//   - JSON patch, JSON merge patch, and strategic merge patch for types that have protobuf. Server-side apply for custom
//     resources, whose lists it takes as a whole, and, with Options.TypeConverter, for Kubernetes' own; another patch is
//     answered 415 Unsupported Media Type. metadata.managedFields are kept for objects that were applied.
//   - Discovery, aggregated or by group, of OpenAPI v3 what kubectl apply asks for, /version, and /healthz, /livez, /readyz.
//
// # What there is not
//
// There is no authentication, authorization, admission, defaulting or validation but of metadata; unknown fields are
// refused only where fieldValidation=Strict asks for it. Versions of a resource are resources apart, and a custom
// resource no schema. Nothing is done by controllers: no garbage collection by owner (propagationPolicy is overlooked),
// no graceful deletion (a pod is gone at once), and a namespace need not exist.
//
// Other subresources than status, Tables (kubectl prints names and ages by itself), CBOR, compression, HTTP/2 and TLS are
// not served.
//
// # Time and goroutines
//
// With Options.InMemory a server works within a bubble of testing/synctest. Every goroutine of a server has ended when
// Close returns.
package informertest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// Options of a [Server]. The zero value serves over TCP on loopback.
type Options struct {
	// InMemory serves over pipes within the process, for the clients of Server.Config only. Tests in a bubble of
	// testing/synctest need it. A pipe has no buffer: who does not read makes the writer wait at once.
	InMemory bool
	// Window is how many of the latest changes of each resource can be watched from; see watchcache.Config.
	// Zero means its default.
	Window int
	// TypeConverter knows the lists of built-in types that server-side apply merges by key. Nil means that it is not served
	// for them; custom resources do without. The one of client-go links every type of Kubernetes into the program:
	//
	//	applyconfigurations.NewTypeConverter(scheme.Scheme)
	TypeConverter managedfields.TypeConverter
	// Middleware, when not nil, is put before the server's own handler, behind its log of requests. It is the place for
	// what a [Fault] cannot do. A middleware that wraps the http.ResponseWriter has to give it an Unwrap method.
	Middleware func(http.Handler) http.Handler
}

// maxRequests is how many requests a server remembers at least.
const maxRequests = 10_000

// Server is an API server in the process. Create one with [NewServer]; all methods are safe for concurrent use.
type Server struct {
	// URL is the address to reach it at, without a slash at the end.
	URL string

	http    *http.Server
	options Options
	running sync.WaitGroup // http.Serve and the connections
	cancel  context.CancelFunc

	// mu makes writes take turns: the changes of all resources are in one order, that of their resource versions.
	mu          sync.Mutex
	rv          uint64
	collections map[schema.GroupVersionResource]collection

	httpMu   sync.Mutex   // protects the fields below
	listener net.Listener // nil while stopped
	requests []Request
	faults   []*activeFault
	conns    map[net.Conn]struct{}
	closed   bool
}

// collection is a [Collection] of any type.
type collection interface {
	serve(w http.ResponseWriter, r *http.Request, req Request)
	described() Resource
	bookmark(rv uint64)
	endWatches()
	compact()
	snapshot() (restore func(rv uint64))
	clear(rv uint64)
}

// Snapshot is the state of a [Server] at one time, as a backup of etcd is.
type Snapshot struct {
	rv      uint64
	restore map[collection]func(rv uint64)
}

// Request is one request as the server's log has it.
type Request struct {
	Time time.Time
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, as in Kubernetes' authorization.
	// It is empty for a path that is none of the API's.
	Verb        string
	Resource    schema.GroupVersionResource
	Namespace   string
	Name        string
	Subresource string
	Path        string
	Query       url.Values
	Header      http.Header
}

// NewServer starts a server. It panics if it cannot listen, as httptest.NewServer does.
func NewServer(options Options) *Server {
	s := &Server{
		URL:         "http://in-memory",
		options:     options,
		rv:          1, // as a new etcd: in a request, version 0 has a meaning of its own
		collections: map[schema.GroupVersionResource]collection{},
		conns:       map[net.Conn]struct{}{},
	}
	handler := s.withFaults(http.HandlerFunc(s.serve))
	if options.Middleware != nil {
		handler = options.Middleware(handler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = &http.Server{Handler: s.logged(handler), ConnState: s.connState, BaseContext: func(net.Listener) context.Context { return ctx }}
	s.listen("127.0.0.1:0")
	if !options.InMemory {
		s.URL = "http://" + s.listener.Addr().String()
	}
	return s
}

// listen makes the server accept connections; over TCP, at that address.
func (s *Server) listen(address string) {
	var l net.Listener = newPipeListener()
	if !s.options.InMemory {
		var err error
		if l, err = net.Listen("tcp", address); err != nil {
			panic(fmt.Sprintf("informertest: listen: %v", err))
		}
	}
	s.listener = l
	s.running.Go(func() { s.http.Serve(l) })
}

// dial connects to a server in memory. It has the signature of rest.Config.Dial.
func (s *Server) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s.httpMu.Lock()
	l, _ := s.listener.(*pipeListener)
	s.httpMu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: "pipe", Addr: pipeAddr{}, Err: syscall.ECONNREFUSED}
	}
	return l.dial(ctx)
}

// Config returns how clients reach the server, without a limit of their rate. Each call returns a new one.
func (s *Server) Config() *rest.Config {
	config := &rest.Config{Host: s.URL, QPS: -1}
	if s.options.InMemory {
		config.Dial = s.dial
		// The host name is made up, and a proxy cannot know it. Besides, client-go keeps no transport for later that
		// has a function here, so that none outlives a synctest bubble.
		config.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	}
	return config
}

// RV returns the resource version of the latest change.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatUint(s.rv, 10)
}

// Requests returns the requests that have come in since the start or the last call of ResetRequests, oldest first.
// Of very many, only the last 10,000 or more are remembered.
func (s *Server) Requests() []Request {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	return slices.Clone(s.requests)
}

// ResetRequests forgets the requests that have come in so far.
func (s *Server) ResetRequests() {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	s.requests = nil
}

// EndWatches ends all watches cleanly, as kube-apiserver does when their time is over.
func (s *Server) EndWatches() {
	s.eachCollection(collection.endWatches)
}

// Compact forgets all versions but the present, as a compaction of etcd does: who watches, lists or pages from an older
// one is answered 410 Expired. Watches that have kept up go on.
func (s *Server) Compact() {
	s.eachCollection(collection.compact)
}

// Snapshot returns the present state.
func (s *Server) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	backup := &Snapshot{rv: s.rv, restore: map[collection]func(uint64){}}
	for _, c := range s.collections {
		backup.restore[c] = c.snapshot()
	}
	return backup
}

// Restore makes the state what it was at a snapshot of this server, resource version included, as when etcd is restored
// from a backup: versions that clients have seen are yet to come, and will then be those of other changes. All watches
// end. Resources that were registered later become empty.
func (s *Server) Restore(backup *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv = backup.rv
	for _, c := range s.collections {
		if restore, ok := backup.restore[c]; ok {
			restore(s.rv)
		} else {
			c.clear(s.rv)
		}
	}
}

func (s *Server) eachCollection(do func(collection)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		do(c)
	}
}

// CloseConnections breaks all connections, whatever goes on in them. New ones are accepted.
func (s *Server) CloseConnections() {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	for conn := range s.conns {
		conn.Close()
	}
}

// Stop makes the server unreachable, as a kube-apiserver that is down: it breaks all connections, and until Start refuses
// new ones. What is stored stays, and Collection can still be written to.
func (s *Server) Stop() {
	s.httpMu.Lock()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	s.httpMu.Unlock()
	s.CloseConnections()
}

// Start makes the server reachable again after Stop, at the same address. Otherwise it does nothing. It panics if it
// cannot listen.
func (s *Server) Start() {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	if s.listener == nil && !s.closed {
		s.listen(strings.TrimPrefix(s.URL, "http://"))
	}
}

// Close ends all requests and stops the server. When it returns, every goroutine of the server has ended.
func (s *Server) Close() {
	s.httpMu.Lock()
	s.closed = true
	s.httpMu.Unlock()
	s.cancel()
	s.http.Close()
	s.CloseConnections() // http.Server.Close may miss those that are being accepted
	s.running.Wait()
}

func (s *Server) connState(conn net.Conn, state http.ConnState) {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	switch state {
	case http.StateNew:
		s.running.Add(1)
		s.conns[conn] = struct{}{}
		if s.closed || s.listener == nil {
			conn.Close()
		}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, conn)
		s.running.Done()
	}
}

// commitLocked runs a write at the next resource version.
func (s *Server) commitLocked(write func(rv uint64)) {
	s.rv++
	write(s.rv)
	for _, c := range s.collections {
		c.bookmark(s.rv) // the versions of all collections move together, as those of one etcd
	}
}

func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := parseRequest(r)
		s.httpMu.Lock()
		if len(s.requests) >= 2*maxRequests {
			s.requests = slices.Clone(s.requests[maxRequests:])
		}
		s.requests = append(s.requests, req)
		s.httpMu.Unlock()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, req)))
	})
}

// requestKey is the context key of the Request.
type requestKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	req := r.Context().Value(requestKey{}).(Request)
	s.mu.Lock()
	c, ok := s.collections[req.Resource]
	s.mu.Unlock()
	if !ok {
		if !s.serveOther(w, r) {
			http.NotFound(w, r) // as kube-apiserver: not even a Status
		}
		return
	}
	c.serve(w, r, req)
}

// key returns the key of the object that the request names.
func (r Request) key() informer.Key { return informer.Key{Namespace: r.Namespace, Name: r.Name} }
