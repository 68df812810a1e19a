package informer

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net/http"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
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
		var slow listInfo
		n := 0
		slowErr := readList(&slowReader{b: body}, format, &slow, func([]byte) { n++ })
		if (err == nil) != (slowErr == nil) || clean && err == nil && n != len(items) {
			t.Fatalf("all at once: %v, %d items; in pieces: %v, %d items", err, len(items), slowErr, n)
		}
		if size+n > len(body) { // each item has a comma, a bracket or a tag, too
			t.Fatalf("%d bytes in %d items, of %d", size, n, len(body))
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
	f.Add(byte(formatProtobuf), []byte("\x00\x00\x00\x0f\x0a\x05ADDED\x12\x06\x0a\x04k8s\x00"))
	f.Fuzz(func(t *testing.T, enc byte, stream []byte) {
		format := format(enc % 2)
		c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
		whole := newFrameReader(bytes.NewReader(stream), format)
		pieces := newFrameReader(&slowReader{b: stream}, format)
		theirs := clientGoWatch(format, stream)
		defer theirs.Close()
		agree := true // so far
		proper := math.MaxInt
		if format == formatJSON {
			proper = properJSON(stream)
		}
		size := 0
		for range proper {
			a, errA := whole.next()
			b, errB := pieces.next()
			if (errA == nil) != (errB == nil) || a.event != b.event || !bytes.HasPrefix(a.raw, b.raw) || format == formatProtobuf && len(a.raw) != len(b.raw) {
				t.Fatalf("all at once: %q, %v; in pieces: %q, %v", a.event, errA, b.event, errB)
			}
			if errA != nil {
				if (errA == io.EOF) != (errB == io.EOF) {
					t.Fatalf("all at once: %v; in pieces: %v", errA, errB)
				}
				return
			}
			if size += len(a.event) + len(a.raw); size > len(stream) {
				t.Fatalf("frames of %d bytes, of %d", size, len(stream))
			}
			pod, err := c.decode(format, a.raw, nil, false)
			if agree = agree && err == nil; !agree {
				continue // theirs may end with an object that cannot be decoded
			}
			event, object, err := theirs.Decode()
			want, ok := object.(*corev1.Pod)
			if agree = err == nil && ok; !agree {
				continue
			}
			want.ManagedFields, want.TypeMeta = nil, metav1.TypeMeta{}
			if diff := cmp.Diff(want, pod); diff != "" || string(event) != a.event {
				t.Fatalf("%s differs from client-go's %s (-theirs +ours):\n%s", a.event, event, diff)
			}
		}
		for err := error(nil); err == nil; {
			var rest frame
			if rest, err = whole.next(); err == nil {
				if size += len(rest.event) + len(rest.raw); size > len(stream) {
					t.Fatalf("frames of %d bytes, of %d", size, len(stream))
				}
				_, _ = c.decode(format, rest.raw, nil, true)
			}
		}
	})
}

// properJSON returns how many values stream begins with that are JSON and have no name twice: of others, the end, or what
// they mean, is not the same for everybody.
func properJSON(stream []byte) int {
	d := jsontext.NewDecoder(bytes.NewReader(stream))
	for n := 0; ; n++ {
		if _, err := d.ReadValue(); err != nil {
			return n
		}
	}
}

// clientGoWatch decodes a watch as a clientset does.
func clientGoWatch(f format, stream []byte) *restwatch.Decoder {
	media := mediaJSON
	if f == formatProtobuf {
		media = mediaProtobuf
	}
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
	frames := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(stream)))
	codecs := scheme.Codecs.WithoutConversion()
	return restwatch.NewDecoder(
		streaming.NewDecoder(frames, codecs.DecoderToVersion(info.StreamSerializer.Serializer, corev1.SchemeGroupVersion)),
		codecs.DecoderToVersion(info.Serializer, corev1.SchemeGroupVersion))
}

// A Status agrees with client-go's, by itself and as the body of an error.
func FuzzStatus(f *testing.F) {
	status := apierrors.NewTooManyRequests("wait", 7).ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	for _, media := range []string{mediaJSON, mediaProtobuf} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), media)
		enc, _ := formatOf(media)
		raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), &status)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(enc), uint16(429), "7", raw)
		f.Add(byte(enc), uint16(500), "", raw[:len(raw)-9])
	}
	f.Add(byte(formatJSON), uint16(404), "-1", []byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":"404","details":{"causes":[{}]}}`))
	f.Add(byte(formatJSON), uint16(503), "99999999999", []byte(`{"kind":"Status","status":"Failure","details":{"retryAfterSeconds":-1}}`))
	f.Add(byte(formatProtobuf), uint16(400), "\x00", []byte("k8s\x00\x12\x02\x12\x00"))
	f.Fuzz(func(t *testing.T, enc byte, code uint16, retryAfter string, body []byte) {
		format := format(enc % 2)
		media := []string{mediaJSON, mediaProtobuf}[format]
		failure := responseError(&http.Response{
			StatusCode: int(code),
			Header:     http.Header{"Content-Type": {media}, "Retry-After": {retryAfter}},
			Body:       io.NopCloser(bytes.NewReader(body)),
		}, http.MethodGet, podResource.GroupResource(), "")
		var known apierrors.APIStatus
		if !errors.As(failure, &known) || len(failure.Error()) > 2*maxMessage {
			t.Fatalf("%T: %.1000v", failure, failure)
		}
		raw := body
		if format == formatProtobuf {
			var err error
			if raw, err = unwrapProtobuf(body); err != nil {
				return
			}
		}
		ours, err := format.status(raw)
		if err != nil || len(ours.Message) > maxMessage {
			return
		}
		object, err := clientGoDecode(format, body)
		if theirs, ok := object.(*metav1.Status); err == nil && ok {
			ours.TypeMeta, theirs.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Fatalf("differs from client-go (-theirs +ours):\n%s", diff)
			}
			if got := known.Status(); ours.Status == metav1.StatusFailure && (got.Reason != ours.Reason || got.Code != ours.Code) {
				t.Fatalf("the error is %+v, the status %+v", got, ours)
			}
		}
	})
}

