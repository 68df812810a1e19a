package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// Malformed protobuf is no list, not even an empty one, and yields no fields.
// Guarantees: R22
func TestMalformedProtobufList(t *testing.T) {
	long := strings.Repeat("\x80", 9)
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"nothing":                      {"k8s\x00", io.ErrUnexpectedEOF},
		"no list":                      {"k8s\x00\x0a\x00", io.ErrUnexpectedEOF},
		"field 0 around a list":        {"k8s\x00\x02\x02\x12\x00", proto.ErrMalformed},
		"field 0 around an item":       {"k8s\x00\x12\x04\x02\x02\x12\x00", proto.ErrMalformed},
		"field 2^32+2":                 {"k8s\x00\x12\x00\x92\x80\x80\x80\x80\x01\x00", proto.ErrMalformed},
		"length of 2^64":               {"k8s\x00\x12" + long + "\x02", proto.ErrMalformed},
		"length of 11 bytes":           {"k8s\x00\x12" + long + "\x80\x00", proto.ErrMalformed},
		"group":                        {"k8s\x00\x12\x02\x1b\x1c", proto.ErrMalformed},
		"item longer than list":        {"k8s\x00\x12\x02\x12\x01x", proto.ErrMalformed},
		"fixed field longer than list": {"k8s\x00\x12\x01\x1912345678", proto.ErrMalformed},
		"tag longer than list":         {"k8s\x00\x12\x01\x92\x01\x00", proto.ErrMalformed},
		"two lists":                    {"k8s\x00\x12\x00\x12\x00", errTwoLists},
	} {
		err := readList(strings.NewReader(c.body), Protobuf, &ListInfo{}, func(raw []byte) { t.Errorf("%s: item %q", name, raw) })
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Peek and cut find nothing in metadata that the generated code rejects. They agree with it on the rest.
func TestMalformedProtobufObject(t *testing.T) {
	tooLong := strings.Repeat("\xff", 9) + "\x02"
	for _, field := range []string{
		"\x12", "\x12\x01", "\x12\x7f1", "\x12" + tooLong, "\x12" + tooLong[:9] + "\x01", "\x10", "\x191234567",
		"\x1d123", "\x1b", "\x00\x00", "\x02\x00", tooLong, "\x92\x80\x80\x80\x80\x01\x00",
		"\x9b\x06\x9c\x06", "\x9b\x06\x08\x01\x13\x1a\x01x\x00\x00\x14\x9c\x06", "\x9b\x06\x08\x01", "\x9c\x06", "\x9b\x06\x1a\x05x\x9c\x06", "\x9b\x06\x1912345678\x0d1234\x9c\x06", // groups
		"\x9b\x06\x0f\x9c\x06", "\x9b\x06\x191234567", "\x98\x06" + tooLong, "\x98\x06" + tooLong[:9] + "\x80\x00",
		"\x8a\x80\x80\x80\x80\x01\x02\x12\x00", // a name whose field number has too many bits
	} {
		meta := "\x0a\x01a\x8a\x01\x00" + field // name and managedFields
		raw := "\x0a" + string(rune(len(meta))) + meta
		var want metav1.PartialObjectMetadata
		refused := want.Unmarshal([]byte(raw))
		id := peekProtobuf([]byte(raw), false)
		switch cut := cutProtobuf([]byte(raw), nil); {
		case refused != nil && (id.Name != nil || len(cut) != len(raw)):
			t.Errorf("%q: peeked %+v, cut to %q", field, id, cut)
		case refused == nil && (string(id.Name) != want.Name || len(cut) != len(raw)-3):
			t.Errorf("%q: peeked %+v, not %q, cut to %q", field, id, want.Name, cut)
		}
		if id := peekProtobuf([]byte(field), false); id.Name != nil {
			t.Errorf("%q: peeked %+v", field, id)
		}
		refused = new(kruntime.Unknown).Unmarshal([]byte(field))
		if msg, err := Unwrap([]byte(protobufMagic + field)); (err == nil) != (refused == nil) {
			t.Errorf("%q: unwrapped %q, %v; the generated code's error is %v", field, msg, err, refused)
		}
	}
}

// The generated code rejects a field with a wrong type. Such a field does not hide the others.
func TestWrongTypeInProtobuf(t *testing.T) {
	generateName := "\x10" + strings.Repeat("\xff", 9) + "\x02"
	if id := peekProtobuf(appendField(nil, objectMetadata, []byte("\x0a\x01a"+generateName)), false); string(id.Name) != "a" {
		t.Errorf("peeked %+v", id)
	}
	if msg, err := Unwrap([]byte(protobufMagic + generateName)); err == nil {
		t.Errorf("unwrapped %q", msg)
	}
}

// Peek reads the same identity as the decoders, also from escaped or repeated metadata.
func TestPeekIsWhatIsDecoded(t *testing.T) {
	metadata := func(fields ...string) string { // of protobuf
		return string(appendField(nil, objectMetadata, []byte(strings.Join(fields, ""))))
	}
	field := func(number int, value string) string { return string(appendField(nil, number, []byte(value))) }
	all := field(metaName, "a") + field(metaNamespace, "b") + field(metaUID, "c") + field(metaRV, "d")
	for _, c := range []struct{ name, raw, want string }{
		{"plain", `{"metadata":{"name":"a","namespace":"b","uid":"c","resourceVersion":"d"}}`, "a b c d"},
		{"escaped", `{"metadata":{"name":"a\u0026b","namespace":"\u0062","uid":"\"\/\b","resourceVersion":"\u0031"}}`, "a&b b \"/\b 1"},
		{"escaped members", `{"\u006detadata":{"n\u0061me":"a","n\u0061mespace":"b","u\u0069d":"c","resourceVersio\u006e":"d"}}`, "a b c d"},
		{"surrogate pair", `{"metadata":{"name":"\ud83d\ude00"}}`, "\U0001f600   "},
		{"half of a surrogate pair", `{"metadata":{"name":"\ud83d","uid":"\ude00\ud83d"}}`, "\ufffd  \ufffd\ufffd "},
		{"not ASCII", `{"metadata":{"name":"é"}}`, "é   "},
		{"broken UTF-8", "{\"metadata\":{\"name\":\"\xff\xc3\"}}", "\ufffd\ufffd   "},
		{"member in broken UTF-8", "{\"metadata\":{\"name\":\"a\",\"\xffname\":\"b\"}}", "a   "},
		{"name twice", `{"metadata":{"name":"x","namespace":"b","uid":"c","resourceVersion":"d","name":"a"}}`, "a b c d"},
		{"name twice, escaped", `{"metadata":{"name":"x","n\u0061me":"a"}}`, "a   "},
		{"name, then null", `{"metadata":{"name":"a","name":null}}`, "a   "},
		{"null, then name", `{"metadata":{"name":null,"name":"a"}}`, "a   "},
		{"metadata twice", `{"metadata":{"name":"x","namespace":"b","uid":"c","resourceVersion":"d"},"metadata":{"name":"a"}}`, "a b c d"},
		{"metadata, then null", `{"metadata":{"name":"a"},"metadata":null}`, "a   "},
		{"null, then metadata", `{"metadata":null,"metadata":{"name":"a"}}`, "a   "},
		{"other case", `{"metadata":{"Name":"x","name":"a","NAME":"y"},"Metadata":{"name":"z"}}`, "a   "},
		{"deeper", `{"spec":{"metadata":{"name":"x"}},"metadata":{"labels":{"name":"y"},"name":"a"},"status":[{"metadata":{"name":"z"}}]}`, "a   "},
		{"protobuf: plain", metadata(all), "a b c d"},
		{"protobuf: each twice", metadata(field(metaName, "x"), field(metaNamespace, "x"), field(metaUID, "x"), field(metaRV, "x"), all), "a b c d"},
		{"protobuf: resource version twice", metadata(all, field(metaRV, "e")), "a b c e"},
		{"protobuf: name emptied", metadata(all, field(metaName, "")), " b c d"},
		{"protobuf: metadata twice", metadata(all) + metadata(field(metaName, "z")), "z b c d"},
		{"protobuf: metadata twice, empty", metadata(all) + metadata(), "a b c d"},
		{"protobuf: metadata around a spec", metadata(all) + field(2, "") + metadata(field(metaRV, "e")), "a b c e"},
		{"protobuf: group", metadata(field(metaName, "x"), "\x9b\x06\x0a\x01y\x9c\x06", all), "a b c d"},
		{"protobuf: broken UTF-8", metadata(field(metaName, "\xff")), "\xff   "},
	} {
		f := JSON
		if strings.HasPrefix(c.name, "protobuf") {
			f = Protobuf
		}
		id := f.Peek([]byte(c.raw))
		if got := fmt.Sprintf("%s %s %s %s", id.Name, id.Namespace, id.UID, id.ResourceVersion); got != c.want {
			t.Errorf("%s: peeked %q, not %q", c.name, got, c.want)
		}
		var decoded metav1.PartialObjectMetadata
		if err := (&codec[*metav1.PartialObjectMetadata]{}).into(&decoded, f, []byte(c.raw), nil, false); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := fmt.Sprintf("%s %s %s %s", decoded.Name, decoded.Namespace, decoded.UID, decoded.ResourceVersion); got != c.want {
			t.Errorf("%s: decoded %q, not %q", c.name, got, c.want)
		}
		checkPeek(t, f, []byte(c.raw))
	}
}

// Cutting never turns invalid JSON into valid JSON.
func TestCutMendsNothing(t *testing.T) {
	for _, raw := range []string{
		`{"metadata":{"managedFields":[] "name":"a"}}`, `{"metadata":{"managedFields":[],}}`, `{"metadata":{,"managedFields":[]}}`,
		`{"metadata":{"name":"a" "managedFields":[]}}`, `{"metadata":{"name":"a","managedFields":[],}}`, `{"metadata":{"managedFields":[]]}}`,
		`{"metadata":{"name":"a","managedFields":[] "uid":"b"}}`, `{"metadata":{"managedFields":[],,"name":"a"}}`,
	} {
		if cut := withoutManaged(JSON, []byte(raw)); jsontext.Value(cut).IsValid() {
			t.Errorf("%s: cut to %s", raw, cut)
		}
	}
}

// The decoder skips managedFields by their brackets. Strings and arrays in them change nothing of the object.
func TestSkippedManagedFieldsChangeNothing(t *testing.T) {
	d := (&codec[*corev1.ConfigMap]{}).decoder()
	for _, managed := range []string{
		`null`, `[]`, `[{}]`, `[{"manager":"m","fieldsV1":{"f:a":{".":{}}}}]`, `[ {"manager":"m"} ]`,
		`[{"manager":"]"}]`, `[{"manager":"}]"}]`, `[{"manager":"}],"}]`, `[{"manager":"}]},"}]`,
		`[{"manager":"}],\"uid\":\"x"}]`, `[{"manager":"}]},\"data\":{"}]`,
		`[{"fieldsV1":{"f:a":[{}],"uid":"x"}}]`, `[{"fieldsV1":{"f:a":[{}]},"data":{}}]`, `[{"fieldsV1":[{"a":[{}],"uid":"x"}],"uid":"y"}]`,
		`[{"a":[{}]},"data",{}]`, `[` + strings.Repeat(`{"manager":"]]"},`, 10) + `{}]`,
	} {
		for _, behind := range []string{
			`,"uid":"u"},"data":{"k":"v"}}`, `},"data":{"k":"v"}}`, `}}`, `} , "data":{"k":"v"}}`, ` ,"uid":"u"},"data":{"k":"v"}}`, `,"uid":"u"}}`,
		} {
			raw := `{"metadata":{"name":"a","managedFields":` + managed + behind
			var want corev1.ConfigMap
			if err := json.Unmarshal([]byte(raw), &want); err != nil && !json.Valid([]byte(raw)) {
				t.Fatalf("%s: %v", raw, err)
			}
			want.ManagedFields = nil
			var got corev1.ConfigMap
			ok, err := d.json.decode([]byte(raw), reflect.ValueOf(&got).Elem(), nil, reuse{layout: &layout{}}, nil)
			if err != nil {
				t.Errorf("%s: %v", raw, err)
			}
			if array := strings.Contains(managed, "[{}]") && len(managed) > 4; !ok && !array {
				t.Errorf("%s: left to the library", raw)
			}
			if diff := cmp.Diff(want, got); ok && diff != "" {
				t.Errorf("%s: decoded otherwise than by the library:\n%s", raw, diff)
			}
		}
	}
}

// If the name or the namespace of an object cannot be read, its key is empty.
func TestKeyOfAnUnreadableObject(t *testing.T) {
	for raw, want := range map[string]types.NamespacedName{
		`{"metadata":{"name":"a","namespace":"b"},"spec":[}`:    {Namespace: "b", Name: "a"},
		`{"metadata":{"name":"a","namespace":"b"`:               {Namespace: "b", Name: "a"},
		`{"metadata":{"name":"a","namespace":"b","uid":7}}`:     {Namespace: "b", Name: "a"},
		`{"metadata":{"name":"a"}}`:                             {Name: "a"},
		`{"metadata":{"name":"a","namespace":null}}`:            {Name: "a"},
		`{"metadata":{"namespace":"b"}}`:                        {},
		`{"metadata":{"name":"","namespace":"b"}}`:              {},
		`{"metadata":{"name":7,"namespace":"b"}}`:               {},
		`{"metadata":{"name":"\x","namespace":"b"}}`:            {},
		`{"metadata":{"name":"a","namespace":7}}`:               {},
		`{"metadata":{"name":"a","namespace":"\u12"}}`:          {},
		`{"metadata":{"name":"a","namespace":"b\n"}}`:           {Namespace: "b\n", Name: "a"},
		"{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\n\"}}": {},
		`{"metadata":"a"}`:                                      {},
		`[]`:                                                    {},
	} {
		if got := keyOf(JSON.Peek([]byte(raw))); got != want {
			t.Errorf("%s: %v", raw, got)
		}
	}
}

// Peek and Glance allocate no memory.
func TestPeekAllocatesNothing(t *testing.T) {
	fuzzFormats(func(f Format, pods [][]byte) {
		raw := pods[0]
		if f == Protobuf {
			raw, _ = Unwrap(raw)
		}
		if n := testing.AllocsPerRun(100, func() {
			glanced, peeked := f.Glance(raw), f.Peek(raw)
			if !glanced.complete() || !peeked.complete() {
				t.Error("not complete")
			}
		}); n != 0 {
			t.Errorf("format %d: %v allocations", f, n)
		}
	})
}

// Memory is allocated for received bytes, not for announced lengths.
func TestLengthsAllocateNothing(t *testing.T) {
	some := strings.Repeat("x", 100<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, _ = nextFrame(NewFrames(strings.NewReader("\x01\xff\xff\xff"), Protobuf, nil, nil))
		_ = readList(strings.NewReader("k8s\x00\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xff\x0f"), Protobuf, &ListInfo{}, func([]byte) { t.Error("an item") })
		_, _ = nextFrame(NewFrames(strings.NewReader("\x01\xff\xff\xff"+some), Protobuf, nil, nil))
		_ = readList(strings.NewReader("k8s\x00\x12\xff\xff\xff\xff\x0f\x12\xff\xff\xff\x0f"+some), Protobuf, &ListInfo{}, func([]byte) { t.Error("an item") })
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 400*512<<10 {
		t.Errorf("allocated %d kB for each", allocated/400>>10)
	}
}

type knotA struct{ B map[string][]*knotB }
type knotB struct{ A [1]knotA }
type tree struct{ Children []tree }
type free struct{ X, Y *corev1.PodSpec }

// Generated code that calls itself decodes only types that cannot contain themselves.
func TestRecursiveTypes(t *testing.T) {
	for typ, want := range map[reflect.Type]bool{
		reflect.TypeFor[corev1.Pod]():                    false,
		reflect.TypeFor[appsv1.ControllerRevision]():     false,
		reflect.TypeFor[tree]():                          true,
		reflect.TypeFor[unstructured.Unstructured]():     true,
		reflect.TypeFor[knotA]():                         true,
		reflect.TypeFor[knotB]():                         true,
		reflect.TypeFor[struct{ io.Reader }]():           true,
		reflect.TypeFor[free]():                          false,
		reflect.TypeFor[struct{ a, b, c *free }]():       false,
		reflect.TypeFor[struct{ a, b [2][]struct{} }]():  false,
		reflect.TypeFor[struct{ a map[string]*knotA }](): true,
	} {
		if got := recursive(typ, map[reflect.Type]bool{}); got != want {
			t.Errorf("%v: %v", typ, got)
		}
	}
	// These contain themselves since v0.37, and the reviews, which nobody lists, since v0.38.
	themselves := []string{"Workload", "LocalSubjectAccessReview", "SelfSubjectAccessReview", "SubjectAccessReview", "AuthorizationConditionsReview"}
	for _, gvk := range builtinKinds() {
		if typ := scheme.Scheme.AllKnownTypes()[gvk]; recursive(typ, map[reflect.Type]bool{}) && !slices.Contains(themselves, gvk.Kind) {
			t.Errorf("%v contains itself", gvk)
		}
	}
}

// allPointers has the common parts of objects behind pointers.
type allPointers struct {
	*metav1.TypeMeta
	*metav1.ObjectMeta `json:"metadata"`
}

// Guarantees: R22
//
// An object without metadata is an error, also if its metadata is a pointer that stays nil. An object needs no kind.
func TestEmbeddedPointerThatStaysNil(t *testing.T) {
	c, err := newCodec[*allPointers]()
	if err != nil || c.own.typ.protobuf {
		t.Fatalf("%+v, %v", c, err)
	}
	for raw, want := range map[string]string{
		`{"metadata":{"name":"a"}}`:              "",
		`{"kind":"Pod","metadata":{"name":"a"}}`: "",
		`{}`:                                     "its method GetName panics: runtime error: invalid memory address or nil pointer dereference",
		`{"metadata":{"name":"a"},"metadata":null}`:   "its method GetName panics: runtime error: invalid memory address or nil pointer dereference",
		`{"kind":"Pod","metadata":{"namespace":"a"}}`: "it has no metadata.name",
	} {
		obj, err := c.decode(JSON, []byte(raw), nil, false)
		if want == "" && (err != nil || obj.Name != "a" || obj.TypeMeta != nil && obj.Kind != "") || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %+v, %v", raw, obj, err)
		}
	}
	if c, err := newCodec[*podPointer](); err != nil || c.own.typ.protobuf { // Unmarshal would be called on the nil pod
		t.Errorf("%+v, %v", c, err)
	}
}

type podPointer struct{ *corev1.Pod }

type embedsMeta struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
	} `json:"spec"`
}

