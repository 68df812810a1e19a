package debugpage_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/typedinformer/informer/debugpage"
)

// A web page whose host name leads to this machine (DNS rebinding) reads nothing: each answer to a host that is neither loopback nor
// in Config.Hosts is an error that names the field.
func TestHostsAgainstDNSRebinding(t *testing.T) {
	config := debugpage.Config{Name: secret, Hosts: []string{
		"web.shop.svc", "Debug.Example.com:8443", "10.0.0.7", "10.244.7.9/16", "2001:db8::7", "[2001:db8::8]:80", "fd00::/8", "", "http://no.example.com",
	}}
	h := debugpage.New(config)
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "LocalHost": 200, "localhost.": 200, "127.0.0.1": 200, "127.0.0.1:1": 200, "127.9.9.9:80": 200, "[::1]": 200, "[::1]:8080": 200,
		"[::ffff:127.0.0.1]:80": 200, "[::1%25lo]:80": 200,
		"web.shop.svc": 200, "web.shop.svc:80": 200, "WEB.shop.svc.": 200, "debug.example.com": 200, "debug.example.com:9": 200,
		"10.0.0.7:80": 200, "10.244.1.2:80": 200, "[2001:db8::7]:80": 200, "[2001:db8::8]": 200, "[fd12::1]:80": 200,

		"": 421, ":80": 421, "example.com": 421, "rebound.example.com:8080": 421, "localhost.example.com": 421, "a.localhost": 421, "127.0.0.1.example.com": 421, "web.shop.svc.example.com": 421,
		"xweb.shop.svc": 421, "shop.svc": 421, "10.0.0.8": 421, "10.245.0.1": 421, "[2001:db8::9]": 421, "[::]": 421, "0.0.0.0": 421, "no.example.com": 421, "http://no.example.com": 421,
		"localhost:80:80": 421, "localhost@evil.example.com": 421, "127.0.0.1/..": 421, "http://localhost": 421,
	} {
		for _, file := range []string{"", "app.js", "status.json", "object.json", "none"} {
			r := request(http.MethodGet, "/"+file)
			r.Host = host
			r.Header.Set("X-Forwarded-Host", "localhost") // whoever sends the request chooses it
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if want == 421 {
				failed(t, w, want)
				lacks(t, w)
				if !strings.Contains(w.Body.String(), "debugpage.Config.Hosts") {
					t.Errorf("host %q: %s", host, w.Body)
				}
			} else if w.Code == http.StatusMisdirectedRequest || file == "status.json" && w.Code != want {
				t.Errorf("host %q, %s: %d, want %d", host, file, w.Code, want)
			}
		}
	}
	r := request(http.MethodPost, "/status.json")
	r.Host = "example.com"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	failed(t, w, http.StatusMisdirectedRequest)
}

// On a Unix socket, which browsers cannot reach, clients name any host.
func TestUnixSocketHasAnyHost(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	page := httptest.NewUnstartedServer(debugpage.New(debugpage.Config{}))
	page.Listener.Close()
	page.Listener = listener
	page.Start()
	defer page.Close()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", listener.Addr().String())
	}}}
	defer client.CloseIdleConnections()
	answer, err := client.Get("http://page/status.json")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%d on a Unix socket", answer.StatusCode)
	}
}
