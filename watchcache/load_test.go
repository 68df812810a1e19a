package watchcache_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
	"github.com/typedinformer/informer/watchcache"
)

// The full size of W9 is
//
//	go test ./watchcache -run TestEveryEventInOrder -v -w9.for=1m -w9.watchers=1000 -w9.pods=10000 -w9.rate=1000
//
// The default is a small version of it.
var load = struct {
	duration             *time.Duration
	watchers, pods, rate *int
	form, via            *string
}{
	flag.Duration("w9.for", 300*time.Millisecond, "how long there are changes"),
	flag.Int("w9.watchers", 50, "number of watchers"),
	flag.Int("w9.pods", 500, "number of pods"),
	flag.Int("w9.rate", 500, "changes a second; 0 means as many as the watchers keep up with"),
	flag.String("w9.form", "json", "the requested format: json, protobuf, json-metadata or protobuf-metadata"),
	flag.String("w9.via", "handler", "handler: in the process, without a connection; tcp: HTTP/1.1 over loopback, the clients in this process too"),
}

var loadAccepts = map[string]string{
	"json":              "application/json",
	"protobuf":          "application/vnd.kubernetes.protobuf",
	"json-metadata":     "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"protobuf-metadata": "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
}

// changes holds the versions that the watchers must see, and when each was put.
type changes struct {
	versions []uint64
	put      []time.Time
	batches  []batch // of batchSize changes
}

const batchSize = 256

// batch tracks when all watchers have seen it.
type batch struct {
	left atomic.Int64 // watchers
	done chan struct{}
}

// reader reads the body of a watch and compares the version of each event with the expected one. It reads an event only
// up to its version, to keep its own cost small.
type reader struct {
	due      *changes
	protobuf bool
	seen     atomic.Int64  // events
	all      chan struct{} // receives a value when the wanted number has been seen
	want     atomic.Int64
	ended    chan struct{} // closed at the end of the watch
	err      error

	bytes    int64
	head     []byte // of the current event
	version  bool   // the version of the event has been seen
	skip     int    // bytes to its end, protobuf only
	lags     []time.Duration
	response http.Header
}

// maxHead is how many bytes may precede the version of an event.
const maxHead = 2048

func (r *reader) Write(p []byte) (int, error) {
	n := len(p)
	r.bytes += int64(n)
	for len(p) > 0 && r.err == nil {
		if r.protobuf {
			p = r.takeProtobuf(p)
		} else {
			p = r.takeJSON(p)
		}
	}
	return n, r.err
}

var jsonVersion = []byte(`"resourceVersion":"`)

func (r *reader) takeJSON(p []byte) (rest []byte) {
	if !r.version {
		before := len(r.head)
		r.head = append(r.head, p[:min(len(p), maxHead-before)]...)
		i := bytes.Index(r.head, jsonVersion)
		end := -1
		if i >= 0 {
			i += len(jsonVersion)
			end = bytes.IndexByte(r.head[i:], '"')
		}
		if end < 0 {
			if len(r.head) == maxHead {
				r.err = fmt.Errorf("no version in %q", r.head)
			}
			return p[len(r.head)-before:]
		}
		r.see(r.head[i : i+end])
		p = p[max(0, i+end-before):]
		r.version = true
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		return nil
	}
	r.head, r.version = r.head[:0], false
	return p[end+1:]
}

func (r *reader) takeProtobuf(p []byte) (rest []byte) {
	if r.skip > 0 {
		n := min(r.skip, len(p))
		r.skip -= n
		return p[n:]
	}
	before := len(r.head)
	r.head = append(r.head, p[:min(len(p), maxHead-before)]...)
	taken := len(r.head) - before
	if len(r.head) < 4 {
		return p[taken:]
	}
	size := 4 + int(binary.BigEndian.Uint32(r.head))
	if len(r.head) < min(size, maxHead) {
		return p[taken:]
	}
	version, err := protobufVersion(r.head[4:min(size, len(r.head))])
	if err != nil {
		r.err = err
		return nil
	}
	r.see(version)
	if size < len(r.head) { // the next one has begun
		taken -= len(r.head) - size
	} else {
		r.skip = size - len(r.head)
	}
	r.head = r.head[:0]
	return p[taken:]
}

