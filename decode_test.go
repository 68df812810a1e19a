package informer

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
)

// A list that is cut anywhere is an error, never a shorter list. In protobuf no list needs the fields behind it.
func TestTruncatedList(t *testing.T) {
	t.Parallel()
	fuzzFormats(func(f format, pods [][]byte) {
		for _, items := range [][][]byte{nil, pods[:1], pods[:2]} {
			body := encodeList(f, podKind, items)
			for cut := range body {
				n := 0
				err := readList(bytes.NewReader(body[:cut]), f, &listInfo{}, func([]byte) { n++ })
				behind := f == formatJSON && cut == len(body)-1 || f == formatProtobuf && strings.HasSuffix("\x1a\x00\x22\x00", string(body[cut:]))
				switch {
				case !behind && !errors.Is(err, io.ErrUnexpectedEOF):
					t.Fatalf("format %d cut at %d of %d: %d items, %v", f, cut, len(body), n, err)
				case behind && err == nil && n != len(items):
					t.Fatalf("format %d cut at %d of %d: %d items of %d", f, cut, len(body), n, len(items))
				}
			}
		}
	})
}

// A watch that is cut anywhere has the whole frames before, and then an error, unless it is cut between two.
func TestTruncatedWatch(t *testing.T) {
	t.Parallel()
	fuzzFormats(func(f format, pods [][]byte) {
		var stream []byte
		ends := map[int]int{0: 0} // the number of frames there
		for i, pod := range pods[:2] {
			stream = append(stream, encodeFrame(f, "MODIFIED", pod)...)
			ends[len(stream)] = i + 1
			if f == formatJSON {
				ends[len(stream)-1] = i + 1 // before the line break
			}
		}
		for cut := range stream {
			frames := newFrameReader(bytes.NewReader(stream[:cut]), f)
			n := 0
			var err error
			for ; err == nil; n++ {
				_, err = frames.next()
			}
			n--
			if whole, clean := ends[cut]; clean && (err != io.EOF || n != whole) || !clean && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("format %d cut at %d of %d: %d frames, %v", f, cut, len(stream), n, err)
			}
		}
	})
}

// What stands in an object that is cut anywhere is peeked and cut out as it is decoded.
func TestTruncatedObject(t *testing.T) {
	t.Parallel()
	fuzzFormats(func(f format, pods [][]byte) {
		raw := pods[1]
		if f == formatProtobuf {
			raw, _ = unwrapProtobuf(raw)
		}
		if id := f.peek(raw); len(id.name) == 0 || len(id.uid) == 0 || len(f.cut(raw)) == len(raw) {
			t.Errorf("format %d: peeked %+v", f, id)
		}
		for cut := range raw {
			checkPeek(t, f, raw[:cut])
		}
	})
}

// What is no protobuf is no list either, not even an empty one, and no field is read where there is none.
func TestR22_MalformedProtobufList(t *testing.T) {
	long := strings.Repeat("\x80", 9)
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"nothing":                      {"k8s\x00", io.ErrUnexpectedEOF},
		"no list":                      {"k8s\x00\x0a\x00", io.ErrUnexpectedEOF},
		"field 0 around a list":        {"k8s\x00\x02\x02\x12\x00", errProtobuf},
		"field 0 around an item":       {"k8s\x00\x12\x04\x02\x02\x12\x00", errProtobuf},
		"field 2^32+2":                 {"k8s\x00\x12\x00\x92\x80\x80\x80\x80\x01\x00", errProtobuf},
		"length of 2^64":               {"k8s\x00\x12" + long + "\x02", errProtobuf},
		"length of 11 bytes":           {"k8s\x00\x12" + long + "\x80\x00", errProtobuf},
		"group":                        {"k8s\x00\x12\x02\x1b\x1c", errProtobuf},
		"item longer than list":        {"k8s\x00\x12\x02\x12\x01x", errProtobuf},
		"fixed field longer than list": {"k8s\x00\x12\x01\x1912345678", errProtobuf},
		"tag longer than list":         {"k8s\x00\x12\x01\x92\x01\x00", errProtobuf},
		"two lists":                    {"k8s\x00\x12\x00\x12\x00", errTwoLists},
	} {
		err := readList(strings.NewReader(c.body), formatProtobuf, &listInfo{}, func(raw []byte) { t.Errorf("%s: item %q", name, raw) })
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Nothing is peeked at, or cut out of, metadata that is not valid.
func TestMalformedProtobufObject(t *testing.T) {
	tooLong := strings.Repeat("\xff", 9) + "\x02"
	for _, field := range []string{
		"\x12", "\x12\x01", "\x12\x7f1", "\x12" + tooLong, "\x12" + tooLong[:9] + "\x01", "\x10", "\x10" + tooLong, "\x191234567",
		"\x1d123", "\x1b", "\x00\x00", "\x02\x00", tooLong, "\x92\x80\x80\x80\x80\x01\x00",
	} {
		meta := "\x0a\x01a\x8a\x01\x00" + field // name and managedFields
		raw := "\x0a" + string(rune(len(meta))) + meta
		if id := peekProtobuf([]byte(raw)); id.name != nil || len(cutProtobuf([]byte(raw))) != len(raw) {
			t.Errorf("%q: peeked %+v", field, id)
		}
		if id := peekProtobuf([]byte(field)); id.name != nil {
			t.Errorf("%q: peeked %+v", field, id)
		}
		if msg, err := unwrapProtobuf([]byte(protobufMagic + field)); err == nil {
			t.Errorf("%q: unwrapped %q", field, msg)
		}
	}
}

// The error of an object is short, however long the server wrote what is in it.
func TestDecodeErrorIsShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	err := &DecodeError{Key: Key{Namespace: long, Name: long}, Err: errors.New(long)}
	if n := len(err.Error()); n > 2000 {
		t.Errorf("%d bytes", n)
	}
}

