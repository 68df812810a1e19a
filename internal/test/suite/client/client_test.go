package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/world"
	"github.com/typedinformer/informer/status"
)

// Guarantees: L4
func TestNilClientIsAnError(t *testing.T) {
	inf := informer.New(nil, informer.Resource{GroupVersionResource: world.PodGVR}, world.Quiet[*corev1.Pod]())
	for what, err := range map[string]error{"Run": inf.Run(t.Context()), "WaitSynced": inf.WaitSynced(t.Context())} {
		if err == nil || !strings.Contains(err.Error(), "the client is nil") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Logs, status and errors contain no credentials.
func TestLogsAndErrorsHoldNoCredentials(t *testing.T) {
	const secret = "s3cr3t"
	world.Bubble(t, func(w world.World) {
		var logged bytes.Buffer
		client := w.Client(func(c *rest.Config) {
			c.BearerToken = secret
			c.Host = "http://user:" + secret + "@in-memory"
		})
		config := informer.Config[*corev1.Pod]{Logger: slog.New(slog.NewTextHandler(&logged, nil))}
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		stop := world.Start(w.T, inf)
		w.Server.Close()
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
	inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, world.Paged[*corev1.Pod]())
	defer world.Start(t, inf)()
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
		case world.AsksToWatch(r):
			<-r.Context().Done()
		case r.URL.Path == "/other":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, world.ListHead+"]}")
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
		if !world.AsksToWatch(r) {
			io.WriteString(w, world.ListHead+world.PodHead+`"a":1}`)
			w.(http.Flusher).Flush()
			if lists.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			io.WriteString(w, "]}")
			return
		}
		io.WriteString(w, world.FrameHead)
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
		if err := status.LastError; err == nil || !strings.Contains(err.Error(), "stream error") || status.Traffic.Lists != 2 || status.Traffic.Watches != 2 {
			t.Errorf("status %+v", status)
		}
	})
}

// A client counts its requests by method and code, with the time until the answer.
// Guarantees: O3
func TestClientCountsRequests(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		client := w.Client()
		pods := informer.NewTypedClient[*corev1.Pod](client, world.PodGVR)
		remove := w.Server.Inject(informertest.Fault{Delay: time.Second})
		if _, err := pods.Get(w.Context(), world.KeyA, metav1.GetOptions{}); err != nil {
			w.Fatal(err)
		}
		remove()
		if _, err := pods.Get(w.Context(), informer.Key{Namespace: "ns", Name: "none"}, metav1.GetOptions{}); err == nil {
			w.Error("got an object that does not exist")
		}
		if err := pods.Delete(w.Context(), world.KeyA, metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		remove = w.Server.Inject(informertest.Fault{Drop: true})
		if err := pods.Delete(w.Context(), world.KeyA, metav1.DeleteOptions{}); err == nil {
			w.Error("no error without a response")
		}
		remove()
		s := client.Status()
		want := map[status.RequestKind]uint64{{Method: "GET", Code: 200}: 1, {Method: "GET", Code: 404}: 1, {Method: "DELETE", Code: 200}: 1, {Method: "DELETE"}: 1}
		if !maps.Equal(s.Requests, want) {
			w.Errorf("requests %v, want %v", s.Requests, want)
		}
		if got, want := s.Latencies["GET"], world.Durations(time.Second, 0); got != want || len(s.Latencies) != 2 || s.Latencies["DELETE"].Count != 2 {
			w.Errorf("latencies %+v", s.Latencies)
		}
		if !strings.HasSuffix(w.Server.Config().Host, "//"+s.Host) {
			w.Errorf("host %q", s.Host)
		}
		s.Requests[status.RequestKind{}] = 1
		if !maps.Equal(client.Status().Requests, want) {
			w.Error("a status is not a copy")
		}
	})
}

// A server cannot make up kinds of requests.
func TestKindsOfRequestsAreBounded(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		client := w.Client()
		pods := informer.NewTypedClient[*corev1.Pod](client, world.PodGVR)
		for code := 600; code < 1000; code += 7 {
			w.Answer(func(rw http.ResponseWriter, _ *http.Request) bool { rw.WriteHeader(code); return true })
			if _, err := pods.Get(w.Context(), world.KeyA, metav1.GetOptions{}); err == nil {
				w.Errorf("%d is no error", code)
			}
		}
		if got := client.Status().Requests; len(got) != 4 {
			w.Errorf("kinds %v", got)
		}
	})
}

