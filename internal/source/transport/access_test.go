package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// A request has the address and the credentials of one configuration, and never the address of one with the credentials of another. Contexts say
// what an update has replaced: other credentials leave the address.
// Guarantees: R13
func TestUpdateReplacesTheAccess(t *testing.T) {
	var seen []string
	config := func(host, token string) *rest.Config {
		return &rest.Config{Host: "http://" + host, BearerToken: token, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			seen = append(seen, r.URL.Host+" "+r.Header.Get("Authorization"))
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {decode.MediaJSON}}, Body: http.NoBody}, nil
		}), QPS: -1}
	}
	c, err := New(config("one", "a"))
	if err != nil {
		t.Fatal(err)
	}
	first := c.Base().String()
	for _, u := range []struct {
		host, token string
		moves       bool
	}{{"one", "b", false}, {"two", "c", true}, {"two", "d", false}, {"one", "e", true}} {
		copied, updated, moved := c.WithTracer(nil), c.Updated(), c.Moved()
		if err := c.Update(config(u.host, u.token)); err != nil {
			t.Fatal(err)
		}
		if context.Cause(updated) != ErrUpdated || (moved.Err() != nil) != u.moves || c.Updated().Err() != nil || c.Moved().Err() != nil {
			t.Errorf("%v: updated %v, moved %v", u, updated.Err(), moved.Err())
		}
		for _, c := range []*Client{c, copied} {
			seen = nil
			send(t, c, http.MethodGet, "api")
			if len(seen) != 1 || seen[0] != u.host+" Bearer "+u.token {
				t.Errorf("%v: %q", u, seen)
			}
		}
		if !c.HadBase(first) || !c.HadBase(c.Base().String()) || c.HadBase("http://three") {
			t.Errorf("%v: wrong addresses %q", u, c.server.addresses)
		}
	}
}

// The connections of a configuration that was replaced are closed when their last request ends, and those of the new one stay.
// Guarantees: R13
func TestUpdateClosesOldConnections(t *testing.T) {
	for _, streams := range []int{100, 0} {
		synctest.Test(t, func(t *testing.T) {
			p := &paths{}
			before, after := testkit.NewSecureServer(t, streams, p.serve), testkit.NewSecureServer(t, streams, p.serve)
			c := secure(t, before)
			send(t, c, http.MethodGet, "list")
			ctx, cancel := context.WithCancel(t.Context())
			watch, err := c.Send(ctx, Request{Method: http.MethodGet, Path: "watch", Watch: true})
			if err != nil {
				t.Fatal(err)
			}
			want := func(old, now int) {
				t.Helper()
				<-time.After(time.Second)
				_, a := before.Connections()
				_, b := after.Connections()
				if a != old || b != now {
					t.Errorf("streams=%d: %d connections to the old server, want %d; %d to the new one, want %d", streams, a, old, b, now)
				}
			}
			want(2, 0)
			if err := c.Update(after.Config); err != nil {
				t.Fatal(err)
			}
			send(t, c, http.MethodGet, "list")
			cancel()
			watch.Close()
			want(0, 1)
			if err := c.Update(before.Config); err != nil {
				t.Fatal(err)
			}
			want(0, 0)
		})
	}
}

// An update that is invalid is an error, and changes nothing. So is a client without a configuration.
// Guarantees: R13, L4
func TestInvalidUpdate(t *testing.T) {
	c, err := New(&rest.Config{Host: "https://one", BearerToken: "a"})
	if err != nil {
		t.Fatal(err)
	}
	before := c.server.access.Load()
	for name, config := range map[string]*rest.Config{
		"nil":       nil,
		"address":   {Host: "http://%"},
		"authority": {Host: "https://two", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("none")}},
		"file":      {Host: "https://two", TLSClientConfig: rest.TLSClientConfig{CAFile: "/nowhere"}},
		"key":       {Host: "https://two", TLSClientConfig: rest.TLSClientConfig{CertData: []byte("none"), KeyData: []byte("none")}},
	} {
		if err := c.Update(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if c.server.access.Load() != before || before.replaced.Err() != nil || c.HadBase("https://two") {
		t.Error("an invalid update has changed the client")
	}
	if _, err := New(nil); err == nil || errors.Is(err, ErrUpdated) {
		t.Error("a client without a configuration")
	}
}

// The connections that the new configuration uses, too, stay open: several clients may have one transport.
// Guarantees: R13
func TestUpdateKeepsSharedConnections(t *testing.T) {
	for _, streams := range []int{100, 0} {
		synctest.Test(t, func(t *testing.T) {
			server := testkit.NewSecureServer(t, streams, (&paths{}).serve)
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(server.Config.CAData)
			through := &http.Transport{DialContext: server.Config.Dial, TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: streams > 0}
			defer through.CloseIdleConnections()
			config := &rest.Config{Host: server.Config.Host, Transport: through, QPS: -1}
			c, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				send(t, c, http.MethodGet, "list")
				<-time.After(time.Second)
				if all, open := server.Connections(); all != 1 || open != 1 {
					t.Errorf("streams=%d: %d connections, %d of them open", streams, all, open)
				}
				if err := c.Update(config); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// The time limit of requests for objects, and the user agent, remain those of the first configuration.
// Guarantees: R13, R28
func TestUpdateKeepsTheTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := &rest.Config{Host: "http://test", Timeout: 5 * time.Second, QPS: -1, UserAgent: "mine", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if got := r.Header.Get("User-Agent"); got != "mine" {
				t.Errorf("user agent %q", got)
			}
			<-r.Context().Done()
			return nil, r.Context().Err()
		})}
		c, err := New(config)
		if err != nil {
			t.Fatal(err)
		}
		for _, timeout := range []time.Duration{time.Hour, 0, time.Second} {
			next := rest.CopyConfig(config)
			next.Timeout, next.UserAgent = timeout, "other"
			if err := c.Update(next); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			_, err := c.Send(ctx, Request{Method: http.MethodGet, Path: "api/v1/namespaces/ns/pods/a"})
			cancel()
			if took := time.Since(began); err == nil || took != 5*time.Second {
				t.Errorf("after an update to %v: %v after %v", timeout, err, took)
			}
		}
	})
}

// A context that says whether the address is still the same ends with a later update, too: other credentials in between do
// not change that.
// Guarantees: R13
func TestMovedOutlivesOtherCredentials(t *testing.T) {
	config := func(host, token string) *rest.Config { return &rest.Config{Host: host, BearerToken: token} }
	c, err := New(config("http://one", "a"))
	if err != nil {
		t.Fatal(err)
	}
	moved := c.Moved()
	for n, host := range []string{"http://one", "http://one", "http://two"} {
		if moved.Err() != nil {
			t.Errorf("moved before update %d", n)
		}
		if err := c.Update(config(host, host)); err != nil {
			t.Fatal(err)
		}
	}
	if context.Cause(moved) != ErrUpdated {
		t.Error("not moved")
	}
}
