package decode

import (
	"fmt"
	"maps"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/fleet"
)

// BenchmarkUpdate decodes new versions of a changing fleet's pods, without and with the version before.
func BenchmarkUpdate(b *testing.B) {
	const updates = 2000
	pods := fleet.New(fleet.Config{Pods: 2000})
	typ, err := TypeOf(reflect.TypeFor[*corev1.Pod]())
	if err != nil {
		b.Fatal(err)
	}
	type update struct {
		key types.NamespacedName
		raw []byte
	}
	for _, f := range []Format{JSON, Protobuf} {
		encode := func(pod *corev1.Pod) update {
			return update{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, fleetFrame(b, f, pod)}
		}
		var first, changes []update
		for pod := range pods.All() {
			first = append(first, encode(pod))
		}
		for change := range pods.Updates(1) {
			if change.Type == watch.Modified {
				changes = append(changes, encode(change.Object))
			}
			if len(changes) == updates {
				break
			}
		}
		for _, whole := range []bool{true, false} {
			b.Run(fmt.Sprintf("format=%v/whole=%t", f, whole), func(b *testing.B) {
				b.ReportAllocs()
				d := NewDecoder(typ, false)
				listed := map[types.NamespacedName]any{}
				for _, u := range first {
					if listed[u.key], err = d.Decode(f, u.raw, Origin{}); err != nil {
						b.Fatal(err)
					}
				}
				var held map[types.NamespacedName]any
				n := 0
				for b.Loop() {
					if n%len(changes) == 0 { // each update must change something
						b.StopTimer()
						held = maps.Clone(listed)
						b.StartTimer()
					}
					u := &changes[n%len(changes)]
					var from Origin
					if was := held[u.key]; was != nil && !whole {
						from = Origin{Before: was, Made: true}
					}
					if held[u.key], err = d.Decode(f, u.raw, from); err != nil {
						b.Fatal(err)
					}
					n++
				}
			})
		}
	}
}
