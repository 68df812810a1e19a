package informer

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fleet"
)

// decodedObjects is the number of pods in a list, and of events in a watch.
const decodedObjects = 2000

// managedFields runs a benchmark with managedFields dropped and kept. Dropping them is our default; client-go's users set a
// transform.
func managedFields(b *testing.B, run func(b *testing.B, keep bool)) {
	b.Run("managedFields=dropped", func(b *testing.B) { run(b, false) })
	b.Run("managedFields=kept", func(b *testing.B) { run(b, true) })
}

// BenchmarkDecodeList decodes the body of a list into objects that each own their memory. It measures from the HTTP client
// to our reflector's sink, or to the point where client-go's reflector passes the items on.
func BenchmarkDecodeList(b *testing.B) {
	pods := fleet.New(fleet.Config{Pods: decodedObjects}).All()
	formats(b, func(b *testing.B, media string) {
		server := cannedList(b, media, pods)
		report := func(b *testing.B, list func() int) {
			b.SetBytes(int64(len(server.list)))
			objects, seconds, bytes := counted(b, decodedObjects, func() {
				if n := list(); n != decodedObjects {
					b.Fatalf("decoded %d objects", n)
				}
			})
			b.ReportMetric(objects/seconds, "objects/s")
			b.ReportMetric(bytes/objects, "alloc-B/object")
		}
		managedFields(b, func(b *testing.B, keep bool) {
			b.Run("impl=client-go", func(b *testing.B) {
				peer := server.peer(b)
				report(b, func() int {
					list, err := peer.List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
					if err != nil {
						b.Fatal(err)
					}
					items, err := meta.ExtractListWithAlloc(list)
					if err != nil {
						b.Fatal(err)
					}
					if !keep {
						dropManagedFields(items)
					}
					return len(items)
				})
			})
			b.Run("impl=informer", func(b *testing.B) {
				client := server.client(b)
				report(b, func() int {
					n := 0
					server.reflect(b, client, keep, func(d *Delta[*corev1.Pod]) error {
						n = len(d.Items)
						return errEnough
					})
					return n
				})
			})
		})
	})
}

func dropManagedFields(items []runtime.Object) {
	for _, item := range items {
		item.(metav1.Object).SetManagedFields(nil)
	}
}

// BenchmarkDecodeWatch decodes the frames of a watch into typed events. It measures from the HTTP client to our reflector's
// sink, or to the channel that client-go's reflector reads.
func BenchmarkDecodeWatch(b *testing.B) {
	pods := fleet.New(fleet.Config{Pods: decodedObjects})
	formats(b, func(b *testing.B, media string) {
		server := cannedList(b, media, func(func(*corev1.Pod) bool) {})
		server.frames = watchFrames(b, media, pods)
		report := func(b *testing.B, follow func() int) {
			b.SetBytes(int64(len(server.frames)))
			events, seconds, bytes := counted(b, decodedObjects, func() {
				if n := follow(); n != decodedObjects {
					b.Fatalf("decoded %d events", n)
				}
			})
			b.ReportMetric(seconds*1e9/events, "ns/event")
			b.ReportMetric(bytes/events, "alloc-B/event")
		}
		managedFields(b, func(b *testing.B, keep bool) {
			b.Run("impl=client-go", func(b *testing.B) {
				peer := server.peer(b)
				report(b, func() int {
					w, err := peer.Watch(b.Context(), metav1.ListOptions{ResourceVersion: "1"})
					if err != nil {
						b.Fatal(err)
					}
					defer w.Stop()
					for n := 1; ; n++ {
						event := <-w.ResultChan()
						if event.Type == watch.Error || event.Object == nil {
							b.Fatal(event)
						}
						if !keep {
							event.Object.(metav1.Object).SetManagedFields(nil)
						}
						if n == decodedObjects {
							return n
						}
					}
				})
			})
			b.Run("impl=informer", func(b *testing.B) {
				client := server.client(b)
				report(b, func() int {
					n := 0
					server.reflect(b, client, keep, func(d *Delta[*corev1.Pod]) error {
						if d.Type == Replaced {
							return nil
						}
						if n++; n == decodedObjects {
							return errEnough
						}
						return nil
					})
					return n
				})
			})
		})
	})
}

// watchFrames encodes the first changes of pods as the frames of a watch.
func watchFrames(b *testing.B, media string, pods *fleet.Fleet) []byte {
	b.Helper()
	encode := fleet.AppendWatchEventJSON
	if media == decode.MediaProtobuf {
		encode = fleet.AppendWatchEventProtobuf
	}
	var frames []byte
	n := 0
	for change := range pods.Changes(1) {
		var err error
		if frames, err = encode(frames, change.Type, change.Object); err != nil {
			b.Fatal(fmt.Errorf("change %d: %w", n, err))
		}
		if n++; n == decodedObjects {
			break
		}
	}
	return frames
}
