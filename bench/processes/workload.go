package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/bench/internal/canned"
	"github.com/typedinformer/informer/bench/internal/measure"
)

// This file has the work of each client process, for every peer. It checks everything that the handlers receive, and
// fails if it differs from the server, so no figure is from work that was not done.

// job is the work of a client process.
type job struct {
	Peer   string // its name in peers
	Format string // a media type
	Wire   canned.Wire
	Server string // its address

	Handlers  int  // that receive each change
	Informers int  // that follow the same pods, each with this many handlers
	Reads     bool // measure reads
	Relist    bool // measure a relist that finds nothing changed
	Changes   int  // number of changes sent as fast as they are read
	Paced     int  // number of changes sent at Rate
	Rate      int  // a second

	Profiles string // the directory for profiles of each step; empty means none
}

// released returns the number of changes that the server needs for the job.
func (j job) released() int { return j.Changes + j.Paced + 1 }

// The figures that a process reports. Each is a number.
const (
	syncTime         = "sync s"     // from before the client is made until each handler has received each pod
	syncCPU          = "sync CPU s" // for that
	syncServerCPU    = "sync server CPU s"
	syncServerMemory = "sync server memory B"
	peakMemory       = "peak B"       // peak resident memory of the process until then
	liveHeap         = "heap B"       // growth per pod
	getTime          = "get ns"       // of one pod by its key
	getBytes         = "get B"        // allocated
	namespaceTime    = "namespace ns" // to iterate over the pods of one namespace
	namespaceBytes   = "namespace B"
	inNamespace      = "in namespace" // number of these pods
	allTime          = "all ns"       // to iterate over all pods
	allBytes         = "all B"
	relistCPU        = "relist CPU s"  // from 410 until a later change arrives
	relistBytes      = "relist B"      // allocated meanwhile
	relistRetained   = "relist live B" // growth of the heap
	relistEvents     = "relist events" // to the handler
	eventRate        = "events/s"      // from the release of the changes until each handler has received each
	eventCPU         = "event CPU s"   // per event
	eventServerCPU   = "event server CPU s"
	eventBytes       = "event B" // allocated per event
	pacedRate        = "paced/s" // of the changes sent at a rate; less than that if the process or the server falls behind
	pacedCPU         = "paced CPU s"
	pacedServerCPU   = "paced server CPU s"
	latency50        = "p50 s" // from the server's write to the handler
	latency99        = "p99 s"
)

// figures are the results of one process, by the names above.
type figures map[string]float64

// follow follows all pods until ctx ends, and delivers each change to each handler. It returns at once.
type follow func(ctx context.Context, handlers []*handler) (store, error)

// store reads the followed pods. It may be used once the handlers have received them.
type store struct {
	get       func(key types.NamespacedName) bool
	namespace func(namespace string) int // iterates over the pods of a namespace
	all       func() int                 // iterates over all pods
}

// handler is what each peer's handler calls for each change.
type handler struct {
	mu      sync.Mutex
	events  int    // so far
	version string // of the last one
	until   func(h *handler) bool
	done    chan struct{} // closed when until is true
	log     []logged      // if not nil
}

type logged struct {
	version string
	time    int64
}

func (h *handler) told(version string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events++
	h.version = version
	if h.log != nil {
		h.log = append(h.log, logged{version, measure.Now()})
	}
	if h.until != nil && h.until(h) {
		h.until = nil
		close(h.done)
	}
}

// handlers are all handlers of the process.
type handlers []*handler

// expect returns a function that waits until until is true for each handler.
func (hs handlers) expect(until func(h *handler) bool) (wait func(ctx context.Context) error) {
	for _, h := range hs {
		h.mu.Lock()
		h.until, h.done = until, make(chan struct{})
		h.mu.Unlock()
	}
	return func(ctx context.Context) error {
		for i, h := range hs {
			select {
			case <-h.done:
			case <-ctx.Done():
				h.mu.Lock()
				defer h.mu.Unlock()
				return fmt.Errorf("handler %d got %d events, the last one with version %q: %w", i, h.events, h.version, ctx.Err())
			}
		}
		return nil
	}
}

// check returns an error unless each handler received this many events.
func (hs handlers) check(events int) error {
	for i, h := range hs {
		h.mu.Lock()
		got := h.events
		h.mu.Unlock()
		if got != events {
			return fmt.Errorf("handler %d got %d events instead of %d", i, got, events)
		}
	}
	return nil
}

