package crcache_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// The world of BenchmarkOwnWrites: pods whose controller writes steps times, in steps calls, with few workers and a watch that is
// late.
const (
	writtenPods  = 100
	steps        = 10
	writeWorkers = 4
	watchDelay   = 20 * time.Millisecond
)

// writer is the reconcile that BenchmarkOwnWrites measures: it counts in a label of a pod, and asks for another call.
type writer struct {
	get    func(ctx context.Context, key client.ObjectKey) (*corev1.Pod, error)
	update func(ctx context.Context, pod *corev1.Pod) error

	calls, conflicts, done atomic.Int64
	finished               chan struct{} // closed when each pod has counted to steps
}

// next writes. It reports whether it needs another call.
func (w *writer) next(ctx context.Context, key client.ObjectKey) (bool, error) {
	w.calls.Add(1)
	pod, err := w.get(ctx, key)
	if err != nil {
		return false, err
	}
	n, err := strconv.Atoi(pod.Labels["n"])
	if err != nil || n == steps {
		return false, err
	}
	pod = pod.DeepCopy()
	pod.Labels["n"] = strconv.Itoa(n + 1)
	if err := w.update(ctx, pod); err != nil {
		if apierrors.IsConflict(err) {
			w.conflicts.Add(1)
		}
		return false, err
	}
	if n+1 == steps && w.done.Add(1) == writtenPods {
		close(w.finished)
	}
	return n+1 < steps, nil
}

// delayWatches delays the data of watches.
func delayWatches(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transportFunc(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err == nil && r.URL.Query().Get("watch") != "" {
				resp.Body = delay(resp.Body)
			}
			return resp, err
		})
	})
}

// delayed is a body whose bytes arrive watchDelay late, however they are read.
type delayed struct {
	io.Closer
	chunks <-chan chunk
	rest   *[]byte // of the latest chunk
}

// chunk is the data of one read.
type chunk struct {
	content []byte
	err     error
	time    time.Time
}

func delay(body io.ReadCloser) io.ReadCloser {
	chunks := make(chan chunk, 4096)
	go func() {
		for {
			content := make([]byte, 16<<10)
			n, err := body.Read(content)
			if n > 0 {
				chunks <- chunk{content[:n], nil, time.Now()}
			}
			if err != nil {
				chunks <- chunk{nil, err, time.Now()}
				close(chunks)
				return
			}
		}
	}()
	return delayed{body, chunks, new([]byte)}
}

func (d delayed) Read(p []byte) (int, error) {
	if len(*d.rest) == 0 {
		c, ok := <-d.chunks
		if !ok {
			return 0, io.ErrClosedPipe
		}
		time.Sleep(time.Until(c.time.Add(watchDelay)))
		if len(c.content) == 0 {
			return 0, c.err
		}
		*d.rest = c.content
	}
	n := copy(p, *d.rest)
	*d.rest = (*d.rest)[n:]
	return n, nil
}

// BenchmarkOwnWrites compares the wasted calls of a controller that writes in each call: with and without OwnWrites,
// and with and without EnableReadYourWritesConsistency of controller-runtime. Its figures are for all pods: calls of
// Reconcile, conflicts, and seconds. The fewest calls are steps for each pod, and one more for the event of the last
// write.
func BenchmarkOwnWrites(b *testing.B) {
	log.SetLogger(logr.Discard())
	for _, c := range []struct {
		name string
		run  func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer)
	}{
		{"informer", func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer) {
			runOwn(b, ctx, server, w, 0)
		}},
		{"informer-OwnWrites", func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer) {
			runOwn(b, ctx, server, w, time.Minute)
		}},
		{"controller-runtime", func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer) {
			runTheirs(b, ctx, server, w, false)
		}},
		{"controller-runtime-ReadYourWrites", func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer) {
			runTheirs(b, ctx, server, w, true)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var calls, conflicts int64
			for b.Loop() {
				server := informertest.NewServer(informertest.Options{})
				pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
				for i := range writtenPods {
					if _, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
						Namespace: "a", Name: fmt.Sprint("pod-", i), Labels: map[string]string{"n": "0"},
					}}); err != nil {
						b.Fatal(err)
					}
				}
				w := &writer{finished: make(chan struct{})}
				ctx, cancel := context.WithCancel(b.Context())
				c.run(b, ctx, server, w)
				cancel()
				server.Close()
				calls += w.calls.Load()
				conflicts += w.conflicts.Load()
			}
			b.ReportMetric(float64(calls)/float64(b.N), "reconciles/op")
			b.ReportMetric(float64(conflicts)/float64(b.N), "conflicts/op")
		})
	}
}

