//go:build !race

package decode

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/test/fleet"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// Each test of this file runs on one goroutine. With the race detector they take minutes, and show nothing more.

// cuts returns the offsets at which a test truncates bytes: all up to the last of ends if tests run whole, and otherwise
// every seventh, and those near each of ends.
func cuts(ends ...int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for cut := range slices.Max(ends) {
			near := func(end int) bool { return cut >= end-16 && cut <= end+16 }
			if (testkit.Whole() || cut%7 == 0 || slices.ContainsFunc(ends, near)) && !yield(cut) {
				return
			}
		}
	}
}

// A list that is truncated anywhere is an error, never a shorter list. In protobuf, the fields after the list may be missing.
func TestTruncatedList(t *testing.T) {
	t.Parallel()
	fuzzFormats(func(f Format, pods [][]byte) {
		for _, items := range [][][]byte{nil, pods[:1], pods[:2]} {
			body := encodeList(f, podKind, items)
			for cut := range cuts(len(body)) {
				n := 0
				err := readList(bytes.NewReader(body[:cut]), f, &ListInfo{}, func([]byte) { n++ })
				behind := f == JSON && cut == len(body)-1 || f == Protobuf && strings.HasSuffix("\x1a\x00\x22\x00", string(body[cut:]))
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

// A watch that is truncated anywhere yields its whole frames, and then an error, unless the cut is between two frames.
func TestTruncatedWatch(t *testing.T) {
	t.Parallel()
	fuzzFormats(func(f Format, pods [][]byte) {
		var stream []byte
		ends := map[int]int{0: 0} // the number of frames there
		for i, pod := range pods[:2] {
			stream = append(stream, encodeFrame(f, "MODIFIED", pod)...)
			ends[len(stream)] = i + 1
			if f == JSON {
				ends[len(stream)-1] = i + 1 // before the line break
			}
		}
		for cut := range cuts(slices.Collect(maps.Keys(ends))...) {
			frames := NewFrames(bytes.NewReader(stream[:cut]), f, nil, nil)
			n := 0
			var err error
			for ; err == nil; n++ {
				_, err = nextFrame(frames)
			}
			n--
			if whole, clean := ends[cut]; clean && (err != io.EOF || n != whole) || !clean && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("format %d cut at %d of %d: %d frames, %v", f, cut, len(stream), n, err)
			}
		}
	})
}

// Peek and cut agree with decoding, wherever an object is truncated.
func TestTruncatedObject(t *testing.T) {
	t.Parallel()
	fuzzFormats(func(f Format, pods [][]byte) {
		raw := pods[1]
		if f == Protobuf {
			raw, _ = Unwrap(raw)
		}
		if id := f.Peek(raw); len(id.Name) == 0 || len(id.UID) == 0 || len(withoutManaged(f, raw)) == len(raw) {
			t.Errorf("format %d: peeked %+v", f, id)
		}
		for cut := range cuts(len(raw)) {
			checkPeek(t, f, raw[:cut])
		}
	})
}

// An object may have up to MaxObjectBytes and not much more, whatever surrounds it.
func TestObjectSizeLimit(t *testing.T) {
	for _, size := range []int{MaxObjectBytes - 1000, MaxObjectBytes + 100<<10} {
		pad := strings.Repeat("x", size-len(`{"metadata":{"name":"a"},"x":""}`))
		raw := []byte(`{"metadata":{"name":"a"},"x":"` + pad + `"}`)
		for _, body := range []io.Reader{
			bytes.NewReader(encodeList(JSON, podKind, [][]byte{raw, raw})),
			&chunkReader{encodeList(JSON, podKind, [][]byte{raw})},
		} {
			err := readList(body, JSON, &ListInfo{}, func(got []byte) {
				if len(got) != size {
					t.Errorf("an item of %d bytes, not %d", len(got), size)
				}
			})
			if want := size > MaxObjectBytes; errors.Is(err, ErrTooLarge) != want || !want && err != nil {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
		frames := NewFrames(bytes.NewReader(bytes.Repeat(encodeFrame(JSON, "ADDED", raw), 2)), JSON, nil, nil)
		for range 2 {
			if _, err := nextFrame(frames); (err != nil) != (size > MaxObjectBytes) {
				t.Errorf("a frame with %d bytes: %v", size, err)
			}
		}
	}
}

// A reader inspects each byte once or twice, however the body is split and whatever is large in it. Otherwise this takes minutes.
func TestReadingTakesLinearTime(t *testing.T) {
	t.Parallel()
	large := func(s string) string { return strings.Repeat(s, 4<<20/len(s)) }
	for name, item := range map[string]string{
		"string":      `"` + large("x") + `"`,
		"escapes":     `"` + large(`\"`) + `"`,
		"number":      large("7"),
		"white space": large(" \n") + "{}",
		"nesting":     strings.Repeat("[", 2<<20) + strings.Repeat("]", 2<<20),
		"strings":     `{"a":[` + large(`"x",`) + `""]}`,
	} {
		read := func(body string) (err error) {
			list := NewList(&shortReader{strings.NewReader(body)}, JSON, nil, nil)
			frames := NewFrames(&shortReader{strings.NewReader(body)}, JSON, nil, nil)
			for err == nil || err == ErrMore {
				if _, err = list.Next(); err == ErrMore {
					_ = list.Fill()
				}
			}
			if err == io.EOF {
				err = nil
			}
			for wait := true; wait; {
				_, frameErr := frames.Next()
				if wait = frameErr == ErrMore; wait {
					_ = frames.Fill()
				}
			}
			return err
		}
		if err := read(`{"items":[` + item + `]}`); err != nil {
			t.Errorf("%s as an item: %v", name, err)
		}
		if err := read(`{"x":` + item + `,"items":[]}`); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s beside the items: %v", name, err)
		}
		_ = read(`{"type":"ADDED","object":` + item + `}`)
	}
}

// The memory of one object is limited, however few bytes encode it, in our decoders and with the libraries.
// Guarantees: R22
func TestDecodedSizeLimit(t *testing.T) {
	limit := testkit.Rounds(maxDecoded>>4, maxDecoded)
	many := limit/int(unsafe.Sizeof(corev1.Container{})) + 1
	containersJSON := `"spec":{"containers":[` + strings.Repeat(`{},`, many) + `{}]}}`
	containersProtobuf := appendField(nil, 2, []byte(strings.Repeat("\x12\x00", many)))
	// The memory of these overflows a 32-bit int to a small number. The decoder counts 16 more bytes for each.
	overflowing := (1<<32)/(uint64(unsafe.Sizeof(corev1.Container{}))+16) + 1
	overflowingProtobuf := appendField(nil, 2, []byte(strings.Repeat("\x12\x00", int(overflowing))))
	const twoNames = "\x0a\x03\x0a\x01a\x0a\x03\x0a\x01b" // our decoder rejects this
	quantity := make([]byte, limit/unknownBytes+1)
	for _, number := range []int{2, 1, 8, 2, 2} { // spec.containers[].resources.limits[].value
		quantity = appendField(nil, number, quantity)
	}
	lower := func(d *Decoder) { d.json.limit, d.wire.limit = budget(limit), budget(limit) }
	pod := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
	podError := func(f Format, raw string) error { _, err := pod.decode(f, []byte(raw), nil, false); return err }
	lower(pod.decoder())
	anything := codec[*unstructured.Unstructured]{element: reflect.TypeFor[unstructured.Unstructured]()}
	lower(anything.decoder())
	anyError := func(raw string) error { _, err := anything.decode(JSON, []byte(raw), nil, false); return err }
	big := limit/1024 + 1 // this many are too many
	oddError := func(typ reflect.Type, raw string) error {
		c := &codec[anyObject]{}
		lower(c.decoder())
		return c.typed(reflect.New(typ).Interface(), JSON, []byte(raw), false)
	}
	for name, err := range map[string]error{
		"any":                  oddError(reflect.TypeFor[oddNumbers](), `{"any":[`+strings.Repeat(`[],`, limit/valueBytes)+`[]]}`),
		"any by the library":   oddError(reflect.TypeFor[oddString](), `{"any":[`+strings.Repeat(`[],`, limit/valueBytes)+`[]]}`),
		"objects by it":        oddError(reflect.TypeFor[oddString](), `{"any":[`+strings.Repeat(`{},`, limit/mapBytes)+`{}]}`),
		"arrays in a map":      oddError(reflect.TypeFor[map[int8][1024]byte](), `{`+strings.Repeat(`"7":null,`, big)+`"7":null}`),
		"elements of an array": oddError(reflect.TypeFor[[2][][1024]byte](), `[[],[`+strings.Repeat(`[],`, big)+`[]]]`),
		"embedded pointers": oddError(reflect.TypeFor[struct {
			*OddBig
			List []struct{ *OddBig }
		}](), `{"List":[`+strings.Repeat(`{"B":1},`, big)+`{}]}`),
		"an escaped name": oddError(reflect.TypeFor[struct {
			List [][1024]byte
			Odd  int `json:",string"`
		}](), `{"L\u0069st":[`+strings.Repeat(`[],`, big)+`[]]}`),
		"pointers":                     oddError(reflect.TypeFor[[1][]*[1024]byte](), `[[`+strings.Repeat(`[],`, big)+`[]]]`),
		"JSON":                         podError(JSON, "{"+containersJSON),
		"JSON by the library":          podError(JSON, `{"kind":"Pod","kind":"Pod",`+containersJSON),
		"protobuf":                     podError(Protobuf, string(containersProtobuf)),
		"protobuf by its own method":   podError(Protobuf, twoNames+string(containersProtobuf)),
		"unstructured: lists":          anyError(`{"a":[` + strings.Repeat(`[],`, limit/valueBytes) + `[]]}`),
		"unstructured: objects":        anyError(`{"a":[` + strings.Repeat(`{},`, limit/(valueBytes+mapBytes)) + `{}]}`),
		"protobuf, beyond 32 bits":     podError(Protobuf, string(overflowingProtobuf)),
		"protobuf of unknown messages": podError(Protobuf, twoNames+string(quantity)),
	} {
		if !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unlowered := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
	containersJSON = strings.Repeat(`{},`, maxDecoded/int(unsafe.Sizeof(corev1.Container{})))
	if _, err := unlowered.decode(JSON, []byte(`{"spec":{"containers":[`+containersJSON+`{}]}}`), nil, false); !errors.Is(err, ErrTooLarge) {
		t.Errorf("JSON, with the limit that holds outside of tests: %v", err)
	}
	for _, f := range []Format{JSON, Protobuf} { // a small object that our decoder rejects is still decoded
		raw := twoNames
		if f == JSON {
			raw = `{"metadata":{"name":"a","name":"b"}}`
		}
		if err := podError(f, raw); err != nil {
			t.Errorf("format %d: %v", f, err)
		}
	}
}

// The limit for an object's memory also holds if the message begins with fields that only generated code accepts.
func TestDecodedSizeLimitBehindAGroup(t *testing.T) {
	many := maxDecoded/int(unsafe.Sizeof(corev1.Container{})) + 1
	containers := string(appendField(nil, 2, []byte(strings.Repeat("\x12\x00", many))))
	c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
	for name, prefix := range map[string]string{
		"a group":                      "\x9b\x06\x9c\x06",
		"a number with too many bits":  "\x98\x06" + strings.Repeat("\xff", 9) + "\x7f",
		"a field with too many bits":   "\x8a\x80\x80\x80\x80\x01\x03\x0a\x01b",
		"the spec, with too many bits": "\x92\x80\x80\x80\x80\x01\x00",
	} {
		if _, err := c.decode(Protobuf, []byte("\x0a\x03\x0a\x01a"+prefix+containers), nil, false); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
		if pod, err := c.decode(Protobuf, []byte("\x0a\x03\x0a\x01a"+prefix), nil, false); err != nil || pod.Name == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Objects that share parts equal those that do not, and take much less memory.
// Guarantees: D2
func TestShare(t *testing.T) {
	const pods = 3000
	for _, f := range []Format{JSON, Protobuf} {
		before := testkit.LiveMemory()
		own := decodeFleet(t, f, pods, false)
		between := testkit.LiveMemory()
		shared := decodeFleet(t, f, pods, true)
		ownSize, sharedSize := between-before, testkit.LiveMemory()-between
		if !reflect.DeepEqual(own, shared) {
			t.Fatalf("format %d: differs (-own +shared):\n%s", f, cmp.Diff(own, shared))
		}
		if sharedSize*10 > ownSize*7 {
			t.Errorf("format %d: %d bytes shared, %d own", f, sharedSize, ownSize)
		}
		seen := map[*corev1.Toleration]bool{}
		for _, pod := range own {
			for i := range pod.Spec.Tolerations {
				if toleration := &pod.Spec.Tolerations[i]; seen[toleration] {
					t.Fatalf("format %d: %s shares without Share", f, pod.Name)
				} else {
					seen[toleration] = true
				}
			}
		}
	}
}

// A new version is the same with Share as without, whatever kind of value changed. nil differs from empty, and a nil pointer
// from a pointer to zero.
func TestShareDistinguishesNilFromEmpty(t *testing.T) {
	for i := range reflect.TypeFor[kinds]().NumField() {
		if name := reflect.TypeFor[kinds]().Field(i).Tag.Get("json"); i > 1 && len(kindsJSON[name]) < 2 {
			t.Errorf("%s: too few values", name)
		}
	}
	for name, values := range kindsJSON {
		versions := []string{`{"metadata":{"name":"a"}}`}
		for _, value := range append(values, "null") {
			versions = append(versions, `{"metadata":{"name":"a"},"`+name+`":`+value+`}`)
		}
		checkShare[*kinds](t, JSON, versions)
		checkShare[*unstructured.Unstructured](t, JSON, versions)
	}
	metadata := string(appendField(nil, objectMetadata, appendField(nil, metaName, []byte("a"))))
	encode := func(obj message) string {
		obj.(metav1.Object).SetName("a")
		raw, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	zero, second, no := int64(0), int64(1), false
	checkShare[*corev1.Pod](t, Protobuf, []string{
		metadata,
		encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": ""}}}),
		encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}),
		encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{""}, DeletionTimestamp: &metav1.Time{}}}),
		encode(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"", ""}, DeletionGracePeriodSeconds: &zero}}),
		encode(&corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &zero, SecurityContext: &corev1.PodSecurityContext{}, EnableServiceLinks: &no}}),
		encode(&corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &second, SecurityContext: &corev1.PodSecurityContext{RunAsUser: &zero}}}),
		encode(&corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{SupplementalGroups: []int64{0}, RunAsNonRoot: &no}}}),
		encode(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}, Overhead: corev1.ResourceList{"cpu": resource.MustParse("1")}}}),
		encode(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{""}}, {}}, Overhead: corev1.ResourceList{"cpu": resource.MustParse("1000m")}}}),
		encode(&corev1.Pod{Spec: corev1.PodSpec{Overhead: corev1.ResourceList{"cpu": {}}}}),
	})
	checkShare[*corev1.Secret](t, Protobuf, []string{
		metadata,
		encode(&corev1.Secret{Data: map[string][]byte{"a": {}}, Immutable: &no}),
		encode(&corev1.Secret{Data: map[string][]byte{"a": {0}}}),
		encode(&corev1.Secret{StringData: map[string]string{"a": ""}}),
		metadata + "\x12\x03\x0a\x01a", // a missing value
	})
	checkShare[*appsv1.ControllerRevision](t, Protobuf, []string{metadata, metadata + "\x12\x00", metadata + "\x12\x02\x0a\x00", metadata + "\x12\x03\x0a\x01x"})
	checkShare[*admissionregistrationv1.ValidatingWebhookConfiguration](t, Protobuf, []string{
		metadata, metadata + "\x12\x00", metadata + "\x12\x02\x12\x00", metadata + "\x12\x04\x12\x02\x12\x00", metadata + "\x12\x05\x12\x03\x12\x01x",
	})
}