// run does the job with the peer of connect.
func run(ctx context.Context, j job, connect func(*rest.Config) (follow, error)) (figures, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := canned.Control{Server: j.Server}
	info, err := server.Reset()
	if err != nil {
		return nil, err
	}
	p := &process{job: j, server: server, info: info, figures: figures{}}
	for range j.Informers * j.Handlers {
		p.handlers = append(p.handlers, new(handler))
	}
	config, err := server.Client(info, j.Wire, j.Format)
	if err != nil {
		return nil, err
	}
	steps := []struct {
		wanted bool
		name   string
		do     func(context.Context) error
	}{
		{true, "sync", func(ctx context.Context) error { return p.sync(ctx, config, connect) }},
		{j.Reads, "reads", func(context.Context) error { return p.reads() }},
		// after the reads: a peer may still have something to tidy up after the sync
		{true, "heap", func(context.Context) error { return p.heap() }},
		{j.Relist, "relist", p.relist},
		{j.Changes > 0, "changes", p.changes},
		{j.Paced > 0, "paced changes", p.paced},
	}
	for _, step := range steps {
		if !step.wanted {
			continue
		}
		if err := j.profiled(step.name, func() error { return step.do(ctx) }); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
	}
	formats, err := server.Served()
	if err == nil && !info.Real && !slices.Equal(formats, []string{j.Format}) {
		err = fmt.Errorf("the server got requests for %q", formats)
	}
	if err != nil {
		return nil, err
	}
	return p.figures, nil
}

// profiled does a step, and writes its profiles if they are requested.
func (j job) profiled(step string, do func() error) error {
	if j.Profiles == "" {
		return do()
	}
	name := strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(j.Peer + " " + path.Base(j.Format) + " " + step)
	file, err := os.Create(filepath.Join(j.Profiles, name+".pprof"))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	err = do()
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	allocated, err := os.Create(filepath.Join(j.Profiles, name+".allocs.pprof"))
	if err != nil {
		return err
	}
	defer allocated.Close()
	runtime.GC() // the profile is that of the last collection
	return pprof.Lookup("allocs").WriteTo(allocated, 0)
}

// process is this process during its job.
type process struct {
	job
	server canned.Control
	info   canned.Info
	handlers
	stores []store
	empty  int64 // the live heap before the sync
	figures
}

func (p *process) sync(ctx context.Context, config *rest.Config, connect func(*rest.Config) (follow, error)) error {
	synced := p.expect(func(h *handler) bool { return h.events == p.info.Pods })
	serverCPU, err := p.server.CPU()
	if err != nil {
		return err
	}
	memory, err := p.server.Memory()
	if err != nil {
		return err
	}
	p.empty = measure.LiveHeap()
	cpu, began := measure.CPU(), time.Now()
	follow, err := connect(config)
	if err != nil {
		return err
	}
	for handlers := range slices.Chunk(p.handlers, p.job.Handlers) {
		store, err := follow(ctx, handlers)
		if err != nil {
			return err
		}
		p.stores = append(p.stores, store)
	}
	if err := synced(ctx); err != nil {
		return err
	}
	p.figures[syncTime] = time.Since(began).Seconds()
	p.figures[syncCPU] = (measure.CPU() - cpu).Seconds()
	p.figures[peakMemory] = float64(measure.PeakMemory())
	after, err := p.server.CPU()
	if err != nil {
		return err
	}
	p.figures[syncServerCPU] = (after - serverCPU).Seconds()
	peak, err := p.server.Memory()
	if err != nil {
		return err
	}
	p.figures[syncServerMemory] = float64(peak.Peak - memory.Present)
	for _, store := range p.stores {
		if n := store.all(); n != p.info.Pods {
			return fmt.Errorf("there are %d pods instead of %d", n, p.info.Pods)
		}
	}
	return p.check(p.info.Pods)
}

func (p *process) heap() error {
	p.figures[liveHeap] = float64(measure.LiveHeap()-p.empty) / float64(p.info.Pods)
	return nil
}

func (p *process) reads() error {
	store := p.stores[0]
	var err error
	if p.figures[getTime], p.figures[getBytes], err = p.each(func(i int) error {
		if key := p.info.Keys[i%len(p.info.Keys)]; !store.get(key) {
			return fmt.Errorf("%s is missing", key)
		}
		return nil
	}); err != nil {
		return err
	}
	p.figures[inNamespace] = float64(p.info.InNamespace)
	if p.figures[namespaceTime], p.figures[namespaceBytes], err = p.each(func(int) error {
		if n := store.namespace(p.info.Namespace); n != p.info.InNamespace {
			return fmt.Errorf("there are %d pods in %s instead of %d", n, p.info.Namespace, p.info.InNamespace)
		}
		return nil
	}); err != nil {
		return err
	}
	p.figures[allTime], p.figures[allBytes], err = p.each(func(int) error {
		if n := store.all(); n != p.info.Pods {
			return fmt.Errorf("there are %d pods instead of %d", n, p.info.Pods)
		}
		return nil
	})
	return err
}

// each measures a read; see [measure.Each].
func (p *process) each(read func(i int) error) (ns, bytes float64, err error) {
	clock := func() time.Duration { return time.Duration(measure.Now()) }
	return measure.Each(min(200*time.Millisecond, time.Duration(p.info.Pods)*10*time.Microsecond), clock, read)
}

