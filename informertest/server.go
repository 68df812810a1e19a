// Package informertest is an in-process API server, for tests and demonstrations of programs that talk to Kubernetes.
// It has real HTTP, and the list and watch of package watchcache. Objects are in memory.
//
//	server := informertest.NewServer(informertest.Options{})
//	defer server.Close()
//	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{
//		GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"),
//	})
//	pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
//	clientset, err := kubernetes.NewForConfig(server.Config())
//
// Clients work unchanged: clientsets, dynamic and metadata clients and their informers, RESTMappers and kubectl.
// [Server.Inject] makes requests fail, for tests of programs against failures of the API server.
//
// # Supported
//
//   - The registered resources, by a Go type or as unstructured objects: create, get, list, watch, update, patch,
//     delete, deletecollection and the status subresource. Encodings are JSON, protobuf for types that have it,
//     metadata only, and Tables.
//   - The object semantics of kube-apiserver and etcd: one counter of resource versions for all objects, optimistic
//     concurrency, uid, generation, creationTimestamp, generateName, finalizers and deletionTimestamp, dry runs,
//     preconditions, and errors as metav1.Status. Where kube-apiserver does so, an update of a kind needs a
//     resourceVersion, as for Leases, or creates what does not exist, as for Leases and Roles.
//   - JSON patch, JSON merge patch, and strategic merge patch for types that have protobuf. Server-side apply for
//     custom resources, with lists as atomic values; for Kubernetes' own types, it needs Options.TypeConverter. Any
//     other patch fails with 415 Unsupported Media Type. Objects that support apply have metadata.managedFields from their
//     creation by a client on. An object that a [Collection] creates has them from the first apply on.
//   - The subresources scale, eviction (as a PodDisruptionBudget allows), binding, ephemeralcontainers, finalize, approval
//     of a CertificateSigningRequest, and token of a ServiceAccount. With [RegisterReviews], the reviews of
//     authentication and authorization.
//   - Controllers of a cluster, each if it is turned on; see [Controllers].
//   - Users with client certificates and tokens, impersonation, and authorization by a function; see [Auth].
//   - Admission webhooks, mutating and validating, if their configurations are registered as resources. They are called by
//     URL, and may call the server. Options.MatchConditions evaluates their matchConditions. With matchPolicy Equivalent,
//     the default, a webhook gets an object in the version of its rules, if the server serves that one; see
//     Resource.ObjectsOf. The server does not ask about eviction, binding, scale and token.
//   - fieldValidation: JSON fields that a type does not have, and duplicates, are warnings, or errors if it is Strict. A patch
//     is checked too, and the duplicates of an applied object.
//   - Discovery, aggregated with ETags or by group, APIs whose server is away, the parts of OpenAPI v3 that kubectl apply and explain request, /version, and
//     /healthz, /livez, /readyz.
//
// # Not supported
//
// The server has no defaulting or admission plugins, and validates only metadata. Versions of a resource are separate resources,
// and custom resources have no schema; module informertest/crds serves CustomResourceDefinitions, which have both. There
// are no controllers but those of [Controllers]: by default, owners have no effect, an object that is deleted with the
// propagationPolicy Foreground or Orphan keeps its finalizer, a pod disappears at once, and a namespace need not
// exist.
//
// Other subresources, CBOR, HTTP/2, and compression except of streaming lists are not served. Tables have the columns Name and Age, if
// Resource.Table has no others.
//
// # Time and goroutines
//
// With Options.InMemory, a server works in a testing/synctest bubble, where time stops while a goroutine waits for a
// mutex. So a connection in memory ends with its first watch: net/http, which reads the rest of a body that was closed
// early from a connection that it wants to keep, takes a mutex for that. When Close returns, every goroutine of the
// server has ended.
package informertest

import (
	"context"
	"crypto/tls"
	"errors"
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

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/gzipstream"
	"github.com/typedinformer/informer/watchcache"
)

