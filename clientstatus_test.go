package informer_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// A client counts its requests by method and code, with the time until the answer.
// Guarantees: O3
func TestClientCountsRequests(t *testing.T) {
	bubble(t, func(w world) {
		w.create(newPod("ns", "a"))
		client := w.client()
		pods := informer.NewTypedClient[*corev1.Pod](client, podGVR)
		remove := w.server.Inject(informertest.Fault{Delay: time.Second})
		if _, err := pods.Get(w.Context(), keyA, metav1.GetOptions{}); err != nil {
			w.Fatal(err)
		}
		remove()
		if _, err := pods.Get(w.Context(), informer.Key{Namespace: "ns", Name: "none"}, metav1.GetOptions{}); err == nil {
			w.Error("got an object that does not exist")
		}
		if err := pods.Delete(w.Context(), keyA, metav1.DeleteOptions{}); err != nil {
			w.Fatal(err)
		}
		remove = w.server.Inject(informertest.Fault{Drop: true})
		if err := pods.Delete(w.Context(), keyA, metav1.DeleteOptions{}); err == nil {
			w.Error("no error without a response")
		}
		remove()
		s := client.Status()
		want := map[informer.RequestKind]uint64{{Method: "GET", Code: 200}: 1, {Method: "GET", Code: 404}: 1, {Method: "DELETE", Code: 200}: 1, {Method: "DELETE"}: 1}
		if !maps.Equal(s.Requests, want) {
			w.Errorf("requests %v, want %v", s.Requests, want)
		}
		if got, want := s.Latencies["GET"], durations(time.Second, 0); got != want || len(s.Latencies) != 2 || s.Latencies["DELETE"].Count != 2 {
			w.Errorf("latencies %+v", s.Latencies)
		}
		if !strings.HasSuffix(w.server.Config().Host, "//"+s.Host) {
			w.Errorf("host %q", s.Host)
		}
		s.Requests[informer.RequestKind{}] = 1
		if !maps.Equal(client.Status().Requests, want) {
			w.Error("a status is not a copy")
		}
	})
}

// A server cannot make up kinds of requests.
func TestKindsOfRequestsAreBounded(t *testing.T) {
	bubble(t, func(w world) {
		client := w.client()
		pods := informer.NewTypedClient[*corev1.Pod](client, podGVR)
		for code := 600; code < 1000; code += 7 {
			w.answer(func(rw http.ResponseWriter, _ *http.Request) bool { rw.WriteHeader(code); return true })
			if _, err := pods.Get(w.Context(), keyA, metav1.GetOptions{}); err == nil {
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
	bubble(t, func(w world) {
		w.create(newPod("ns", "a"))
		tracer := spans{w.T, make(chan string, 100)}
		var headers []string
		w.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			headers = append(headers, r.Header.Get("Traceparent"))
			return false
		})
		untraced := w.client()
		client := untraced.WithTracer(tracer)
		want := func(when string, want ...string) {
			w.Helper()
			if got := tracer.take(); !slices.Equal(got, want) {
				w.Errorf("%s: spans\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		config := quiet[*corev1.Pod]()
		config.PagedList = true
		inf := informer.New(client, informer.Resource{GroupVersionResource: podGVR}, config)
		stop := start(w.T, inf)
		want("of an informer", "begin list pods in ", "end list pods OK", "begin watch pods in ")
		w.server.EndWatches()
		if got := tracer.take(); len(got) < 1 || got[0] != "end watch pods OK" {
			w.Errorf("at the end of a watch: %q", got)
		}
		<-time.After(time.Minute)
		tracer.take()
		stop()
		want("at the end", "end watch pods OK")

		pods := informer.NewTypedClient[*corev1.Pod](client, podGVR)
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
		if s := untraced.Status(); s.Requests[informer.RequestKind{Method: "GET", Code: 404}] != 1 {
			w.Errorf("both clients should have one status: %v", s.Requests)
		}
		if len(headers) == 0 || headers[len(headers)-1] != "get pods none" {
			w.Errorf("headers %q", headers)
		}
		before := len(headers)
		_, _ = informer.NewTypedClient[*corev1.Pod](untraced, podGVR).Get(w.Context(), keyA, metav1.GetOptions{})
		if got := tracer.take(); len(got) > 0 || headers[before] != "" {
			w.Errorf("of a client without a tracer: %q", got)
		}
	})
}
