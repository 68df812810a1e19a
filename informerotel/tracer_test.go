package informerotel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerotel"
	"github.com/typedinformer/informer/informertest"
)

// secret is in objects and in messages of the server. No span may contain it.
const secret = "hunter2"

var (
	pods  = corev1.SchemeGroupVersion.WithResource("pods")
	quiet = slog.New(slog.NewTextHandler(io.Discard, nil))
)

// rig is a server with the pod a/b, and a client whose spans are kept in memory.
type rig struct {
	*testing.T
	server *informertest.Server
	client *informer.Client
	tracer informer.Tracer
	spans  *tracetest.InMemoryExporter

	mu      sync.Mutex // protects headers
	headers []http.Header
}

// inRig calls test in a bubble.
func inRig(t *testing.T, config informerotel.Config, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, spans: tracetest.NewInMemoryExporter()}
		r.server = informertest.NewServer(informertest.Options{InMemory: true, Middleware: r.remember})
		defer r.server.Close()
		collection := informertest.Register[*corev1.Pod](r.server, informertest.Resource{GroupVersionResource: pods})
		if _, err := collection.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", Labels: map[string]string{"password": secret}}}); err != nil {
			t.Fatal(err)
		}
		client, err := informer.NewClient(r.server.Config())
		if err != nil {
			t.Fatal(err)
		}
		config.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.spans))
		r.tracer = informerotel.New(config)
		r.client = client.WithTracer(r.tracer)
		test(r)
		synctest.Wait()
		for _, span := range r.spans.GetSpans() {
			if strings.Contains(fmt.Sprintf("%+v", span), secret) {
				t.Errorf("a span has a secret: %+v", span)
			}
		}
	})
}

// remember keeps the header of each request.
func (r *rig) remember(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.mu.Lock()
		r.headers = append(r.headers, request.Header.Clone())
		r.mu.Unlock()
		next.ServeHTTP(w, request)
	})
}

// named returns the span with a name.
func (r *rig) named(name string) tracetest.SpanStub {
	r.Helper()
	synctest.Wait()
	var names []string
	for _, span := range r.spans.GetSpans() {
		if span.Name == name {
			return span
		}
		names = append(names, span.Name)
	}
	r.Fatalf("no span %q, but %q", name, names)
	return tracetest.SpanStub{}
}

// has fails the test unless the attributes of the span are exactly these, apart from the order.
func (r *rig) has(span tracetest.SpanStub, want map[attribute.Key]any) {
	r.Helper()
	if want["http.request.method"] != nil {
		host, port, err := net.SplitHostPort(r.client.Status().Host)
		if want["server.address"] = host; err != nil {
			want["server.address"] = r.client.Status().Host
		} else {
			want["server.port"] = port
		}
	}
	for _, a := range span.Attributes {
		if value, ok := want[a.Key]; !ok || fmt.Sprint(value) != a.Value.Emit() {
			r.Errorf("%s: attribute %s is %s, want %v", span.Name, a.Key, a.Value.Emit(), value)
		}
		delete(want, a.Key)
	}
	for key, value := range want {
		r.Errorf("%s: attribute %s is missing, want %v", span.Name, key, value)
	}
}

func TestList(t *testing.T) {
	inRig(t, informerotel.Config{}, func(r *rig) {
		if _, _, err := informer.NewTypedClient[*corev1.Pod](r.client, pods).List(r.Context(), "a", metav1.ListOptions{}); err != nil {
			r.Fatal(err)
		}
		span := r.named("list pods")
		r.has(span, map[attribute.Key]any{
			"http.request.method": "GET", "http.response.status_code": 200, "url.path": "/api/v1/namespaces/a/pods",
			"k8s.request.verb": "list", "k8s.request.resource": "pods",
		})
		if span.SpanKind != trace.SpanKindClient || span.Status.Code != codes.Unset || len(span.Events) > 0 {
			r.Errorf("%+v", span)
		}
	})
}

