package decode

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/typedinformer/informer/internal/source/decode/proto"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// lowered is the limit for an object in these tests, which would take long with MaxObjectBytes. largeBytes exceeds it.
var (
	lowered    = testkit.Rounds(2*headBytes, MaxObjectBytes)
	largeBytes = lowered + 1<<20
)

// loweredFrames is NewFrames with the lowered limit.
func loweredFrames(body io.Reader, f Format, kind *Kind) *Frames {
	frames := NewFrames(body, f, kind, nil)
	switch s := frames.framesReader.(type) {
	case *jsonFrames:
		s.limit = lowered
	case *protobufFrames:
		s.limit = lowered
	}
	return frames
}

// loweredList is NewList with the lowered limit.
func loweredList(body io.Reader, f Format, kind *Kind) *List {
	list := NewList(body, f, kind, nil)
	switch s := list.listReader.(type) {
	case *jsonList:
		s.limit = lowered
	case *protobufList:
		s.limit = lowered
	}
	return list
}

// largePod returns a pod of more than size bytes, with its envelope in protobuf, and its first bytes without that.
func largePod(f Format, size int) []byte {
	filler := strings.Repeat(`\"{[`, size/4+1)
	if f == JSON {
		return []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"large","namespace":"ns","uid":"u","resourceVersion":"8"},"spec":{"nodeName":"` + filler + `"}}`)
	}
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "large", Namespace: "ns", UID: "u", ResourceVersion: "8"}, Spec: corev1.PodSpec{NodeName: filler}}
	message, _ := pod.Marshal()
	return enveloped("Pod", message)
}

func wantLarge(t *testing.T, err error) {
	t.Helper()
	large := Large(err)
	if large == nil || !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v, want a LargeError", err)
	}
	if id := large.ID; string(id.Namespace)+"/"+string(id.Name)+" "+string(id.UID)+" "+string(id.ResourceVersion) != "ns/large u 8" {
		t.Errorf("identity %s", id)
	}
}

// The event of an object over the size limit is an error with the identity of the object. The watch goes on behind it.
// Guarantees: R26
func TestWatchGoesOnBehindALargeObject(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		large := largePod(f, largeBytes)
		frames := loweredFrames(io.MultiReader(bytes.NewReader(encodeFrame(f, "ADDED", one(f, "Pod"))),
			bytes.NewReader(encodeFrame(f, "MODIFIED", large)), bytes.NewReader(encodeFrame(f, "DELETED", large)),
			bytes.NewReader(encodeFrame(f, "ADDED", one(f, "Pod")))), f, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"))
		for _, want := range []string{"ADDED", "MODIFIED", "DELETED", "ADDED"} {
			frame, err := nextFrame(frames)
			if want != "ADDED" {
				wantLarge(t, err)
			} else if err != nil {
				t.Fatal(err)
			}
			if frame.Event != want {
				t.Errorf("event %q, want %s", frame.Event, want)
			}
		}
		if _, err := nextFrame(frames); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	}
}

// A list goes on behind an item over the size limit, which is an error with the identity of the item.
// Guarantees: R26
func TestListGoesOnBehindALargeItem(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		items := [][]byte{one(f, "Pod"), largePod(f, largeBytes), one(f, "Pod")}
		list := loweredList(bytes.NewReader(encodeList(f, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, items)), f, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"))
		small, large := 0, 0
		for done := false; !done; {
			switch _, err := list.Next(); {
			case err == nil:
				small++
			case err == ErrMore:
				if err := list.Fill(); err != nil {
					t.Fatal(err)
				}
			case err == io.EOF:
				done = true
			default:
				wantLarge(t, err)
				large++
			}
		}
		if small != 2 || large != 1 || list.Info.ResourceVersion != "77" {
			t.Errorf("format %d: %d items, %d of them large, resource version %s", f, small, large, list.Info.ResourceVersion)
		}
	}
}

// repeated is a body that has text again and again.
type repeated struct {
	text   string
	left   int // bytes
	offset int
}

func (r *repeated) Read(b []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(b) && n < r.left {
		m := copy(b[n:], r.text[r.offset:])
		n, r.offset = n+m, (r.offset+m)%len(r.text)
	}
	r.left -= n
	return n, nil
}

// Skipping takes no memory beyond the limit for an object, and has a limit, too.
// Guarantees: R26
func TestSkippingIsBounded(t *testing.T) {
	head := `{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"large","namespace":"ns","uid":"u","resourceVersion":"8"},"a":"`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	frames := NewFrames(io.MultiReader(strings.NewReader(head), &repeated{text: "x", left: MaxObjectBytes + 2<<20}), JSON, nil, nil)
	_, err := nextFrame(frames)
	wantLarge(t, err)
	frames.framesReader.(*jsonFrames).skip.size = maxSkipped - 1<<20
	if _, err = nextFrame(frames); !errors.Is(err, ErrTooLarge) || Large(err) != nil {
		t.Errorf("at the end: %v", err)
	}
	runtime.ReadMemStats(&after)
	if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 160 { // growing a buffer to 32 MiB allocates 64 MiB
		t.Errorf("allocated %d MiB", allocated)
	}
	frames = NewFrames(strings.NewReader("\x10\x00\x00\x01"), Protobuf, nil, nil)
	if _, err := nextFrame(frames); !errors.Is(err, ErrTooLarge) || Large(err) != nil {
		t.Errorf("a frame of 256 MiB and a byte: %v", err)
	}
	frames = loweredFrames(io.MultiReader(strings.NewReader(head), &repeated{text: "x", left: largeBytes}), JSON, nil)
	_, err = nextFrame(frames)
	wantLarge(t, err)
	if _, err := nextFrame(frames); err != io.ErrUnexpectedEOF {
		t.Errorf("a body that ends within the object: %v", err)
	}
}

