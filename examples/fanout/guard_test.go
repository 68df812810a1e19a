package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/testkit"
)

func write(t *testing.T, name string, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRefusesToStart(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	nonsense := write(t, "nonsense", []byte("secret\n"))
	_, authority, _ := certificate(t, "authority", nil)
	_, certPEM, keyPEM := certificate(t, "server", nil)
	tls := " -tls-cert " + write(t, "cert", certPEM) + " -tls-key " + write(t, "key", keyPEM) + " "
	ca := " -client-ca " + write(t, "ca", authority) + " "
	for _, test := range []struct{ args, want string }{
		{"-listen 0.0.0.0:0", "needs -client-ca or -token-review"},
		{"-listen :0", "needs -client-ca or -token-review"},
		{"-listen [::]:0", "needs -client-ca or -token-review"},
		{"-listen 192.0.2.1:0" + tls, "needs -client-ca or -token-review"},
		{"-listen 0.0.0.0:0 -token-review", "-token-review needs -tls-cert"},
		{"-listen 127.0.0.1:0 -token-review", "-token-review needs -tls-cert"},
		{"-listen 0.0.0.0:0" + ca, "-client-ca needs -tls-cert"},
		{"-listen 0.0.0.0:0" + ca + tls, "add -access-review, or name the clients that may read everything"},
		{"-listen 127.0.0.1:0" + ca + tls, "add -access-review"},
		{"-listen 127.0.0.1:0 -token-review" + tls, "add -access-review"},
		{"-listen 127.0.0.1:0 -access-review", "need -client-ca or -token-review"},
		{"-listen 127.0.0.1:0 -allow-users a", "need -client-ca or -token-review"},
		{"-listen 127.0.0.1:0 -token-audiences a", "needs -token-review"},
		{"-listen 127.0.0.1:0 -access-review -client-ca /does/not/exist" + tls, "no such file"},
		{"-listen 127.0.0.1:0 -access-review -client-ca " + nonsense + tls, "no certificate"},
		{"-listen 0.0.0.0:0 -tls-cert " + nonsense, "go together"},
		{"-listen 127.0.0.1:0 -tls-cert " + nonsense + " -tls-key " + nonsense, "failed to find any PEM data"},
		{"-max-connections 0", "must be positive"},
		{"-user-qps 0", "must be positive"},
		{"-max-bandwidth 0", "must be positive"},
		{"-max-bandwidth-per-user NaN", "must be positive"},
		{"-listen nonsense", "-listen"},
		{"-resources pods", "is not [GROUP/]VERSION/RESOURCE"},
		{"-resources v1/pods,v1/pods -listen 127.0.0.1:0", "named twice"},
		{"-resources v1/secrets -listen 127.0.0.1:0", "no resource secrets"},
		{"-rate 0", "-rate"},
		{"-simulate -kubeconfig x", "exclude each other"},
		{"-kubeconfig /does/not/exist -listen 127.0.0.1:0", "no such file"},
		{"pods", "unexpected argument"},
	} {
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends a program that starts by mistake
		err := run(ctx, strings.Fields(test.args), &out, io.Discard)
		cancel()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.args, err, test.want)
		}
		if strings.Contains(out.String(), "serving") {
			t.Errorf("%s: %s", test.args, &out)
		}
	}
	if err := run(t.Context(), []string{"-h"}, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}