type embedsKind struct {
	*corev1.Pod `json:",inline"`
	More        string `json:"more"`
}

type embedsBoth struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// A type whose Unmarshal is only promoted from an embedded struct is decoded from JSON. In protobuf, Unmarshal would take an
// object for that struct, and its metadata for a name.
// Guarantees: L4
func TestPromotedUnmarshalIsNoProtobuf(t *testing.T) {
	for _, c := range []struct {
		typ      reflect.Type
		protobuf bool
	}{
		{reflect.TypeFor[*embedsMeta](), false},
		{reflect.TypeFor[*embedsKind](), false},
		{reflect.TypeFor[*embedsBoth](), false},
		{reflect.TypeFor[*corev1.Pod](), true},
		{reflect.TypeFor[*metav1.PartialObjectMetadata](), true},
	} {
		if typ, err := TypeOf(c.typ); err != nil || typ.Protobuf() != c.protobuf {
			t.Errorf("%v: %+v, %v", c.typ, typ, err)
		}
	}
	meta, err := newCodec[*embedsMeta]()
	if err != nil {
		t.Fatal(err)
	}
	obj, err := meta.decode(JSON, []byte(`{"metadata":{"name":"a"},"spec":{"nodeName":"n"}}`), nil, false)
	if err != nil || obj.Name != "a" || obj.Spec.NodeName != "n" {
		t.Errorf("%+v, %v", obj, err)
	}
}
