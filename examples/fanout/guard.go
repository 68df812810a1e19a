package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/review"
	"github.com/typedinformer/informer/watchcache"
)

// guard decides which requests to serve. Without authentication, it listens on loopback and serves all requests.
type guard struct {
	options     options
	address     *net.TCPAddr
	certificate *reloaded[*tls.Certificate] // of the server; nil means plain HTTP
	clientCA    *reloaded[*x509.CertPool]   // nil ignores client certificates
	reviewer    *review.Reviewer            // nil before run knows the API server
	log         *slog.Logger
	metrics     *metrics
	perIP       buckets
	perUser     buckets
	bandwidth   *rate.Limiter // of all
}

// newGuard returns an error if the options would let anyone on the network in, or send tokens or objects in clear text.
func newGuard(o options, log *slog.Logger, m *metrics) (*guard, error) {
	// Resolve a name only once: the checked address must be the one to listen on.
	address, err := net.ResolveTCPAddr("tcp", o.listen)
	if err != nil {
		return nil, fmt.Errorf("-listen: %w", err)
	}
	g := &guard{
		options: o, address: address, log: log, metrics: m,
		perIP:     buckets{qps: o.limits.ipQPS},
		perUser:   buckets{qps: o.limits.userQPS, open: o.limits.requestsPerUser, bandwidth: o.limits.userBandwidth},
		bandwidth: newBandwidth(o.limits.bandwidth),
	}
	authenticates := o.clientCA != "" || o.tokenReview
	authorizes := o.accessReview || len(o.allowUsers)+len(o.allowGroups) > 0
	remote := !address.IP.IsLoopback() // an empty IP is every address
	switch {
	case remote && !authenticates:
		return nil, fmt.Errorf("-listen %s is reachable from other machines: it needs -client-ca or -token-review", o.listen)
	case remote && o.certFile == "":
		return nil, fmt.Errorf("-listen %s is reachable from other machines, and without TLS the network can read tokens and objects: "+
			"add -tls-cert and -tls-key", o.listen)
	case authenticates && !authorizes:
		return nil, errors.New("clients could read more than at the API server: " +
			"add -access-review, or name the clients that may read everything by -allow-users or -allow-groups")
	case authorizes && !authenticates:
		return nil, errors.New("-access-review, -allow-users and -allow-groups need -client-ca or -token-review")
	}
	if o.certFile != "" {
		if g.certificate, err = newReloaded(log, func(pem [][]byte) (*tls.Certificate, error) {
			pair, err := tls.X509KeyPair(pem[0], pem[1])
			return &pair, err
		}, o.certFile, o.keyFile); err != nil {
			return nil, fmt.Errorf("-tls-cert and -tls-key: %w", err)
		}
	}
	if o.clientCA != "" {
		if g.clientCA, err = newReloaded(log, func(pem [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(pem[0]) {
				return nil, errors.New("no certificate")
			}
			return pool, nil
		}, o.clientCA); err != nil {
			return nil, fmt.Errorf("-client-ca: %w", err)
		}
	}
	return g, nil
}

func (g *guard) open() bool { return g.clientCA == nil && !g.options.tokenReview }

// tls returns nil for plain HTTP. The handler verifies certificates, for each request, so a changed -client-ca and the
// end of a certificate take effect on open connections.
func (g *guard) tls() *tls.Config {
	if g.certificate == nil {
		return nil
	}
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return g.certificate.get(), nil },
	}
	if g.clientCA != nil {
		config.ClientAuth = tls.RequestClientCert
	}
	return config
}

func (g *guard) url(address net.Addr) string {
	if g.certificate != nil {
		return "https://" + address.String()
	}
	return "http://" + address.String()
}

// handler passes permitted requests to next.
func (g *guard) handler(next *proxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-cache, private")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		endIP, _, ok := g.perIP.begin(hostOf(r.RemoteAddr))
		if !ok {
			g.refuse(w, r, "rate", apierrors.NewTooManyRequests("this address sends too many requests", 1))
			return
		}
		defer endIP()
		if err := g.check(r); err != nil {
			w.Header().Set("Connection", "close") // do not wait for the body
			g.refuse(w, r, "invalid", err)
			return
		}
		user, err := g.user(r)
		switch {
		case err != nil:
			g.log.Error("cannot authenticate a client", "err", err)
			g.refuse(w, r, "unavailable", apierrors.NewServiceUnavailable("the client cannot be authenticated now"))
			return
		case user == nil:
			w.Header().Set("WWW-Authenticate", `Bearer realm="fanout"`)
			g.refuse(w, r, "unauthenticated", apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		endUser, bandwidth, ok := g.perUser.begin(user.Username)
		if !ok {
			g.refuse(w, r, "user", apierrors.NewTooManyRequests("this user sends too many requests, or has too many under way",
				1))
			return
		}
		defer endUser()
		to := next.route(r)
		allowed, err := g.may(r, user, to)
		switch {
		case err != nil:
			g.log.Error("cannot authorize a client", "user", user.Username, "err", err)
			g.refuse(w, r, "unavailable", apierrors.NewServiceUnavailable("the client cannot be authorized now"))
			return
		case !allowed:
			g.refuse(w, r, "forbidden", apierrors.NewForbidden(to.GroupResource(), to.key.Name,
				fmt.Errorf("user %q cannot %s it in the namespace %q", user.Username, to.verb, to.key.Namespace)))
			return
		}
		r.Header.Del("Authorization") // next does not need it
		next.serve(&slowWriter{ResponseWriter: w, ctx: r.Context(), limits: []*rate.Limiter{bandwidth, g.bandwidth}}, r, to)
	})
}

