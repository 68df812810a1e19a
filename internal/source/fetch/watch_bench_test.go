package fetch

import (
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/source/transport"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// BenchmarkFollow reads events of pods from a watch until its end, without decoding them. Each event comes by itself, and a
// bookmark after every hundred: a Read is as expensive for a short event as for a long one.
func BenchmarkFollow(b *testing.B) {
	const pods = 1000
	for _, f := range []decode.Format{decode.JSON, decode.Protobuf} {
		media, write := decode.MediaJSON, fleet.AppendWatchEventJSON
		if f == decode.Protobuf {
			media, write = decode.MediaProtobuf, fleet.AppendWatchEventProtobuf
		}
		var events [][]byte
		for pod := range fleet.New(fleet.Config{Pods: pods}).All() {
			event, kind := watch.Modified, pod
			if len(events)%100 == 99 {
				event, kind = watch.Bookmark, &corev1.Pod{}
				kind.ResourceVersion = pod.ResourceVersion
			}
			frame, err := write(nil, event, kind)
			if err != nil {
				b.Fatal(err)
			}
			events = append(events, frame)
		}
		b.Run("format="+strings.TrimPrefix(media, "application/"), func(b *testing.B) {
			client, err := transport.New(&rest.Config{Host: "http://test", QPS: -1, Transport: eachAlone{media, events}})
			if err != nil {
				b.Fatal(err)
			}
			source := NewSource(Config{Client: client, Path: "/api/v1/pods", Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"},
				Kind: decode.NewKind(reflect.TypeFor[*corev1.Pod](), "pods"), Check: func(decode.Format) error { return nil }})
			b.ReportAllocs()
			for b.Loop() {
				w, err := source.Watch(b.Context(), State{Version: "1"}, "")
				if err != nil {
					b.Fatal(err)
				}
				in := &counts{}
				err = w.Follow(func(decode.Format, func(error)) Intake { return in }, func(string) error { return nil })
				w.Close()
				if err != nil || in.events != pods-pods/100 {
					b.Fatalf("%d events, %v", in.events, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N*pods), "ns/event")
		})
	}
}

// eachAlone answers with a body that returns one event for each Read.
type eachAlone struct {
	media  string
	events [][]byte
}

func (s eachAlone) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.media}}, Request: r,
		Body: io.NopCloser(&eventBody{events: s.events})}, nil
}

type eventBody struct {
	events [][]byte
	rest   []byte // of an event for which there was no room
}

func (e *eventBody) Read(b []byte) (int, error) {
	if len(e.rest) == 0 {
		if len(e.events) == 0 {
			return 0, io.EOF
		}
		e.rest, e.events = e.events[0], e.events[1:]
	}
	n := copy(b, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// counts is an intake that counts events.
type counts struct {
	records
	events int
}

func (c *counts) Add([]byte, bool, *decode.ListInfo) { c.events++ }

func (c *counts) Wait() error { return nil }
