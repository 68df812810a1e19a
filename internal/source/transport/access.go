package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	clienttransport "k8s.io/client-go/transport"
)

// ErrUpdated is the cause that ends a watch, and a list from another address, after Client.Update.
var ErrUpdated = errors.New("the client was updated")

// server is the server of a client, and how to reach it. Clients of WithTracer share it. It is safe for concurrent use.
type server struct {
	agent   string        // the user agent
	timeout time.Duration // rest.Config.Timeout
	access  atomic.Pointer[access]

	mu        sync.Mutex // protects addresses; held during an update
	addresses []string   // that the server has had
}

// newServer returns the server of config.
func newServer(config *rest.Config) (*server, error) {
	if config == nil {
		return nil, errors.New("the rest.Config is nil")
	}
	s := &server{agent: config.UserAgent, timeout: config.Timeout}
	if s.agent == "" {
		s.agent = rest.DefaultKubernetesUserAgent()
	}
	return s, s.update(config)
}

// update makes s use config. If config is invalid, it changes nothing.
func (s *server) update(config *rest.Config) error {
	if config == nil {
		return errors.New("the rest.Config is nil")
	}
	config = rest.CopyConfig(config)
	config.UserAgent, config.Timeout = s.agent, s.timeout
	next, err := newAccess(config)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	address := next.base.String()
	if !slices.Contains(s.addresses, address) {
		s.addresses = append(s.addresses, address)
	}
	before := s.access.Load()
	if before == nil {
		s.access.Store(next)
		return nil
	}
	moved := address != before.base.String()
	if !moved {
		next.moved, next.move = before.moved, before.move
	}
	s.access.Store(next)
	before.retire(next)
	if moved {
		before.move(ErrUpdated)
	}
	return nil
}

// closeIdle closes the idle connections.
func (s *server) closeIdle() { s.access.Load().closeIdle() }

// access is how a client reaches its server: the address, the credentials and the connections. Update replaces it, and
// requests that have begun go on with the one that they have.
//
//	current -- Update --> replaced -- its last request ends --> no connections
type access struct {
	base    *url.URL
	objects *http.Client // for single objects and documents, with the time limit of rest.Config
	lists   *http.Client // objects without that limit, which ends a long body
	watches *http.Client // like lists, with connections of its own where requests share connections
	turns   *turns       // of watches; nil if they have no connections of their own

	replaced context.Context // ends when another access takes its place
	replace  context.CancelCauseFunc
	moved    context.Context // ends when an access to another address does
	move     context.CancelCauseFunc

	requests atomic.Int64      // under way
	kept     []*http.Transport // others use them, too; set before replaced ends
}

// newAccess returns the access that config describes.
//
// client-go has one transport for all users of equal configurations, so writes of this client and of others may share a
// connection with it. Over HTTP/2, a connection has a limited number of requests, often 100, and their data wait for
// each other. Watches therefore have a transport of their own. A streaming list is a watch. Other lists stay with the
// writes: they end, and the data of a long one would delay events on the same connection.
func newAccess(config *rest.Config) (*access, error) {
	a := &access{}
	var err error
	if a.base, _, err = rest.DefaultServerUrlFor(config); err != nil {
		return nil, fmt.Errorf("address of the API server: %w", err)
	}
	shared, err := config.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("transport to the API server: %w", err)
	}
	through, err := clienttransport.New(shared)
	if err != nil {
		return nil, fmt.Errorf("transport to the API server: %w", err)
	}
	a.objects = &http.Client{Transport: through, Timeout: config.Timeout, CheckRedirect: checkRedirect}
	a.lists = &http.Client{Transport: through, CheckRedirect: checkRedirect}
	if a.base.Scheme == "https" && config.Transport == nil {
		own := *shared
		if own.Proxy == nil {
			own.Proxy = http.ProxyFromEnvironment // the default; client-go caches no transport of a config with a Proxy
		}
		if through, err = clienttransport.New(&own); err != nil {
			return nil, fmt.Errorf("transport to the API server: %w", err)
		}
		a.turns = newTurns()
	}
	a.watches = &http.Client{Transport: through, CheckRedirect: checkRedirect}
	a.replaced, a.replace = context.WithCancelCause(context.Background())
	a.moved, a.move = context.WithCancelCause(context.Background())
	return a, nil
}

// begin notes that a request begins. The caller must call end once.
func (a *access) begin() (end func()) {
	a.requests.Add(1)
	return sync.OnceFunc(func() {
		if a.requests.Add(-1) == 0 && a.replaced.Err() != nil {
			time.AfterFunc(closeIdleAfter, a.closeIdle)
		}
	})
}

// retire ends the watches of a, which next has replaced. When the last request ends, the connections are closed.
func (a *access) retire(next *access) {
	for _, rt := range []http.RoundTripper{http.DefaultTransport, next.lists.Transport, next.watches.Transport} {
		if t, ok := innermost(rt).(*http.Transport); ok {
			a.kept = append(a.kept, t)
		}
	}
	a.replace(ErrUpdated)
	if a.requests.Load() == 0 {
		a.closeIdle()
	}
}

// closeIdle closes the idle connections of a. It leaves those that another access has, too.
func (a *access) closeIdle() {
	for _, c := range []*http.Client{a.lists, a.watches} {
		rt := innermost(c.Transport)
		if t, ok := rt.(*http.Transport); ok && slices.Contains(a.kept, t) {
			continue
		}
		if idle, ok := rt.(interface{ CloseIdleConnections() }); ok {
			idle.CloseIdleConnections()
		}
	}
}

// innermost returns the round tripper that rt wraps in the end.
func innermost(rt http.RoundTripper) http.RoundTripper {
	for {
		wrapper, ok := rt.(utilnet.RoundTripperWrapper)
		if !ok {
			return rt
		}
		rt = wrapper.WrappedRoundTripper()
	}
}
