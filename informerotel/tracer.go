package informerotel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer"
)

// Config says where spans go, and what they contain.
type Config struct {
	// Provider makes the spans. Nil means otel.GetTracerProvider.
	Provider trace.TracerProvider
	// Propagator adds the context of a span to the header of its request. Nil means otel.GetTextMapPropagator, which adds
	// nothing unless the program sets one.
	Propagator propagation.TextMapPropagator
	// OmitNames leaves the names of objects out: the attributes url.path, k8s.request.name and reconcile.key.
	OmitNames bool
}

// The attributes that are not in the semantic conventions.
const (
	verbKey       = attribute.Key("k8s.request.verb")
	resourceKey   = attribute.Key("k8s.request.resource")
	nameKey       = attribute.Key("k8s.request.name")
	controllerKey = attribute.Key("controller.name")
	reconcileKey  = attribute.Key("reconcile.key")
)

// tracer is an [informer.Tracer].
type tracer struct {
	spans      trace.Tracer
	propagator propagation.TextMapPropagator
	omitNames  bool
}

// New returns a tracer for [informer.Client.WithTracer] and Controller.Tracer. It is safe for concurrent use.
func New(config Config) informer.Tracer {
	if config.Provider == nil {
		config.Provider = otel.GetTracerProvider()
	}
	if config.Propagator == nil {
		config.Propagator = otel.GetTextMapPropagator()
	}
	return &tracer{
		spans: config.Provider.Tracer("github.com/typedinformer/informer/informerotel",
			trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: config.Propagator,
		omitNames:  config.OmitNames,
	}
}

// serverAttributes returns the attributes of a host with or without a port.
func serverAttributes(server string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return []attribute.KeyValue{semconv.ServerAddress(server)}
	}
	attributes := []attribute.KeyValue{semconv.ServerAddress(host)}
	if number, err := strconv.Atoi(port); err == nil {
		attributes = append(attributes, semconv.ServerPort(number))
	}
	return attributes
}

// Request implements [informer.Tracer].
func (t *tracer) Request(ctx context.Context, r informer.RequestTrace) (context.Context, func(informer.RequestResult)) {
	resource := r.Resource.String()
	if resource == "" {
		resource = "discovery"
	}
	ctx, span := t.spans.Start(ctx, r.Verb+" "+resource, trace.WithSpanKind(trace.SpanKindClient))
	t.propagator.Inject(ctx, propagation.HeaderCarrier(r.Header))
	if span.IsRecording() {
		span.SetAttributes(serverAttributes(r.Host)...)
		span.SetAttributes(semconv.HTTPRequestMethodKey.String(r.Method), verbKey.String(r.Verb),
			resourceKey.String(resource))
		if !t.omitNames {
			span.SetAttributes(semconv.URLPath(r.Path))
			if r.Name != "" {
				span.SetAttributes(nameKey.String(r.Name))
			}
		}
	}
	return ctx, func(result informer.RequestResult) {
		if result.Code != 0 {
			span.SetAttributes(semconv.HTTPResponseStatusCode(result.Code))
		}
		switch {
		case result.Err == nil:
		case result.Code >= 400:
			fail(span, strconv.Itoa(result.Code))
		default:
			fail(span, kindOf(result.Err))
		}
		span.End()
	}
}

// Reconcile implements [informer.Tracer].
func (t *tracer) Reconcile(ctx context.Context, controller string, key any) (context.Context, func(error)) {
	ctx, span := t.spans.Start(ctx, "reconcile "+controller)
	if span.IsRecording() {
		span.SetAttributes(controllerKey.String(controller))
		if !t.omitNames {
			span.SetAttributes(reconcileKey.String(fmt.Sprint(key)))
		}
	}
	return ctx, func(err error) {
		if err != nil {
			fail(span, kindOf(err))
		}
		span.End()
	}
}

// fail marks a span as failed.
func fail(span trace.Span, kind string) {
	span.SetAttributes(semconv.ErrorTypeKey.String(kind))
	span.SetStatus(codes.Error, kind)
}

// kindOf returns the value of error.type for an error: never its text.
func kindOf(err error) string {
	var status apierrors.APIStatus
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &status) && status.Status().Code != 0:
		return strconv.Itoa(int(status.Status().Code))
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, informer.ErrNoProgress), errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	switch name := fmt.Sprintf("%T", err); name {
	case "*errors.errorString", "*errors.joinError", "*fmt.wrapErrors":
		return semconv.ErrorTypeOther.Value.AsString()
	default:
		return name
	}
}
