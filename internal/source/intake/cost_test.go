//go:build !race

package intake

import (
	"bytes"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/decode"
	"github.com/typedinformer/informer/internal/test/fleet"
)

// TestAllocations checks the allocation counts of decoding in BENCHMARKS.md. The race detector adds allocations of its own.
func TestAllocations(t *testing.T) {
	pods := fleet.New(fleet.Config{Pods: 500})
	all := map[object.Key]*corev1.Pod{}
	for pod := range pods.All() {
		all[object.KeyOf(pod)] = pod
	}
	for _, f := range []decode.Format{decode.JSON, decode.Protobuf} {
		var list bytes.Buffer
		write := fleet.WriteListJSON
		if f == decode.Protobuf {
			write = fleet.WriteListProtobuf
		}
		if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, pods.All()); err != nil {
			t.Fatal(err)
		}
		read := func(d *Decoder[*corev1.Pod]) float64 {
			decoder := d.Pool.Get()
			asked := &Asked{}
			return testing.AllocsPerRun(3, func() {
				items := decode.NewList(bytes.NewReader(list.Bytes()), f, nil, nil)
				for {
					raw, err := items.Next()
					switch err {
					case nil:
						var e encoded[*corev1.Pod]
						d.find(f, raw, asked, &e)
						if d.decode(decoder, f, raw, nil, &e); e.err != nil {
							t.Fatal(e.err)
						}
						if result, err := d.finish(decoder, f, raw, asked, &e); err != nil || result.Err != nil {
							t.Fatal(err, result.Err)
						}
					case decode.ErrMore:
						if err := items.Fill(); err != nil {
							t.Fatal(err)
						}
					case io.EOF:
						return
					default:
						t.Fatal(err)
					}
				}
			}) / float64(len(all))
		}
		check := func(what string, d *Decoder[*corev1.Pod], most float64) float64 {
			got := read(d)
			if got > most {
				t.Errorf("format %d: %s has %.1f allocations, %.1f at most", f, what, got, most)
			}
			return got
		}
		d := newDecoder[*corev1.Pod](t)
		allocations := check("a pod", d, 90)
		d = newDecoder[*corev1.Pod](t)
		d.Filter = func(*metav1.PartialObjectMetadata) bool { return true }
		filtered := check("a pod with a filter", d, 100)
		d.Transform = func(pod *corev1.Pod) (*corev1.Pod, error) { return pod, nil }
		check("a pod with a filter and a transform", d, filtered+0.1)
		t.Logf("format %d: %.1f allocations, %.1f with a filter", f, allocations, filtered)
		d = newDecoder[*corev1.Pod](t)
		d.Share = true
		check("a pod that shares", d, 40)
		d.Held = func(key object.Key) (*corev1.Pod, bool) { pod, ok := all[key]; return pod, ok }
		check("an unchanged pod", d, 2.1) // for its key
	}
}

// With a Transform, objects that can share parts are decoded twice before they do. Those that cannot are decoded once.
func TestTransformDecodesOnce(t *testing.T) {
	raw := []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","uid":"1","resourceVersion":"1"},"spec":{"nodeName":"n"}}`)
	allocations := func(share bool) float64 {
		d := newDecoder[*unstructured.Unstructured](t)
		d.Share = share
		d.Transform = func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) { return u, nil }
		decoder := d.Pool.Get()
		return testing.AllocsPerRun(10, func() {
			var e encoded[*unstructured.Unstructured]
			d.decode(decoder, decode.JSON, raw, nil, &e)
			if result, err := d.finish(decoder, decode.JSON, raw, &Asked{}, &e); err != nil || result.Err != nil {
				t.Fatal(err, result.Err)
			}
		})
	}
	if separate, shared := allocations(false), allocations(true); shared > separate {
		t.Errorf("%.0f allocations of an unstructured object with Share, %.0f without: it was decoded twice", shared, separate)
	}
}