// Options of a [Server]. The zero value serves over TCP on loopback.
type Options struct {
	// InMemory serves over pipes within the process, only for clients of Server.Config. Tests in a testing/synctest
	// bubble need it. A pipe has no buffer: a writer waits until its peer reads.
	InMemory bool
	// Window is how many of the latest changes of each resource a watch can start from; see watchcache.Config. Zero
	// means its default.
	Window int
	// TypeConverter knows the lists of built-in types that server-side apply merges by key. Nil means that the server
	// supports neither apply nor managedFields for built-in types; custom resources do not need it. client-go's converter links every
	// type of Kubernetes into the program:
	//
	//	applyconfigurations.NewTypeConverter(scheme.Scheme)
	TypeConverter managedfields.TypeConverter
	// Shards makes the server filter by shardSelector, like a kube-apiserver with the feature gate ShardedListAndWatch,
	// alpha since 1.36. False means that it ignores the parameter.
	Shards bool
	// ManagedFieldsOptOut makes the server leave out managedFields from JSON if a client asks for that, like a
	// kube-apiserver with the feature gate of that name (KEP-5958). False means that it ignores the wish.
	ManagedFieldsOptOut bool
	// WatchListCompression makes the server compress streaming lists for clients that accept gzip, like kube-apiserver
	// 1.37; see watchcache.Config. False means no compression.
	WatchListCompression bool
	// Auth makes the server serve HTTPS and authenticate and authorize its clients. Nil means plain HTTP for everybody.
	Auth *Auth
	// Controllers are the controllers of a cluster that the server has. The zero value has none, like envtest.
	Controllers Controllers
	// MatchConditions evaluates the matchConditions of admission webhooks for a request: whether all of them are true. It
	// may be called concurrently. crds.NewMatchConditions in module informertest/crds makes one. Nil means that a write
	// for which they would have to be evaluated fails, whatever the failurePolicy of the webhook is.
	MatchConditions func(all []registrationv1.MatchCondition, request *admissionv1.AdmissionRequest) (bool, error)
	// Middleware, if not nil, wraps the server's own handler; the request log is outside of it. It can do what a
	// [Fault] cannot. If it wraps the http.ResponseWriter, the wrapper needs an Unwrap method.
	Middleware func(http.Handler) http.Handler
}

// maxRequests is how many requests a server remembers at least.
const maxRequests = 10_000

// Server is an in-process API server. Create one with [NewServer]. All methods are safe for concurrent use.
type Server struct {
	// URL is the address of the server, without a slash at the end.
	URL string

	http        *http.Server
	options     Options
	controllers *controllers
	users       *users         // nil without Options.Auth
	running     sync.WaitGroup // http.Serve, the connections and the controllers
	cancel      context.CancelFunc

	// mu serializes writes, so that the changes of all resources are in the order of their resource versions.
	mu          sync.Mutex
	rv          uint64
	collections map[schema.GroupVersionResource]*collection
	reviews     map[schema.GroupVersionResource]review

	httpMu   sync.Mutex   // protects the fields below
	listener net.Listener // nil while stopped
	requests []Request
	faults   []*activeFault
	holds    []*Hold
	streams  []*watchStream // the open watches, in the order of their start
	heldMore chan struct{}  // closed when another event is held; nil if nobody waits for that
	conns    map[net.Conn]struct{}
	closed   bool
}

// Snapshot is the state of a [Server] at one time, like a backup of etcd.
type Snapshot struct {
	rv      uint64
	objects map[*collection][]object
}

// Request is an entry of the server's request log.
type Request struct {
	Time time.Time
	// Verb is get, list, watch, create, update, patch, delete or deletecollection, as in Kubernetes' authorization. It
	// is empty for a path outside of the API.
	Verb        string
	Resource    schema.GroupVersionResource
	Namespace   string
	Name        string
	Subresource string
	Path        string
	Query       url.Values
	Header      http.Header
	// User is who sent the request, or whom the sender impersonates. It is zero if the server has no Auth.
	User authenticationv1.UserInfo

	auditID string // what the response has as its Audit-Id
	refused error  // why the credentials are refused
}

