package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	serializerjson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// The encoders of kube-apiserver, with and without its feature of streaming lists. Both write the same bytes.
var (
	jsonEncoders = []runtime.Encoder{
		serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializerjson.SerializerOptions{}),
		serializerjson.NewSerializerWithOptions(serializerjson.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, serializerjson.SerializerOptions{StreamingCollectionsEncoding: true}),
	}
	protobufEncoders = []runtime.Encoder{
		protobuf.NewSerializerWithOptions(scheme.Scheme, scheme.Scheme, protobuf.SerializerOptions{}),
		protobuf.NewSerializerWithOptions(scheme.Scheme, scheme.Scheme, protobuf.SerializerOptions{StreamingCollectionsEncoding: true}),
	}
)

func encode(t *testing.T, e runtime.Encoder, object runtime.Object) []byte {
	t.Helper()
	b, err := runtime.Encode(e, object)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestListsAreAsTheServerWritesThem(t *testing.T) {
	f := New(Config{Pods: 300})
	for _, test := range []struct {
		name string
		pods []*corev1.Pod
		meta metav1.ListMeta
	}{
		{"whole", slices.Collect(f.All()), metav1.ListMeta{ResourceVersion: f.ResourceVersion()}},
		{"page", slices.Collect(f.All())[:10], metav1.ListMeta{ResourceVersion: f.ResourceVersion(), Continue: "eyJ2IjoibWV0YSJ9", RemainingItemCount: new(int64(290))}},
		{"empty", nil, metav1.ListMeta{ResourceVersion: "1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: test.meta, Items: []corev1.Pod{}}
			for _, pod := range test.pods {
				list.Items = append(list.Items, *pod)
			}
			var asJSON, asProtobuf bytes.Buffer
			if err := WriteListJSON(&asJSON, test.meta, slices.Values(test.pods)); err != nil {
				t.Fatal(err)
			}
			if err := WriteListProtobuf(&asProtobuf, test.meta, slices.Values(test.pods)); err != nil {
				t.Fatal(err)
			}
			for i := range jsonEncoders {
				if want := encode(t, jsonEncoders[i], list); !bytes.Equal(asJSON.Bytes(), want) {
					t.Errorf("JSON encoder %d writes %d bytes, ours %d different ones", i, len(want), asJSON.Len())
				}
				if want := encode(t, protobufEncoders[i], list); !bytes.Equal(asProtobuf.Bytes(), want) {
					t.Errorf("protobuf encoder %d writes %d bytes, ours %d different ones", i, len(want), asProtobuf.Len())
				}
			}
			for _, b := range [][]byte{asJSON.Bytes(), asProtobuf.Bytes()} {
				got, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), b)
				if err != nil {
					t.Fatal(err)
				}
				if len(test.pods) == 0 {
					got.(*corev1.PodList).Items = []corev1.Pod{} // protobuf does not distinguish nil from empty
				}
				// Decoded lists have their kind, in JSON and in protobuf, like list.
				if !reflect.DeepEqual(got, runtime.Object(list)) {
					t.Errorf("decoded list differs (-want +got):\n%s", cmp.Diff(list, got))
				}
			}
		})
	}
}

// frames returns events of all types, for pods in all stages that the first changes reach.
func frames(f *Fleet) []Change {
	changes := []Change{{watch.Bookmark, Bookmark("123", false)}, {watch.Bookmark, Bookmark(f.ResourceVersion(), true)}}
	for i := range 20 {
		changes = append(changes, Change{watch.Added, f.Pod(i)})
	}
	for c := range f.Changes(1) {
		changes = append(changes, c)
		if len(changes) == 500 {
			break
		}
	}
	return changes
}

// withKind returns a copy of pod with its kind, as in an event.
func withKind(pod *corev1.Pod) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	return pod
}

// metadataOf returns a copy of pod's metadata with its kind, as in an event of a watch for metadata only.
func metadataOf(pod *corev1.Pod) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
		ObjectMeta: *pod.ObjectMeta.DeepCopy(),
	}
}

