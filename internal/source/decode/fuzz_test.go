package decode

import (
	"bytes"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/client-go/kubernetes/scheme"
	restwatch "k8s.io/client-go/rest/watch"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer/internal/source/decode/proto"
	"github.com/typedinformer/informer/internal/test/fleet"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// fuzzFormats calls add with the encodings of a few pods, in both formats.
func fuzzFormats(add func(f Format, pods [][]byte)) {
	pods := fleet.New(fleet.Config{Pods: 40})
	for _, media := range []string{MediaJSON, MediaProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
		f, _ := FormatOf(media)
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

// clientGoDecode decodes like a clientset.
func clientGoDecode(f Format, body []byte) (runtime.Object, error) {
	media := MediaJSON
	if f == Protobuf {
		media = MediaProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	return runtime.Decode(scheme.Codecs.WithoutConversion().DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion), body)
}

func FuzzList(f *testing.F) {
	fuzzFormats(func(enc Format, pods [][]byte) {
		f.Add(byte(enc), encodeList(enc, podKind, pods))
		f.Add(byte(enc), encodeList(enc, podKind, nil))
	})
	f.Add(byte(JSON), []byte(`{"items":[{"metadata":{"managedFields":[],"name":"a"}},{},null,7,"\"",[]],"metadata":{"continue":"\u0063"},"kind":"PodList"}`))
	f.Add(byte(JSON), []byte(`{"items":null,"kind":"PodList","apiVersion":"v1"}`))
	f.Add(byte(Protobuf), []byte("k8s\x00\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	strangeSeeds(func(enc Format, list, _ []byte) { f.Add(byte(enc), list) })
	f.Fuzz(func(t *testing.T, enc byte, body []byte) {
		format := Format(enc % 2)
		checkListKind(t, format, body)
		var info ListInfo
		var items []corev1.Pod
		clean := true
		c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
		size := 0
		err := readList(bytes.NewReader(body), format, &info, func(raw []byte) {
			size += len(raw)
			pod, err := c.decode(format, raw, &info, false)
			if err != nil {
				clean = false
				return
			}
			items = append(items, *pod)
		})
		var slow ListInfo
		n := 0
		slowErr := readList(&slowReader{b: body}, format, &slow, func([]byte) { n++ })
		if (err == nil) != (slowErr == nil) || clean && err == nil && n != len(items) {
			t.Fatalf("all at once: %v, %d items; in pieces: %v, %d items", err, len(items), slowErr, n)
		}
		if size+n > len(body) { // each item also has a comma, a bracket or a tag
			t.Fatalf("%d bytes in %d items from %d bytes", size, n, len(body))
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
	fuzzFormats(func(enc Format, pods [][]byte) {
		var stream []byte
		for _, pod := range pods {
			stream = append(stream, encodeFrame(enc, "MODIFIED", pod)...)
		}
		f.Add(byte(enc), stream)
	})
	f.Add(byte(JSON), []byte(`{"object":{"metadata":{"name":"a"}},"type":"ADDED"}{"type":"BOOKMARK","object":{}} {"type":"ERROR","object":{"kind":"Status","code":410}}`))
	f.Add(byte(Protobuf), []byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add(byte(Protobuf), []byte("\x00\x00\x00\x0f\x0a\x05ADDED\x12\x06\x0a\x04k8s\x00"))
	strangeSeeds(func(enc Format, _, stream []byte) { f.Add(byte(enc), stream) })
	f.Fuzz(func(t *testing.T, enc byte, stream []byte) {
		format := Format(enc % 2)
		checkWatchKind(t, format, stream)
		c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
		whole := NewFrames(bytes.NewReader(stream), format, nil, nil)
		pieces := NewFrames(&slowReader{b: stream}, format, nil, nil)
		theirs := clientGoWatch(format, stream)
		defer theirs.Close()
		agree := true // until they differ
		proper := math.MaxInt
		if format == JSON {
			proper = properJSON(stream)
		}
		size := 0
		for range proper {
			a, errA := nextFrame(whole)
			b, errB := nextFrame(pieces)
			if (errA == nil) != (errB == nil) || a.Event != b.Event || !bytes.HasPrefix(a.Raw, b.Raw) || format == Protobuf && len(a.Raw) != len(b.Raw) {
				t.Fatalf("all at once: %q, %v; in pieces: %q, %v", a.Event, errA, b.Event, errB)
			}
			if errA != nil {
				if (errA == io.EOF) != (errB == io.EOF) {
					t.Fatalf("all at once: %v; in pieces: %v", errA, errB)
				}
				return
			}
			if size += len(a.Event) + len(a.Raw); size > len(stream) {
				t.Fatalf("frames of %d bytes from %d", size, len(stream))
			}
			pod, err := c.decode(format, a.Raw, nil, false)
			if agree = agree && err == nil; !agree {
				continue // theirs may end at an object that cannot be decoded
			}
			event, object, err := theirs.Decode()
			want, ok := object.(*corev1.Pod)
			if agree = err == nil && ok; !agree {
				continue
			}
			want.ManagedFields, want.TypeMeta = nil, metav1.TypeMeta{}
			if diff := cmp.Diff(want, pod); diff != "" || string(event) != a.Event {
				t.Fatalf("%s differs from client-go's %s (-theirs +ours):\n%s", a.Event, event, diff)
			}
		}
		for err := error(nil); err == nil; {
			var rest Frame
			if rest, err = nextFrame(whole); err == nil {
				if size += len(rest.Event) + len(rest.Raw); size > len(stream) {
					t.Fatalf("frames of %d bytes from %d", size, len(stream))
				}
				_, _ = c.decode(format, rest.Raw, nil, true)
			}
		}
	})
}

// properJSON returns the number of values at the beginning of stream that are JSON objects without repeated names. Decoders
// may disagree about the end or the meaning of others.
func properJSON(stream []byte) int {
	d := jsontext.NewDecoder(bytes.NewReader(stream))
	for n := 0; ; n++ {
		if value, err := d.ReadValue(); err != nil || value.Kind() != '{' {
			return n
		}
	}
}

// clientGoWatch decodes a watch like a clientset.
func clientGoWatch(f Format, stream []byte) *restwatch.Decoder {
	media := MediaJSON
	if f == Protobuf {
		media = MediaProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(stream)))
	codecs := scheme.Codecs.WithoutConversion()
	return restwatch.NewDecoder(
		streaming.NewDecoder(frames, codecs.DecoderToVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)),
		codecs.DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion))
}

// A Status agrees with client-go's.
func FuzzStatus(f *testing.F) {
	status := apierrors.NewTooManyRequests("wait", 7).ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	for _, media := range []string{MediaJSON, MediaProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
		enc, _ := FormatOf(media)
		raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), &status)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(enc), raw)
		f.Add(byte(enc), raw[:len(raw)-9])
	}
	f.Add(byte(JSON), []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":"404","details":{"causes":[{}]}}`))
	f.Add(byte(JSON), []byte(`{"kind":"Status","status":"Failure","details":{"retryAfterSeconds":-1}}`))
	f.Add(byte(Protobuf), []byte("k8s\x00\x12\x02\x12\x00"))
	f.Fuzz(func(t *testing.T, enc byte, body []byte) {
		format := Format(enc % 2)
		raw := body
		if format == Protobuf {
			var err error
			if raw, err = Unwrap(body); err != nil {
				return
			}
		}
		ours, err := format.Status(raw)
		if err != nil || len(ours.Message) > MaxMessage {
			return
		}
		object, err := clientGoDecode(format, body)
		if theirs, ok := object.(*metav1.Status); err == nil && ok {
			ours.TypeMeta, theirs.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Fatalf("differs from client-go (-theirs +ours):\n%s", diff)
			}
		}
	})
}

// Peek and cut agree with decoding.
func FuzzObject(f *testing.F) {
	fuzzFormats(func(enc Format, pods [][]byte) {
		for _, pod := range pods {
			if enc == Protobuf {
				pod, _ = Unwrap(pod)
			}
			f.Add(byte(enc), pod)
		}
	})
	f.Add(byte(JSON), []byte(`{ "metadata" : { "managedFields" : [ {"manager":"]}"} ] , "name" : "a" } }`))
	f.Add(byte(JSON), []byte(`{"metadata":{"name":"a" , "managedFields":null}}`))
	f.Add(byte(JSON), []byte(`{"metadata":{"managedFields":[]}}`))
	f.Add(byte(Protobuf), []byte{})
	f.Add(byte(JSON), []byte(`{"metadata":{"n\u0061me":"a","name":"\u0061","uid":null}}`))
	f.Add(byte(Protobuf), []byte("\x0a\x06\x0a\x01a\x1a\x01b\x0a\x03\x0a\x01c")) // metadata twice
	f.Fuzz(func(t *testing.T, enc byte, raw []byte) {
		checkPeek(t, Format(enc%2), raw)
		checkOwn(t, Format(enc%2), raw)
	})
}

// checkOwn checks that objects that our decoder accepts decode as in the library. In JSON, ours may accept input that the
// library rejects, because it skips parts without inspecting them.
func checkOwn(t *testing.T, f Format, raw []byte) {
	t.Helper()
	typ := reflect.TypeFor[corev1.Pod]()
	if f == Protobuf {
		checkProtobuf(t, newProtobufDecoder(plans{}, true, newInterner()), typ, raw)
	} else if kjson.UnmarshalCaseSensitivePreserveInts(raw, new(corev1.Pod)) == nil {
		checkJSON(t, newJSONDecoder(plans{}, true, newInterner()), typ, raw)
	}
}

// checkPeek checks that Peek returns the decoded identity, and that cut removes only managedFields.
func checkPeek(t *testing.T, f Format, raw []byte) {
	t.Helper()
	var meta metav1.PartialObjectMetadata
	if (&codec[*metav1.PartialObjectMetadata]{}).into(&meta, f, bytes.Clone(raw), nil, false) == nil {
		checkIdentity(t, f.Peek(raw), &meta)
		if once(f, raw) {
			checkIdentity(t, f.Glance(raw), &meta)
		}
	}
	c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod](), keepManagedFields: true}
	whole, err := c.decode(f, bytes.Clone(raw), nil, false)
	rest := withoutManaged(f, raw)
	if len(rest) > len(raw) {
		t.Fatalf("%d bytes cut to %d", len(raw), len(rest))
	}
	cut, cutErr := c.decode(f, rest, nil, false)
	if err != nil {
		return
	}
	checkIdentity(t, f.Peek(raw), whole)
	if cutErr != nil {
		t.Fatalf("cannot be decoded after the cut: %v", cutErr)
	}
	if once(f, raw) && len(cut.ManagedFields) > 0 {
		t.Fatal("managedFields remain")
	}
	checkDropped(t, f, raw, whole)
	cut.ManagedFields, whole.ManagedFields = nil, nil
	if diff := cmp.Diff(whole, cut); diff != "" {
		t.Fatalf("the cut changed more than managedFields:\n%s", diff)
	}
}

// checkIdentity checks that id equals the decoded identity.
func checkIdentity(t *testing.T, id Identity, decoded metav1.Object) {
	t.Helper()
	for _, part := range []struct {
		peeked  []byte
		decoded string
	}{
		{id.Namespace, decoded.GetNamespace()}, {id.Name, decoded.GetName()},
		{id.UID, string(decoded.GetUID())}, {id.ResourceVersion, decoded.GetResourceVersion()},
	} {
		if string(part.peeked) != part.decoded {
			t.Fatalf("peeked %q, decoded %q", part.peeked, part.decoded)
		}
	}
}

// checkDropped checks that decoding without managedFields gives whole without them. whole was decoded with them.
func checkDropped(t *testing.T, f Format, raw []byte, whole *corev1.Pod) {
	t.Helper()
	want := whole.DeepCopy()
	want.ManagedFields = nil
	c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
	got, err := c.decode(f, bytes.Clone(raw), nil, false)
	if err != nil {
		t.Fatalf("cannot be decoded while managedFields are dropped: %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("differs with managedFields dropped:\n%s", diff)
	}
}

// once reports whether an object has every field at most once, as every server writes it. If a field occurs twice, Glance may
// see one of them, and a decoder the other.
func once(f Format, raw []byte) bool {
	if f == JSON {
		return jsontext.Value(raw).IsValid(jsontext.AllowInvalidUTF8(true))
	}
	seen := map[int]bool{}
	again := false
	note := func(f proto.Field) bool {
		again = again || seen[f.Number] && f.Number != metaManaged
		seen[f.Number] = true
		return true
	}
	if proto.Fields(metadataOf(raw).Bytes, note) != nil {
		return false
	}
	clear(seen)
	return proto.Fields(raw, note) == nil && !again
}

// Unstructured objects agree with client-go's.
func FuzzUnstructured(f *testing.F) {
	fuzzFormats(func(enc Format, pods [][]byte) {
		if enc == JSON {
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
		left := budget(maxDecoded)
		ours, err := decodeMap(bytes.Clone(raw), &left)
		if err != nil {
			return
		}
		var theirs map[string]any
		if n := values(ours); n > len(raw) {
			t.Fatalf("%d values from %d bytes", n, len(raw))
		}
		if kjson.UnmarshalCaseSensitivePreserveInts(raw, &theirs) != nil {
			return
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("differs from client-go (-theirs +ours):\n%s", cmp.Diff(theirs, ours))
		}
	})
}

// values returns the number of values in v, including v itself.
func values(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, value := range v {
			n += values(value)
		}
	case []any:
		for _, value := range v {
			n += values(value)
		}
	}
	return n
}

// The metadata of an object, such as a bookmark, agree with client-go's. Its envelope agrees with the generated code.
func FuzzMetadata(f *testing.F) {
	fuzzFormats(func(enc Format, pods [][]byte) {
		for _, pod := range pods {
			f.Add(byte(enc), pod)
		}
	})
	f.Add(byte(JSON), []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}`))
	f.Add(byte(Protobuf), []byte("k8s\x00\x12\x05\x0a\x03\x32\x017"))
	f.Fuzz(func(t *testing.T, enc byte, body []byte) {
		format, raw := Format(enc%2), body
		if format == Protobuf {
			var unknown runtime.Unknown
			var err error
			raw, err = Unwrap(body)
			magic := bytes.HasPrefix(body, []byte(protobufMagic))
			if generated := magic && unknown.Unmarshal(body[len(protobufMagic):]) == nil; generated && err == nil && !bytes.Equal(raw, unknown.Raw) || err == nil && !magic {
				t.Fatalf("unwrapped %q, the generated code %q", raw, unknown.Raw)
			}
			if err != nil {
				return
			}
		}
		meta, err := format.Metadata(bytes.Clone(raw))
		if err != nil {
			return
		}
		var want metav1.PartialObjectMetadata
		if format == Protobuf {
			if err = want.Unmarshal(raw); err != nil { // the decoder does not validate managedFields
				want = metav1.PartialObjectMetadata{}
				err = want.Unmarshal(cutProtobuf(raw, nil))
			}
		} else if err = kjson.UnmarshalCaseSensitivePreserveInts(raw, &want); err != nil {
			return // our decoder skips it
		}
		want.TypeMeta, want.ManagedFields = metav1.TypeMeta{}, nil
		if diff := cmp.Diff(&want, meta); err != nil || diff != "" {
			t.Fatalf("%v; differs from client-go (-theirs +ours):\n%s", err, diff)
		}
	})
}

// An object that shares parts with an earlier one, or adopts them, equals the same object decoded alone. The earlier object
// does not change.
func FuzzShare(f *testing.F) {
	fuzzFormats(func(enc Format, pods [][]byte) {
		if enc == Protobuf {
			for i := range pods {
				pods[i], _ = Unwrap(pods[i])
			}
		}
		f.Add(byte(enc), pods[0], pods[1])
		f.Add(byte(enc), pods[1], pods[1])
	})
	f.Add(byte(JSON), []byte(`{"metadata":{"name":"a","labels":{}},"spec":{"containers":[]}}`), []byte(`{"metadata":{"name":"a"},"spec":{"containers":[{}]}}`))
	f.Add(byte(JSON), []byte(`{"metadata":{"name":"a","labels":{"a":"b"}}}`), []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"a":"b"},"name":"a"}}`))
	f.Fuzz(func(t *testing.T, enc byte, first, second []byte) {
		format := Format(enc % 2)
		alone := func(raw []byte) *corev1.Pod {
			c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
			pod, _ := c.decode(format, bytes.Clone(raw), nil, false)
			return pod
		}
		before, want := alone(first), alone(second)
		if before == nil || want == nil {
			return
		}
		shares := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
		for range 3 { // the decoder shares a value only after it has seen it
			for raw, want := range map[*[]byte]*corev1.Pod{&first: before, &second: want} {
				if got, err := shares.decode(format, bytes.Clone(*raw), nil, true); err != nil || !reflect.DeepEqual(got, want) {
					t.Fatalf("%v; shared (-alone +shared):\n%s", err, cmp.Diff(want, got))
				}
			}
		}
		adopts := alone(second)
		shares.decoder().Adopt(before, adopts)
		if !reflect.DeepEqual(adopts, want) {
			t.Fatalf("adopted (-alone +adopted):\n%s", cmp.Diff(want, adopts))
		}
		if !reflect.DeepEqual(before, alone(first)) {
			t.Fatal("the version before was changed")
		}
	})
}
