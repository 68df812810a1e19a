package main

import (
	"bytes"
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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	token, empty, two := write(t, "token", []byte("secret\n")), write(t, "empty", []byte(" \n")), write(t, "two", []byte("a b"))
	for _, test := range []struct{ args, want string }{
		{"-listen 0.0.0.0:0", "needs -token-file or -client-ca"},
		{"-listen :0", "needs -token-file or -client-ca"},
		{"-listen [::]:0", "needs -token-file or -client-ca"},
		{"-listen 192.0.2.1:0", "needs -token-file or -client-ca"},
		{"-listen 192.0.2.1:0 -tls-cert " + token + " -tls-key " + token, "needs -token-file or -client-ca"},
		{"-listen 0.0.0.0:0 -token-file " + token, "without TLS the network can read the token of -token-file and every object: add -tls-cert and -tls-key"},
		{"-listen :0 -token-file " + token, "add -tls-cert and -tls-key"},
		{"-listen 192.0.2.1:0 -token-file " + token, "add -tls-cert and -tls-key"},
		{"-listen 0.0.0.0:0 -token-file " + empty, "one token"},
		{"-listen 127.0.0.1:0 -token-file " + empty, "one token"},
		{"-listen 0.0.0.0:0 -token-file " + two, "one token"},
		{"-listen 0.0.0.0:0 -token-file /does/not/exist", "no such file"},
		{"-listen 0.0.0.0:0 -client-ca " + token, "-client-ca needs -tls-cert"},
		{"-listen 0.0.0.0:0 -tls-cert " + token, "go together"},
		{"-listen 127.0.0.1:0 -tls-cert " + token + " -tls-key " + token, "failed to find any PEM data"},
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

// serve serves "hello" behind a guard.
func serve(t *testing.T, o options) (url string) {
	t.Helper()
	g, err := newGuard(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := g.listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: g.handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token was passed on")
		}
		io.WriteString(w, "hello")
	}))}
	done := make(chan struct{})
	go func() { defer close(done); server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-done })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return strings.SplitAfter(g.url(listener.Addr()), "//")[0] + "127.0.0.1:" + port
}

func TestTokenIsAskedFor(t *testing.T) {
	authority, _, _ := certificate(t, "authority", nil)
	_, serverPEM, serverKey := certificate(t, "server", &authority)
	roots := x509.NewCertPool()
	roots.AddCert(authority.Leaf)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	token := write(t, "token", []byte("right\n"))
	for _, o := range []options{
		{listen: "0.0.0.0:0", tokenFile: token, certFile: write(t, "cert", serverPEM), keyFile: write(t, "key", serverKey)},
		{listen: "127.0.0.1:0", tokenFile: token},
	} {
		url := serve(t, o)
		for _, test := range []struct {
			method, path, authorization string
			want                        int
		}{
			{"GET", "/api/v1/pods", "Bearer right", 200},
			{"GET", "/api/v1/pods", "bearer right", 200},
			{"GET", "/api/v1/pods", "", 401},
			{"GET", "/api/v1/pods", "Bearer", 401},
			{"GET", "/api/v1/pods", "Bearer ", 401},
			{"GET", "/api/v1/pods", "Bearer wrong", 401},
			{"GET", "/api/v1/pods", "Bearer rightt", 401},
			{"GET", "/api/v1/pods", "Basic right", 401},
			{"GET", "/readyz/", "", 401},
			{"GET", "/readyz", "", 200},
			{"GET", "/healthz", "", 200},
			{"POST", "/api/v1/pods", "Bearer right", 405},
			{"DELETE", "/api/v1/pods", "", 405},
		} {
			request, err := http.NewRequest(test.method, url+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", test.authorization)
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != test.want {
				t.Errorf("%s: %v: %d", o.listen, test, response.StatusCode)
			}
		}
	}
}

func TestLoopbackIsForThisMachine(t *testing.T) {
	url := serve(t, options{listen: "localhost:0"})
	for _, test := range []struct {
		method, host, body string
		want               int
	}{
		{"GET", "", "", 200},
		{"GET", "localhost:8001", "", 200},
		{"GET", "127.0.0.1", "", 200},
		{"GET", "[::1]:8001", "", 200},
		{"GET", "rebound.example.com", "", 403},
		{"GET", "rebound.example.com:8001", "", 403},
		{"GET", "", "body", 400},
		{"POST", "", "", 405},
		{"PUT", "", "", 405},
		{"PATCH", "", "", 405},
		{"DELETE", "", "", 405},
		{"HEAD", "", "", 405},
		{"OPTIONS", "", "", 405},
	} {
		request, err := http.NewRequest(test.method, url+"/api/v1/pods", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = test.host
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

// certificate returns a certificate of a new key, signed by parent, or self-signed if that is nil.
func certificate(t *testing.T, name string, parent *tls.Certificate) (pair tls.Certificate, certPEM, keyPEM []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
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

func TestCertificateIsAskedFor(t *testing.T) {
	authority, authorityPEM, _ := certificate(t, "authority", nil)
	_, serverPEM, serverKey := certificate(t, "server", &authority)
	client, _, _ := certificate(t, "client", &authority)
	other, _, _ := certificate(t, "other authority", nil)
	stranger, _, _ := certificate(t, "stranger", &other)
	url := serve(t, options{
		listen: "0.0.0.0:0", certFile: write(t, "cert", serverPEM), keyFile: write(t, "key", serverKey),
		clientCA: write(t, "ca", authorityPEM),
	})
	roots := x509.NewCertPool()
	roots.AddCert(authority.Leaf)
	for _, test := range []struct {
		name         string
		certificates []tls.Certificate
		ok           bool
	}{{"client", []tls.Certificate{client}, true}, {"nobody", nil, false}, {"stranger", []tls.Certificate{stranger}, false}} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: test.certificates}}
		response, err := (&http.Client{Transport: transport}).Get(url + "/api/v1/pods")
		if err == nil {
			response.Body.Close()
		}
		if (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
		transport.CloseIdleConnections()
	}
}
