package intake

import (
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// BenchmarkTransform decodes the pods of a first list, and then updates of all of them, with and without a Transform that
// drops an annotation. An operation is one object.
func BenchmarkTransform(b *testing.B) {
	const pods = 2000
	f := fleet.New(fleet.Config{Pods: pods})
	for _, format := range []decode.Format{decode.JSON, decode.Protobuf} {
		encode := func(pod *corev1.Pod) []byte {
			raw, err := json.Marshal(pod)
			if format == decode.Protobuf {
				raw, err = pod.Marshal()
			}
			if err != nil {
				b.Fatal(err)
			}
			return raw
		}
		var list, updates [][]byte
		for pod := range f.All() {
			list = append(list, encode(pod))
		}
		for change := range f.Updates(1) {
			if updates = append(updates, encode(change.Object)); len(updates) == pods {
				break
			}
		}
		for _, share := range []bool{false, true} {
			for _, transform := range []bool{false, true} {
				name := fmt.Sprintf("format=%v/share=%t/transform=%t/", format, share, transform)
				b.Run(name+"list", func(b *testing.B) { benchmarkTransform(b, format, share, transform, nil, list) })
				b.Run(name+"updates", func(b *testing.B) { benchmarkTransform(b, format, share, transform, list, updates) })
			}
		}
	}
}

// benchmarkTransform decodes objects again and again, after those of before.
func benchmarkTransform(b *testing.B, f decode.Format, share, transform bool, before, objects [][]byte) {
	b.ReportAllocs()
	var asked Asked
	for begun := 0; begun < b.N; {
		b.StopTimer()
		d := newDecoder[*corev1.Pod](b)
		d.Share, d.Own = share, true
		held := make(map[object.Key]*corev1.Pod, len(objects))
		if before != nil {
			d.Held = func(key object.Key) (*corev1.Pod, bool) { pod, ok := held[key]; return pod, ok }
		}
		if transform {
			d.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) {
				delete(pod.Annotations, "checksum/config")
				return pod, nil
			}
		}
		decoder := d.Pool.Get()
		take := func(raw []byte) {
			var e encoded[*corev1.Pod]
			d.find(f, raw, &asked, &e)
			d.decode(decoder, f, raw, nil, &e)
			result, err := d.finish(decoder, f, raw, &asked, &e)
			if err != nil || result.Err != nil {
				b.Fatal(err, result.Err)
			}
			held[result.Key] = result.Object
		}
		for _, raw := range before {
			take(raw)
		}
		b.StartTimer()
		for _, raw := range objects[:min(len(objects), b.N-begun)] {
			take(raw)
			begun++
		}
	}
}