// A body of any content type is an error that is not long.
func FuzzErrorBody(f *testing.F) {
	f.Add("text/html; charset=utf-8", uint16(502), []byte("<html>bad gateway"))
	f.Add("", uint16(401), bytes.Repeat([]byte("x"), maxStatusBytes+1))
	f.Add("application/json;", uint16(500), []byte(`{"status":"Failure"}`))
	f.Add("text/plain; a=b; a=c", uint16(429), []byte("\xff\x00"))
	f.Fuzz(func(t *testing.T, contentType string, code uint16, body []byte) {
		err := responseError(&http.Response{
			StatusCode: int(code),
			Header:     http.Header{"Content-Type": {contentType}},
			Body:       io.NopCloser(bytes.NewReader(body)),
		}, http.MethodGet, podResource.GroupResource(), "")
		var known apierrors.APIStatus
		if !errors.As(err, &known) || len(err.Error()) > 2*maxMessage {
			t.Fatalf("%T: %.1000v", err, err)
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
	f.Add(byte(formatJSON), []byte(`{"metadata":{"n\u0061me":"a","name":"\u0061","uid":null}}`))
	f.Add(byte(formatProtobuf), []byte("\x0a\x06\x0a\x01a\x1a\x01b\x0a\x03\x0a\x01c")) // metadata twice
	f.Fuzz(func(t *testing.T, enc byte, raw []byte) {
		checkPeek(t, format(enc%2), raw)
		checkOwn(t, format(enc%2), raw)
	})
}

// checkOwn checks that what our decoder takes is what the library makes of it. In JSON it may take what the library
// refuses, since it passes over parts without a look.
func checkOwn(t *testing.T, f format, raw []byte) {
	t.Helper()
	typ := reflect.TypeFor[corev1.Pod]()
	if f == formatProtobuf {
		checkProtobuf(t, newProtobufDecoder(true, newInterner()), typ, raw)
	} else if json.Unmarshal(raw, new(corev1.Pod), jsonOptions) == nil {
		checkJSON(t, newJSONDecoder(true, newInterner()), typ, raw)
	}
}

// checkPeek checks that the identity of an object is what is decoded of it, and that no more than managedFields is cut.
func checkPeek(t *testing.T, f format, raw []byte) {
	t.Helper()
	c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod](), keepManagedFields: true}
	whole, err := c.decode(f, bytes.Clone(raw), nil, false)
	id := f.peek(raw)
	rest := f.cut(raw)
	if len(rest) > len(raw) {
		t.Fatalf("%d bytes cut to %d", len(raw), len(rest))
	}
	cut, cutErr := c.decode(f, rest, nil, false)
	if err != nil {
		return
	}
	if cutErr != nil {
		t.Fatalf("cannot be decoded without managedFields: %v", cutErr)
	}
	managed := len(whole.ManagedFields) > 0
	if managed && once(f, raw) && len(cut.ManagedFields) > 0 && !escaped(f, raw) {
		t.Fatal("managedFields are left")
	}
	checkDropped(t, f, raw, whole)
	cut.ManagedFields, whole.ManagedFields = nil, nil
	if diff := cmp.Diff(whole, cut); diff != "" {
		t.Fatalf("the cut changed more than managedFields:\n%s", diff)
	}
	if !once(f, raw) {
		return
	}
	for _, part := range []struct {
		peeked  []byte
		decoded string
	}{{id.namespace, whole.Namespace}, {id.name, whole.Name}, {id.uid, string(whole.UID)}, {id.resourceVersion, whole.ResourceVersion}} {
		if string(part.peeked) != part.decoded && (len(part.peeked) > 0 || !escaped(f, raw)) {
			t.Fatalf("peeked %q, decoded %q", part.peeked, part.decoded)
		}
	}
}

// checkDropped checks that whole, decoded with managedFields kept, is what is decoded without them, by our decoder and by the
// library, as long as the former takes it.
func checkDropped(t *testing.T, f format, raw []byte, whole *corev1.Pod) {
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

// once says whether an object has everything once, in UTF-8 and without groups, as every server writes it. Of what is
// there twice the peek may see the one, and who decodes the other.
func once(f format, raw []byte) bool {
	if f == formatJSON {
		return jsontext.Value(raw).IsValid()
	}
	n := 0
	err := wireFields(raw, func(f wireField) bool {
		if f.number == objectMetadata {
			n++
		}
		return true
	})
	return err == nil && n <= 1 && wireFields(metadataOf(raw).bytes, func(wireField) bool { return true }) == nil
}

// escaped says whether there are escapes, which the peek does not read.
func escaped(f format, raw []byte) bool { return f == formatJSON && bytes.IndexByte(raw, '\\') >= 0 }

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

// values counts what v has in it, with itself.
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
