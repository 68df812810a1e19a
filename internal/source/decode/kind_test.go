package decode

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// PodWithLabels is a type of a user who needs some fields of pods.
type PodWithLabels struct {
	metav1.ObjectMeta `json:"metadata"`
}

// Widget is a type whose name is the kind.
type Widget struct {
	metav1.ObjectMeta `json:"metadata"`
}

// serves returns an Ask whose answer is a kind, and the number of calls. An empty kind is an error.
func serves(kind string, calls *int) Ask {
	return func() (string, error) {
		*calls++
		if kind == "" {
			return "", errors.New("no discovery")
		}
		return kind, nil
	}
}

// A kind is right if its plural is the resource, if the server's discovery says so, or if nothing says that it is wrong.
// Guarantees: R22
func TestKindOfACollection(t *testing.T) {
	for _, c := range []struct {
		t        any
		resource string
		served   string // by discovery; "" for none
		named    string // the kinds of the responses; one with ! is rejected
		asked    int
	}{
		{&corev1.Pod{}, "pods", "", "Pod Pod !Node Pod v1/Pod !other.io/v1/Pod", 1},
		{&corev1.Pod{}, "pods", "", "!Node !Secret Pod", 2},
		{&corev1.Pod{}, "pods", "Pod", "!Node Pod", 1},
		{&PodWithLabels{}, "pods", "", "Pod !Node", 1},
		{&PodWithLabels{}, "pods", "Pod", "!Node Pod", 1},
		{&PodWithLabels{}, "pods", "", "Node Pod !Node", 3}, // the first was a guess
		{&unstructured.Unstructured{}, "pods", "Pod", "!Node Pod", 1},
		{&unstructured.Unstructured{}, "pods", "PodMetrics", "PodMetrics !Pod PodMetrics", 2},
		{&metav1.PartialObjectMetadata{}, "pods", "Pod", "PartialObjectMetadata !Node Pod PartialObjectMetadata", 1},
		{&corev1.Pod{}, "pods", "", "!PartialObjectMetadata Pod", 1},
		//lint:ignore SA1019 servers still have it
		{&corev1.Endpoints{}, "endpoints", "", "Endpoints !Pod", 1},
		{&Widget{}, "widgets", "BigWidget", "BigWidget !Widget", 2},
		{&Widget{}, "widgets", "", "Widget !Gadget", 1},
		{&unstructured.Unstructured{}, "policies", "", "Policy !Pod", 1},
		{&unstructured.Unstructured{}, "gateways", "", "Gateway", 0},
		{&unstructured.Unstructured{}, "network-attachment-definitions", "", "NetworkAttachmentDefinition", 0},
		{&unstructured.Unstructured{}, "indices", "", "Index Index", 1},
		{&unstructured.Unstructured{}, "things", "New", "Thing New New !Thing", 2}, // the definition was deleted and made again
	} {
		k, asked := NewKind(reflect.TypeOf(c.t), c.resource), 0
		for _, named := range strings.Fields(c.named) {
			kind, wrong := strings.CutPrefix(named, "!")
			var version string
			if slash := strings.LastIndexByte(kind, '/'); slash > 0 {
				version, kind = kind[:slash], kind[slash+1:]
			}
			err := k.check([]byte(kind), []byte(version), serves(c.served, &asked))
			if errors.Is(err, ErrWrongKind) != wrong {
				t.Errorf("%T, %s: %s of %q: %v", c.t, c.resource, named, c.named, err)
			}
		}
		if asked != c.asked {
			t.Errorf("%T, %s: %q: asked %d times, want %d", c.t, c.resource, c.named, asked, c.asked)
		}
	}
}

// kindList returns a list as kube-apiserver writes one of a built-in type, with more members after the items.
func kindList(kind, items, after string) string {
	return fmt.Sprintf(`{"kind":%q,"apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[%s]%s}`, kind, items, after)
}