func TestLoopbackIsForThisMachine(t *testing.T) {
	r := newRig(t)
	r.run()
	for _, test := range []struct {
		method, host, body, header string
		want                       int
	}{
		{"GET", "", "", "", 200},
		{"GET", "localhost:8001", "", "", 200},
		{"GET", "127.0.0.1", "", "", 200},
		{"GET", "[::1]:8001", "", "", 200},
		{"GET", "rebound.example.com", "", "", 403},
		{"GET", "rebound.example.com:8001", "", "", 403},
		{"GET", "", "body", "", 400},
		{"GET", "", "", "Impersonate-User", 403},
		{"POST", "", "", "", 405},
		{"PUT", "", "", "", 405},
		{"PATCH", "", "", "", 405},
		{"DELETE", "", "", "", 405},
		{"HEAD", "", "", "", 405},
		{"OPTIONS", "", "", "", 405},
	} {
		request, err := http.NewRequest(test.method, r.server.URL+"/api/v1/pods", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = test.host
		if test.header != "" {
			request.Header.Set(test.header, "x")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want {
			t.Errorf("%v: %d", test, response.StatusCode)
		}
	}
}

// reviews answers the reviews of an API server: the token "of-NAME" is that of the user NAME, in the group "of-NAME". "reader" may
// list pods, "node" those of its node, and "named" only watch the pod "a" in "ns".
type reviews struct {
	down             atomic.Bool
	tokens, accesses atomic.Int64
}

func (s *reviews) middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/apis/authentication.k8s.io/v1/tokenreviews":
			s.tokens.Add(1)
			var review authenticationv1.TokenReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "TokenReview" {
				http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
				return
			}
			if name, ok := strings.CutPrefix(review.Spec.Token, "of-"); ok {
				review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: review.Spec.Audiences, User: authenticationv1.UserInfo{
					Username: name, UID: "u", Groups: []string{"of-" + name}, Extra: map[string]authenticationv1.ExtraValue{"e": {"v"}},
				}}
			}
			answer = &review
		case "/apis/authorization.k8s.io/v1/subjectaccessreviews":
			s.accesses.Add(1)
			var review authorizationv1.SubjectAccessReview
			if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "SubjectAccessReview" {
				http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
				return
			}
			a := review.Spec.ResourceAttributes
			pods := a.Group == "" && a.Version == "v1" && a.Resource == "pods"
			switch review.Spec.User {
			case "reader":
				review.Status.Allowed = pods && a.Verb == "list" && review.Spec.UID == "u" && review.Spec.Extra["e"][0] == "v"
			case "node":
				review.Status.Allowed = pods && a.FieldSelector != nil && a.FieldSelector.RawSelector == "spec.nodeName=n1"
			case "named":
				review.Status.Allowed = pods && a.Verb == "watch" && a.Namespace == "ns" && a.Name == "a"
			case "certified":
				review.Status.Allowed = pods && slices.Contains(review.Spec.Groups, "system:authenticated") && slices.Contains(review.Spec.Groups, "of-certified")
			}
			answer = &review
		default:
			next.ServeHTTP(w, r)
			return
		}
		if s.down.Load() {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer)
	})
}

// program runs the program with TLS in front of an API server with reviews, until the test ends.
func program(t *testing.T, o options, register ...func(*informertest.Server)) (url string, s *reviews, upstream *informertest.Server) {
	t.Helper()
	s = &reviews{}
	upstream = informertest.NewServer(informertest.Options{Middleware: s.middleware})
	t.Cleanup(upstream.Close)
	pods := informertest.Register[*corev1.Pod](upstream, informertest.Resource{GroupVersionResource: pods})
	if _, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range register {
		r(upstream)
	}
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, upstream.URL)
	args := append([]string{"-listen", "127.0.0.1:0", "-report", "0", "-tls-cert", o.certFile, "-tls-key", o.keyFile,
		"-kubeconfig", write(t, "kubeconfig", []byte(kubeconfig))}, o.names...)
	ctx, cancel := context.WithCancel(context.Background())
	reader, out := io.Pipe()
	done := make(chan error)
	go func() {
		err := run(ctx, args, out, io.Discard)
		out.CloseWithError(err)
		done <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	_, url, _ = strings.Cut(strings.TrimSpace(line), " at ")
	return url, s, upstream
}

// patient repeats a request after a 429, at the time that the response names. fan-out answers 429 before its first
// list.
type patient struct{ http.RoundTripper }

func (p patient) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		response, err := p.RoundTripper.RoundTrip(r)
		if err != nil || response.StatusCode != http.StatusTooManyRequests {
			return response, err
		}
		response.Body.Close()
		after, err := time.ParseDuration(response.Header.Get("Retry-After") + "s")
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(after):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

// insecure returns a client that accepts any certificate of a server.
func insecure(t *testing.T) *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: patient{transport}}
}

