//go:build !race

package informer

import (
	"bytes"
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/decode"
	"github.com/typedinformer/informer/internal/fleet"
)

// TestAllocations checks the allocation counts of decoding in BENCHMARKS.md. The race detector adds allocations of its own.
func TestAllocations(t *testing.T) {
	pods := fleet.New(fleet.Config{Pods: 500})
	var all []*corev1.Pod
	for pod := range pods.All() {
		all = append(all, pod)
	}
	store := filledStore(all)
	for _, f := range []decode.Format{decode.JSON, decode.Protobuf} {
		var list bytes.Buffer
		write := fleet.WriteListJSON
		if f == decode.Protobuf {
			write = fleet.WriteListProtobuf
		}
		if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, pods.All()); err != nil {
			t.Fatal(err)
		}
		r := reflectorFor(t, Config[*corev1.Pod]{})
		one := r.decoder.Get()
		read := func() float64 {
			return testing.AllocsPerRun(3, func() {
				items := decode.NewList(bytes.NewReader(list.Bytes()), f)
				for {
					raw, err := items.Next()
					switch err {
					case nil:
						var e encoded[*corev1.Pod]
						r.decoder.find(f, raw, &asked{}, &e)
						if r.decoder.decode(one, f, raw, nil, &e); e.err != nil {
							t.Fatal(e.err)
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
		if got := read(); got > 90 {
			t.Errorf("format %d: a pod has %.1f allocations, 90 at most", f, got)
		}
		r.decoder.config.Share = true
		if got := read(); got > 40 {
			t.Errorf("format %d: a pod that shares has %.1f allocations, 40 at most", f, got)
		}
		r.decoder.held = store.Get
		if got := read(); got > 2.1 {
			t.Errorf("format %d: an unchanged pod has %.1f allocations, 2 at most for its key", f, got)
		}
	}
}