// decodeFleet decodes the pods of a fleet from a list.
func decodeFleet(t *testing.T, f Format, pods int, share bool) []*corev1.Pod {
	t.Helper()
	var list bytes.Buffer
	write := fleet.WriteListJSON
	if f == Protobuf {
		write = fleet.WriteListProtobuf
	}
	if err := write(&list, metav1.ListMeta{ResourceVersion: "1"}, fleet.New(fleet.Config{Pods: pods}).All()); err != nil {
		t.Fatal(err)
	}
	c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
	var info ListInfo
	var decoded []*corev1.Pod
	err := readList(&list, f, &info, func(raw []byte) {
		pod, err := c.decode(f, raw, &info, share)
		if err != nil {
			t.Fatal(err)
		}
		decoded = append(decoded, pod)
	})
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// chunkReader returns at most a megabyte at a time.
type chunkReader struct{ b []byte }

func (r *chunkReader) Read(p []byte) (int, error) {
	if len(r.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1<<20)], r.b)
	r.b = r.b[n:]
	return n, nil
}

// shortReader returns at most a few hundred bytes at a time.
type shortReader struct{ r io.Reader }

func (r *shortReader) Read(b []byte) (int, error) { return r.r.Read(b[:min(len(b), 300)]) }

// checkShare decodes each version after each other one, with Share and without.
func checkShare[T any](t *testing.T, f Format, versions []string) {
	t.Helper()
	own, shares := codec[T]{}, codec[T]{}
	own.element = reflect.TypeFor[T]().Elem()
	shares.element = own.element
	decode := func(c *codec[T], raw string, share bool) T {
		obj, err := c.decode(f, []byte(raw), nil, share)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		return obj
	}
	u := &updates{t, own.decoder(), f}
	for _, before := range versions {
		for _, now := range versions {
			u.follow([]byte(before), []byte(now), true)
			old, want := decode(&own, before, false), decode(&own, now, false)
			got := decode(&own, now, false)
			own.decoder().Adopt(old, got)
			if !identicalValues(got, want) {
				t.Errorf("%T %q after %q (-want +got):\n%s", got, now, before, cmp.Diff(want, got))
			}
			if !identicalValues(old, decode(&own, before, false)) {
				t.Errorf("%T %q after %q: the version before changed to %v", got, now, before, old)
			}
			decode(&shares, before, true)
			for range 3 { // the decoder shares a value only after it has seen it
				if got := decode(&shares, now, true); !identicalValues(got, want) {
					t.Errorf("%T %q shared with %q (-want +got):\n%s", got, now, before, cmp.Diff(want, got))
				}
			}
		}
	}
}
