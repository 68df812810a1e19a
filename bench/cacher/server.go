package main

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"iter"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"golang.org/x/net/http2"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/watchcache"
)

// source is a server's half of a collection of pods.
type source struct {
	handler http.Handler
	put     func(change fleet.Change, rv uint64) error // applies one change
}

// implementations are the two sides, by name.
var implementations = map[string]func(start []*corev1.Pod, rv uint64) (*source, error){
	"cacher":     newCacher,
	"watchcache": newWatchcache,
}

// newWatchcache returns the handler of this project.
func newWatchcache(start []*corev1.Pod, rv uint64) (*source, error) {
	pods := watchcache.New[*corev1.Pod](watchcache.Config{GroupVersionResource: podResource, Kind: "Pod"})
	err := pods.Put(context.Background(), informer.Delta[*corev1.Pod]{
		Type: informer.Replaced, Items: start, ResourceVersion: strconv.FormatUint(rv, 10),
	})
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/pods", func(w http.ResponseWriter, r *http.Request) { pods.ServeList(w, r, "") })
	mux.HandleFunc("GET /api/v1/namespaces/{namespace}/pods", func(w http.ResponseWriter, r *http.Request) {
		pods.ServeList(w, r, r.PathValue("namespace"))
	})
	return &source{handler: mux, put: func(change fleet.Change, _ uint64) error {
		d := informer.Delta[*corev1.Pod]{Type: informer.Upserted, Object: change.Object}
		if change.Type == watch.Deleted {
			d.Type = informer.Removed
		}
		return pods.Put(context.Background(), d)
	}}, nil
}

// serverConfig is the configuration of a server process.
type serverConfig struct {
	implementation string
	pods, nodes    int
}

// serverInfo is what a client needs to know of a server.
type serverInfo struct {
	Address         string // of HTTP/2 with TLS
	CA              []byte // what certifies it
	ResourceVersion string
	Nodes           []string
	Namespace       string // the one with the most pods
	Team            string // whose pods have a label team
}

// server is one source behind HTTP/2 and TLS, with the settings of kube-apiserver. A second listener controls it.
type server struct {
	info    serverInfo
	source  *source
	http    *http.Server
	control *http.Server

	mu      sync.Mutex          // protects the fields below, and info.ResourceVersion
	changes func() fleet.Change // returns the next change
}

// streams is the number of concurrent streams that kube-apiserver allows on a connection.
const streams = 100

// startServer starts a server. It returns the address of its control.
func startServer(c serverConfig) (s *server, control string, err error) {
	f := fleet.New(fleet.Config{Pods: c.pods, Nodes: c.nodes})
	rv, err := strconv.ParseUint(f.ResourceVersion(), 10, 64)
	if err != nil {
		return nil, "", err
	}
	var start []*corev1.Pod
	sizes, teams := map[string]int{}, map[string]string{}
	for pod := range f.All() {
		start = append(start, pod)
		sizes[pod.Namespace]++
		teams[pod.Namespace] = cmp.Or(pod.Labels["team"], teams[pod.Namespace])
	}
	s = &server{info: serverInfo{ResourceVersion: f.ResourceVersion(), Nodes: f.Nodes()}}
	for _, namespace := range f.Namespaces() { // find the largest one
		if sizes[namespace] > sizes[s.info.Namespace] {
			s.info.Namespace, s.info.Team = namespace, teams[namespace]
		}
	}
	if s.source, err = implementations[c.implementation](start, rv); err != nil {
		return nil, "", err
	}
	next, _ := iter.Pull(f.Updates(1))
	s.changes = func() fleet.Change {
		change, _ := next() // they never end
		return change
	}
	if err := s.listen(); err != nil {
		return nil, "", err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	s.control = &http.Server{Handler: s.controls()}
	go func() { _ = s.control.Serve(listener) }()
	return s, listener.Addr().String(), nil
}

func (s *server) close() {
	_ = s.http.Close()
	_ = s.control.Close()
}

// listen begins to serve with the options of kube-apiserver (k8s.io/apiserver/pkg/server, SecureServingInfo.Serve).
func (s *server) listen() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	certificate, ca, err := newCertificate()
	if err != nil {
		return err
	}
	s.info.Address, s.info.CA = listener.Addr().String(), ca
	s.http = &http.Server{
		Handler:           s.source.handler,
		MaxHeaderBytes:    1 << 20,
		IdleTimeout:       90 * time.Second,
		ReadHeaderTimeout: 32 * time.Second,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			MinVersion:   tls.VersionTLS12,
			NextProtos:   []string{"h2", "http/1.1"},
		},
		ErrorLog: log.New(io.Discard, "", 0), // the clients do not say goodbye
	}
	const body = 256 << 10
	if err := http2.ConfigureServer(s.http, &http2.Server{
		IdleTimeout:                  90 * time.Second,
		MaxUploadBufferPerStream:     body,
		MaxReadFrameSize:             body,
		MaxConcurrentStreams:         streams,
		MaxUploadBufferPerConnection: body * streams,
	}); err != nil {
		return err
	}
	go func() { _ = s.http.Serve(tls.NewListener(listener, s.http.TLSConfig)) }()
	return nil
}