// A client reads through fanout what the API server lets it read, and nothing else.
func TestClientsReadWhatTheyMay(t *testing.T) {
	authority, authorityPEM, _ := certificate(t, "authority", nil)
	_, serverPEM, serverKey := certificate(t, "server", &authority)
	certified, _, _ := certificate(t, "certified", &authority)
	nobody, _, _ := certificate(t, "", &authority)
	other, _, _ := certificate(t, "other authority", nil)
	stranger, _, _ := certificate(t, "certified", &other)
	url, reviews, _ := program(t, options{
		certFile: write(t, "cert", serverPEM), keyFile: write(t, "key", serverKey),
		names: []string{"-token-review", "-access-review", "-client-ca", write(t, "ca", authorityPEM), "-allow-groups", "of-admin"},
	})
	roots := x509.NewCertPool()
	roots.AddCert(authority.Leaf)
	ask := func(token, path string, certificates ...tls.Certificate) int {
		t.Helper()
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates}, ForceAttemptHTTP2: true}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequest(http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := (&http.Client{Transport: patient{transport}}).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	const list, all, single = "/api/v1/namespaces/ns/pods", "/api/v1/pods?resourceVersion=1", "/api/v1/namespaces/ns/pods/a"
	const watch = list + "?watch=1&timeoutSeconds=1"
	for _, test := range []struct {
		token, path string
		certificate []tls.Certificate
		want        int
	}{
		{"", list, nil, 401},
		{"nobody", list, nil, 401},
		{"nobody", "/version", nil, 401},
		{"of-reader", all, nil, 200},
		{"of-reader", list, nil, 200},
		{"of-reader", watch, nil, 403},
		{"of-reader", single, nil, 403},
		{"of-reader", "/version", nil, 200},
		{"of-reader", "/api/v1", nil, 200},
		{"of-reader", "/api/v1/secrets", nil, 404},
		{"of-stranger", list, nil, 403},
		{"of-admin", list, nil, 200},
		{"of-admin", single, nil, 200},
		{"of-node", list, nil, 403},
		{"of-node", all + "&fieldSelector=spec.nodeName%3Dn1", nil, 200},
		{"of-node", all + "&fieldSelector=spec.nodeName%3Dn2", nil, 403},
		{"of-node", all + "&fieldSelector=spec.nodeName%3Dn2&fieldSelector=spec.nodeName%3Dn1", nil, 403},
		{"of-named", watch, nil, 403},
		{"of-named", watch + "&fieldSelector=metadata.name%3Da", nil, 200},
		{"of-named", watch + "&fieldSelector=metadata.name%3Db", nil, 403},
		{"", single, []tls.Certificate{certified}, 200},
		{"", list, []tls.Certificate{nobody}, 401},
		{"", list, []tls.Certificate{stranger}, 401},
		{"of-reader", list, []tls.Certificate{stranger}, 200},
	} {
		if got := ask(test.token, test.path, test.certificate...); got != test.want {
			t.Errorf("%s %s: %d, want %d", test.token, test.path, got, test.want)
		}
	}
	// Answers are cached; the failure of a review is not.
	before := reviews.tokens.Load() + reviews.accesses.Load()
	for range 20 {
		ask("of-stranger", list)
	}
	if after := reviews.tokens.Load() + reviews.accesses.Load(); after > before+4 { // two if the answers have just become too old
		t.Errorf("20 requests cost %d reviews", after-before)
	}
	reviews.down.Store(true)
	if got := ask("of-late", list); got != http.StatusServiceUnavailable {
		t.Errorf("while reviews fail: %d", got)
	}
	reviews.down.Store(false)
	if got := ask("of-late", list); got != http.StatusForbidden {
		t.Errorf("afterwards: %d", got)
	}
}

// A changed file takes effect, and a broken one does not.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, aPEM, aKey := certificate(t, "a", nil)
		b, bPEM, bKey := certificate(t, "b", nil)
		client, _, _ := certificate(t, "client", &b)
		cert, key, ca := write(t, "cert", aPEM), write(t, "key", aKey), write(t, "ca", aPEM)
		var logs testkit.Log
		g, err := newGuard(options{listen: "127.0.0.1:0", certFile: cert, keyFile: key, clientCA: ca, accessReview: true}, logs.Logger(), newMetrics())
		if err != nil {
			t.Fatal(err)
		}
		now := func(want tls.Certificate, certified bool) {
			t.Helper()
			got, err := g.tls().GetCertificate(nil)
			if err != nil || !bytes.Equal(got.Certificate[0], want.Certificate[0]) {
				t.Errorf("another certificate, %v", err)
			}
			if user := userOf([]*x509.Certificate{client.Leaf}, g.clientCA.get()); (user != nil) != certified {
				t.Errorf("the client is %v", user)
			}
		}
		rewrite := func(path string, content []byte) {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		now(a, false)
		rewrite(cert, bPEM)
		rewrite(ca, []byte("nonsense"))
		now(a, false)
		<-time.After(reloadInterval)
		now(a, false) // the key is still that of a
		if !strings.Contains(logs.String(), "keeping the last good content") {
			t.Errorf("logs: %s", &logs)
		}
		rewrite(key, bKey)
		rewrite(ca, append(aPEM, bPEM...))
		<-time.After(reloadInterval)
		now(b, true)
	})
}

