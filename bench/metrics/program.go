package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/informerprom"
	"github.com/typedinformer/informer/status"
)

// job is the work of a program.
type job struct {
	Server  string // its address
	Metrics bool   // with informerprom and scrapes
	Changes int    // the number of changes
	Rate    int    // changes a second
	// Every is the time between two scrapes. Profiles is the directory for profiles; empty means none.
	Every    time.Duration
	Profiles string
	Plain    bool // without compression of the page
}

// figures are the results of a program, from the release of the first change until the last one is reconciled.
type figures struct {
	CPU       float64 // s
	Allocated float64 // B
	Profiled  float64 // s in the processor profile
	Scraping  float64 // s in it that belong to scrapes
	Scrapes   float64 // number
	Page      float64 // B, of the last one
}

// program is this process during its job.
type program struct {
	job
	client     *informer.Client
	pods       *informer.Informer[*corev1.Pod]
	controller *informer.Controller[informer.Key]
	last       atomic.Pointer[string] // the resource version of the last change
	seen       chan struct{}          // receives one token for each handler that has received the last change
	containers atomic.Int64           // makes use of the reads
	scrapes    atomic.Int64
	page       atomic.Int64
}

// handlers is the number of handlers, apart from the controller's.
const handlers = 3

// work runs a program, and prints its figures.
func work(encoded string) error {
	p := &program{seen: make(chan struct{}, handlers)}
	if err := json.Unmarshal([]byte(encoded), &p.job); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	f, err := p.run(ctx)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func (p *program) run(ctx context.Context) (f figures, err error) {
	server := canned.Control{Server: p.Server}
	info, err := server.Reset()
	if err != nil {
		return f, err
	}
	config, err := server.Client(info, canned.HTTP2, canned.Protobuf)
	if err != nil {
		return f, err
	}
	if err := p.start(ctx, config); err != nil {
		return f, err
	}
	if p.Metrics {
		stop, err := p.serveMetrics()
		if err != nil {
			return f, err
		}
		defer stop()
	}
	changes, err := server.Released(0, p.Changes)
	if err != nil {
		return f, err
	}
	p.last.Store(&changes.Versions[p.Changes-1])
	runtime.GC()
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return f, err
	}
	cpu, allocated, scrapes := measure.CPU(), measure.Allocated(), p.scrapes.Load()
	if _, err := server.Release(p.Changes, p.Rate); err != nil {
		return f, err
	}
	for range handlers {
		select {
		case <-p.seen:
		case <-ctx.Done():
			return f, ctx.Err()
		}
	}
	if err := p.idle(ctx); err != nil {
		return f, err
	}
	f.CPU, f.Allocated = (measure.CPU() - cpu).Seconds(), float64(measure.Allocated()-allocated)
	f.Scrapes, f.Page = float64(p.scrapes.Load()-scrapes), float64(p.page.Load())
	pprof.StopCPUProfile()
	if p.Metrics && p.Profiles != "" {
		if err := os.WriteFile(filepath.Join(p.Profiles, fmt.Sprintf("%d.pprof", os.Getpid())), profile.Bytes(),
			0o644); err != nil {
			return f, err
		}
	}
	if f.Profiled, f.Scraping, err = readProfile(&profile); err != nil {
		return f, err
	}
	length := time.Duration(p.Changes) * time.Second / time.Duration(p.Rate)
	if p.Metrics && f.Scrapes < float64(length/p.Every)*0.9-1 {
		return f, fmt.Errorf("%v scrapes in %v", f.Scrapes, length)
	}
	return f, nil
}

// start starts the informer with its handlers and the controller, and waits until each pod is reconciled.
func (p *program) start(ctx context.Context, config *rest.Config) (err error) {
	if p.client, err = informer.NewClient(config); err != nil {
		return err
	}
	p.pods = informer.New(p.client,
		informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}, informer.Config[*corev1.Pod]{})
	for i := range handlers {
		p.pods.Subscribe(informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, pod *corev1.Pod) {
			if last := p.last.Load(); last != nil && pod.ResourceVersion == *last {
				p.seen <- struct{}{}
			}
		}}, informer.SubscriptionConfig[*corev1.Pod]{Name: fmt.Sprint("handler-", i)})
	}
	p.controller = &informer.Controller[informer.Key]{
		Name:                    "pods",
		MaxConcurrentReconciles: 4,
		Reconcile: func(_ context.Context, key informer.Key) (informer.Result, error) {
			if pod, ok := p.pods.Store().Get(key); ok {
				p.containers.Add(int64(len(pod.Spec.Containers)))
			}
			return informer.Result{}, nil
		},
	}
	p.controller.Watch(informer.EnqueueObject(p.pods))
	go func() { _ = p.pods.Run(ctx) }()
	go func() { _ = p.controller.Run(ctx) }()
	return p.controller.WaitSynced(ctx)
}

// serveMetrics serves the metrics, and starts the process that scrapes them.
func (p *program) serveMetrics() (stop func(), err error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(informerprom.New(informerprom.Config{
		Informers:   []func() informer.InformerStatus{p.pods.Status},
		Controllers: []func() status.Controller{p.controller.Status},
		Clients:     []func() status.Client{p.client.Status},
	})); err != nil {
		return nil, err
	}
	page := promhttp.HandlerFor(registry, promhttp.HandlerOpts{DisableCompression: p.Plain})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		_ = http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			counted := &countingWriter{ResponseWriter: w}
			page.ServeHTTP(counted, r)
			p.page.Store(counted.bytes)
			p.scrapes.Add(1)
		}))
	}()
	_, stopScraper, err := measure.Serve("-as=scraper", fmt.Sprint("-every=", p.Every),
		"-job=http://"+listener.Addr().String())
	if err != nil {
		listener.Close()
		return nil, err
	}
	return func() { stopScraper(); listener.Close() }, nil
}

// idle waits until the queue has no keys.
func (p *program) idle(ctx context.Context) error {
	for range 10_000 {
		if s := p.controller.Status().Queue; s.Depth.Sum()+s.InWork == 0 {
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("the queue does not become empty")
}

// countingWriter counts the bytes of a page, compressed if the client accepts that.
type countingWriter struct {
	http.ResponseWriter
	bytes int64
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}
