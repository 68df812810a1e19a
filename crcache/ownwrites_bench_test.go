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
	"github.com/typedinformer/informer/crcache"
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

// writer is a reconcile that writes, and what it needs of a library.
type writer struct {
	get    func(ctx context.Context, key client.ObjectKey) (*corev1.Pod, error)
	update func(ctx context.Context, pod *corev1.Pod) error
	next   func(ctx context.Context, key client.ObjectKey) (again bool, err error)

	calls, writes, conflicts, done atomic.Int64
	finished                       chan struct{} // closed when there is nothing left to do
}

// count is the reconcile that BenchmarkOwnWrites measures: it counts in a label of a pod, and asks for another call.
func (w *writer) count(ctx context.Context, key client.ObjectKey) (bool, error) {
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
			runOwn(b, ctx, server, w, &informer.Controller[informer.Key]{})
		}},
		{"informer-OwnWrites", func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer) {
			runOwn(b, ctx, server, w, &informer.Controller[informer.Key]{OwnWrites: informer.OwnWrites{Deadline: time.Minute}})
		}},
		{"controller-runtime", func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer) {
			runTheirs(b, ctx, server, w, false, false)
		}},
		{"controller-runtime-ReadYourWrites", func(b *testing.B, ctx context.Context, server *informertest.Server, w *writer) {
			runTheirs(b, ctx, server, w, true, false)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var calls, conflicts int64
			for b.Loop() {
				server, _ := serveWritten(b)
				w := &writer{finished: make(chan struct{})}
				w.next = w.count
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

// serveWritten serves the pods of these benchmarks.
func serveWritten(b *testing.B) (*informertest.Server, *informertest.Collection[*corev1.Pod]) {
	server := informertest.NewServer(informertest.Options{})
	pods := informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
	for i := range writtenPods {
		if _, err := pods.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: fmt.Sprint("pod-", i), Labels: map[string]string{"n": "0"},
		}}); err != nil {
			b.Fatal(err)
		}
	}
	return server, pods
}

// runOwn runs w as ctl, a controller of this library, until it has finished.
func runOwn(b *testing.B, ctx context.Context, server *informertest.Server, w *writer, ctl *informer.Controller[informer.Key]) {
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
	ctl.MaxConcurrentReconciles, ctl.Logger = writeWorkers, quiet
	ctl.Reconcile = func(ctx context.Context, key informer.Key) (informer.Result, error) {
		again, err := w.next(ctx, key)
		if again {
			return informer.Result{RequeueAfter: time.Millisecond}, err
		}
		return informer.Result{}, err
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
func runTheirs(b *testing.B, ctx context.Context, server *informertest.Server, w *writer, consistent, skip bool) {
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
	var own crcache.SkipOwnWrites[reconcile.Request]
	events := handler.TypedEventHandler[client.Object, reconcile.Request](&handler.EnqueueRequestForObject{})
	reconciler := reconcile.TypedReconciler[reconcile.Request](reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
		again, err := w.next(ctx, r.NamespacedName)
		if again {
			return reconcile.Result{RequeueAfter: time.Millisecond}, err
		}
		return reconcile.Result{}, err
	}))
	if skip {
		both, events, reconciler = own.Client(both), own.Handler(events), own.Reconciler(reconciler)
	}
	w.update = func(ctx context.Context, pod *corev1.Pod) error { return both.Update(ctx, pod) }
	ctl, err := controller.NewUnmanaged("pods", controller.Options{
		MaxConcurrentReconciles: writeWorkers,
		SkipNameValidation:      ptr(true),
		Reconciler:              reconciler,
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := ctl.Watch(source.Kind[client.Object](pods, &corev1.Pod{}, events)); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 2)
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-ended; <-ended }()
	go func() { ended <- pods.Start(ctx) }()
	go func() { ended <- ctl.Start(ctx) }()
	<-w.finished
}

// report is the reconcile that BenchmarkSkipOwnWrites measures: it copies a label of a pod to an annotation, as other
// controllers write a status.
func (w *writer) report(ctx context.Context, key client.ObjectKey) (bool, error) {
	w.calls.Add(1)
	pod, err := w.get(ctx, key)
	if err != nil {
		return false, err
	}
	if pod.Annotations["n"] == pod.Labels["n"] {
		return false, nil
	}
	pod = pod.DeepCopy()
	pod.Annotations = map[string]string{"n": pod.Labels["n"]}
	w.writes.Add(1)
	if err := w.update(ctx, pod); err != nil {
		if apierrors.IsConflict(err) {
			w.conflicts.Add(1)
		}
		return false, err
	}
	w.done.Add(1)
	return false, nil
}

// change is another program that changes each pod steps times, and waits each time until w has written all of them.
func (w *writer) change(b *testing.B, pods *informertest.Collection[*corev1.Pod]) {
	defer close(w.finished)
	for step := range steps + 1 {
		for written := int64(writtenPods) * int64(step); w.done.Load() < written; {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(5 * watchDelay) // for the events of the writes
		if step == steps {
			return
		}
		for pod := range pods.All() {
			pod = pod.DeepCopy()
			pod.Labels["n"] = fmt.Sprint("v", step)
			if _, err := pods.Update(pod); err != nil {
				b.Error(err)
				return
			}
		}
	}
}

// BenchmarkSkipOwnWrites compares controllers that write an object once for each change by another program. Its figures
// are for all pods and changes: calls of Reconcile, writes, and conflicts. The fewest calls and writes are steps for each
// pod, and one call more for its addition.
func BenchmarkSkipOwnWrites(b *testing.B) {
	log.SetLogger(logr.Discard())
	for _, c := range []struct {
		name string
		run  func(ctx context.Context, server *informertest.Server, w *writer)
	}{
		{"informer", func(ctx context.Context, server *informertest.Server, w *writer) {
			runOwn(b, ctx, server, w, &informer.Controller[informer.Key]{})
		}},
		{"informer-SkipOwnWrites", func(ctx context.Context, server *informertest.Server, w *writer) {
			runOwn(b, ctx, server, w, &informer.Controller[informer.Key]{SkipOwnWrites: true})
		}},
		{"controller-runtime", func(ctx context.Context, server *informertest.Server, w *writer) {
			runTheirs(b, ctx, server, w, false, false)
		}},
		{"controller-runtime-SkipOwnWrites", func(ctx context.Context, server *informertest.Server, w *writer) {
			runTheirs(b, ctx, server, w, false, true)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var calls, writes, conflicts int64
			for b.Loop() {
				server, pods := serveWritten(b)
				for pod := range pods.All() {
					pod = pod.DeepCopy()
					pod.Annotations = map[string]string{"n": "0"}
					if _, err := pods.Update(pod); err != nil {
						b.Fatal(err)
					}
				}
				w := &writer{finished: make(chan struct{})}
				w.next = w.report
				ctx, cancel := context.WithCancel(b.Context())
				go w.change(b, pods)
				c.run(ctx, server, w)
				cancel()
				server.Close()
				calls += w.calls.Load()
				writes += w.writes.Load()
				conflicts += w.conflicts.Load()
			}
			b.ReportMetric(float64(calls)/float64(b.N), "reconciles/op")
			b.ReportMetric(float64(writes)/float64(b.N), "writes/op")
			b.ReportMetric(float64(conflicts)/float64(b.N), "conflicts/op")
		})
	}
}