// A single object may have maxObjectBytes, and not much more, whatever comes around it.
func TestObjectSizeLimit(t *testing.T) {
	for _, size := range []int{maxObjectBytes - 1000, maxObjectBytes + 100<<10} {
		pad := strings.Repeat("x", size-len(`{"metadata":{"name":"a"},"x":""}`))
		raw := []byte(`{"metadata":{"name":"a"},"x":"` + pad + `"}`)
		for _, body := range []io.Reader{
			bytes.NewReader(encodeList(formatJSON, podKind, [][]byte{raw, raw})),
			&chunkReader{encodeList(formatJSON, podKind, [][]byte{raw})},
		} {
			err := readList(body, formatJSON, &listInfo{}, func(got []byte) {
				if len(got) != size {
					t.Errorf("an item of %d bytes, not %d", len(got), size)
				}
			})
			if want := size > maxObjectBytes; errors.Is(err, ErrTooLarge) != want || !want && err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		frames := newFrameReader(bytes.NewReader(bytes.Repeat(encodeFrame(formatJSON, "ADDED", raw), 2)), formatJSON)
		for range 2 {
			if _, err := frames.next(); (err != nil) != (size > maxObjectBytes) {
				t.Errorf("a frame with %d bytes: %v", size, err)
			}
		}
	}
}

// chunkReader gives a megabyte at a time.
type chunkReader struct{ b []byte }

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1<<20)], r.b)
	r.b = r.b[n:]
	return n, nil
}

// Memory is for what comes, not for what a length says.
func TestLengthsAllocateNothing(t *testing.T) {
	some := strings.Repeat("x", 100<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		newFrameReader(strings.NewReader("\x01\xff\xff\xff"), formatProtobuf).next()
		readList(strings.NewReader("k8s\x00\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xff\x0f"), formatProtobuf, &listInfo{}, func([]byte) { t.Error("an item") })
		newFrameReader(strings.NewReader("\x01\xff\xff\xff"+some), formatProtobuf).next()
		readList(strings.NewReader("k8s\x00\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xff\x0f"+some), formatProtobuf, &listInfo{}, func([]byte) { t.Error("an item") })
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 400*512<<10 {
		t.Errorf("allocated %d kB for each", allocated/400>>10)
	}
}

type knotA struct{ B map[string][]*knotB }
type knotB struct{ A [1]knotA }
type free struct{ X, Y *corev1.PodSpec }

// Only what cannot contain itself is decoded by generated code that calls itself.
func TestRecursiveTypes(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[corev1.Pod]():                    false,
		reflect.TypeFor[appsv1.ControllerRevision]():     false,
		reflect.TypeFor[schedulingv1beta1.Workload]():    true,
		reflect.TypeFor[unstructured.Unstructured]():     true,
		reflect.TypeFor[knotA]():                         true,
		reflect.TypeFor[knotB]():                         true,
		reflect.TypeFor[struct{ io.Reader }]():           true,
		reflect.TypeFor[free]():                          false,
		reflect.TypeFor[struct{ a, b, c *free }]():       false,
		reflect.TypeFor[struct{ a, b [2][]struct{} }]():  false,
		reflect.TypeFor[struct{ a map[string]*knotA }](): true,
	} {
		if got := recursive(typ, map[reflect.Type]bool{}); got != want {
			t.Errorf("%v: %v", typ, got)
		}
	}
	for _, gvk := range builtinKinds() {
		if typ := scheme.Scheme.AllKnownTypes()[gvk]; recursive(typ, map[reflect.Type]bool{}) != (gvk.Kind == "Workload") {
			t.Errorf("%v: %v", gvk, gvk.Kind != "Workload")
		}
	}
}