func (g *guard) refuse(w http.ResponseWriter, r *http.Request, reason string, err error) {
	g.metrics.refused.WithLabelValues(reason).Inc()
	watchcache.WriteError(w, r, err)
}

// check returns an error for a request that no client should send.
func (g *guard) check(r *http.Request) error {
	switch {
	case r.Method != http.MethodGet:
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed, Reason: metav1.StatusReasonMethodNotAllowed,
			Message: "this is a read-only copy",
		}}
	case r.ContentLength != 0:
		return apierrors.NewBadRequest("a GET has no body")
	case g.open() && !loopbackHost(r.Host):
		// A web page can make a browser on this machine call us under the page's host name (DNS rebinding).
		return apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("host %q is not this machine", r.Host))
	}
	for name := range r.Header {
		if strings.HasPrefix(name, "Impersonate-") { // it would read as the client, not as the other user
			return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("impersonation is not supported"))
		}
	}
	return nil
}

// user returns the user who sent a request, or nil if the request is not authenticated.
func (g *guard) user(r *http.Request) (*authenticationv1.UserInfo, error) {
	if g.open() {
		return &authenticationv1.UserInfo{Username: "loopback"}, nil
	}
	if g.clientCA != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		if user := userOf(r.TLS.PeerCertificates, g.clientCA.get()); user != nil {
			return user, nil
		}
	}
	if !g.options.tokenReview {
		return nil, nil
	}
	return g.reviewer.User(r.Context(), review.Token(r))
}

// userOf returns the user of a certificate, as kube-apiserver does: the common name, and the organizations as groups.
// It is nil if the certificate is not valid now under roots, or has no common name.
func userOf(chain []*x509.Certificate, roots *x509.CertPool) *authenticationv1.UserInfo {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: intermediates,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil || chain[0].Subject.CommonName == "" {
		return nil
	}
	return &authenticationv1.UserInfo{
		Username: chain[0].Subject.CommonName,
		Groups:   append(slices.Clone(chain[0].Subject.Organization), "system:authenticated"),
	}
}

// may reports whether a user may send a request. Every authenticated user may get the version and discovery documents.
func (g *guard) may(r *http.Request, user *authenticationv1.UserInfo, to route) (bool, error) {
	if g.open() || to.collection == nil {
		return true, nil
	}
	if slices.Contains(g.options.allowUsers, user.Username) ||
		slices.ContainsFunc(user.Groups, func(group string) bool { return slices.Contains(g.options.allowGroups, group) }) {
		return true, nil
	}
	if !g.options.accessReview {
		return false, nil
	}
	return g.reviewer.Allowed(r.Context(), user,
		authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: attributesOf(r, to)})
}

// attributesOf returns the attributes that kube-apiserver would authorize. A list of one name counts as a request for
// that name, and the node authorizer needs the field selector.
func attributesOf(r *http.Request, to route) *authorizationv1.ResourceAttributes {
	a := &authorizationv1.ResourceAttributes{
		Verb: to.verb, Group: to.Group, Version: to.Version, Resource: to.Resource, Namespace: to.key.Namespace, Name: to.key.Name,
	}
	if to.verb == "get" {
		return a
	}
	query := r.URL.Query()
	if raw := query.Get("fieldSelector"); raw != "" {
		a.FieldSelector = &authorizationv1.FieldSelectorAttributes{RawSelector: raw}
		if selector, err := fields.ParseSelector(raw); err == nil {
			a.Name, _ = selector.RequiresExactMatch("metadata.name")
		}
	}
	if raw := query.Get("labelSelector"); raw != "" {
		a.LabelSelector = &authorizationv1.LabelSelectorAttributes{RawSelector: raw}
	}
	return a
}

func loopbackHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback() || host == "localhost"
}