// The span of a watch ends when the watch does.
func TestWatch(t *testing.T) {
	inRig(t, informerotel.Config{}, func(r *rig) {
		i := informer.New(r.client, informer.Resource{GroupVersionResource: pods}, informer.Config[*corev1.Pod]{Logger: quiet})
		ctx, cancel := context.WithCancel(r.Context())
		var task sync.WaitGroup
		task.Go(func() { _ = i.Run(ctx) })
		<-time.After(time.Minute)
		synctest.Wait()
		if spans := r.spans.GetSpans(); len(spans) != 0 {
			r.Errorf("%d spans have ended while the watch is open", len(spans))
		}
		cancel()
		task.Wait()
		span := r.named("watch pods")
		r.has(span, map[attribute.Key]any{
			"http.request.method": "GET", "http.response.status_code": 200, "url.path": "/api/v1/pods",
			"k8s.request.verb": "watch", "k8s.request.resource": "pods",
		})
		if took := span.EndTime.Sub(span.StartTime); took < time.Minute {
			r.Errorf("the span took %v", took)
		}
	})
}

// After a 404, an informer reads discovery documents, which have no resource.
func TestDiscovery(t *testing.T) {
	inRig(t, informerotel.Config{}, func(r *rig) {
		inf := informer.New(r.client, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("nodes")}, informer.Config[*corev1.Node]{AbsentIsSynced: true, Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(r.Context())
		var task sync.WaitGroup
		task.Go(func() { inf.Run(ctx) })
		if err := inf.WaitSynced(ctx); err != nil {
			r.Error(err)
		}
		cancel()
		task.Wait()
		var paths []string
		for _, span := range r.spans.GetSpans() {
			if span.Name == "get discovery" {
				for _, a := range span.Attributes {
					if a.Key == "url.path" {
						paths = append(paths, a.Value.AsString())
						r.has(span, map[attribute.Key]any{
							"http.request.method": "GET", "http.response.status_code": 200, "url.path": a.Value.AsString(),
							"k8s.request.verb": "get", "k8s.request.resource": "discovery",
						})
					}
				}
			}
		}
		if !slices.Equal(paths, []string{"/api", "/api/v1"}) {
			r.Errorf("spans of discovery for %q", paths)
		}
	})
}

// The span of a failed request contains the kind of the failure, not its text.
func TestFailures(t *testing.T) {
	for kind, test := range map[string]struct {
		fault informertest.Fault
		code  any // nil if there is no response
	}{
		"403": {informertest.Fault{Error: apierrors.NewForbidden(corev1.Resource("pods"), secret, errors.New(secret))}, 403},
		"404": {informertest.Fault{Error: apierrors.NewNotFound(corev1.Resource("pods"), secret)}, 404},
		"500": {informertest.Fault{Error: apierrors.NewInternalError(errors.New(secret))}, 500},
	} {
		t.Run(kind, func(t *testing.T) {
			inRig(t, informerotel.Config{}, func(r *rig) {
				r.server.Inject(test.fault)
				if _, err := informer.NewTypedClient[*corev1.Pod](r.client, pods).Get(r.Context(), informer.Key{Namespace: "a", Name: "b"}, metav1.GetOptions{}); err == nil {
					r.Fatal("no error")
				}
				span := r.named("get pods")
				r.has(span, map[attribute.Key]any{
					"http.request.method": "GET", "http.response.status_code": test.code, "url.path": "/api/v1/namespaces/a/pods/b",
					"k8s.request.verb": "get", "k8s.request.resource": "pods", "k8s.request.name": "b", "error.type": kind,
				})
				if span.Status.Code != codes.Error || span.Status.Description != kind || len(span.Events) > 0 {
					r.Errorf("%+v", span)
				}
			})
		})
	}
}

// The span of a request without a response has no status code.
func TestNoResponse(t *testing.T) {
	inRig(t, informerotel.Config{OmitNames: true}, func(r *rig) {
		r.server.Stop()
		if err := informer.NewTypedClient[*corev1.Pod](r.client, pods).Delete(r.Context(), informer.Key{Namespace: "a", Name: "b"}, metav1.DeleteOptions{}); err == nil {
			r.Fatal("no error")
		}
		span := r.named("delete pods")
		for _, a := range span.Attributes {
			if a.Key == "http.response.status_code" {
				r.Errorf("the status code is %s", a.Value.Emit())
			}
		}
		if span.Status.Code != codes.Error || span.Status.Description == "" {
			r.Errorf("%+v", span.Status)
		}
	})
}

// The requests of a reconcile are children of its span, and carry the context of their own.
func TestReconcile(t *testing.T) {
	inRig(t, informerotel.Config{Propagator: propagation.TraceContext{}}, func(r *rig) {
		typed := informer.NewTypedClient[*corev1.Pod](r.client, pods)
		controller := &informer.Controller[informer.Key]{Name: "site", Logger: quiet, Tracer: r.tracer, Queue: informer.NewQueue(informer.QueueConfig[informer.Key]{})}
		ctx, cancel := context.WithCancel(r.Context())
		controller.Reconcile = func(ctx context.Context, key informer.Key) (informer.Result, error) {
			_, err := typed.Get(ctx, key, metav1.GetOptions{})
			cancel()
			return informer.Result{}, err
		}
		controller.Queue.Add(informer.Key{Namespace: "a", Name: "b"})
		_ = controller.Run(ctx)
		reconcile, get := r.named("reconcile site"), r.named("get pods")
		r.has(reconcile, map[attribute.Key]any{"controller.name": "site", "reconcile.key": "a/b"})
		if reconcile.Parent.IsValid() || reconcile.SpanKind != trace.SpanKindInternal || reconcile.Status.Code != codes.Unset {
			r.Errorf("%+v", reconcile)
		}
		if get.Parent.SpanID() != reconcile.SpanContext.SpanID() || get.SpanContext.TraceID() != reconcile.SpanContext.TraceID() {
			r.Errorf("the parent of the request is %v, want %v", get.Parent.SpanID(), reconcile.SpanContext.SpanID())
		}
		if want := fmt.Sprintf("00-%s-%s-01", get.SpanContext.TraceID(), get.SpanContext.SpanID()); len(r.headers) != 1 || r.headers[0].Get("Traceparent") != want {
			r.Errorf("headers %v, want one with traceparent %s", r.headers, want)
		}
	})
}

type ownError struct{}

func (*ownError) Error() string { return secret }

// The span of a failed reconcile contains the kind of the error, and no name if the configuration omits names.
func TestFailedReconciles(t *testing.T) {
	for kind, err := range map[string]error{
		"409":                          fmt.Errorf("update %s: %w", secret, apierrors.NewConflict(corev1.Resource("pods"), secret, errors.New(secret))),
		"timeout":                      fmt.Errorf("%s: %w", secret, context.DeadlineExceeded),
		"canceled":                     context.Canceled,
		"_OTHER":                       fmt.Errorf("%s: %w", secret, errors.New(secret)),
		"*informerotel_test.ownError":  informer.TerminalError(&ownError{}),
		"*informerotel_test.ownError ": &ownError{},
	} {
		t.Run(kind, func(t *testing.T) {
			kind := strings.TrimSpace(kind)
			inRig(t, informerotel.Config{OmitNames: true}, func(r *rig) {
				_, ended := r.tracer.Reconcile(r.Context(), "site", secret)
				ended(err)
				span := r.named("reconcile site")
				r.has(span, map[attribute.Key]any{"controller.name": "site", "error.type": kind})
				if span.Status.Code != codes.Error || span.Status.Description != kind {
					r.Errorf("%+v", span.Status)
				}
			})
		})
	}
}

// Without a configuration, the tracer uses the global provider and propagator, which do nothing in this test.
func TestZeroConfig(t *testing.T) {
	header := http.Header{}
	ctx, ended := informerotel.New(informerotel.Config{}).Request(t.Context(), informer.RequestTrace{Verb: "get", Header: header})
	ended(informer.RequestResult{})
	if trace.SpanContextFromContext(ctx).IsValid() || len(header) > 0 {
		t.Errorf("%v %v", trace.SpanContextFromContext(ctx), header)
	}
}