// A user with too many requests is refused, and others are not.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets{qps: 10, open: 30}
		var ends []func()
		count := func(key string) (n int) {
			for {
				end, _, ok := b.begin(key)
				if !ok {
					return n
				}
				ends = append(ends, end)
				n++
			}
		}
		if n := count("a"); n != 20 {
			t.Errorf("%d requests at once, want twice the rate", n)
		}
		if n := count("b"); n != 20 {
			t.Errorf("%d requests of another user", n)
		}
		<-time.After(10 * time.Second)
		if n := count("a"); n != 10 {
			t.Errorf("%d more requests, want 30 at a time", n)
		}
		for _, end := range ends {
			end()
		}
		<-time.After(10 * time.Second)
		if n := count("a"); n != 20 {
			t.Errorf("%d requests after all have ended", n)
		}
		for i := range maxBuckets + 10 {
			b.begin(fmt.Sprint(i))
		}
		if len(b.byKey) > maxBuckets {
			t.Errorf("%d users are remembered", len(b.byKey))
		}
	})
}

// deadlined notes writes after the deadline.
type deadlined struct {
	*httptest.ResponseRecorder
	deadline time.Time
	late     bool
}

func (d *deadlined) SetWriteDeadline(deadline time.Time) error { d.deadline = deadline; return nil }

func (d *deadlined) Write(b []byte) (int, error) {
	d.late = d.late || time.Now().After(d.deadline)
	return d.ResponseRecorder.Write(b)
}

// Responses are as fast as the limits of a user and of all users together allow, and wait no longer than the request.
func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := buckets{qps: 10, bandwidth: 10}
		all := newBandwidth(15)
		ctx, cancel := context.WithCancel(t.Context())
		write := func(user string, megabytes int) error {
			_, bytes, _ := b.begin(user)
			under := &deadlined{ResponseRecorder: httptest.NewRecorder()}
			w := &slowWriter{ResponseWriter: under, ctx: ctx, limits: []*rate.Limiter{bytes, all}}
			if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(5 * time.Second)); err != nil {
				t.Error(err)
			}
			n, err := w.Write(make([]byte, megabytes*1e6))
			if under.late {
				t.Error("the time that a response waits for the limit counts for the client")
			}
			if got := under.Body.Len(); got != n || err == nil && n != megabytes*1e6 {
				t.Errorf("%d bytes were written, and Write returned %d", got, n)
			}
			return err
		}
		took := func(what string, want time.Duration, do func()) {
			t.Helper()
			began := time.Now()
			do()
			if d := time.Since(began); d < want*9/10 || d > want*11/10 {
				t.Errorf("%s took %v, want %v", what, d, want)
			}
		}
		took("100 MB to one user", 10*time.Second, func() { _ = write("a", 100) })
		took("150 MB to two users", 10*time.Second, func() {
			var both sync.WaitGroup
			both.Go(func() { _ = write("a", 75) })
			both.Go(func() { _ = write("b", 75) })
			both.Wait()
		})
		took("a request that ends", time.Second, func() {
			time.AfterFunc(time.Second, cancel)
			if err := write("a", 100); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	})
}

func TestConnectionLimits(t *testing.T) {
	l := &limitedListener{limits: limits{connections: 3, connectionsPerIP: 2}}
	for i, test := range []struct {
		ip   string
		want bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", false}} {
		if got := l.admit(test.ip); got != test.want {
			t.Errorf("connection %d: %v", i, got)
		}
	}
	l.release("a")
	if !l.admit("c") || l.admit("a") || l.open() != 3 {
		t.Error("after the end of a connection")
	}
}

// certificate returns a certificate of a new key, signed by parent, or self-signed if that is nil.
func certificate(t *testing.T, name string, parent *tls.Certificate) (pair tls.Certificate, certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name, Organization: []string{"of-" + name}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: parent == nil, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	issuer, signer := template, any(key)
	if parent != nil {
		issuer, signer = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	if pair, err = tls.X509KeyPair(certPEM, keyPEM); err != nil {
		t.Fatal(err)
	}
	return pair, certPEM, keyPEM
}
