package decode

import (
	"bytes"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// A watch that waits keeps a small buffer, also after a burst of large events once some bookmarks have come. A busy watch
// has a large one, and does not get a new one for each burst.
func TestBufferOfAWatchThatWaitsIsSmall(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		write := fleet.AppendWatchEventJSON
		if f == Protobuf {
			write = fleet.AppendWatchEventProtobuf
		}
		frame := func(typ watch.EventType, pod *corev1.Pod) []byte {
			raw, err := write(nil, typ, pod)
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}
		body := &parts{} // Read returns at most one frame
		frames := NewFrames(body, f, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"), nil)
		read := &frames.framesReader
		buffer := func() int {
			switch s := (*read).(type) {
			case *jsonFrames:
				return cap(s.buf)
			case *protobufFrames:
				return cap(s.buf)
			}
			panic("unknown frames")
		}
		take := func(more ...[]byte) {
			body.frames = append(body.frames, more...)
			for range more {
				for {
					if _, err := frames.Next(); err == nil {
						break
					} else if err != ErrMore {
						t.Fatal(err)
					}
					if err := frames.Fill(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		bookmark := frame(watch.Bookmark, fleet.Bookmark("1", false))
		take(bookmark, bookmark, bookmark, bookmark, bookmark, bookmark, bookmark, bookmark, bookmark, bookmark)
		if got := buffer(); got != idleBytes {
			t.Errorf("format %v: the buffer of a watch that waits has %d bytes instead of %d", f, got, idleBytes)
		}
		padded := func(size int) []byte {
			return frame(watch.Modified, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{
				"a": string(bytes.Repeat([]byte("x"), size))}}})
		}
		small, large := padded(2*idleBytes), padded(3*smallBytes)
		for range 10 {
			take(small)
		}
		if got := buffer(); got != smallBytes {
			t.Errorf("format %v: the buffer of small events has %d bytes instead of %d", f, got, smallBytes)
		}
		take(large)
		if got := buffer(); got != bufferBytes {
			t.Errorf("format %v: the buffer of a large event has %d bytes instead of %d", f, got, bufferBytes)
		}
		for range 10 {
			take(bookmark, large)
		}
		if got := buffer(); got != bufferBytes {
			t.Errorf("format %v: after bookmarks between large events, the buffer has %d bytes instead of %d", f, got, bufferBytes)
		}
		take(bookmark, bookmark, bookmark, bookmark, bookmark, bookmark)
		if got := buffer(); got != idleBytes {
			t.Errorf("format %v: after a burst, the buffer of a watch that waits has %d bytes instead of %d", f, got, idleBytes)
		}
	}
}