// runOwn runs w as a controller of this library until it has finished.
func runOwn(b *testing.B, ctx context.Context, server *informertest.Server, w *writer, deadline time.Duration) {
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	quiet := slog.New(slog.DiscardHandler)
	watching, writing := server.Config(), server.Config()
	writing.QPS = -1
	delayWatches(watching)
	watcher, err := informer.NewClient(watching)
	if err != nil {
		b.Fatal(err)
	}
	written, err := informer.NewClient(writing)
	if err != nil {
		b.Fatal(err)
	}
	pods := informer.New(watcher, informer.Resource{GroupVersionResource: gvr}, informer.Config[*corev1.Pod]{Logger: quiet})
	updates := informer.NewTypedClient[*corev1.Pod](written, gvr)
	w.get = func(_ context.Context, key client.ObjectKey) (*corev1.Pod, error) {
		pod, ok := pods.Store().Get(key)
		if !ok {
			return nil, fmt.Errorf("no pod %s", key)
		}
		return pod, nil
	}
	w.update = func(ctx context.Context, pod *corev1.Pod) error {
		_, err := updates.Update(ctx, pod, metav1.UpdateOptions{})
		return err
	}
	ctl := &informer.Controller[informer.Key]{
		MaxConcurrentReconciles: writeWorkers,
		OwnWrites:               informer.OwnWrites{Deadline: deadline},
		Logger:                  quiet,
		Reconcile: func(ctx context.Context, key informer.Key) (informer.Result, error) {
			again, err := w.next(ctx, key)
			if again {
				return informer.Result{RequeueAfter: time.Millisecond}, err
			}
			return informer.Result{}, err
		},
	}
	ctl.Watch(informer.EnqueueObject(pods))
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-ended; <-ended }()
	go func() { ended <- pods.Run(ctx) }()
	go func() { ended <- ctl.Run(ctx) }()
	<-w.finished
}

// runTheirs runs w as a controller of controller-runtime until it has finished.
func runTheirs(b *testing.B, ctx context.Context, server *informertest.Server, w *writer, consistent bool) {
	watching, writing := server.Config(), server.Config()
	writing.QPS = -1
	delayWatches(watching)
	pods, err := cache.New(watching, cache.Options{Mapper: mapper()})
	if err != nil {
		b.Fatal(err)
	}
	options := client.Options{Mapper: mapper(), Cache: &client.CacheOptions{Reader: pods}}
	if consistent {
		enable := reflect.ValueOf(options.Cache).Elem().FieldByName("EnableReadYourWritesConsistency")
		if !enable.IsValid() {
			b.Fatal("this controller-runtime lacks EnableReadYourWritesConsistency: use -modfile=go.newest.mod")
		}
		enable.Set(reflect.ValueOf(ptr(true)))
	}
	both, err := client.New(writing, options)
	if err != nil {
		b.Fatal(err)
	}
	w.get = func(ctx context.Context, key client.ObjectKey) (*corev1.Pod, error) {
		pod := &corev1.Pod{}
		return pod, both.Get(ctx, key, pod)
	}
	w.update = func(ctx context.Context, pod *corev1.Pod) error { return both.Update(ctx, pod) }
	ctl, err := controller.NewUnmanaged("pods", controller.Options{
		MaxConcurrentReconciles: writeWorkers,
		SkipNameValidation:      ptr(true),
		Reconciler: reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			again, err := w.next(ctx, r.NamespacedName)
			if again {
				return reconcile.Result{RequeueAfter: time.Millisecond}, err
			}
			return reconcile.Result{}, err
		}),
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := ctl.Watch(source.Kind[client.Object](pods, &corev1.Pod{}, &handler.EnqueueRequestForObject{})); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-ended; <-ended }()
	go func() { ended <- pods.Start(ctx) }()
	go func() { ended <- ctl.Start(ctx) }()
	<-w.finished
}
