package bench

import (
	"fmt"
	"iter"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/canned"
	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
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
		server := canned.ListOf(b, media, pods)
		report := func(b *testing.B, list func() int) {
			b.SetBytes(int64(len(server.List)))
			objects, seconds, bytes := testkit.Counted(b, decodedObjects, func() {
				if n := list(); n != decodedObjects {
					b.Fatalf("decoded %d objects", n)
				}
			})
			b.ReportMetric(objects/seconds, "objects/s")
			b.ReportMetric(bytes/objects, "alloc-B/object")
		}
		managedFields(b, func(b *testing.B, keep bool) {
			b.Run("impl=client-go", func(b *testing.B) {
				peer := peerOf(b, server)
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
				client := clientOf(b, server)
				report(b, func() int {
					n := 0
					reflect(b, client, keep, sinkFunc(func(d *informer.Delta[*corev1.Pod]) error {
						n = len(d.Items)
						return errEnough
					}))
					return n
				})
			})
		})
	})
}

func dropManagedFields(items []apiruntime.Object) {
	for _, item := range items {
		item.(metav1.Object).SetManagedFields(nil)
	}
}

// BenchmarkDecodeWatch decodes the frames of a watch into typed events. It measures from the HTTP client to our reflector's
// sink, or to the channel that client-go's reflector reads.
func BenchmarkDecodeWatch(b *testing.B) {
	pods := fleet.New(fleet.Config{Pods: decodedObjects})
	formats(b, func(b *testing.B, media string) {
		server := canned.ListOf(b, media, func(func(*corev1.Pod) bool) {})
		server.Frames = watchFrames(b, media, decodedObjects, pods.Changes(1))
		report := func(b *testing.B, follow func() int) {
			b.SetBytes(int64(len(server.Frames)))
			events, seconds, bytes := testkit.Counted(b, decodedObjects, func() {
				if n := follow(); n != decodedObjects {
					b.Fatalf("decoded %d events", n)
				}
			})
			b.ReportMetric(seconds*1e9/events, "ns/event")
			b.ReportMetric(bytes/events, "alloc-B/event")
		}
		managedFields(b, func(b *testing.B, keep bool) {
			b.Run("impl=client-go", func(b *testing.B) {
				peer := peerOf(b, server)
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
				client := clientOf(b, server)
				report(b, func() int {
					n := 0
					reflect(b, client, keep, sinkFunc(func(d *informer.Delta[*corev1.Pod]) error {
						if d.Type == informer.Replaced {
							return nil
						}
						if n++; n == decodedObjects {
							return errEnough
						}
						return nil
					}))
					return n
				})
			})
		})
	})
}

// BenchmarkTransform follows updates with an informer that has every pod. It measures from the HTTP client to the store, without
// a Transform and with one that drops an annotation. With a Transform and LayoutSeparate, a new version shares nothing with the
// previous one.
func BenchmarkTransform(b *testing.B) {
	pods := fleet.New(fleet.Config{Pods: decodedObjects})
	var last string
	for change := range first(decodedObjects, pods.Updates(1)) {
		last = change.Object.ResourceVersion
	}
	dropAnnotation := func(pod *corev1.Pod) (*corev1.Pod, error) {
		delete(pod.Annotations, "checksum/config")
		return pod, nil
	}
	formats(b, func(b *testing.B, media string) {
		server := canned.ListOf(b, media, pods.All())
		server.Frames = watchFrames(b, media, decodedObjects, pods.Updates(1))
		for _, layout := range []informer.Layout{informer.LayoutShared, informer.LayoutSeparate} {
			for _, transform := range []bool{false, true} {
				b.Run(fmt.Sprintf("layout=%s/transform=%t", layout, transform), func(b *testing.B) {
					config := informer.Config[*corev1.Pod]{Layout: layout}
					if transform {
						config.Transform = dropAnnotation
					}
					b.SetBytes(int64(len(server.Frames)))
					var before, after runtime.MemStats
					var bytes uint64
					runs := 0
					for b.Loop() {
						b.StopTimer()
						server.Hold = make(chan struct{})
						inf, stop := runOwn(b, server, config)
						runtime.GC() // of the list
						runtime.ReadMemStats(&before)
						b.StartTimer()
						close(server.Hold)
						if err := inf.WaitForResourceVersion(b.Context(), last); err != nil {
							b.Fatal(err)
						}
						b.StopTimer()
						runtime.ReadMemStats(&after)
						bytes += after.TotalAlloc - before.TotalAlloc
						stop()
						runs++
						b.StartTimer()
					}
					events := float64(runs * decodedObjects)
					b.ReportMetric(b.Elapsed().Seconds()*1e9/events, "ns/event")
					b.ReportMetric(float64(bytes)/events, "alloc-B/event")
					b.ReportMetric(0, "ns/op") // has no meaning here
				})
			}
		}
	})
}

// first yields the first count changes of stream.
func first(count int, stream iter.Seq[fleet.Change]) iter.Seq[fleet.Change] {
	return func(yield func(fleet.Change) bool) {
		n := 0
		for change := range stream {
			if n++; !yield(change) || n == count {
				return
			}
		}
	}
}

// watchFrames encodes the first count changes as the frames of a watch.
func watchFrames(b *testing.B, media string, count int, changes iter.Seq[fleet.Change]) []byte {
	b.Helper()
	encode := fleet.AppendWatchEventJSON
	if media == decode.MediaProtobuf {
		encode = fleet.AppendWatchEventProtobuf
	}
	var frames []byte
	for change := range first(count, changes) {
		var err error
		if frames, err = encode(frames, change.Type, change.Object); err != nil {
			b.Fatal(fmt.Errorf("encode %s: %w", informer.KeyOf(change.Object), err))
		}
	}
	return frames
}