// protobufVersion returns the version in the beginning of a metav1.WatchEvent.
func protobufVersion(b []byte) ([]byte, error) {
	for _, field := range []int{2, 1, -4, 2, 1, 6} { // object, raw, its prefix, raw, metadata, resourceVersion
		if field < 0 {
			b = b[min(-field, len(b)):]
			continue
		}
		for {
			tag, n := binary.Uvarint(b)
			if n <= 0 || tag&7 != 2 {
				return nil, errors.New("no version")
			}
			size, m := binary.Uvarint(b[n:])
			if m <= 0 {
				return nil, errors.New("no version")
			}
			b = b[n+m:]
			if int(tag>>3) == field {
				b = b[:min(int(size), len(b))]
				break
			}
			b = b[min(int(size), len(b)):]
		}
	}
	return b, nil
}

func (r *reader) see(version []byte) {
	n := int(r.seen.Load())
	rv, err := strconv.ParseUint(string(version), 10, 64)
	if err != nil || n >= len(r.due.versions) || rv != r.due.versions[n] {
		r.err = fmt.Errorf("event %d is of version %q", n, version)
		return
	}
	if n%64 == 0 {
		r.lags = append(r.lags, time.Since(r.due.put[n]))
	}
	if b := &r.due.batches[n/batchSize]; (n+1)%batchSize == 0 && b.left.Add(-1) == 0 {
		close(b.done)
	}
	if r.seen.Add(1) == r.want.Load() {
		r.all <- struct{}{}
	}
}

// A reader is the http.ResponseWriter of a watch without a connection.
func (r *reader) Header() http.Header                { return r.response }
func (r *reader) WriteHeader(int)                    {}
func (r *reader) Flush()                             {}
func (r *reader) SetWriteDeadline(t time.Time) error { return nil }

