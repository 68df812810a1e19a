package bench

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/bench/internal/measure"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// BenchmarkWire reads a list of 10,000 pods, and 10,000 events that the server flushes one by one, in protobuf and without
// decoding them. The transports are client-go's, some with other frames or another window. Both sides run in this process.
func BenchmarkWire(b *testing.B) {
	const events = 10_000
	pods := fleet.New(fleet.Config{Pods: 10_000})
	var list bytes.Buffer
	if err := fleet.WriteListProtobuf(&list, metav1.ListMeta{}, pods.All()); err != nil {
		b.Fatal(err)
	}
	event, err := fleet.AppendWatchEventProtobuf(nil, watch.Modified, pods.Pod(0))
	if err != nil {
		b.Fatal(err)
	}
	handler := http.NewServeMux()
	handler.HandleFunc("/list", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(list.Bytes()) })
	handler.HandleFunc("/watch", func(w http.ResponseWriter, _ *http.Request) {
		for range events {
			_, _ = w.Write(event)
			_ = http.NewResponseController(w).Flush()
		}
	})
	for _, wire := range []struct {
		name       string
		encrypted  bool
		frame      int // the largest frame of HTTP/2; zero means 16 kB
		window     int // how much a stream may send before the client has read it; zero means 4 MB
		nextProtos []string
	}{
		{name: "HTTP2", encrypted: true},
		{name: "HTTP2-frames-of-128kB", encrypted: true, frame: 128 << 10},
		{name: "HTTP2-frames-of-1MB", encrypted: true, frame: 1 << 20},
		{name: "HTTP2-window-of-64MB", encrypted: true, window: 64 << 20},
		{name: "HTTP1-TLS", encrypted: true, nextProtos: []string{"http/1.1"}},
		{name: "HTTP1-plain"},
	} {
		server := httptest.NewUnstartedServer(handler)
		server.EnableHTTP2 = true
		transport := &http.Transport{HTTP2: &http.HTTP2Config{
			MaxReadFrameSize: wire.frame, MaxReceiveBufferPerStream: wire.window}}
		if wire.encrypted {
			server.StartTLS()
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			transport.TLSClientConfig = &tls.Config{RootCAs: roots, NextProtos: wire.nextProtos}
		} else {
			server.Start()
		}
		client := &http.Client{Transport: utilnet.SetTransportDefaults(transport)}
		read := func(b *testing.B, path string, size, items int) {
			buf := make([]byte, 64<<10)
			began := measure.CPU()
			b.SetBytes(int64(size))
			for b.Loop() {
				resp, err := client.Get(server.URL + path)
				if err != nil {
					b.Fatal(err)
				}
				if want := map[bool]int{true: 2, false: 1}[wire.encrypted && wire.nextProtos == nil]; resp.ProtoMajor != want {
					b.Fatalf("HTTP/%d, want HTTP/%d", resp.ProtoMajor, want)
				}
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{resp.Body}, buf)
				resp.Body.Close()
				if err != nil || n != int64(size) {
					b.Fatalf("%d bytes, %v, want %d", n, err, size)
				}
			}
			cpu := measure.CPU() - began
			b.ReportMetric(float64(cpu)/float64(time.Microsecond)/float64(b.N*items), "cpu-us/object")
		}
		b.Run("of=list/wire="+wire.name, func(b *testing.B) { read(b, "/list", list.Len(), pods.Len()) })
		b.Run("of=watch/wire="+wire.name, func(b *testing.B) { read(b, "/watch", events*len(event), events) })
		client.CloseIdleConnections()
		server.Close()
	}
}
