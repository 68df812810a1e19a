package decode

import (
	"errors"
	"io"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// checkProtobuf decodes raw with our decoder and with the generated code. If ours accepts raw, both results must be equal.
func checkProtobuf(t *testing.T, d *protobufDecoder, typ reflect.Type, raw []byte) (taken bool) {
	t.Helper()
	ours, theirs := reflect.New(typ), reflect.New(typ)
	taken, err := d.decode(raw, ours.Elem(), nil, reuse{layout: &layout{}}, nil)
	if !taken || err != nil {
		return false
	}
	if err := theirs.Interface().(message).Unmarshal(raw); err != nil {
		t.Fatalf("%q: accepted, but rejected by the generated code: %v", raw, err)
	}
	if !reflect.DeepEqual(theirs.Interface(), ours.Interface()) {
		t.Fatalf("%q: differs (-generated +ours):\n%s", raw, cmp.Diff(theirs.Interface(), ours.Interface()))
	}
	return true
}

// checkJSON decodes raw with our decoder and with the library. If ours accepts raw, both results must be equal.
func checkJSON(t *testing.T, d *jsonDecoder, typ reflect.Type, raw []byte) (taken bool) {
	t.Helper()
	ours, theirs := reflect.New(typ), reflect.New(typ)
	taken, err := d.decode(raw, ours.Elem(), nil, reuse{layout: &layout{}}, nil)
	if !taken || err != nil {
		return false
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, theirs.Interface()); err != nil {
		t.Fatalf("%s: accepted, but rejected by the library: %v", raw, err)
	}
	if !reflect.DeepEqual(theirs.Interface(), ours.Interface()) {
		t.Fatalf("%s: differs (-library +ours):\n%s", raw, cmp.Diff(theirs.Interface(), ours.Interface()))
	}
	return true
}

// Our decoders accept the output of API servers for every built-in kind.
func TestDecodersTakeBuiltinKinds(t *testing.T) {
	for _, gvk := range builtinKinds() {
		typ := scheme.Scheme.AllKnownTypes()[gvk]
		inJSON, inProtobuf := newPeer(t, MediaJSON, gvk.GroupVersion()), newPeer(t, MediaProtobuf, gvk.GroupVersion())
		fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(7), scheme.Codecs)
		fromJSON, fromProtobuf := newJSONDecoder(plans{}, true, newInterner()), newProtobufDecoder(plans{}, true, newInterner())
		for range 5 {
			obj := reflect.New(typ).Interface().(runtime.Object)
			fill.Fill(obj)
			if raw := inJSON.encode(t, obj); !checkJSON(t, fromJSON, typ, raw) {
				t.Errorf("%v: rejected: %s", gvk, raw)
			}
			if raw, _ := Unwrap(inProtobuf.encode(t, obj)); !checkProtobuf(t, fromProtobuf, typ, raw) {
				t.Errorf("%v: rejected: %q", gvk, raw)
			}
		}
	}
	fromJSON, fromProtobuf := newJSONDecoder(plans{}, true, newInterner()), newProtobufDecoder(plans{}, true, newInterner())
	inJSON, inProtobuf := newPeer(t, MediaJSON, corev1.SchemeGroupVersion), newPeer(t, MediaProtobuf, corev1.SchemeGroupVersion)
	for pod := range fleet.New(fleet.Config{Pods: 300}).All() {
		if raw := inJSON.encode(t, pod); !checkJSON(t, fromJSON, reflect.TypeFor[corev1.Pod](), raw) {
			t.Errorf("refused: %s", raw)
		}
		if raw, _ := Unwrap(inProtobuf.encode(t, pod)); !checkProtobuf(t, fromProtobuf, reflect.TypeFor[corev1.Pod](), raw) {
			t.Errorf("refused: %q", raw)
		}
	}
}