// A large object whose identity does not come first is an error without a name; an event without a type before it ends the
// watch.
// Guarantees: R26
func TestLargeObjectWithoutAName(t *testing.T) {
	filler := strings.Repeat("x", largeBytes)
	frames := loweredFrames(strings.NewReader(`{"type":"ADDED","object":{"data":"`+filler+`","metadata":{"name":"a"}}}`), JSON, nil)
	if _, err := nextFrame(frames); Large(err) == nil || Large(err).ID.Name != nil {
		t.Errorf("data first: %v", err)
	}
	frames = loweredFrames(strings.NewReader(`{"object":{"metadata":{"name":"a"},"data":"`+filler+`"},"type":"ADDED"}`), JSON, nil)
	if _, err := nextFrame(frames); !errors.Is(err, ErrTooLarge) || Large(err) != nil {
		t.Errorf("type last: %v", err)
	}
	frames = loweredFrames(bytes.NewReader(encodeFrame(JSON, "ADDED", []byte(`{"kind":"Node","metadata":{"name":"a"},"data":"`+filler+`"}`))), JSON, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"))
	if _, err := nextFrame(frames); !errors.Is(err, ErrWrongKind) {
		t.Errorf("another kind: %v", err)
	}
}

// A large object of another kind is an error, as a small one is. A large bookmark ends the watch.
// Guarantees: R22, R26
func TestLargeObjectOfAnotherKind(t *testing.T) {
	pods := func() *Kind { return NewKind(reflect.TypeFor[*corev1.Pod](), "pods") }
	for _, f := range []Format{JSON, Protobuf} {
		large := largePod(f, largeBytes)
		frames := loweredFrames(bytes.NewReader(encodeFrame(f, "ADDED", large)), f, NewKind(reflect.TypeFor[*corev1.Node](), "nodes"))
		if _, err := nextFrame(frames); !errors.Is(err, ErrWrongKind) {
			t.Errorf("format %d: event: %v", f, err)
		}
		frames = loweredFrames(bytes.NewReader(encodeFrame(f, "BOOKMARK", large)), f, pods())
		if _, err := nextFrame(frames); !errors.Is(err, ErrTooLarge) || Large(err) != nil {
			t.Errorf("format %d: bookmark: %v", f, err)
		}
		for name, c := range map[string]struct {
			list string
			kind *Kind
		}{
			"list of nodes": {"Node", pods()},
			"list of pods":  {"Pod", NewKind(reflect.TypeFor[*corev1.Node](), "nodes")},
		} {
			list := loweredList(bytes.NewReader(encodeList(f, schema.GroupVersionKind{Version: "v1", Kind: c.list}, [][]byte{large})), f, c.kind)
			var err error
			for err == nil || err == ErrMore {
				if _, err = list.Next(); err == ErrMore {
					if failed := list.Fill(); failed != nil {
						err = failed
					}
				}
			}
			if names := f == JSON && name == "list of nodes"; errors.Is(err, ErrWrongKind) == names { // the item names its kind, which is right
				t.Errorf("format %d: %s: %v", f, name, err)
			}
		}
	}
}

// FuzzSkip: wherever an object is cut, skipping its rest ends where reading all of it ends.
func FuzzSkip(f *testing.F) {
	f.Add([]byte(`{"a":"\\","b\"":[{"c":"}]"},{}],"d":"\\\"{"} ,{}`))
	fuzzFormats(func(enc Format, pods [][]byte) {
		if enc == JSON {
			f.Add(pods[0])
		}
	})
	f.Fuzz(func(t *testing.T, raw []byte) {
		whole := jsonStream{stream: stream{buf: raw, ended: true}}
		from, to, err := whole.value(0)
		if err != nil || raw[from] != '{' {
			return
		}
		for cut := from + 1; cut < to; cut += 1 + cut/256 {
			s := jsonStream{stream: stream{buf: raw[:cut:cut]}}
			if _, _, err := s.value(0); err != ErrMore {
				t.Fatalf("%d of %d bytes: %v", cut, to, err)
			}
			s.beginSkip()
			if end := s.skip.over(raw[cut:]); cut+end != to || s.skip.depth != 0 {
				t.Fatalf("cut at %d: skipped to %d, want %d", cut, cut+end, to)
			}
		}
	})
}

// The beginning of a message has the same identity as the message, or none.
func TestFirstOfACutMessage(t *testing.T) {
	pod := largePod(Protobuf, 300)
	message, err := Unwrap(pod)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range message {
		id := headIdentity(message[:cut])
		for got, want := range map[string]string{string(id.Name): "large", string(id.Namespace): "ns", string(id.UID): "u", string(id.ResourceVersion): "8"} {
			if got != "" && got != want {
				t.Fatalf("%d bytes: %s", cut, id)
			}
		}
		if cut > 60 && string(id.ResourceVersion) != "8" {
			t.Fatalf("%d bytes: no identity: %s", cut, id)
		}
		whole := proto.First(message, objectMetadata)
		if got := proto.First(message[:cut], objectMetadata); !bytes.HasPrefix(whole, got) {
			t.Fatalf("%d bytes: metadata %q", cut, got)
		}
	}
	event, meta, object := headProtobuf(encodeFrame(Protobuf, "ADDED", pod)[frameHeader:][:200])
	var name, version []byte
	if err := typeMeta(meta, &name, &version); err != nil || event != "ADDED" || string(name) != "Pod" ||
		string(version) != "v1" || string(headIdentity(object).Name) != "large" {
		t.Errorf("%q %q %q %v", event, name, version, err)
	}
}
