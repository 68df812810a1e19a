package informer_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// Guarantees: L4
func TestNilClientIsAnError(t *testing.T) {
	inf := informer.New(nil, informer.Resource{GroupVersionResource: podGVR}, quiet[*corev1.Pod]())
	for what, err := range map[string]error{"Run": inf.Run(t.Context()), "WaitSynced": inf.WaitSynced(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "the client is nil") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Logs, status and errors contain no credentials.
func TestLogsAndErrorsHoldNoCredentials(t *testing.T) {
	const secret = "s3cr3t"
	bubble(t, func(w world) {
		var logged bytes.Buffer
		client := w.client(func(c *rest.Config) {
			c.BearerToken = secret
			c.Host = "http://user:" + secret + "@in-memory"
		})
		config := informer.Config[*corev1.Pod]{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		stop := start(w.T, inf)
		w.server.Close()
		<-time.After(time.Hour)
		stop()
		text := fmt.Sprintf("%s %+v %v", logged.String(), inf.Status(), inf.Status().Reflectors[0].LastError)
		if !strings.Contains(text, "/api/v1/pods") || strings.Contains(text, secret) {
			w.Errorf("logged and reported: %s", text)
		}
	})
}

// listed runs an informer of a server until it is synced, and then after.
func listed(t *testing.T, config *rest.Config, after func(inf *informer.Informer[*corev1.Pod])) {
	t.Helper()
	client, err := informer.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, deepConfig[*corev1.Pod]())
	defer start(t, inf)()
	after(inf)
}

// The client sends credentials to no other server, wherever this one redirects. It follows a redirect on the same server.
func TestRedirectCarriesNoCredentials(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server got a request with %v", r.Header)
	}))
	defer elsewhere.Close()
	var lists atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case asksToWatch(r):
			<-r.Context().Done()
		case r.URL.Path == "/other":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, listHead+"]}")
		case lists.Add(1) == 1:
			http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
		case lists.Load() == 2:
			http.Redirect(w, r, r.URL.Path, http.StatusFound) // to this server
		default:
			http.Redirect(w, r, "/other", http.StatusFound)
		}
	}))
	defer server.Close()
	listed(t, &rest.Config{Host: server.URL, BearerToken: "secret"}, func(inf *informer.Informer[*corev1.Pod]) {
		if err := inf.Status().Reflectors[0].LastError; err == nil || !strings.Contains(err.Error(), "redirects to another one") {
			t.Error(err)
		}
	})
	if n := lists.Load(); n != 3 {
		t.Errorf("%d lists", n)
	}
}

// HTTP/2 resets a stream, in a list and in a watch, and the informer recovers from both.
// Guarantees: R8
func TestHTTP2ResetIsSurvived(t *testing.T) {
	var lists, watches atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("request by %s", r.Proto)
		}
		w.Header().Set("Content-Type", "application/json")
		defer w.(http.Flusher).Flush()
		if !asksToWatch(r) {
			io.WriteString(w, listHead+podHead+`"a":1}`)
			w.(http.Flusher).Flush()
			if lists.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, "]}")
			return
		}
		io.WriteString(w, frameHead)
		w.(http.Flusher).Flush()
		if watches.Add(1) == 1 {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(w, `"a":1}}{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true, NextProtos: []string{"h2"}}}
	listed(t, config, func(inf *informer.Informer[*corev1.Pod]) {
		if err := inf.WaitForResourceVersion(t.Context(), "5"); err != nil {
			t.Fatal(err)
		}
		status := inf.Status().Reflectors[0]
		if err := status.LastError; err == nil || !strings.Contains(err.Error(), "stream error") || status.Lists != 2 || status.Watches != 2 {
			t.Errorf("status %+v", status)
		}
	})
}