// NewServer starts a server. It panics if it cannot listen, as httptest.NewServer does.
func NewServer(options Options) *Server {
	s := &Server{
		URL:         scheme(options) + "in-memory",
		options:     options,
		rv:          1, // like a new etcd: version 0 has a special meaning in a request
		collections: map[schema.GroupVersionResource]*collection{},
		conns:       map[net.Conn]struct{}{},
	}
	if options.Auth != nil {
		var err error
		if s.users, err = newUsers(*options.Auth, "in-memory"); err != nil {
			panic(fmt.Sprintf("informertest: certificates: %v", err))
		}
	}
	handler := s.withFaults(s.withUsers(http.HandlerFunc(s.serve)))
	if options.Middleware != nil {
		handler = options.Middleware(handler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = &http.Server{Handler: s.logged(s.compressed(s.withHolds(handler))), ConnState: s.connState,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	s.controllers = newControllers(s)
	if options.Controllers != (Controllers{}) {
		s.running.Go(func() { s.controllers.run(ctx) })
	}
	if err := s.listen("127.0.0.1:0"); err != nil {
		panic(fmt.Sprintf("informertest: listen: %v", err))
	}
	if !options.InMemory {
		s.URL = scheme(options) + s.listener.Addr().String()
	}
	return s
}

// scheme returns the beginning of the server's URL.
func scheme(options Options) string {
	if options.Auth != nil {
		return "https://"
	}
	return "http://"
}

// listen makes the server accept connections. Over TCP, it listens at address.
func (s *Server) listen(address string) error {
	var l net.Listener = newPipeListener()
	if !s.options.InMemory {
		var err error
		if l, err = net.Listen("tcp", address); err != nil {
			return err
		}
	}
	s.listener = l
	s.running.Go(func() { s.http.Serve(s.secured(l)) })
	return nil
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

// Config returns a client configuration for the server, without a rate limit. If the server has an [Auth], it has the
// credentials of a user who may do everything. Each call returns a new one.
func (s *Server) Config() *rest.Config {
	if s.users != nil {
		return s.ConfigFor(authenticationv1.UserInfo{Username: "kubernetes-admin", Groups: []string{masters}})
	}
	return s.anonymousConfig()
}

// ResourceVersion returns the resource version of the latest change.
func (s *Server) ResourceVersion() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strconv.FormatUint(s.rv, 10)
}

// Requests returns the requests since the start or the last call of ResetRequests, oldest first. It remembers at least
// the last 10,000.
func (s *Server) Requests() []Request {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	return slices.Clone(s.requests)
}

// ResetRequests forgets all requests so far.
func (s *Server) ResetRequests() {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	s.requests = nil
}

// EndWatches ends all watches cleanly, as kube-apiserver does at their timeout.
func (s *Server) EndWatches() {
	s.eachCollection(func(c *collection) { c.cache.EndWatches() })
}

// Compact forgets all versions but the current one, as a compaction of etcd does. A watch, list or page from an older
// version fails with 410 Expired. Watches that are up to date continue.
func (s *Server) Compact() {
	s.eachCollection(func(c *collection) { c.cache.Compact() })
}

// Snapshot returns the current state.
func (s *Server) Snapshot() *Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	backup := &Snapshot{rv: s.rv, objects: map[*collection][]object{}}
	for _, c := range s.collections {
		backup.objects[c] = slices.Collect(c.cache.All())
	}
	return backup
}

// Restore returns to the state of a snapshot of this server, including the resource version, as if etcd was restored
// from a backup. The server will assign versions that clients have seen again, to other changes. All watches end.
// Resources registered after the snapshot become empty.
func (s *Server) Restore(backup *Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rv = backup.rv
	var changes []change
	for _, c := range s.collections {
		changes = append(changes, c.restoreLocked(backup.objects[c], s.rv)...)
	}
	s.controllers.noteLocked(changes...) // at once, because an object may be gone from one state and be in the other
}

func (s *Server) eachCollection(do func(*collection)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.collections {
		do(c)
	}
}

// CloseConnections breaks all connections, even during a request. The server accepts new ones.
func (s *Server) CloseConnections() {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	for conn := range s.conns {
		breakOff(conn)
	}
}

// Stop makes the server unreachable, like a kube-apiserver that is down. It breaks all connections, and refuses new
// ones until Start. The stored objects stay, and a Collection still accepts writes.
func (s *Server) Stop() {
	s.httpMu.Lock()
	if s.listener != nil {
		s.listener.Close()
		s.listener = nil
	}
	s.httpMu.Unlock()
	s.CloseConnections()
}

// Start makes the server reachable again after Stop, at the same address. Otherwise it does nothing. If another process
// has the port, it tries again for 10 seconds. It panics if it cannot listen.
func (s *Server) Start() {
	err := s.start()
	for began := time.Now(); errors.Is(err, syscall.EADDRINUSE) && time.Since(began) < 10*time.Second; err = s.start() {
		time.Sleep(50 * time.Millisecond) // a connection may have the port for a moment
	}
	if err != nil {
		panic(fmt.Sprintf("informertest: listen: %v", err))
	}
}

func (s *Server) start() error {
	s.httpMu.Lock()
	defer s.httpMu.Unlock()
	if s.listener != nil || s.closed {
		return nil
	}
	return s.listen(strings.TrimPrefix(s.URL, scheme(s.options)))
}

// Close ends all requests and stops the server. When it returns, every goroutine of the server has ended.
func (s *Server) Close() {
	s.httpMu.Lock()
	s.closed = true
	s.httpMu.Unlock()
	s.cancel()
	// First, since http.Server.Close says farewell to each TLS connection with its mutex held. In memory, the peer may
	// not read that, and who waits for the mutex stops the time of a bubble, in which the farewell would time out.
	// connState breaks connections that are being accepted.
	s.CloseConnections()
	s.http.Close()
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
			breakOff(conn)
		}
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, conn)
		s.running.Done()
	}
}

