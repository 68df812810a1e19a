package manager_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/manager"
)

const childEnv = "MANAGER_TEST_CHILD"

// runChild is the process of TestSignals. Its runnable returns when its input ends.
func runChild() {
	if os.Getenv(childEnv) == "" {
		return
	}
	ctx, stop := manager.SetupSignalHandler(context.Background())
	defer stop()
	m := manager.New(manager.Config{Logger: quiet})
	_ = m.Add(manager.Runnable{Name: "work", Run: func(running context.Context) error {
		fmt.Println("running")
		<-running.Done()
		fmt.Println("stopping:", context.Cause(ctx))
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}})
	fmt.Println("Run returns", m.Run(ctx))
	os.Exit(0)
}

// listen returns a listener on loopback.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// get returns the body of a response.
func get(t *testing.T, client *http.Client, url string) (code int, body string) {
	t.Helper()
	resp, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return resp.StatusCode, string(content)
}

// start runs a manager. stop ends it, and returns the result of Run.
func start(t *testing.T, m *manager.Manager) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

// One server serves the probes and further handlers.
func TestProbesServer(t *testing.T) {
	l := listen(t)
	metrics := http.NewServeMux()
	metrics.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1\n") })
	m := manager.New(manager.Config{Logger: quiet, Probes: manager.Server{Listener: l, Handler: metrics}})
	stop := start(t, m)
	<-m.Elected()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	url := "http://" + l.Addr().String()
	for path, want := range map[string]string{
		"/readyz": "200 ok", "/livez": "200 ok", "/healthz": "200 ok", "/metrics": "200 up 1\n", "/other": "404 404 page not found\n",
	} {
		if code, body := get(t, client, url+path); fmt.Sprint(code, " ", body) != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(url + "/livez"); !errors.Is(err, syscall.ECONNREFUSED) && err == nil {
		t.Errorf("after the stop: %v", err)
	}
}

// If an address is in use, Run fails and starts nothing. The other listeners are closed.
//
// Guarantees: M1, M4
func TestAddressInUse(t *testing.T) {
	used, free := listen(t), listen(t)
	defer used.Close()
	var ran atomic.Bool
	m := manager.New(manager.Config{Logger: quiet, Probes: manager.Server{Listener: free}})
	for _, err := range []error{
		m.AddServer(manager.Server{Name: "metrics", Addr: used.Addr().String(), Handler: http.NotFoundHandler()}),
		m.Add(manager.Runnable{Name: "cache", Phase: manager.Caches, Run: func(context.Context) error { ran.Store(true); return nil }}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // in case it runs
	defer cancel()
	err := m.Run(ctx)
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), "metrics at "+used.Addr().String()+": ") {
		t.Errorf("%v, want EADDRINUSE", err)
	}
	if ran.Load() {
		t.Error("a runnable began")
	}
	_ = free.(*net.TCPListener).SetDeadline(time.Now().Add(-time.Second)) // so that Accept of an open one returns, too
	if _, err := free.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the other listener: %v, want closed", err)
	}
	// A server that is added while Run is under way starts at once.
	m = manager.New(manager.Config{Logger: quiet})
	stop := start(t, m)
	select {
	case <-m.Elected():
	case <-ctx.Done():
		t.Fatal("the manager does not run")
	}
	if err := m.AddServer(manager.Server{Addr: used.Addr().String(), Handler: http.NotFoundHandler()}); err != nil {
		t.Error(err)
	}
	if err := stop(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v, want EADDRINUSE", err)
	}
}

// Once the servers have stopped, AddServer returns an error and closes the listener: nobody else would.
func TestServerAddedAfterTheEndIsClosed(t *testing.T) {
	m := manager.New(manager.Config{Logger: quiet})
	if err := start(t, m)(); err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	if err := m.AddServer(manager.Server{Listener: l, Handler: http.NotFoundHandler()}); !errors.Is(err, informer.ErrStopped) {
		t.Errorf("%v, want ErrStopped", err)
	}
	_ = l.(*net.TCPListener).SetDeadline(time.Now().Add(-time.Second)) // so that Accept of an open one returns, too
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener: %v, want closed", err)
	}
}

// A request under way is answered while the server stops. At the deadline it is cut off, and its context ends.
//
// Guarantees: M2, M6
func TestRequestsUnderWay(t *testing.T) {
	for _, timeout := range []time.Duration{0, 3 * time.Second} {
		begun, end, cut := make(chan struct{}), make(chan struct{}), make(chan struct{})
		l := listen(t)
		m := manager.New(manager.Config{Logger: quiet, GracefulShutdownTimeout: timeout})
		if err := m.AddServer(manager.Server{Name: "web", Listener: l, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			close(begun)
			select {
			case <-end:
				fmt.Fprint(w, "done")
			case <-r.Context().Done():
				close(cut)
			}
		})}); err != nil {
			t.Fatal(err)
		}
		stopping := make(chan struct{})
		if err := m.Add(manager.Runnable{Name: "other", Run: func(ctx context.Context) error {
			<-ctx.Done()
			close(stopping)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		stop := start(t, m)
		client := &http.Client{Transport: &http.Transport{}}
		answer := make(chan string, 1)
		go func() {
			resp, err := client.Get("http://" + l.Addr().String())
			if err != nil {
				answer <- ""
				return
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			answer <- string(body)
		}()
		<-begun
		stopped := make(chan error, 1)
		go func() { stopped <- stop() }()
		if timeout != 0 {
			<-cut
			var late *manager.ShutdownError
			if err := <-stopped; !errors.As(err, &late) || !slices.Equal(late.Running, []string{"web"}) {
				t.Errorf("%v, want a ShutdownError with web", err)
			}
			<-answer
		} else {
			<-stopping
			close(end)
			if body := <-answer; body != "done" {
				t.Errorf("body %q, want done", body)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		}
		client.CloseIdleConnections()
	}
}

// A server with TLS speaks HTTP/2, and nothing else.
func TestTLS(t *testing.T) {
	made := httptest.NewUnstartedServer(nil) // for its certificate
	made.StartTLS()
	certificate := made.TLS.Certificates[0]
	roots := x509.NewCertPool()
	roots.AddCert(made.Certificate())
	made.Close()
	l := listen(t)
	m := manager.New(manager.Config{Logger: quiet, Probes: manager.Server{
		Listener: l, TLS: &tls.Config{Certificates: []tls.Certificate{certificate}},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }),
	}})
	stop := start(t, m)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	if code, body := get(t, client, "https://"+l.Addr().String()); code != 200 || body != "HTTP/2.0" {
		t.Errorf("%d %q, want HTTP/2.0", code, body)
	}
	if code, _ := get(t, client, "http://"+l.Addr().String()); code != 400 {
		t.Errorf("without TLS: %d, want 400", code)
	}
	client.CloseIdleConnections()
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A client with too many headers is rejected.
func TestHeaderLimit(t *testing.T) {
	l := listen(t)
	m := manager.New(manager.Config{Logger: quiet, Probes: manager.Server{Listener: l}})
	stop := start(t, m)
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: a\r\nX: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v, want 431", resp, err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}
