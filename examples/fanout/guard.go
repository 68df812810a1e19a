package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/watchcache"
)

// guard decides which clients to serve: any on a loopback address, otherwise those with the token, the certificate, or
// both if both are required.
type guard struct {
	address *net.TCPAddr
	token   *[sha256.Size]byte // hash of the token; nil if none is required
	tls     *tls.Config        // nil means plain HTTP
}

// newGuard returns an error if the options would let anyone on the network in, or send the token in clear text.
func newGuard(o options) (*guard, error) {
	// Look up a name only once: the address that is checked must be the one to listen on.
	address, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	g := &guard{address: address}
	loopback := address.IP.IsLoopback() // an empty IP is every address
	if !loopback && o.tokenFile == "" && o.clientCA == "" {
		return nil, fmt.Errorf("-listen %s is reachable from other machines: it needs -token-file or -client-ca", o.listen)
	}
	if o.tokenFile != "" {
		content, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("-token-file: %w", err)
		}
		token := strings.TrimSpace(string(content))
		if token == "" || strings.ContainsAny(token, " \t\r\n") {
			return nil, fmt.Errorf("-token-file: %s must hold one token and nothing else", o.tokenFile)
		}
		sum := sha256.Sum256([]byte(token))
		g.token = &sum
	}
	if o.certFile == "" {
		if !loopback {
			return nil, fmt.Errorf("-listen %s is reachable from other machines, and without TLS the network can read the token of -token-file "+
				"and every object: add -tls-cert and -tls-key, or listen on 127.0.0.1 behind a proxy that speaks TLS", o.listen)
		}
		return g, nil
	}
	certificate, err := tls.LoadX509KeyPair(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("-tls-cert and -tls-key: %w", err)
	}
	g.tls = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	if o.clientCA != "" {
		pem, err := os.ReadFile(o.clientCA)
		if err != nil {
			return nil, fmt.Errorf("-client-ca: %w", err)
		}
		g.tls.ClientCAs = x509.NewCertPool()
		if !g.tls.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, errors.New("-client-ca: no certificate in " + o.clientCA)
		}
		g.tls.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return g, nil
}

func (g *guard) open() bool { return g.token == nil && (g.tls == nil || g.tls.ClientCAs == nil) }

func (g *guard) listen(ctx context.Context) (net.Listener, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", g.address.String())
	if err != nil {
		return nil, err
	}
	if g.tls != nil {
		listener = tls.NewListener(listener, g.tls)
	}
	return listener, nil
}

func (g *guard) url(address net.Addr) string {
	if g.tls != nil {
		return "https://" + address.String()
	}
	return "http://" + address.String()
}

// handler passes permitted requests to next. It answers health checks for everyone.
func (g *guard) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			watchcache.WriteStatus(w, r, metav1.Status{
				Status:  metav1.StatusFailure,
				Code:    http.StatusMethodNotAllowed,
				Reason:  metav1.StatusReasonMethodNotAllowed,
				Message: "this is a read-only copy",
			})
		case r.ContentLength != 0:
			w.Header().Set("Connection", "close") // do not wait for the body
			watchcache.WriteError(w, r, apierrors.NewBadRequest("a GET has no body"))
		case g.open() && !loopbackHost(r.Host):
			// A web page can make a browser on this machine call us under the page's host name (DNS rebinding).
			watchcache.WriteError(w, r, apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("host %q is not this machine", r.Host)))
		case r.URL.Path != "/healthz" && r.URL.Path != "/readyz" && !g.admits(r):
			w.Header().Set("WWW-Authenticate", `Bearer realm="fanout"`)
			watchcache.WriteError(w, r, apierrors.NewUnauthorized("Unauthorized"))
		default:
			r.Header.Del("Authorization") // next does not need it
			next.ServeHTTP(w, r)
		}
	})
}

// admits reports whether the request has the token, in a time that does not reveal how much of it is right.
func (g *guard) admits(r *http.Request) bool {
	if g.token == nil {
		return true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback() || host == "localhost"
}