// breakOff closes a connection without a farewell, which TLS would send, and wait until the peer reads it.
func breakOff(conn net.Conn) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	conn.Close()
}

// commitLocked runs a write at the next resource version.
func (s *Server) commitLocked(write func(rv uint64)) {
	s.rv++
	write(s.rv)
	for _, c := range s.collections {
		c.bookmarkLocked(s.rv) // the versions of all collections advance together, as in one etcd
	}
}

func (s *Server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := parseRequest(r)
		req.auditID = string(uuid.NewUUID())
		w.Header().Set("Audit-Id", req.auditID)
		if s.options.InMemory && req.Verb == "watch" {
			// If the connection could serve another request, a client of Go 1.27 that closes the body would drain it. The
			// drain waits for a mutex, which client-go's reader holds while it waits for an event: time in a bubble stops.
			w.Header().Set("Connection", "close")
		}
		if s.users != nil {
			s.users.identify(r, &req)
		}
		s.httpMu.Lock()
		if len(s.requests) >= 2*maxRequests {
			s.requests = slices.Clone(s.requests[maxRequests:])
		}
		s.requests = append(s.requests, req)
		s.httpMu.Unlock()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, req)))
	})
}

// compressed compresses streaming lists if Options.WatchListCompression is set. It comes after the holds and faults,
// which read and write frames.
func (s *Server) compressed(next http.Handler) http.Handler {
	if !s.options.WatchListCompression {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w, end := gzipstream.Wrap(w, r)
		defer end()
		next.ServeHTTP(w, r)
	})
}

// requestKey is the context key of the Request.
type requestKey struct{}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	req := r.Context().Value(requestKey{}).(Request)
	s.mu.Lock()
	c, ok := s.collections[req.Resource]
	away := ok && c.away
	review, isReview := s.reviews[req.Resource]
	s.mu.Unlock()
	if isReview {
		s.serveReview(w, r, req, review)
		return
	}
	if !ok {
		if !s.serveOther(w, r) {
			http.NotFound(w, r) // as kube-apiserver: not even a Status
		}
		return
	}
	if away {
		watchcache.WriteError(w, r, errAway)
		return
	}
	if !s.options.Shards && req.Query.Has("shardSelector") {
		query := r.URL.Query()
		query.Del("shardSelector")
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
	}
	c.serve(w, r, req)
}

// key returns the key of the object that the request names.
func (r Request) key() informer.Key { return informer.Key{Namespace: r.Namespace, Name: r.Name} }