// usage is what a server process has used.
type usage struct {
	CPU      time.Duration
	Resident int64 // bytes of resident memory after garbage collection
	Heap     int64 // bytes of objects
	Stacks   int64 // bytes of the stacks of goroutines
}

// changed describes applied changes.
type changed struct {
	CPU  time.Duration // that the process had used before the first one
	Puts []int64       // when each was put, by measure.Now
}

func (s *server) controls() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, answer func(r *http.Request) (any, error)) {
		mux.HandleFunc("GET /"+path, func(w http.ResponseWriter, r *http.Request) {
			result, err := answer(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			_ = json.NewEncoder(w).Encode(result)
		})
	}
	handle("info", func(*http.Request) (any, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.info, nil
	})
	handle("cpu", func(*http.Request) (any, error) { return usage{CPU: measure.CPU()}, nil })
	handle("memory", func(*http.Request) (any, error) {
		for range 5 { // a sync.Pool is empty after the second, and each halves a stack that is too large
			runtime.GC()
		}
		debug.FreeOSMemory()
		resident, err := residentMemory()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		u := usage{CPU: measure.CPU(), Resident: resident, Heap: int64(memory.HeapAlloc), Stacks: int64(memory.StackInuse)}
		return u, err
	})
	handle("change", func(r *http.Request) (any, error) {
		n, err := strconv.Atoi(r.FormValue("n"))
		if err != nil {
			return nil, err
		}
		pause, err := time.ParseDuration(r.FormValue("pause"))
		if err != nil {
			return nil, err
		}
		return s.change(n, pause)
	})
	mux.HandleFunc("GET /profile", func(w http.ResponseWriter, r *http.Request) {
		if err := pprof.StartCPUProfile(w); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		<-r.Context().Done()
		pprof.StopCPUProfile()
	})
	return mux
}

// change makes n changes and applies them one after the other, with a pause after each.
func (s *server) change(n int, pause time.Duration) (c changed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes, versions := make([]fleet.Change, n), make([]uint64, n)
	for i := range changes {
		changes[i] = s.changes()
		if versions[i], err = strconv.ParseUint(changes[i].Object.ResourceVersion, 10, 64); err != nil {
			return c, err
		}
	}
	c.Puts = make([]int64, n)
	runtime.GC()
	c.CPU = measure.CPU()
	for i := range changes {
		c.Puts[i] = measure.Now()
		if err := s.source.put(changes[i], versions[i]); err != nil {
			return c, err
		}
		s.info.ResourceVersion = changes[i].Object.ResourceVersion
		if pause > 0 {
			time.Sleep(pause)
		}
	}
	return c, nil
}

func residentMemory() (int64, error) {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		var kB int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kB); n == 1 {
			return kB << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/self/status has no VmRSS")
}

// newCertificate returns a certificate for 127.0.0.1 that certifies itself.
func newCertificate() (certificate tls.Certificate, ca []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return certificate, nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return certificate, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