// spans is a Tracer that notes what it receives.
type spans struct {
	*testing.T
	lines chan string
}

type spanKey struct{}

func (s spans) Request(ctx context.Context, r informer.RequestTrace) (context.Context, func(informer.RequestResult)) {
	parent, _ := ctx.Value(spanKey{}).(string)
	name := r.Verb + " " + r.Resource.String()
	if r.Name != "" {
		name += " " + r.Name
	}
	if !strings.HasPrefix(r.Path, "/api/v1/") || r.Method == "" || r.Host == "" {
		s.Errorf("%+v", r)
	}
	r.Header.Set("Traceparent", name)
	s.lines <- "begin " + name + " in " + parent
	return context.WithValue(ctx, spanKey{}, name), func(result informer.RequestResult) {
		line := "end " + name + " " + http.StatusText(result.Code)
		if result.Err != nil {
			line += " failed"
		}
		s.lines <- line
	}
}

func (s spans) Reconcile(ctx context.Context, controller string, key any) (context.Context, func(error)) {
	name := controller + " " + key.(informer.Key).String()
	s.lines <- "begin " + name
	return context.WithValue(ctx, spanKey{}, name), func(err error) {
		if err != nil {
			name += " failed: " + err.Error()
		}
		s.lines <- "end " + name
	}
}

// take returns the lines so far.
func (s spans) take() (lines []string) {
	synctest.Wait()
	for len(s.lines) > 0 {
		lines = append(lines, <-s.lines)
	}
	return lines
}

// A tracer receives each request from its beginning to the end of its body, and each reconcile, whose requests are inside it.
// Guarantees: O4
func TestTracer(t *testing.T) {
	world.Bubble(t, func(w world.World) {
		w.Create(world.NewPod("ns", "a"))
		tracer := spans{w.T, make(chan string, 100)}
		var headers []string
		w.Answer(func(_ http.ResponseWriter, r *http.Request) bool {
			headers = append(headers, r.Header.Get("Traceparent"))
			return false
		})
		untraced := w.Client()
		client := untraced.WithTracer(tracer)
		want := func(when string, want ...string) {
			w.Helper()
			if got := tracer.take(); !slices.Equal(got, want) {
				w.Errorf("%s: spans\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		config := world.Quiet[*corev1.Pod]()
		config.PagedList = true
		inf := informer.New(client, informer.Resource{GroupVersionResource: world.PodGVR}, config)
		stop := world.Start(w.T, inf)
		want("of an informer", "begin list pods in ", "end list pods OK", "begin watch pods in ")
		w.Server.EndWatches()
		if got := tracer.take(); len(got) < 1 || got[0] != "end watch pods OK" {
			w.Errorf("at the end of a watch: %q", got)
		}
		<-time.After(time.Minute)
		tracer.take()
		stop()
		want("at the end", "end watch pods OK")

		pods := informer.NewTypedClient[*corev1.Pod](client, world.PodGVR)
		controller := &informer.Controller[informer.Key]{
			Name:   "site",
			Tracer: tracer,
			Logger: config.Logger,
			Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
				_, err := pods.Get(ctx, key, metav1.GetOptions{})
				return informer.Result{}, informer.TerminalError(errors.Join(err, errors.New("no")))
			},
		}
		controller.Queue = informer.NewQueue(informer.QueueConfig[informer.Key]{})
		controller.Queue.Add(informer.Key{Namespace: "ns", Name: "none"})
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); controller.Run(ctx) }()
		got := tracer.take()
		if len(got) != 4 || got[0] != "begin site ns/none" || got[1] != "begin get pods none in site ns/none" ||
			got[2] != "end get pods none Not Found failed" || !strings.HasPrefix(got[3], "end site ns/none failed: ") {
			w.Errorf("of a reconcile: %q", got)
		}
		cancel()
		<-ended
		if s := untraced.Status(); s.Requests[status.RequestKind{Method: "GET", Code: 404}] != 1 {
			w.Errorf("both clients should have one status: %v", s.Requests)
		}
		if len(headers) == 0 || headers[len(headers)-1] != "get pods none" {
			w.Errorf("headers %q", headers)
		}
		before := len(headers)
		_, _ = informer.NewTypedClient[*corev1.Pod](untraced, world.PodGVR).Get(w.Context(), world.KeyA, metav1.GetOptions{})
		if got := tracer.take(); len(got) > 0 || headers[before] != "" {
			w.Errorf("of a client without a tracer: %q", got)
		}
	})
}
