package informer

import (
	"bytes"
	"io"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer/internal/fleet"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// fuzzFormats runs add for the encodings of a few pods in both formats.
func fuzzFormats(add func(f format, pods [][]byte)) {
	pods := fleet.New(fleet.Config{Pods: 40})
	for _, media := range []string{mediaJSON, mediaProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
		f, _ := formatOf(media)
		var encoded [][]byte
		for i := range 3 {
			raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), pods.Pod(i*17))
			if err != nil {
				panic(err)
			}
			encoded = append(encoded, bytes.TrimSpace(raw))
		}
		add(f, encoded)
	}
}

// clientGoDecode decodes as a clientset does.
func clientGoDecode(f format, body []byte) (runtime.Object, error) {
	media := mediaJSON
	if f == formatProtobuf {
		media = mediaProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	return runtime.Decode(scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion), body)
}

func FuzzList(f *testing.F) {
	fuzzFormats(func(enc format, pods [][]byte) {
		f.Add(byte(enc), encodeList(enc, podKind, pods))
		f.Add(byte(enc), encodeList(enc, podKind, nil))
	})
	f.Add(byte(formatJSON), []byte(`{"items":[{"metadata":{"managedFields":[],"name":"a"}},{},null,7,"\"",[]],"metadata":{"continue":"\u0063"},"kind":"PodList"}`))
	f.Add(byte(formatJSON), []byte(`{"items":null,"kind":"PodList","apiVersion":"v1"}`))
	f.Add(byte(formatProtobuf), []byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, enc byte, body []byte) {
		format := format(enc % 2)
		var info listInfo
		var items []corev1.Pod
		clean := true
		c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
		err := readList(bytes.NewReader(body), format, &info, func(raw []byte) {
			pod, err := c.decode(format, format.cut(raw, format.peek(raw)), &info)
			if err != nil {
				clean = false
				return
			}
			items = append(items, *pod)
		})
		var slow listInfo
		n := 0
		slowErr := readList(&slowReader{b: body}, format, &slow, func([]byte) { n++ })
		if (err == nil) != (slowErr == nil) || clean && err == nil && n != len(items) {
			t.Fatalf("all at once: %v, %d items; in pieces: %v, %d items", err, len(items), slowErr, n)
		}
		if err != nil || !clean {
			return
		}
		theirs, err := clientGoDecode(format, body)
		list, ok := theirs.(*corev1.PodList)
		if err != nil || !ok {
			return
		}
		for i := range list.Items {
			list.Items[i].ManagedFields = nil
			list.Items[i].TypeMeta = metav1.TypeMeta{} // a list of typed objects has none
		}
		if diff := cmp.Diff(list.Items, items); len(list.Items)+len(items) > 0 && diff != "" {
			t.Fatalf("differs from client-go (-theirs +ours):\n%s", diff)
		}
		if list.ResourceVersion != info.ResourceVersion || list.Continue != info.Continue {
			t.Fatalf("list metadata: theirs %+v, ours %+v", list.ListMeta, info.ListMeta)
		}
	})
}

func FuzzWatch(f *testing.F) {
	fuzzFormats(func(enc format, pods [][]byte) {
		var stream []byte
		for _, pod := range pods {
			stream = append(stream, encodeFrame(enc, "MODIFIED", pod)...)
		}
		f.Add(byte(enc), stream)
	})
	f.Add(byte(formatJSON), []byte(`{"object":{"metadata":{"name":"a"}},"type":"ADDED"}{"type":"BOOKMARK","object":{}} {"type":"ERROR","object":{"kind":"Status","code":410}}`))
	f.Add(byte(formatProtobuf), []byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, enc byte, stream []byte) {
		format := format(enc % 2)
		c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
		whole := newFrameReader(bytes.NewReader(stream), format)
		pieces := newFrameReader(&slowReader{b: stream}, format)
		for {
			a, errA := whole.next()
			b, errB := pieces.next()
			if (errA == nil) != (errB == nil) || a.event != b.event || !bytes.Equal(a.raw, b.raw) {
				t.Fatalf("all at once: %q, %v; in pieces: %q, %v", a.event, errA, b.event, errB)
			}
			if errA != nil {
				if (errA == io.EOF) != (errB == io.EOF) {
					t.Fatalf("all at once: %v; in pieces: %v", errA, errB)
				}
				return
			}
			format.status(bytes.Clone(a.raw))
			c.decode(format, format.cut(a.raw, format.peek(a.raw)), nil)
		}
	})
}

// What is peeked and cut agrees with what is decoded.
func FuzzObject(f *testing.F) {
	fuzzFormats(func(enc format, pods [][]byte) {
		for _, pod := range pods {
			if enc == formatProtobuf {
				pod, _ = unwrapProtobuf(pod)
			}
			f.Add(byte(enc), pod)
		}
	})
	f.Add(byte(formatJSON), []byte(`{ "metadata" : { "managedFields" : [ {"manager":"]}"} ] , "name" : "a" } }`))
	f.Add(byte(formatJSON), []byte(`{"metadata":{"name":"a" , "managedFields":null}}`))
	f.Add(byte(formatJSON), []byte(`{"metadata":{"managedFields":[]}}`))
	f.Add(byte(formatProtobuf), []byte{})
	f.Fuzz(func(t *testing.T, enc byte, raw []byte) {
		format := format(enc % 2)
		c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod](), keepManagedFields: true}
		whole, err := c.decode(format, bytes.Clone(raw), nil)
		id := format.peek(raw)
		key, uid, rv := id.key(), string(id.uid), string(id.resourceVersion)
		cut, cutErr := c.decode(format, format.cut(bytes.Clone(raw), id), nil)
		if err != nil {
			return
		}
		if cutErr != nil {
			t.Fatalf("cannot be decoded without managedFields: %v", cutErr)
		}
		cut.ManagedFields, whole.ManagedFields = nil, nil
		if diff := cmp.Diff(whole, cut); diff != "" {
			t.Fatalf("the cut changed more than managedFields:\n%s", diff)
		}
		if !plain(raw) {
			return
		}
		if key != KeyOf(whole) || uid != string(whole.UID) || rv != whole.ResourceVersion {
			t.Fatalf("peeked %v %q %q, decoded %v %q %q", key, uid, rv, KeyOf(whole), whole.UID, whole.ResourceVersion)
		}
	})
}

// plain says whether an object has its metadata once, and without escapes in it, as every server writes it.
func plain(raw []byte) bool {
	return bytes.Count(raw, []byte("metadata")) == 1 && bytes.Count(raw, []byte(`"name"`)) <= 1 && !bytes.ContainsRune(raw, '\\')
}

// Unstructured objects agree with client-go's.
func FuzzUnstructured(f *testing.F) {
	fuzzFormats(func(enc format, pods [][]byte) {
		if enc == formatJSON {
			for _, pod := range pods {
				f.Add(pod)
			}
		}
	})
	for _, seed := range []string{
		`{"a":1,"b":1.0,"c":1e3,"d":-0,"e":9223372036854775808,"f":0.1,"g":null,"h":[],"i":{},"j":true,"k":"\ud800é\u0000"}`,
		`{"a":{"a":{"a":[[[[{}]]]]}},"a":2}`, `[]`, `{} {}`, `{"a":1e999}`, "{\"\xff\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		ours, err := decodeMap(bytes.Clone(raw))
		if err != nil {
			return
		}
		var theirs map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, &theirs) != nil {
			return
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("differs from client-go (-theirs +ours):\n%s", cmp.Diff(theirs, ours))
		}
	})
}
