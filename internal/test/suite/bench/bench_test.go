// Package bench compares informers with client-go in what bench_test.go of the root does not: decoding, memory, whole informers and
// queues. Both implementations share a name, with impl=informer and impl=client-go; see BENCHMARKS.md.
package bench

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
)

var podResource = informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}

// formats calls run for each format that both implementations decode.
func formats(b *testing.B, run func(b *testing.B, media string)) {
	for _, f := range []struct{ name, media string }{{"json", decode.MediaJSON}, {"protobuf", decode.MediaProtobuf}} {
		b.Run("format="+f.name, func(b *testing.B) { run(b, f.media) })
	}
}

func clientOf(b testing.TB, server *canned.Server) *informer.Client {
	b.Helper()
	client, err := informer.NewClient(server.Config())
	if err != nil {
		b.Fatal(err)
	}
	return client
}

// peerOf returns the pods of client-go's clientset.
func peerOf(b *testing.B, server *canned.Server) corev1client.PodInterface {
	b.Helper()
	client, err := corev1client.NewForConfig(server.Config())
	if err != nil {
		b.Fatal(err)
	}
	return client.Pods(metav1.NamespaceAll)
}

var errEnough = errors.New("enough")

// sinkFunc is a Sink. It ends its reflector by returning errEnough.
type sinkFunc func(d *informer.Delta[*corev1.Pod]) error

func (f sinkFunc) Put(_ context.Context, d informer.Delta[*corev1.Pod]) error { return f(&d) }

// reflect runs a reflector until sink has enough.
func reflect(b *testing.B, client *informer.Client, keepManagedFields bool, sink informer.Sink[*corev1.Pod]) {
	config := informer.Config[*corev1.Pod]{
		KeepManagedFields: keepManagedFields, PagedList: true, Logger: slog.New(slog.DiscardHandler),
	}
	r, err := informer.NewReflector(client, podResource, sink, config)
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Run(b.Context()); err != errEnough {
		b.Fatal(err)
	}
}

// runOwn runs an informer with paged lists, of all pods or of selections, until it has synced. It returns a function that stops it.
func runOwn[T informer.Object](
	b testing.TB, server *canned.Server, config informer.Config[T], selections ...informer.Selection,
) (inf *informer.Informer[T], stop func()) {
	ctx, cancel := context.WithCancel(b.Context())
	config.PagedList, config.Logger = true, slog.New(slog.DiscardHandler)
	resource := podResource
	resource.Selections = selections
	inf = informer.New(clientOf(b, server), resource, config)
	var running sync.WaitGroup
	running.Go(func() { _ = inf.Run(ctx) })
	wait, end := context.WithTimeout(ctx, time.Minute) // the error says why the first list fails
	defer end()
	if err := inf.WaitSynced(wait); err != nil {
		b.Fatal(err)
	}
	return inf, func() {
		cancel()
		running.Wait()
	}
}