// TestEveryEventInOrder lets many watchers of many pods read all changes, and measures the cost.
// Guarantees: W9
func TestEveryEventInOrder(t *testing.T) {
	watchers, rate := *load.watchers, *load.rate
	pods := fleet.New(fleet.Config{Pods: *load.pods})
	gvr := corev1.SchemeGroupVersion.WithResource("pods")
	cache := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: gvr, Kind: "Pod"})
	put := func(d informer.Delta[*corev1.Pod]) {
		if err := cache.Put(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	put(informer.Delta[*corev1.Pod]{Type: informer.Replaced, Items: slices.Collect(pods.All()), ResourceVersion: pods.ResourceVersion()})

	var server *httptest.Server
	if *load.via == "tcp" {
		server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { cache.ServeList(w, r, "") }))
		defer server.Close()
	}
	limit := int((*load.duration).Seconds()*float64(max(rate, 50_000))) + 1
	due := &changes{versions: make([]uint64, 0, limit), put: make([]time.Time, 0, limit)}
	due.versions, due.put = due.versions[:limit], due.put[:limit] // written before anyone sees it
	due.batches = make([]batch, limit/batchSize+1)
	for i := range due.batches {
		due.batches[i].left.Store(int64(watchers))
		due.batches[i].done = make(chan struct{})
	}
	readers := make([]*reader, watchers)
	for i := range readers {
		readers[i] = &reader{due: due, protobuf: (*load.form)[0] == 'p', all: make(chan struct{}, 1), ended: make(chan struct{}), response: http.Header{}}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	before := memory()
	for _, r := range readers {
		running.Go(func() {
			defer close(r.ended)
			url := "http://in-process"
			if server != nil {
				url = server.URL
			}
			request, err := http.NewRequestWithContext(ctx, "GET", url+"/api/v1/pods?watch=1&resourceVersion="+pods.ResourceVersion(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			request.Header.Set("Accept", loadAccepts[*load.form])
			if server == nil {
				cache.ServeList(r, request, "")
				return
			}
			response, err := server.Client().Do(request)
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			io.CopyBuffer(struct{ io.Writer }{r}, struct{ io.Reader }{response.Body}, make([]byte, 32<<10))
		})
	}
	for cache.Watchers() < watchers && !t.Failed() {
		runtime.Gosched()
	}
	opened := memory()

	// The slowest watcher may be this many batches behind if the watchers set the rate. The cache ends watchers at 24.
	const ahead = 8
	began, usedBefore := time.Now(), testkit.ProcessorTime()
	n := 0
	for change := range pods.Changes(0) {
		if rate > 0 {
			if wait := time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(rate))); wait > time.Millisecond {
				<-time.After(wait)
			}
		} else if b := n/batchSize - ahead; n%batchSize == 0 && b >= 0 {
			select {
			case <-due.batches[b].done:
			case <-time.After(time.Minute):
				t.Fatal("the watchers do not read")
			}
		}
		if n > 0 && time.Since(began) >= *load.duration || n == limit {
			break
		}
		rv, err := strconv.ParseUint(change.Object.ResourceVersion, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		due.versions[n], due.put[n] = rv, time.Now()
		n++
		if change.Type == apiwatch.Deleted {
			put(informer.Delta[*corev1.Pod]{Type: informer.Removed, Object: change.Object})
		} else {
			put(informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: change.Object})
		}
	}
	changing := time.Since(began)
	var bytes int64
	var lags []time.Duration
	for i, r := range readers {
		if r.want.Store(int64(n)); r.seen.Load() < int64(n) {
			select {
			case <-r.all:
			case <-r.ended: // too soon
			}
		}
		if r.seen.Load() != int64(n) {
			t.Errorf("watcher %d has seen %d of %d events", i, r.seen.Load(), n)
		}
	}
	took, used := time.Since(began), testkit.ProcessorTime()-usedBefore
	if left := watchers - cache.Watchers(); left > 0 {
		t.Errorf("%d watches have ended", left)
	}
	cancel()
	running.Wait()
	for i, r := range readers {
		if r.err != nil {
			t.Errorf("watcher %d: %v", i, r.err)
		}
		bytes += r.bytes
		lags = append(lags, r.lags...)
	}
	slices.Sort(lags)
	events := float64(n) * float64(watchers)
	t.Logf("%d watchers of %d pods, %s via %s, %d changes in %.1f s: %.0f changes/s; all read after %.1f s",
		watchers, *load.pods, *load.form, *load.via, n, changing.Seconds(), float64(n)/changing.Seconds(), took.Seconds())
	t.Logf("%.0f events/s, %.0f B an event, %.2f GB/s", events/took.Seconds(), float64(bytes)/events, float64(bytes)/took.Seconds()/1e9)
	t.Logf("CPU: %.1f s, %.2f cores; %.2f ms a second and watcher; %.2f us an event", used.Seconds(), used.Seconds()/took.Seconds(),
		used.Seconds()*1e3/took.Seconds()/float64(watchers), used.Seconds()*1e6/events)
	t.Logf("memory: %.1f kB a watcher, of which heap %.1f kB", float64(opened.all-before.all)/float64(watchers)/1e3, float64(opened.heap-before.heap)/float64(watchers)/1e3)
	t.Logf("from Put to the reader: p50 %v, p99 %v, max %v", lags[len(lags)/2], lags[len(lags)*99/100], lags[len(lags)-1])
}

// used is the memory in use.
type used struct{ heap, all int64 }

func memory() used {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return used{int64(m.HeapAlloc), int64(m.HeapAlloc + m.StackInuse)}
}
