package e2e

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/e2e/cluster"
)

var auditPods = flag.Int("audit.pods", 2000, "number of pods of BenchmarkAudit")

// BenchmarkAudit measures one audit, and beside it the first list of an informer, as a stream and page by page. Without the
// feature gate, etcd serves a list at an exact resource version, not a snapshot of the watch cache.
//
// Beside the wall time, it reports the bytes that the client received, with the encryption, and the processor time of the
// client, of kube-apiserver and of etcd.
//
//	go test -run '^$' -bench BenchmarkAudit -benchtime 10x . -args -audit.pods 30000
func BenchmarkAudit(b *testing.B) {
	for _, gate := range []bool{true, false} {
		b.Run(fmt.Sprintf("ListFromCacheSnapshot=%v", gate), func(b *testing.B) {
			c, err := startCluster(b.Context(), cluster.Config{FeatureGates: map[string]bool{"ListFromCacheSnapshot": gate}})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := c.Stop(); err != nil {
					b.Error(err)
				}
			})
			createFleet(b, c, *auditPods)
			for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
				costs := auditCosts{c, contentType}
				b.Run(formatName(contentType)+"/audit", costs.audit)
				b.Run(formatName(contentType)+"/streaming list", func(b *testing.B) { costs.list(b, false) })
				b.Run(formatName(contentType)+"/paged list", func(b *testing.B) { costs.list(b, true) })
			}
		})
	}
}

// auditCosts measures an informer of the pods of a cluster.
type auditCosts struct {
	cluster     *cluster.Cluster
	contentType string
}

// start starts an informer, and returns when it has synced. received counts the bytes from the server.
func (a auditCosts) start(b *testing.B, paged bool, received *atomic.Int64) (inf *informer.Informer[*corev1.Pod], stop func()) {
	b.Helper()
	config := a.cluster.Config()
	config.ContentType = a.contentType
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return receiving{conn, received}, err
	}
	client, err := informer.NewClient(config)
	if err != nil {
		b.Fatal(err)
	}
	inf = informer.New(client, informer.Resource{GroupVersionResource: podsResource}, informer.Config[*corev1.Pod]{
		PagedList: paged, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = inf.Run(ctx) }()
	if err := inf.WaitSynced(ctx); err != nil {
		b.Fatal(err)
	}
	return inf, func() { cancel(); <-ended }
}

func (a auditCosts) audit(b *testing.B) {
	var received atomic.Int64
	inf, stop := a.start(b, false, &received)
	defer stop()
	total := int64(0)
	a.measure(b, &received, func() {
		r, err := inf.Audit(b.Context())
		if err != nil || r.Differ > 0 || r.Objects != *auditPods {
			b.Fatalf("%+v, %v", r, err)
		}
		total += r.Bytes
	})
	b.ReportMetric(float64(total)/float64(b.N)/1e6, "decompressed-MB/op")
}

func (a auditCosts) list(b *testing.B, paged bool) {
	var received atomic.Int64
	var stop []func()
	a.measure(b, &received, func() {
		inf, s := a.start(b, paged, &received)
		stop = append(stop, s)
		if inf.Store().Len() != *auditPods {
			b.Fatalf("%d pods", inf.Store().Len())
		}
	})
	for _, s := range stop {
		s()
	}
}

// measure calls f for each iteration, and reports what that has cost.
func (a auditCosts) measure(b *testing.B, received *atomic.Int64, f func()) {
	b.ReportAllocs()
	bytes, client := received.Load(), clientTime(b)
	server, etcd := a.serverTime(b)
	for b.Loop() {
		f()
	}
	b.StopTimer()
	report := func(total float64, unit string) { b.ReportMetric(total/float64(b.N), unit+"/op") }
	serverNow, etcdNow := a.serverTime(b)
	report(float64(received.Load()-bytes)/1e6, "received-MB")
	report((clientTime(b)-client).Seconds()*1e3, "client-cpu-ms")
	report((serverNow-server).Seconds()*1e3, "apiserver-cpu-ms")
	report((etcdNow-etcd).Seconds()*1e3, "etcd-cpu-ms")
}

func (a auditCosts) serverTime(b *testing.B) (server, etcd time.Duration) {
	b.Helper()
	server, etcd, err := a.cluster.CPUTime()
	if err != nil {
		b.Fatal(err)
	}
	return server, etcd
}

// clientTime returns the processor time of this process.
func clientTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
