package decode

import (
	"reflect"
	"runtime"
	"testing"
	"unsafe"
	"weak"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// Each wave reads the first byte of each line, and both ends of a string. Empty values are no memory.
func TestReadAhead(t *testing.T) {
	type inner struct {
		Kind corev1.PodPhase // an enumeration: not read
		Text string
		Last *[1]byte
	}
	type outer struct {
		Text  string
		Time  metav1.Time
		Words map[string]string
		One   *inner
		Many  []inner
		Lines []byte
	}
	a := newAhead(reflect.TypeFor[outer](), aheadDepth)
	sums := func(v outer) (sums [aheadDepth]byte) {
		for i := range sums {
			sums[i] = a.read(unsafe.Pointer(&v), i+1)
		}
		return sums
	}
	if got := sums(outer{}); got != [aheadDepth]byte{} {
		t.Errorf("of an empty value: %v", got)
	}
	if got := sums(outer{Many: []inner{}, One: &inner{}, Words: map[string]string{}}); got != [aheadDepth]byte{} {
		t.Errorf("of empty values: %v", got)
	}
	lines := make([]byte, 16) // 16 elements at most, in one line
	lines[0], lines[1] = 1, 2
	long := make([]inner, maxAhead+1)
	long[0].Text, long[maxAhead-1].Text, long[maxAhead].Text = "\x04", "\x08", "\x20"
	for _, c := range []struct {
		what string
		v    outer
		want [aheadDepth]byte
	}{
		{"a string", outer{Text: "\x01\x02\x04"}, [aheadDepth]byte{5, 0}},
		{"bytes", outer{Lines: lines}, [aheadDepth]byte{1, 0}},
		{"a map", outer{Words: map[string]string{"": "ab"}}, [aheadDepth]byte{2, 0}},
	} {
		if got := sums(c.v); got != c.want {
			t.Errorf("of %s: %v, want %v", c.what, got, c.want)
		}
	}
	if got := sums(outer{One: &inner{Kind: "\x01", Text: "\x03\x04", Last: &[1]byte{9}}})[1]; got != 7+9 {
		t.Errorf("behind a pointer: %d", got)
	}
	if got := sums(outer{Many: long})[1]; got != 2*4+2*8 {
		t.Errorf("behind the elements of a slice: %d", got)
	}
}

// Only a version that the decoder has not made lately is read ahead.
func TestRecentVersionIsNotReadAhead(t *testing.T) {
	typ, err := TypeOf(reflect.TypeFor[*corev1.ConfigMap]())
	if err != nil {
		t.Fatal(err)
	}
	d, other := NewDecoder(typ, false), NewDecoder(typ, false)
	raw := []byte(`{"metadata":{"name":"a"}}`)
	old, err := d.Decode(JSON, raw, Origin{})
	if err != nil {
		t.Fatal(err)
	}
	version := reflect.ValueOf(old).UnsafePointer()
	now := func() any { return reflect.New(typ.layout.memory).Elem().Field(0).Addr().Interface() }
	if d.reuse(now(), version, true).cold != nil {
		t.Error("the version was read ahead by the decoder that made it last")
	}
	if other.reuse(now(), version, true).cold != version {
		t.Error("the version was not read ahead by another decoder")
	}
	var others []any // stay in memory, so that each has another address
	for taken := false; !taken; {
		if len(others) == 1000*len(d.recent) {
			t.Fatalf("none of %d objects took the place of the version", len(others))
		}
		obj, err := d.Decode(JSON, raw, Origin{})
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, obj)
		taken = d.recent.place(reflect.ValueOf(obj).UnsafePointer()) == d.recent.place(version)
	}
	if d.reuse(now(), version, true).cold != version {
		t.Error("the version was not read ahead after another one took its place")
	}
	runtime.KeepAlive(old)
	runtime.KeepAlive(others)
}

// A decoder that is idle keeps no version in memory.
func TestIdleDecoderKeepsNoVersion(t *testing.T) {
	typ, err := TypeOf(reflect.TypeFor[*corev1.ConfigMap]())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []Format{JSON, Protobuf} {
		raw := []byte(`{"metadata":{"name":"a"}}`)
		if f == Protobuf {
			raw = proto.AppendBytes(nil, objectMetadata, proto.AppendBytes(nil, metaName, []byte("a")))
		}
		d := NewDecoder(typ, false)
		old, err := d.Decode(f, raw, Origin{})
		if err != nil {
			t.Fatal(err)
		}
		d.recent = recent{}
		if _, err := d.Decode(f, raw, Origin{Before: old, Made: true}); err != nil {
			t.Fatal(err)
		}
		kept := weak.Make((*byte)(reflect.ValueOf(old).UnsafePointer()))
		old = nil
		runtime.GC()
		if kept.Value() != nil {
			t.Errorf("format %v: the version before is still in memory", f)
		}
		runtime.KeepAlive(d)
	}
}
