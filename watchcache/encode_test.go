package watchcache

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// The serializers of kube-apiserver. This package must write the same bytes.
func serializer(f format) runtime.Encoder {
	if f.protobuf() {
		return protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	}
	return jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, jsonserializer.SerializerOptions{})
}

func encodedBy(t *testing.T, f format, obj runtime.Object) string {
	t.Helper()
	var b bytes.Buffer
	if err := serializer(f).Encode(obj, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func testPods(n int) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: fmt.Sprint("pod-", i), ResourceVersion: fmt.Sprint(i + 1),
				Labels:        map[string]string{"b": "<&>\u2028", "a": "é", "c": "\""},
				Annotations:   map[string]string{"z": "1", "y": "2"},
				ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate}},
			},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: "x"}}}}},
		})
	}
	return pods
}

// written returns the output of write.
func written(t *testing.T, write func(w *bufio.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func podCache() *Cache[*corev1.Pod] {
	return New[*corev1.Pod](Config{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Kind: "Pod"})
}

func TestEncode_ListAsKubeAPIServer(t *testing.T) {
	remaining := int64(7)
	for name, meta := range map[string]metav1.ListMeta{
		"whole": {ResourceVersion: "12"},
		"page":  {ResourceVersion: "12", Continue: "abc", RemainingItemCount: &remaining},
	} {
		for _, n := range []int{0, 1, 3} {
			for f := range formatTable {
				t.Run(fmt.Sprint(name, "/", n, "/", f), func(t *testing.T) {
					c := podCache()
					var items []*element[*corev1.Pod]
					var want runtime.Object
					list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, ListMeta: meta, Items: []corev1.Pod{}}
					partial := &metav1.PartialObjectMetadataList{ListMeta: meta, Items: []metav1.PartialObjectMetadata{},
						TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}}
					for _, pod := range testPods(n) {
						items = append(items, &element[*corev1.Pod]{obj: pod})
						if pod = pod.DeepCopy(); f >= formatBareJSON {
							pod.ManagedFields = nil
						}
						list.Items = append(list.Items, *pod)
						partial.Items = append(partial.Items, metav1.PartialObjectMetadata{
							TypeMeta:   metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
							ObjectMeta: pod.ObjectMeta})
					}
					if want = list; f.metadata() {
						want = partial
					}
					got := written(t, func(w *bufio.Writer) error {
						return c.codec.writeList(w, f, listMeta{ListMeta: meta}, items, nil, func(el *element[*corev1.Pod]) ([]byte, error) { return c.bytes(el, f) })
					})
					if diff := cmp.Diff(encodedBy(t, f, want), got); diff != "" {
						t.Error(diff)
					}
				})
			}
		}
	}
}

func TestEncode_CustomListAsKubeAPIServer(t *testing.T) {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Widget", "apiVersion": "example.com/v1", "metadata": map[string]any{"name": "a", "namespace": "ns"},
		"spec": map[string]any{"z": int64(1), "a": "<>"},
	}}
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{*obj, *obj}}
	list.SetKind("WidgetList")
	list.SetAPIVersion("example.com/v1")
	list.SetResourceVersion("12")
	list.SetContinue("")
	c := New[*unstructured.Unstructured](Config{GroupVersionResource: obj.GroupVersionKind().GroupVersion().WithResource("widgets"), Kind: "Widget"})
	items := []*element[*unstructured.Unstructured]{{obj: obj}, {obj: obj}}
	got := written(t, func(w *bufio.Writer) error {
		return c.codec.writeList(w, formatJSON, listMeta{ListMeta: metav1.ListMeta{ResourceVersion: "12"}}, items, nil, func(el *element[*unstructured.Unstructured]) ([]byte, error) {
			return c.bytes(el, formatJSON)
		})
	})
	if diff := cmp.Diff(encodedBy(t, formatJSON, list), got); diff != "" {
		t.Error(diff)
	}
}

func TestEncode_EventAsKubeAPIServer(t *testing.T) {
	for f := range formatTable {
		t.Run(fmt.Sprint(f), func(t *testing.T) {
			c := podCache()
			el := &element[*corev1.Pod]{obj: testPods(1)[0]}
			b, err := c.bytes(el, f)
			if err != nil {
				t.Fatal(err)
			}
			got := written(t, func(w *bufio.Writer) error {
				c.codec.writeEvent(w, "ADDED", f, b)
				return nil
			})

			pod := el.obj.DeepCopy()
			if f >= formatBareJSON {
				pod.ManagedFields = nil
			}
			var obj runtime.Object = pod
			obj.GetObjectKind().SetGroupVersionKind(c.codec.kind)
			if f.metadata() {
				obj = &metav1.PartialObjectMetadata{ObjectMeta: pod.ObjectMeta}
				obj.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
			}
			if got, want := written(t, func(w *bufio.Writer) error { c.codec.writeObject(w, f, b); return nil }),
				string(bytes.TrimSuffix([]byte(encodedBy(t, f, obj)), []byte("\n"))); got != want {
				t.Errorf("object:\n%q, want\n%q", got, want)
			}
			if diff := cmp.Diff(frame(t, f, "ADDED", obj), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEncode_ErrorEventAsKubeAPIServer(t *testing.T) {
	for _, f := range []format{formatJSON, formatProtobuf} {
		status := tooLargeResourceVersion(5, 3).(interface{ Status() metav1.Status }).Status()
		got := written(t, func(w *bufio.Writer) error { writeErrorEvent(w, status, f.protobuf()); return nil })
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		if diff := cmp.Diff(frame(t, f, "ERROR", &status), got); diff != "" {
			t.Error(diff)
		}
	}
}

// frame is a frame of a watch as kube-apiserver writes it.
func frame(t *testing.T, f format, eventType string, obj runtime.Object) string {
	t.Helper()
	event := &metav1.WatchEvent{Type: eventType, Object: runtime.RawExtension{Raw: []byte(encodedBy(t, f, obj))}}
	var b bytes.Buffer
	if f.protobuf() {
		framed := protobuf.LengthDelimitedFramer.NewFrameWriter(&b)
		if err := protobuf.NewRawSerializer(scheme.Scheme, scheme.Scheme).Encode(event, framed); err != nil {
			t.Fatal(err)
		}
	} else if err := json.NewEncoder(&b).Encode(event); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEncode_KindOfTheSourceIsNotDoubled(t *testing.T) {
	c := podCache()
	pod := testPods(1)[0]
	without, err := c.codec.encode(pod, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	pod.Kind, pod.APIVersion = "Pod", "v1"
	with, err := c.codec.encode(pod, formatJSON)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(with, without) || pod.Kind != "Pod" {
		t.Errorf("got %s, want %s", with, without)
	}
}
