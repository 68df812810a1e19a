package testkit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// SecureServer is a server over TLS within the process, with a certificate authority of its own. It works in a bubble,
// and numbers its connections.
type SecureServer struct {
	Config *rest.Config // of its clients, without a rate limit
	opened atomic.Int64
	open   atomic.Int64
}

// Connections returns how many connections the server has had, and how many of them are open.
func (s *SecureServer) Connections() (all, open int) { return int(s.opened.Load()), int(s.open.Load()) }

// NewSecureServer starts a server that ends with the test. Over HTTP/2, a connection has at most streams requests at a
// time; zero means HTTP/1.1.
func NewSecureServer(t testing.TB, streams int, handler http.HandlerFunc) *SecureServer {
	t.Helper()
	s := &SecureServer{}
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = l
	server.TLS = &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.EnableHTTP2 = streams > 0
	server.Config.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: streams}
	server.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		s.open.Add(1)
		return context.WithValue(ctx, connectionKey{}, s.opened.Add(1))
	}
	httptestState := server.Config.ConnState
	server.Config.ConnState = func(c net.Conn, state http.ConnState) {
		if httptestState != nil {
			httptestState(c, state)
		}
		if state == http.StateClosed {
			s.open.Add(-1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.Config = &rest.Config{
		Host: "https://127.0.0.1",
		TLSClientConfig: rest.TLSClientConfig{
			CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
		},
		Dial: l.dial,
		QPS:  -1,
	}
	return s
}

// selfSigned returns a certificate for 127.0.0.1 that is its own authority.
func selfSigned(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().AddDate(10, 0, 0), IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// connectionKey is the context key of the number of a connection.
type connectionKey struct{}

// Connection returns the number of the connection of a request to a SecureServer, from one on.
func Connection(r *http.Request) int64 { return r.Context().Value(connectionKey{}).(int64) }

// pipes is a net.Listener of pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.conns <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
