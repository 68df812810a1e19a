package debugpage_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/status"
)

// The page and its files load below any path that ends in a slash, with the headers that protect it.
func TestPageBelowAnyPath(t *testing.T) {
	h := debugpage.New(debugpage.Config{})
	mux := http.NewServeMux()
	mux.Handle("/debug/informers/", h)
	mux.Handle("/a/b/", http.StripPrefix("/a/b", h))
	mux.Handle("/c/", http.StripPrefix("/c/", h))
	for _, mount := range []struct {
		http.Handler
		path string
	}{{h, "/"}, {mux, "/debug/informers/"}, {mux, "/a/b/"}, {mux, "/c/"}} {
		for name, want := range map[string]string{
			"": "text/html", "app.js": "text/javascript", "style.css": "text/css", "icon.svg": "image/svg+xml", "status.json": "application/json",
		} {
			w := httptest.NewRecorder()
			mount.ServeHTTP(w, request(http.MethodGet, mount.path+name))
			header := w.Header()
			if w.Code != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), want) {
				t.Errorf("%s%s: %d, %s", mount.path, name, w.Code, header.Get("Content-Type"))
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			policy := header.Get("Content-Security-Policy")
			for _, want := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
				if !strings.Contains(policy, want) {
					t.Errorf("the policy lacks %s: %s", want, policy)
				}
			}
			if strings.Contains(policy, "unsafe") {
				t.Errorf("the policy allows too much: %s", policy)
			}
		}
		w := httptest.NewRecorder()
		mount.ServeHTTP(w, request(http.MethodGet, mount.path+"none.js"))
		failed(t, w, http.StatusNotFound)
	}
}

// The page has only relative links, and no inline script or style.
func TestPageHasOnlyItsOwnFiles(t *testing.T) {
	for _, name := range []string{"", "app.js", "style.css"} {
		w := httptest.NewRecorder()
		debugpage.New(debugpage.Config{}).ServeHTTP(w, request(http.MethodGet, "/"+name))
		for _, bad := range []string{`(?:src|href)="(?:/|\w+:)`, `\bstyle=`, `\son\w+=`, `<style`, `<script>`, `innerHTML`, `insertAdjacentHTML`, `\beval\(`, `@import`, `url\(`} {
			if found := regexp.MustCompile(bad).FindString(w.Body.String()); found != "" {
				t.Errorf("%q has %s", name, found)
			}
		}
	}
}

// Without the slash at the end, relative links lead elsewhere. The handler adds it if http.StripPrefix removed the whole path.
func TestSlashIsAdded(t *testing.T) {
	h := http.StripPrefix("/debug/informers", debugpage.New(debugpage.Config{}))
	for asked, want := range map[string]string{"/debug/informers": "./informers/", "/debug/informers?x=//evil": "./informers/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request(http.MethodGet, asked))
		if got := w.Header().Get("Location"); w.Code != http.StatusMovedPermanently || got != want {
			t.Errorf("%s: %d to %q, want %q", asked, w.Code, got, want)
		}
	}
}

// Only GET and HEAD are allowed. HEAD has the headers of GET.
func TestMethods(t *testing.T) {
	inRig(t, func(r *rig) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, "BREW"} {
			for _, file := range []string{"", "status.json", "object.json"} {
				w := httptest.NewRecorder()
				debugpage.New(r.config).ServeHTTP(w, request(method, "/"+file+"?token=right"))
				failed(r.T, w, http.StatusMethodNotAllowed)
				if got := w.Header().Get("Allow"); got != "GET, HEAD" {
					r.Errorf("Allow is %q", got)
				}
			}
		}
		page := httptest.NewServer(debugpage.New(r.config))
		defer page.Close()
		for _, file := range []string{"", "status.json"} {
			answer, err := page.Client().Head(page.URL + "/" + file)
			if err != nil {
				r.Fatal(err)
			}
			body, _ := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK || len(body) != 0 || answer.ContentLength <= 0 {
				r.Errorf("HEAD %q: %d, %d bytes of %d", file, answer.StatusCode, len(body), answer.ContentLength)
			}
		}
		page.CloseClientConnections()
	})
}

// Clients that do not read hold a bounded number of answers, for a bounded time.
func TestClientsThatDoNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := debugpage.Config{Name: strings.Repeat("n", 1<<20)}
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: debugpage.New(config)}
		var tasks sync.WaitGroup
		tasks.Go(func() { _ = server.Serve(listener) })
		defer tasks.Wait()
		defer server.Close()
		get := func(c net.Conn) *http.Response {
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			return answer
		}
		dial := func() net.Conn {
			c := listener.dial()
			fmt.Fprintf(c, "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
			return c
		}
		var idle []net.Conn
		for range 8 {
			idle = append(idle, dial())
		}
		synctest.Wait()
		next := dial()
		if answer := get(next); answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") != "1" {
			t.Errorf("%d for a request beside 8 that nobody reads", answer.StatusCode)
		}
		next.Close()
		<-time.After(11 * time.Second)
		synctest.Wait()
		next = dial()
		if answer := get(next); answer.StatusCode != http.StatusOK {
			t.Errorf("%d after the time to read", answer.StatusCode)
		}
		next.Close()
		for _, c := range idle {
			if _, err := io.ReadAll(c); err != nil {
				t.Errorf("a connection that nobody read: %v", err)
			}
			c.Close()
		}
	})
}

// pipes is a listener without a network.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours
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

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

// Requests race with nothing while informers, queues and a controller run.
func TestRequestsWhileEverythingRuns(t *testing.T) {
	inRig(t, func(r *rig) {
		group := informer.NewGroup(r.client)
		ctl := &informer.Controller[informer.Key]{Name: "web", Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) {
			return informer.Result{}, nil
		}}
		ctl.Watch(informer.EnqueueObject(r.pods))
		r.config.Groups = []func() []informer.InformerStatus{group.Status}
		r.config.Controllers = []func() status.Controller{ctl.Status}
		run(r, r.pods)
		r.tasks.Go(func() { _ = group.Run(r.ctx) })
		r.tasks.Go(func() { _ = ctl.Run(r.ctx) })
		h := debugpage.New(r.config)
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for range 20 {
					for _, url := range []string{
						target("status.json", "token", "right"), target("objects.json", "store", "v1 pods", "token", "right"),
						target("keys.json", "store", "v1 pods", "index", "node", "token", "right"),
					} {
						w := httptest.NewRecorder()
						h.ServeHTTP(w, request(http.MethodGet, url))
						if w.Code != http.StatusOK {
							r.Errorf("%s: %d %s", url, w.Code, w.Body)
						}
					}
				}
			})
		}
		for n := range 200 {
			r.pod("default", fmt.Sprint("pod-", n), fmt.Sprint("node-", n%7))
			if n == 100 {
				if _, _, err := informer.Shared(group, informer.Resource{GroupVersionResource: core.WithResource("pods"), Namespaces: []string{"default"}}, informer.Config[*corev1.Pod]{Logger: quiet}); err != nil {
					r.Fatal(err)
				}
			}
		}
		readers.Wait()
	})
}

// The zero Config shows an empty page to everybody.
func TestZeroConfig(t *testing.T) {
	w := httptest.NewRecorder()
	debugpage.New(debugpage.Config{}).ServeHTTP(w, request(http.MethodGet, "/status.json"))
	var s debugpage.Status
	decode(t, w, &s)
	if w.Code != http.StatusOK || s.Name == "" || s.Authorized || s.Process.HeapBytes == 0 || strings.Contains(w.Body.String(), "null") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
