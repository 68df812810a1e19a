package informerotel_test

import (
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informerotel"
)

func ExampleNew() {
	_ = func(provider trace.TracerProvider, client *informer.Client, controller *informer.Controller[informer.Key]) *informer.Client {
		tracer := informerotel.New(informerotel.Config{
			Provider:   provider,
			Propagator: propagation.TraceContext{},
		})
		controller.Tracer = tracer
		return client.WithTracer(tracer)
	}
}
