package decode

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// builtinKinds returns every kind of k8s.io/api that has object metadata.
func builtinKinds() []schema.GroupVersionKind {
	var kinds []schema.GroupVersionKind
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		_, isObject := reflect.New(typ).Interface().(metav1.Object)
		if isObject && gvk.Version != runtime.APIVersionInternal && gvk.Group != metav1.GroupName {
			kinds = append(kinds, gvk)
		}
	}
	slices.SortFunc(kinds, func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) })
	return kinds
}

// peer encodes and decodes like a client-go clientset.
type peer struct {
	encoder runtime.Encoder
	decoder runtime.Decoder
}

func newPeer(t *testing.T, media string, gv schema.GroupVersion) peer {
	t.Helper()
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	if !ok {
		t.Fatalf("no serializer for %s", media)
	}
	return peer{
		encoder: scheme.Codecs.EncoderForVersion(info.Serializer, gv),
		decoder: scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, gv),
	}
}

func (p peer) encode(t *testing.T, obj runtime.Object) []byte {
	t.Helper()
	b, err := runtime.Encode(p.encoder, obj)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// managed returns FieldsV1, which from apimachinery 0.38 on has no field to set.
func managed(raw string) *metav1.FieldsV1 {
	fields := &metav1.FieldsV1{}
	if err := fields.UnmarshalJSON([]byte(raw)); err != nil {
		panic(err)
	}
	return fields
}

// appendField appends a protobuf field with bytes.
func appendField(b []byte, number int, value []byte) []byte {
	return proto.AppendBytes(b, number, value)
}

// encodeList returns the body of a list of encoded items.
func encodeList(f Format, gvk schema.GroupVersionKind, items [][]byte) []byte {
	apiVersion, kind := gvk.GroupVersion().String(), gvk.Kind+"List"
	if f == JSON {
		body := []byte(`{"kind":"` + kind + `","apiVersion":"` + apiVersion + `","metadata":{"resourceVersion":"77","continue":"more"},"items":[`)
		return append(append(body, bytes.Join(items, []byte(","))...), "]}\n"...)
	}
	meta, _ := (&metav1.ListMeta{ResourceVersion: "77", Continue: "more"}).Marshal()
	list := appendField(nil, listMetadata, meta)
	for _, item := range items {
		msg, err := Unwrap(item)
		if err != nil {
			panic(err)
		}
		list = appendField(list, listItems, msg)
	}
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: apiVersion, Kind: kind}, Raw: list}
	body, _ := unknown.Marshal()
	return append([]byte(protobufMagic), body...)
}

// encodeFrame returns one frame of a watch.
func encodeFrame(f Format, event string, object []byte) []byte {
	if f == JSON {
		frame := []byte(`{"type":"` + event + `","object":`)
		return append(append(frame, bytes.TrimSpace(object)...), "}\n"...)
	}
	w := metav1.WatchEvent{Type: event, Object: runtime.RawExtension{Raw: object}}
	msg, _ := w.Marshal()
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...)
}