// A list is of the kind that it names, or of the one that its items name.
// Guarantees: R22
func TestKindOfAList(t *testing.T) {
	const bare = `{"metadata":{"name":"a"}}`
	item := func(kind string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":%q,"metadata":{"name":"a"}}`, kind)
	}
	late := func(kind string) string { return fmt.Sprintf(`{"metadata":{"name":"a"},"kind":%q}`, kind) }
	last := func(kind, items string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","items":[%s],"kind":%q,"metadata":{}}`, items, kind)
	}
	pod, node := item("Pod"), item("Node")
	podType, anyType := reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*unstructured.Unstructured]()
	for name, c := range map[string]struct {
		t     reflect.Type
		lists []string // the last one counts
		want  string   // part of the error; empty for none
	}{
		"typed":                          {podType, []string{kindList("PodList", bare+","+bare, "")}, ""},
		"nodes":                          {podType, []string{kindList("NodeList", bare, "")}, `a NodeList: the server sent another kind than requested: "Node" instead of "Pod"`},
		"no nodes":                       {podType, []string{kindList("NodeList", "", "")}, "a NodeList"},
		"nodes of any type":              {anyType, []string{kindList("PodList", bare, ""), kindList("NodeList", bare, "")}, "a NodeList"},
		"no nodes, any type":             {anyType, []string{kindList("PodList", bare, ""), kindList("NodeList", "", "")}, "a NodeList"},
		"kind after the items":           {podType, []string{last("NodeList", bare)}, "a NodeList"},
		"items with a kind":              {anyType, []string{last("PodList", pod)}, ""},
		"item of another kind":           {anyType, []string{last("PodList", pod+","+node)}, `"Node" instead of "Pod"`},
		"first item of another kind":     {podType, []string{last("PodList", node)}, `"Node" instead of "Pod"`},
		"kind behind the item":           {podType, []string{kindList("PodList", bare+","+late("Node"), "")}, `"Node" instead of "Pod"`},
		"right kind behind":              {podType, []string{kindList("PodList", bare+","+late("Pod"), "")}, ""},
		"a list of anything":             {podType, []string{kindList("List", pod, "")}, ""},
		"a list of nodes":                {podType, []string{kindList("List", pod+","+node, "")}, `"Node" instead of "Pod"`},
		"no kind":                        {podType, []string{`{"items":[` + bare + `]}`}, ""},
		"listKind of a definition":       {anyType, []string{last("PodCollection", pod)}, ""},
		"the same, empty":                {anyType, []string{last("PodCollection", pod), last("PodCollection", "")}, ""},
		"another listKind":               {anyType, []string{last("MyPodsList", pod), last("MyPodsList", "")}, ""},
		"another listKind, first empty":  {anyType, []string{last("MyPodsList", ""), last("MyPodsList", pod)}, ""},
		"another listKind, typed items":  {podType, []string{kindList("MyPodsList", bare, "")}, "a MyPodsList"},
		"metadata that was not asked":    {podType, []string{kindList("PartialObjectMetadataList", bare, "")}, "a PartialObjectMetadataList"},
		"an object with items":           {anyType, []string{`{"kind":"Pod","items":[` + bare + `]}`}, "a Pod instead of a list"},
		"an object with no items at all": {anyType, []string{`{"kind":"Pod","items":[]}`}, "a Pod instead of a list"},
	} {
		k := NewKind(c.t, "pods")
		for n, body := range c.lists {
			list := NewList(strings.NewReader(body), JSON, k, nil)
			err := ErrMore
			for err == ErrMore || err == nil {
				if _, err = list.Next(); err == ErrMore {
					if failed := list.Fill(); failed != nil {
						t.Fatal(failed)
					}
				}
			}
			switch {
			case n < len(c.lists)-1 || c.want == "":
				if err != io.EOF {
					t.Errorf("%s: list %d: %v", name, n, err)
				}
			case !errors.Is(err, ErrWrongKind) || !strings.Contains(err.Error(), c.want):
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		}
	}
}

