package crcache_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/manager"
)

// The webhook server of controller-runtime runs in a program without its manager.
func TestWebhookServerInAnotherManager(t *testing.T) {
	dir := t.TempDir()
	cert, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	port := testkit.FreePort(t)
	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: port, CertDir: dir})
	server.Register("/mutate", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reviewed") }))

	m := manager.New(manager.Config{Logger: slog.New(slog.DiscardHandler)})
	if err := m.Add(manager.Runnable{Name: "webhooks", Run: server.Start, Phase: manager.Servers}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	started := server.StartedChecker()
	for started(nil) != nil {
		select {
		case err := <-ended:
			t.Fatalf("Run: %v", err)
		case <-time.After(10 * time.Millisecond): // it is another package's server: nothing else tells that it has started
		}
	}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/mutate", port))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "reviewed" {
		t.Errorf("answer %q, %v", body, err)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if _, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/mutate", port)); err == nil {
		t.Error("the server runs after the end of Run")
	}
}
