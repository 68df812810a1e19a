//go:build unix

package bench

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// calm is the transport to a server that sends a list, and then what the benchmark writes to events.
type calm struct {
	list   *canned.Server
	events *io.PipeReader
}

func (c calm) RoundTrip(req *http.Request) (*http.Response, error) {
	if !req.URL.Query().Has("watch") {
		return c.list.RoundTrip(req)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.list.Media}}, Body: c.events,
		Request: req}, nil
}

// BenchmarkWake measures the processor time of a single event of an informer that waits, from the body of the watch to
// the return of the handler. With quiet=5, five bookmarks come before each event.
func BenchmarkWake(b *testing.B) {
	pods := fleet.New(fleet.Config{Pods: 100})
	formats(b, func(b *testing.B, media string) {
		for _, quiet := range []int{0, 5} {
			b.Run(fmt.Sprint("quiet=", quiet), func(b *testing.B) { wake(b, canned.ListOf(b, media, pods.All()), pods, quiet) })
		}
	})
}

func wake(b *testing.B, list *canned.Server, pods *fleet.Fleet, quiet int) {
	events, write := io.Pipe()
	client, err := informer.NewClient(&rest.Config{Host: "http://calm", Transport: calm{list, events}, QPS: -1})
	if err != nil {
		b.Fatal(err)
	}
	inf := informer.New(client, podResource, informer.Config[*corev1.Pod]{PagedList: true,
		Logger: slog.New(slog.DiscardHandler)})
	returned := make(chan struct{}, 1)
	inf.Subscribe(informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) { returned <- struct{}{} }})
	ended := make(chan error, 1)
	go func() { ended <- inf.Run(b.Context()) }()
	if err := inf.WaitSynced(b.Context()); err != nil {
		b.Fatal(err)
	}
	encode := fleet.AppendWatchEventJSON
	if list.Media == decode.MediaProtobuf {
		encode = fleet.AppendWatchEventProtobuf
	}
	version := 1_000_000_000 // of 10 digits, so that the next one can replace it
	frame := func(typ watch.EventType, pod *corev1.Pod) (raw []byte, offset int) {
		pod.ResourceVersion = fmt.Sprint(version)
		raw, err := encode(nil, typ, pod)
		if err != nil {
			b.Fatal(err)
		}
		return raw, bytes.Index(raw, []byte(pod.ResourceVersion))
	}
	var changed *corev1.Pod
	for pod := range pods.All() {
		changed = pod.DeepCopy()
		break
	}
	event, offset := frame(watch.Modified, changed)
	bookmark, mark := frame(watch.Bookmark, fleet.Bookmark("1", false))
	send := func(raw []byte, offset int) {
		version++
		copy(raw[offset:], fmt.Sprint(version))
		if _, err := write.Write(raw); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	began := processorTime(b)
	for b.Loop() {
		for range quiet {
			send(bookmark, mark)
		}
		send(event, offset)
		<-returned
	}
	b.ReportMetric(float64(processorTime(b)-began)/float64(b.N), "cpu-ns/op")
}

// processorTime returns the processor time of the process.
func processorTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