// Every built-in kind decodes as in client-go, from lists and from watches, in JSON and in protobuf.
func TestBuiltinKindsDecodeAsInClientGo(t *testing.T) {
	const objects = 20
	for _, gvk := range builtinKinds() {
		t.Run(strings.ReplaceAll(gvk.GroupVersion().String(), "/", ".")+"."+gvk.Kind, func(t *testing.T) {
			t.Parallel()
			fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(int64(len(gvk.String()))), scheme.Codecs)
			typ := scheme.Scheme.AllKnownTypes()[gvk]
			for _, media := range []string{MediaJSON, MediaProtobuf} {
				peer := newPeer(t, media, gvk.GroupVersion())
				f, _ := FormatOf(media)
				var encoded [][]byte
				var want []runtime.Object
				for range objects {
					obj := reflect.New(typ).Interface().(runtime.Object)
					fill.Fill(obj)
					meta := obj.(metav1.Object)
					meta.SetName("a" + meta.GetName())
					meta.SetManagedFields([]metav1.ManagedFieldsEntry{
						{Manager: "kubectl", FieldsType: "FieldsV1", FieldsV1: managed(`{"f:spec":{"k:{\"name\":\"a\"}":{}}}`)},
						{Manager: "kubelet", Subresource: "status"},
					})
					raw := peer.encode(t, obj)
					decoded, err := runtime.Decode(peer.decoder, raw)
					if err != nil {
						t.Fatal(err)
					}
					decoded.(metav1.Object).SetManagedFields(nil)
					encoded, want = append(encoded, raw), append(want, decoded)
				}
				c := codec[metav1.Object]{element: typ}
				check := func(i int, raw []byte, list *ListInfo) {
					t.Helper()
					got, err := c.decode(f, raw, list, false)
					if err != nil {
						t.Fatalf("%s: %v", media, err)
					}
					if !reflect.DeepEqual(any(got), any(want[i])) {
						t.Fatalf("%s: differs from client-go (-theirs +ours):\n%s", media, cmp.Diff(any(want[i]), any(got)))
					}
				}
				var info ListInfo
				i := 0
				err := readList(bytes.NewReader(encodeList(f, gvk, encoded)), f, &info, func(raw []byte) {
					check(i, raw, &info)
					i++
				})
				if err != nil || i != objects {
					t.Fatalf("%s: %d items, %v", media, i, err)
				}
				if info.ResourceVersion != "77" || info.Continue != "more" || info.Kind != gvk.Kind+"List" {
					t.Fatalf("%s: list is %+v", media, info)
				}
				var stream []byte
				for _, raw := range encoded {
					stream = append(stream, encodeFrame(f, "MODIFIED", raw)...)
				}
				frames := NewFrames(&slowReader{b: stream}, f, nil, nil)
				for i := range objects {
					frame, err := nextFrame(frames)
					if err != nil || frame.Event != "MODIFIED" {
						t.Fatalf("%s: frame %d: %q, %v", media, i, frame.Event, err)
					}
					check(i, frame.Raw, nil)
				}
				if _, err := nextFrame(frames); err != io.EOF {
					t.Fatalf("%s: at the end: %v", media, err)
				}
			}
		})
	}
}

// Managed fields that are kept are those of client-go, whatever FieldsV1 consists of in its version.
// Guarantees: R21
func TestKeptManagedFieldsAreThoseOfClientGo(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", FieldsType: "FieldsV1", FieldsV1: managed(`{"f:spec":{"k:{\"name\":\"a\"}":{}}}`)},
		{Manager: "kubelet", FieldsType: "FieldsV1", FieldsV1: managed(`{}`), Subresource: "status"},
		{Manager: "none"},
	}}}
	for _, media := range []string{MediaJSON, MediaProtobuf} {
		peer := newPeer(t, media, corev1.SchemeGroupVersion)
		f, _ := FormatOf(media)
		raw := peer.encode(t, pod)
		want, err := runtime.Decode(peer.decoder, raw)
		if err != nil {
			t.Fatal(err)
		}
		c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod](), keepManagedFields: true}
		for _, share := range []bool{false, true, true} {
			frame, err := nextFrame(NewFrames(&slowReader{b: encodeFrame(f, "ADDED", raw)}, f, nil, nil))
			if err != nil {
				t.Fatalf("%s: %v", media, err)
			}
			got, err := c.decode(f, frame.Raw, nil, share)
			if err != nil {
				t.Fatalf("%s: %v", media, err)
			}
			if diff := cmp.Diff(want.(*corev1.Pod).ManagedFields, got.ManagedFields); diff != "" {
				t.Errorf("%s: differs from client-go (-theirs +ours):\n%s", media, diff)
			}
		}
	}
}

// slowReader returns a few bytes at a time, so that every value is split somewhere.
type slowReader struct {
	b []byte
	n int
}

func (s *slowReader) Read(p []byte) (int, error) {
	if len(s.b) == 0 {
		return 0, io.EOF
	}
	s.n = s.n%13 + 1
	n := copy(p[:min(len(p), s.n)], s.b)
	s.b = s.b[n:]
	return n, nil
}