// relist makes the watch expire, and waits for the first change after the following list. Events before that are due to
// the list.
func (p *process) relist(ctx context.Context) error {
	heap, allocated, cpu := measure.LiveHeap(), measure.Allocated(), measure.CPU()
	before := p.handlers[0].events
	p.log(p.info.Pods + 1)
	if err := p.server.Expire(); err != nil {
		return err
	}
	first, err := p.server.Release(1, 0)
	if err != nil {
		return err
	}
	change, err := p.server.Released(first, first+1)
	if err != nil {
		return err
	}
	if err := p.logged(ctx, change.Versions[0]); err != nil {
		return err
	}
	p.figures[relistCPU] = (measure.CPU() - cpu).Seconds()
	p.figures[relistBytes] = float64(measure.Allocated() - allocated)
	p.figures[relistRetained] = float64(measure.LiveHeap() - heap)
	p.log(0)
	if p.info.Real {
		p.settle() // the change may be part of the list, which is delivered in any order
	}
	p.figures[relistEvents] = float64(p.handlers[0].events - before - 1)
	return nil
}

// settle waits until the first handler has received nothing for half a second.
func (p *process) settle() {
	h := p.handlers[0]
	for events := -1; ; time.Sleep(500 * time.Millisecond) {
		h.mu.Lock()
		now := h.events
		h.mu.Unlock()
		if now == events {
			return
		}
		events = now
	}
}

// log makes the first handler note up to about n events from now on, or none if n is zero.
func (p *process) log(n int) {
	h := p.handlers[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = nil
	if n > 0 {
		h.log = make([]logged, 0, n)
	}
}

// logged waits until the first handler has received a version. A kube-apiserver tells the version only after that.
func (p *process) logged(ctx context.Context, version string) error {
	h := p.handlers[0]
	for seen := 0; ; {
		h.mu.Lock()
		for ; seen < len(h.log); seen++ {
			if h.log[seen].version == version {
				h.mu.Unlock()
				return nil
			}
		}
		h.mu.Unlock()
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("no event with version %s among %d: %w", version, seen, ctx.Err())
		}
	}
}

// release makes the server send the next n changes, at a rate, and waits until each handler has received them all. It
// returns the number of the first one.
func (p *process) release(ctx context.Context, n, rate int) (first int, err error) {
	before := p.handlers[0].events
	until := func(h *handler) bool { return h.events == before+n }
	if !p.info.Real { // it knows the versions of its changes before
		if first, err = p.server.Release(0, 0); err != nil {
			return 0, err
		}
		changes, err := p.server.Released(first, first+n)
		if err != nil {
			return 0, err
		}
		until = func(h *handler) bool { return h.version == changes.Versions[n-1] }
	}
	told := p.expect(until)
	if first, err = p.server.Release(n, rate); err != nil {
		return 0, err
	}
	if err := told(ctx); err != nil {
		return 0, err
	}
	return first, p.check(before + n)
}

// cpus returns the processor time of this process and of the server.
func (p *process) cpus() (own, server time.Duration, err error) {
	server, err = p.server.CPU()
	return measure.CPU(), server, err
}

func (p *process) changes(ctx context.Context) error {
	runtime.GC()
	cpu, server, err := p.cpus()
	if err != nil {
		return err
	}
	allocated, began := measure.Allocated(), time.Now()
	if _, err := p.release(ctx, p.Changes, 0); err != nil {
		return err
	}
	p.figures[eventRate] = float64(p.Changes) / time.Since(began).Seconds()
	until, serverUntil, err := p.cpus()
	if err != nil {
		return err
	}
	p.figures[eventCPU] = (until - cpu).Seconds() / float64(p.Changes)
	p.figures[eventServerCPU] = (serverUntil - server).Seconds() / float64(p.Changes)
	p.figures[eventBytes] = float64(measure.Allocated()-allocated) / float64(p.Changes)
	return nil
}

func (p *process) paced(ctx context.Context) error {
	p.log(p.Paced)
	runtime.GC()
	cpu, server, err := p.cpus()
	if err != nil {
		return err
	}
	began := time.Now()
	first, err := p.release(ctx, p.Paced, p.Rate)
	if err != nil {
		return err
	}
	p.figures[pacedRate] = float64(p.Paced) / time.Since(began).Seconds()
	until, serverUntil, err := p.cpus()
	if err != nil {
		return err
	}
	p.figures[pacedCPU] = (until - cpu).Seconds() / float64(p.Paced)
	p.figures[pacedServerCPU] = (serverUntil - server).Seconds() / float64(p.Paced)
	changes, err := p.server.Released(first, first+p.Paced)
	if err != nil {
		return err
	}
	latencies := make([]float64, p.Paced)
	for i, told := range p.handlers[0].log {
		if told.version != changes.Versions[i] {
			return fmt.Errorf("event %d has version %s instead of %s", i, told.version, changes.Versions[i])
		}
		if latencies[i] = time.Duration(told.time - changes.Sent[i]).Seconds(); changes.Sent[i] == 0 || latencies[i] < 0 {
			return errors.New("a change arrived before it was sent")
		}
	}
	slices.Sort(latencies)
	percentile := func(q float64) float64 { return latencies[int(math.Ceil(q*float64(p.Paced)))-1] }
	p.figures[latency50], p.figures[latency99] = percentile(0.5), percentile(0.99)
	return nil
}
