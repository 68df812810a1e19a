package e2e

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// proxy is between clients and the API server, and disturbs them like networks and load balancers do. It identifies clients by
// their user agent. A who of "" means all of them.
type proxy struct {
	*httptest.Server
	forward *httputil.ReverseProxy

	mu        sync.Mutex // protects the fields below
	conns     map[*proxyConn]struct{}
	exchanges map[*exchange]struct{}
	answers   map[string][]answer // responses to the next requests, by user agent
	refusals  int                 // new connections are refused while this is positive
	stalled   chan struct{}       // closed when the stall is over; nil if there is none
	expired   map[string]int      // 410s from the server or from the proxy, by user agent
}

// answer is a response that replaces the API server's.
type answer struct {
	code int // 0 means the API server's own response, cut off after cut bytes
	cut  int
}

// startProxy starts a proxy that runs until the end of the test.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	config := server.Config()
	upstream, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		conns:     map[*proxyConn]struct{}{},
		exchanges: map[*exchange]struct{}{},
		answers:   map[string][]answer{},
		expired:   map[string]int{},
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     upstream,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = resp.Request.Context().Value(exchangeKey{}).(*exchange).carry(resp)
			return nil
		},
		// If the API server is down, a client sees a lost connection.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.Server = httptest.NewUnstartedServer(p)
	p.Listener = proxyListener{p.Listener, p}
	p.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.EnableHTTP2 = true
	p.StartTLS()
	t.Cleanup(func() {
		p.stall(0)
		p.refuse()
		p.Close()
	})
	return p
}

// config returns a client configuration with that name as the user agent. HTTP/2 clients share a connection.
func (p *proxy) config(name string, http2 bool) *rest.Config {
	config := &rest.Config{Host: p.URL, UserAgent: name, QPS: -1}
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
	config.NextProtos = []string{"http/1.1"}
	if http2 {
		config.NextProtos = []string{"h2"}
	}
	return config
}

// exchange is one request under way, with its response.
type exchange struct {
	proxy  *proxy
	agent  string
	cancel context.CancelFunc
	cut    int // the response breaks off after this many bytes; 0 means never
	ended  atomic.Bool
}

type exchangeKey struct{}

func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	ctx, cancel := context.WithCancel(req.Context())
	defer cancel()
	e := &exchange{proxy: p, agent: req.UserAgent(), cancel: cancel}
	a := p.begin(e)
	defer p.end(e)
	if a.code == 0 {
		e.cut = a.cut
		p.forward.ServeHTTP(w, req.WithContext(context.WithValue(ctx, exchangeKey{}, e)))
		return
	}
	reason := map[int]string{410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}[a.code]
	w.Header().Set("Content-Type", "application/json")
	if a.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(a.code)
	fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"the proxy says so","reason":%q,"code":%d}`, reason, a.code)
}

func (p *proxy) begin(e *exchange) answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exchanges[e] = struct{}{}
	var a answer
	if waiting := p.answers[e.agent]; len(waiting) > 0 {
		a, p.answers[e.agent] = waiting[0], waiting[1:]
	}
	if a.code == http.StatusGone {
		p.expired[e.agent]++
	}
	return a
}

func (p *proxy) end(e *exchange) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.exchanges, e)
}

// carry returns the body of a response as the client gets it.
func (e *exchange) carry(resp *http.Response) io.ReadCloser {
	if resp.StatusCode == http.StatusGone {
		e.expire()
	}
	return &carried{ReadCloser: resp.Body, exchange: e}
}

func (e *exchange) expire() {
	e.proxy.mu.Lock()
	defer e.proxy.mu.Unlock()
	e.proxy.expired[e.agent]++
}

type carried struct {
	io.ReadCloser
	*exchange
	read int
}

func (c *carried) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	if n < 1000 && strings.Contains(string(b[:n]), "too old resource version") { // a separate frame
		c.expire()
	}
	c.read += n
	switch {
	case c.cut > 0 && c.read > c.cut:
		return max(0, n-(c.read-c.cut)), errors.New("cut")
	case err != nil && c.ended.Load():
		return n, io.EOF
	}
	return n, err
}

// finish ends the responses under way normally, at any point.
func (p *proxy) finish(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for e := range p.exchanges {
		if who == "" || who == e.agent {
			e.ended.Store(true)
			e.cancel()
		}
	}
}

// answer ends the requests under way, and answers the next ones with these responses.
func (p *proxy) answer(who []string, with ...answer) {
	for _, name := range who {
		p.mu.Lock()
		p.answers[name] = with
		p.mu.Unlock()
		p.finish(name)
	}
}

// calm cancels stalls and planned responses.
func (p *proxy) calm() {
	p.stall(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.answers)
}

// refuse breaks all connections and refuses new ones, until accept is called.
func (p *proxy) refuse() (accept func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusals++
	for c := range p.conns {
		c.reset()
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.refusals--
	})
}

// reset breaks this share of the connections: half of them at once, the others during their next write.
func (p *proxy) reset(share float64, random *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		switch {
		case random.Float64() >= share:
		case random.IntN(2) == 0:
			c.reset()
		default:
			c.torn.Store(true)
		}
	}
}

// stall delays all data to the clients for d.
func (p *proxy) stall(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
	if d == 0 {
		return
	}
	over := make(chan struct{})
	p.stalled = over
	time.AfterFunc(d, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.stalled == over {
			close(over)
			p.stalled = nil
		}
	})
}

type proxyListener struct {
	net.Listener
	proxy *proxy
}

func (l proxyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &proxyConn{TCPConn: conn.(*net.TCPConn), proxy: l.proxy}
		l.proxy.mu.Lock()
		refusing := l.proxy.refusals > 0
		if !refusing {
			l.proxy.conns[c] = struct{}{}
		}
		l.proxy.mu.Unlock()
		if !refusing {
			return c, nil
		}
		c.reset()
	}
}

type proxyConn struct {
	*net.TCPConn
	proxy *proxy
	torn  atomic.Bool // break in the next Write
}

func (c *proxyConn) Write(b []byte) (int, error) {
	c.proxy.mu.Lock()
	stalled := c.proxy.stalled
	c.proxy.mu.Unlock()
	if stalled != nil {
		<-stalled
	}
	if c.torn.Load() {
		n, _ := c.TCPConn.Write(b[:len(b)/2])
		c.reset()
		return n, net.ErrClosed
	}
	return c.TCPConn.Write(b)
}

// reset closes the connection with RST instead of FIN.
func (c *proxyConn) reset() {
	_ = c.SetLinger(0)
	_ = c.TCPConn.Close()
}

func (c *proxyConn) Close() error {
	c.proxy.mu.Lock()
	delete(c.proxy.conns, c)
	c.proxy.mu.Unlock()
	return c.TCPConn.Close()
}
