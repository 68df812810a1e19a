package decode

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// BenchmarkDecodeUpdate decodes new versions of a changing fleet's pods, without and with the version before. With more
// pods, the version before is less often in the processor's cache.
//
// In a process, the bytes of an update have just been read from a socket, and copied. So the benchmark copies each frame
// to one buffer before it is decoded: the frames of 30,000 pods do not fit in the cache. The time of an operation
// is only that of Decode, without this copy and without finding the version before. The median, p50, says more than the
// mean on a machine that is not idle.
func BenchmarkDecodeUpdate(b *testing.B) {
	for _, pods := range []int{30, 2000, 30_000} {
		for _, f := range []Format{JSON, Protobuf} {
			first, changes := updatesOf(b, f, pods)
			for _, whole := range []bool{true, false} {
				if whole && pods != 2000 {
					continue // it reads no version before
				}
				b.Run(fmt.Sprintf("pods=%d/format=%v/whole=%t", pods, f, whole), func(b *testing.B) {
					benchmarkUpdate(b, f, first, changes, whole)
				})
			}
		}
	}
}

// update is an encoded pod.
type update struct {
	key types.NamespacedName
	raw []byte
}

// updatesOf returns the pods of a fleet, and changes of as many pods as there are, but at least 2,000.
func updatesOf(b *testing.B, f Format, pods int) (first, changes []update) {
	fleet := fleet.New(fleet.Config{Pods: pods})
	encode := func(pod *corev1.Pod) update {
		return update{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, fleetFrame(b, f, pod)}
	}
	for pod := range fleet.All() {
		first = append(first, encode(pod))
	}
	for change := range fleet.Updates(1) {
		if change.Type == watch.Modified {
			changes = append(changes, encode(change.Object))
		}
		if len(changes) == max(pods, 2000) {
			break
		}
	}
	return first, changes
}

func benchmarkUpdate(b *testing.B, f Format, first, changes []update, whole bool) {
	typ, err := TypeOf(reflect.TypeFor[*corev1.Pod]())
	if err != nil {
		b.Fatal(err)
	}
	d := NewDecoder(typ, false)
	listed := map[types.NamespacedName]any{}
	for _, u := range first {
		if listed[u.key], err = d.Decode(f, u.raw, Origin{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	var held map[types.NamespacedName]any
	var frame []byte
	times := make([]time.Duration, 0, 1<<20)
	n := 0
	for b.Loop() {
		if n%len(changes) == 0 { // each update must change something
			b.StopTimer()
			held = maps.Clone(listed)
			b.StartTimer()
		}
		u := &changes[n%len(changes)]
		frame = append(frame[:0], u.raw...)
		var from Origin
		if was := held[u.key]; was != nil && !whole {
			from = Origin{Before: was, Made: true}
		}
		began := time.Now()
		now, err := d.Decode(f, frame, from)
		took := time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		held[u.key] = now
		times = append(times, took)
		n++
	}
	slices.Sort(times)
	sum := time.Duration(0)
	for _, took := range times {
		sum += took
	}
	b.ReportMetric(float64(sum)/float64(n), "ns/op")
	b.ReportMetric(float64(times[n/2]), "p50-ns/op")
}