// The JSON decoder rejects unusual input and leaves it to the library, which returns an error or decodes more of it.
func TestJSONDecoderRefuses(t *testing.T) {
	for _, raw := range []string{
		``, `[]`, `"a"`, `{`, `{}}`, `{} {}`, `{},`, `{"kind":"Pod"`, `{"kind":"Pod",}`, `{,}`, `{"kind" "Pod"}`, `{"kind":Pod}`, `{kind:"Pod"}`, `{"kind":'Pod'}`,
		`{"kind":"a","kind":"b"}`, `{"ki\u006ed":"Pod"}`, "{\"kind\":\"a\nb\"}", "{\"kind\":\"\xff\"}", `{"kind":"\ud800"}`, `{"kind":"\x"}`, `{"kind":"a`, `{"kind":7}`,
		`{"metadata":{"generation":1.5}}`, `{"metadata":{"generation":01}}`, `{"metadata":{"generation":1e3}}`, `{"metadata":{"generation":-}}`, `{"metadata":{"generation":"1"}}`,
		`{"metadata":{"generation":9223372036854775808}}`, `{"metadata":{"generation":+1}}`, `{"metadata":{"generation":1x}}`, `{"metadata":{"generation":}}`,
		`{"metadata":{"labels":{"a":1}}}`, `{"metadata":{"labels":{"a":"b","a":"c"}}}`, `{"metadata":{"labels":{"a":"b",}}}`, `{"metadata":{"labels":["a"]}}`, `{"metadata":{"labels":{"a"}}}`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`, `{"metadata":{"creationTimestamp":1}}`, `{"metadata":{"finalizers":["a",]}}`, `{"metadata":{"finalizers":["a" "b"]}}`,
		`{"metadata":{"finalizers":{}}}`, `{"metadata":{"finalizers":["a"}}`, `{"metadata":nul}`, `{"spec":{"hostNetwork":yes}}`, `{"spec":{"hostNetwork":tru}}`, `{"spec":{"hostNetwork":"true"}}`,
		`{"spec":{"activeDeadlineSeconds":true}}`, `{"spec":{"containers":[{"resources":{"limits":{"cpu":"much"}}}]}}`, `{"spec":{"containers":[{"resources":{"limits":{"cpu":"1","cpu":"2"}}}]}}`,
		`{"spec":{"containers":[{"ports":[{"containerPort":2147483648}]}]}}`, `{"spec":{"overhead":{"cpu":}}}`,
	} {
		d := newJSONDecoder(plans{}, true, newInterner())
		if checkJSON(t, d, reflect.TypeFor[corev1.Pod](), []byte(raw)) {
			t.Errorf("%s was accepted", raw)
		}
		// After a rejection, the next object decodes normally.
		if good := `{"metadata":{"labels":{"a":"b"},"finalizers":["c"],"generation":-7},"spec":{"overhead":{"cpu":"1"},"containers":[{"name":"d"}]}}`; !checkJSON(t, d, reflect.TypeFor[corev1.Pod](), []byte(good)) {
			t.Errorf("after %s, a valid object was rejected", raw)
		}
	}
}

// Types unlike those of the API are left to the library, or decode as it does.
func TestJSONDecoderOddTypes(t *testing.T) {
	type inner struct {
		A string `json:"a"`
		B []int
	}
	type Named string
	type odd struct {
		inner    `json:"inner"`
		Ignored  string            `json:"-"`
		Quoted   int               `json:",string"`
		Array    [2]int            `json:"array"`
		Any      any               `json:"any"`
		Bytes    []byte            `json:"bytes"`
		Float    float64           `json:"float"`
		Map      map[int]string    `json:"map"`
		Named    map[Named][]Named `json:"named"`
		Pointers **int             `json:"pointers"`
		Small    int8              `json:"small"`
		Unsigned *uint16           `json:"unsigned"`
	}
	type Embedded struct {
		Kind string `json:"kind"`
		Same string `json:"same"`
	}
	type embeds struct {
		Embedded
		*metav1.ObjectMeta
		Same int `json:"same"`
	}
	type twoTexts struct {
		metav1.Time
		metav1.MicroTime
		Kind string `json:"kind"`
	}
	type Flat struct {
		Embedded `json:",inline"`
		Spec     struct {
			Node  *string           `json:"nodeName"`
			Empty struct{}          `json:"empty"`
			Maps  map[string]*inner `json:"maps"`
		} `json:"spec"`
	}
	for _, c := range []struct {
		typ   reflect.Type
		raw   string
		taken bool
	}{
		{reflect.TypeFor[odd](), `{"inner":{"a":"x","B":[1,2]},"Quoted":"7"}`, false},
		{reflect.TypeFor[odd](), `{"array":[1,2],"any":{"a":[1,2.5]},"bytes":"aGk=","float":1e3,"map":{"1":"a"}}`, false},
		{reflect.TypeFor[embeds](), `{"kind":"a","same":7,"name":"b"}`, false},
		{reflect.TypeFor[Flat](), `{"kind":"a","same":"b","spec":{"nodeName":"n","empty":{"x":1},"maps":{"a":{"a":"x"},"b":null}},"more":[{"a":"]"}]}`, true},
		{reflect.TypeFor[Flat](), `{ "kind" : "a\u00e9\n" , "same":"\u00e9é" , "spec" : { "nodeName" : null , "maps" : { } } } `, true},
		{reflect.TypeFor[twoTexts](), `{"kind":"a"}`, true},
		{reflect.TypeFor[struct{}](), `{"a":1}`, true},
		{reflect.TypeFor[corev1.Pod](), `{"metadata":{"generation":-0,"deletionGracePeriodSeconds":0}}`, true},
		{reflect.TypeFor[corev1.Secret](), `{"metadata":{"name":"a"},"data":{"k":"aGk="}}`, true},
	} {
		if taken := checkJSON(t, newJSONDecoder(plans{}, true, newInterner()), c.typ, []byte(c.raw)); taken != c.taken {
			t.Errorf("%v from %s: accepted is %t", c.typ, c.raw, taken)
		}
	}
}

type OddBig struct {
	A [1024]byte
	B int
}

// The reader skips other members of a watch frame, which no server sends today.
func TestFrameWithMoreMembers(t *testing.T) {
	stream := `{"type":"ADDED","object":{"metadata":{"name":"a"}},"more":{"x":"}"}}` + "\n" + `{"type":"MODIFIED","object":{"metadata":{"name":"b"}}}` + "\n" + `{"more":{},"object":{"metadata":{"name":"c"}},"type":"DELETED"}` + "\n"
	frames := NewFrames(strings.NewReader(stream), JSON, nil, nil)
	c := codec[*corev1.Pod]{element: reflect.TypeFor[corev1.Pod]()}
	for _, want := range []string{"ADDED a", "MODIFIED b", "DELETED c"} {
		f, err := nextFrame(frames)
		if err != nil {
			t.Fatal(err)
		}
		pod, err := c.decode(JSON, f.Raw, nil, false)
		if err != nil || f.Event+" "+pod.Name != want {
			t.Errorf("%s: %v, %v", want, pod, err)
		}
	}
	if _, err := nextFrame(frames); err != io.EOF {
		t.Error(err)
	}
}

// Frames and lists decode as in client-go, however the server spells them.
func TestFramesAndListsWrittenUnusually(t *testing.T) {
	pod := `{"metadata":{"name":"a"}}`
	frames := NewFrames(strings.NewReader(`{"t\u0079pe":"ADD\u0045D","obj\u0065ct":`+pod+`}`), JSON, nil, nil)
	if f, err := nextFrame(frames); err != nil || f.Event != "ADDED" || string(f.Raw) != pod {
		t.Errorf("%+v, %v", f, err)
	}
	info := ListInfo{}
	n := 0
	err := readList(strings.NewReader(`{"\u006betadata":{},"k\u0069nd":"PodLis\u0074","m\u0065tadata":{"resourceVersion":"\u0037"},"item\u0073":[`+pod+`]}`), JSON, &info, func([]byte) { n++ })
	if err != nil || n != 1 || info.Kind != "PodList" || info.ResourceVersion != "7" {
		t.Errorf("%d items, %+v, %v", n, info, err)
	}
	if err := readList(strings.NewReader(`{"items":[],"item\u0073":[]}`), JSON, &info, func([]byte) {}); !errors.Is(err, errTwoLists) {
		t.Error(err)
	}

	enveloped := append([]byte(protobufMagic), appendField(nil, unknownRaw, []byte("x"))...)
	event := appendField(appendField(nil, watchEventType, []byte("x")), watchEventObject, appendField(nil, rawExtensionRaw, enveloped))
	event = appendField(appendField(event, watchEventType, []byte("ADDED")), watchEventObject, nil) // merged into the first
	frames = NewFrames(strings.NewReader("\x00\x00\x00"+string(rune(len(event)))+string(event)), Protobuf, nil, nil)
	if f, err := nextFrame(frames); err != nil || f.Event != "ADDED" || string(f.Raw) != "x" {
		t.Errorf("%+v, %v", f, err)
	}
	body := protobufMagic + string(appendField(nil, unknownTypeMeta, appendField(appendField(nil, typeMetaAPIVersion, []byte("v1")), typeMetaKind, []byte("PodList"))))
	body += string(appendField(appendField(nil, unknownTypeMeta, appendField(nil, typeMetaAPIVersion, []byte("v2"))), unknownRaw, nil))
	info = ListInfo{}
	if err := readList(strings.NewReader(body), Protobuf, &info, func([]byte) {}); err != nil || info.Kind != "PodList" || info.APIVersion != "v2" {
		t.Errorf("%+v, %v", info, err)
	}
}

// Several frames may be on one line.
func TestFramesOnOneLine(t *testing.T) {
	frame := func(name string) string { return `{"type":"ADDED","object":{"metadata":{"name":"` + name + `"}}}` }
	for _, between := range []string{"", " ", "\t \r"} {
		frames := NewFrames(strings.NewReader(frame("a")+between+frame("b}{")+between+frame("c")+"\n"+frame("d")+"\n"+frame("e")), JSON, nil, nil)
		for _, want := range []string{"a", "b}{", "c", "d", "e"} {
			f, err := nextFrame(frames)
			if id := JSON.Peek(f.Raw); err != nil || string(id.Name) != want || !jsontext.Value(f.Raw).IsValid() {
				t.Errorf("%q, %v, want %s", f.Raw, err, want)
			}
		}
		if _, err := nextFrame(frames); err != io.EOF {
			t.Error(err)
		}
	}
}