// An event, a bookmark and an object alone are of the kind that they name, in JSON and in protobuf.
// Guarantees: R22
func TestKindOfAnObject(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		for _, event := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
			k := NewKind(reflect.TypeFor[*corev1.Pod](), "pods")
			stream := string(encodeFrame(f, event, one(f, "Pod"))) + string(encodeFrame(f, event, one(f, "Pod"))) +
				string(encodeFrame(f, event, one(f, "Secret")))
			frames := NewFrames(strings.NewReader(stream), f, k, nil)
			for range 2 {
				if frame, err := nextFrame(frames); err != nil || frame.Event != event {
					t.Errorf("format %d, %s: %v", f, event, err)
				}
			}
			_, err := nextFrame(frames)
			if !errors.Is(err, ErrWrongKind) || !strings.Contains(err.Error(), `"Secret" instead of "Pod"`) {
				t.Errorf("format %d, %s of another kind: %v", f, event, err)
			}
			if _, err := f.One(one(f, "Pod"), k, nil); err != nil {
				t.Error(err)
			}
			if _, err := f.One(one(f, "Node"), k, nil); !errors.Is(err, ErrWrongKind) {
				t.Errorf("format %d: a Node: %v", f, err)
			}
		}
		status := string(encodeFrame(f, "ERROR", one(f, "Status")))
		if frame, err := nextFrame(NewFrames(strings.NewReader(status), f, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"), nil)); err != nil || frame.Event != "ERROR" {
			t.Errorf("format %d: an error event: %v", f, err)
		}
	}
	list := NewList(strings.NewReader(string(encodeList(Protobuf, schema.GroupVersionKind{Version: "v1", Kind: "Node"}, [][]byte{one(Protobuf, "Node")}))),
		Protobuf, NewKind(reflect.TypeFor[*corev1.Pod](), "pods"), nil)
	var err error = ErrMore
	for err == ErrMore {
		_ = list.Fill()
		_, err = list.Next()
	}
	if !errors.Is(err, ErrWrongKind) || !strings.Contains(err.Error(), "a NodeList") {
		t.Errorf("a list of nodes in protobuf: %v", err)
	}
}

// Of two kinds in one envelope, the last one counts, as protobuf says.
// Guarantees: R22
func TestKindTwiceInAnEnvelope(t *testing.T) {
	k := NewKind(reflect.TypeFor[*corev1.Pod](), "pods")
	meta := func(kind string) string {
		typeMeta := "\x0a\x02v1\x12" + string(rune(len(kind))) + kind
		return "\x0a" + string(rune(len(typeMeta))) + typeMeta
	}
	for _, raw := range []string{meta("Node") + meta("Pod"), meta("Pod") + meta("Node")} {
		_, err := Protobuf.One([]byte(protobufMagic+raw), k, nil)
		if wrong := strings.HasSuffix(raw, "Node"); errors.Is(err, ErrWrongKind) != wrong || err != nil && !wrong {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// Comparing the kinds of a watch allocates nothing.
func TestKindAllocatesNothing(t *testing.T) {
	k := NewKind(reflect.TypeFor[*corev1.Pod](), "pods")
	c := kindCheck{kind: k}
	raw := one(JSON, "Pod")
	_, meta, err := unwrap(one(Protobuf, "Pod"))
	if err != nil {
		t.Fatal(err)
	}
	wire := kindCheck{kind: k}
	_, _ = c.object(raw), wire.message(meta)
	if n := testing.AllocsPerRun(100, func() { _, _ = c.object(raw), wire.message(meta) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// one returns an object without content, with its envelope in protobuf.
func one(f Format, kind string) []byte {
	if f == JSON {
		return fmt.Appendf(nil, `{"kind":%q,"apiVersion":"v1","metadata":{"name":"a"}}`, kind)
	}
	return enveloped(kind, []byte("\x0a\x03\x0a\x01a"))
}

// enveloped returns a message in protobuf with its envelope.
func enveloped(kind string, message []byte) []byte {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: message}
	body, _ := unknown.Marshal()
	return append([]byte(protobufMagic), body...)
}
