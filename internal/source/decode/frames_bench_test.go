package decode

import (
	"fmt"
	"io"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// BenchmarkFrames splits a watch of pods into its frames, without decoding them. An idle server sends each event by
// itself; a busy one sends them in whatever parts the connection has, here of 16 KiB.
func BenchmarkFrames(b *testing.B) {
	const pods = 500
	for _, f := range []Format{JSON, Protobuf} {
		var frames [][]byte
		for pod := range fleet.New(fleet.Config{Pods: pods}).All() {
			write := fleet.AppendWatchEventJSON
			if f == Protobuf {
				write = fleet.AppendWatchEventProtobuf
			}
			frame, err := write(nil, watch.Modified, pod)
			if err != nil {
				b.Fatal(err)
			}
			frames = append(frames, frame)
		}
		kind := NewKind(reflect.TypeFor[*corev1.Pod](), "pods")
		for _, part := range []int{0, 16 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("format=%v/part=%d", f, part), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					split := NewFrames(&parts{frames: frames, size: part}, f, kind, nil)
					n := 0
					for ; ; n++ {
						if _, err := nextFrame(split); err == io.EOF {
							break
						} else if err != nil {
							b.Fatal(err)
						}
					}
					if n != len(frames) {
						b.Fatalf("%d frames", n)
					}
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N*len(frames)), "ns/event")
			})
		}
	}
}

// parts is a body of frames. Read returns size bytes, or if that is 0, one frame.
type parts struct {
	frames [][]byte
	size   int
	rest   []byte // of a frame
}

func (p *parts) Read(b []byte) (n int, err error) {
	if p.size > 0 {
		b = b[:min(len(b), p.size)]
	}
	for n < len(b) && (n == 0 || p.size > 0) {
		if len(p.rest) == 0 {
			if len(p.frames) == 0 {
				break
			}
			p.rest, p.frames = p.frames[0], p.frames[1:]
		}
		m := copy(b[n:], p.rest)
		n, p.rest = n+m, p.rest[m:]
	}
	if n == 0 {
		err = io.EOF
	}
	return n, err
}