func TestWatchEventsAreAsTheServerWritesThem(t *testing.T) {
	if err := metav1.AddMetaToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	whole := func(pod *corev1.Pod) runtime.Object { return withKind(pod) }
	metadata := func(pod *corev1.Pod) runtime.Object { return metadataOf(pod) }
	for _, test := range []struct {
		name      string
		mediaType string
		object    func(*corev1.Pod) runtime.Object
		encoder   runtime.Encoder // of objects
		framer    runtime.Framer
		add       func([]byte, watch.EventType, *corev1.Pod) ([]byte, error)
	}{
		{"JSON", runtime.ContentTypeJSON, whole, jsonEncoders[1], serializerjson.Framer, AppendWatchEventJSON},
		{"protobuf", runtime.ContentTypeProtobuf, whole, protobufEncoders[1], protobuf.LengthDelimitedFramer, AppendWatchEventProtobuf},
		{"metadata", runtime.ContentTypeProtobuf, metadata, protobufEncoders[1], protobuf.LengthDelimitedFramer, AppendMetadataEventProtobuf},
	} {
		t.Run(test.name, func(t *testing.T) {
			info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), test.mediaType)
			if !ok {
				t.Fatal("client-go does not know the media type")
			}
			// Encode like the watch endpoint: encode the object, put it into an event, and encode the event into a frame.
			var want bytes.Buffer
			events := streaming.NewEncoder(test.framer.NewFrameWriter(&want), info.StreamSerializer.Serializer)
			changes := frames(New(Config{Pods: 60}))
			objects := make([]runtime.Object, len(changes))
			for i, c := range changes {
				// Copy before encoding, because an encoded Quantity remembers its text.
				objects[i] = test.object(c.Object)
			}
			var got []byte
			for _, c := range changes {
				var err error
				if got, err = test.add(got, c.Type, c.Object); err != nil {
					t.Fatal(err)
				}
				raw := encode(t, test.encoder, test.object(c.Object))
				if err := events.Encode(&metav1.WatchEvent{Type: string(c.Type), Object: runtime.RawExtension{Raw: raw}}); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%d bytes differ from the %d wanted", len(got), want.Len())
			}

			// Decode it with client-go.
			reader := info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(bytes.NewReader(got)))
			decoder := streaming.NewDecoder(reader, info.StreamSerializer.Serializer)
			for i, c := range changes {
				var event metav1.WatchEvent
				if _, _, err := decoder.Decode(nil, &event); err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				object, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), event.Object.Raw)
				if err != nil {
					t.Fatalf("frame %d: %v", i, err)
				}
				if event.Type != string(c.Type) || !reflect.DeepEqual(object, objects[i]) {
					t.Errorf("frame %d is %s, differs (-want +got):\n%s", i, event.Type, cmp.Diff(objects[i], object))
				}
			}
			if _, _, err := decoder.Decode(nil, &metav1.WatchEvent{}); err != io.EOF {
				t.Errorf("after the last frame: %v, want EOF", err)
			}
		})
	}
}

func TestBookmarkJSON(t *testing.T) {
	got, err := AppendWatchEventJSON([]byte("before"), watch.Bookmark, Bookmark("77", true))
	if err != nil {
		t.Fatal(err)
	}
	const want = `before{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"77",` +
		`"annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}` + "\n"
	if string(got) != want {
		t.Errorf("got  %swant %s", got, want)
	}
}

func TestEncodersIgnoreKind(t *testing.T) {
	pod := New(Config{}).Pod(0)
	var plain, kinded bytes.Buffer
	if err := WriteListJSON(&plain, metav1.ListMeta{}, slices.Values([]*corev1.Pod{pod})); err != nil {
		t.Fatal(err)
	}
	named := withKind(pod)
	if err := WriteListJSON(&kinded, metav1.ListMeta{}, slices.Values([]*corev1.Pod{named})); err != nil {
		t.Fatal(err)
	}
	if plain.String() != kinded.String() {
		t.Error("a list contains the kind of a pod")
	}
	if named.Kind != "Pod" || pod.Kind != "" {
		t.Error("the encoder changed the pod")
	}
}

// limited fails after n bytes.
type limited struct{ n int }

var errFull = errors.New("full")

func (w *limited) Write(b []byte) (int, error) {
	if len(b) > w.n {
		return 0, errFull
	}
	w.n -= len(b)
	return len(b), nil
}

func TestListsReportWriteErrors(t *testing.T) {
	f := New(Config{Pods: 5})
	for _, n := range []int{0, 3, 30, 300, 12_000} {
		if err := WriteListJSON(&limited{n}, metav1.ListMeta{ResourceVersion: "1"}, f.All()); !errors.Is(err, errFull) {
			t.Errorf("JSON: writer takes %d bytes, error is %v", n, err)
		}
		if err := WriteListProtobuf(&limited{n}, metav1.ListMeta{ResourceVersion: "1"}, f.All()); !errors.Is(err, errFull) {
			t.Errorf("protobuf: writer takes %d bytes, error is %v", n, err)
		}
	}
	pod := f.Pod(0)
	pod.ManagedFields[0].FieldsV1 = fieldsV1([]byte("{"))
	if _, err := AppendWatchEventJSON(nil, watch.Added, pod); err == nil {
		t.Error("no error for a pod that cannot be encoded")
	}
	if err := WriteListJSON(io.Discard, metav1.ListMeta{}, slices.Values([]*corev1.Pod{pod})); err == nil {
		t.Error("no error for a list with a pod that cannot be encoded")
	}
	var syntax *json.SyntaxError
	if _, err := AppendWatchEventJSON(nil, watch.Added, pod); !errors.As(err, &syntax) {
		t.Errorf("error is %v, want one that wraps json.SyntaxError", err)
	}
}
