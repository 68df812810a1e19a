package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/resource"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// check checks raw. It fails the test if Check accepts what Decode rejects, or reads another identity or other labels.
// Decode has returned obj and err.
func (u *updates) check(raw []byte, obj any, err error) (taken bool) {
	u.Helper()
	memory := bytes.Clone(raw)
	found, taken := u.d.Check(u.f, memory)
	if !taken {
		return false
	}
	if err != nil {
		u.Fatalf("%q: checked, but not decoded: %v", raw, err)
	}
	want := obj.(metav1.Object)
	checkIdentity(u.T, found.Identity, want)
	labels, last := map[string]string{}, ""
	for key, value := range found.Labels {
		if labels[string(key)] = string(value); len(labels) > 1 && string(key) <= last {
			u.Fatalf("%q: the label %q follows %q", raw, key, last)
		}
		last = string(key)
	}
	if !maps.Equal(labels, want.GetLabels()) {
		u.Fatalf("%q: checked labels %q, decoded %q", raw, labels, want.GetLabels())
	}
	u.alone(memory)
	if !bytes.Equal(raw, memory) {
		u.Fatalf("%q: Check has made it %q", raw, memory)
	}
	return true
}

// alone fails the test if Alone returns something else for raw, which u.d has decoded or checked, than for an object that it does not
// know.
func (u *updates) alone(raw []byte) {
	u.Helper()
	want := bytes.Clone((&Decoder{typ: u.d.typ, keepManagedFields: u.d.keepManagedFields}).without(u.f, raw))
	for range 2 {
		if got := u.d.Alone(u.f, raw); !bytes.Equal(got, want) {
			u.Fatalf("%q: stored as %q instead of %q", raw, got, want)
		}
	}
}

// gadget has what custom resources have.
type gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              gadgetSpec `json:"spec"`
	Status            *struct {
		Conditions []metav1.Condition `json:"conditions"`
		Ready      *bool              `json:"ready"`
	} `json:"status"`
	Picky  picky             `json:"picky"`
	Choosy map[string]*picky `json:"choosy"`
}

type gadgetSpec struct {
	Any      any                        `json:"any"`
	Tree     map[string]any             `json:"tree"`
	Size     resource.Quantity          `json:"size"`
	Sizes    corev1.ResourceList        `json:"sizes"`
	Since    *metav1.Time               `json:"since"`
	Renewed  metav1.MicroTime           `json:"renewed"`
	Every    *metav1.Duration           `json:"every"`
	Port     intstr.IntOrString         `json:"port"`
	Raw      runtime.RawExtension       `json:"raw"`
	Bytes    []byte                     `json:"bytes"`
	Ratio    float64                    `json:"ratio"`
	Pair     [2]int8                    `json:"pair"`
	Numbers  map[int]string             `json:"numbers"`
	Texts    map[string][]string        `json:"texts"`
	Small    *uint8                     `json:"small"`
	Children []gadgetSpec               `json:"children"`
	Named    map[string]map[string]int8 `json:"named"`
}

// picky accepts only small numbers.
type picky struct{ n int }

var errPicky = errors.New("too large a number")

func (p *picky) UnmarshalJSON(raw []byte) error {
	if err := json.Unmarshal(raw, &p.n); err != nil || p.n < 100 {
		return err
	}
	return errPicky
}

// gadgets are gadgets that servers could send, and others.
var gadgets = []string{
	`{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"labels":{"a":"b","c":"d"},"name":"a","namespace":"b","resourceVersion":"7","uid":"u"},"spec":{"any":[1,2.5,"x",null,{"a":{}}],"bytes":"aGk=","children":[{"any":1},{"children":[{"small":7}]}],"every":"1m0s","named":{"a":{"b":-128}},"numbers":{"1":"a"},"pair":[1,2],"port":"http","ratio":1e3,"raw":{"a":[1]},"renewed":"2026-01-02T03:04:05.123456Z","since":"2026-01-02T03:04:05Z","size":"1Gi","sizes":{"cpu":"100m","memory":1},"texts":{"a":["b"],"c":null},"tree":{"a":"\u0001","b":[[]]}},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":null}],"ready":true},"picky":7,"choosy":{"a":99,"b":null}}`,
	`{"metadata":{"name":"a"},"picky":100}`, `{"metadata":{"name":"a"},"choosy":{"a":1,"b":100}}`, `{"metadata":{"name":"a"},"choosy":{"b":1,"a":2}}`,
	`{"metadata":{"name":"a","labels":null,"namespace":null}}`, `{"metadata":{"name":"a","labels":{"a":null}}}`, `{"metadata":{"name":"a","labels":{"b":"1","a":"2"}}}`,
	`{"metadata":{"name":"a","labels":{"a":"1","a":"2"}}}`, `{"metadata":{"name":"a","name":"b"}}`, `{"metadata":{"name":"a","name":null}}`, `{"metadata":{"name":"a","uid":7}}`,
	`{"metadata":{"name":"a","labels":{"a":1}}}`, `{"metadata":{"name":"a","labels":[]}}`, `{"metadata":{"name":"\u0061\"é"}}`, `{"metadata":{"n\u0061me":"a"}}`, `{"metadata":{"name":""}}`,
	`{"metadata":{"name":"a"},"metadata":{"name":"b"}}`, `{"metadata":{"name":"a"},"spec":{"any":1e999}}`, `{"metadata":{"name":"a"},"spec":{"any":12345678901234567890,"tree":{"a":1,"a":2}}}`,
	`{"metadata":{"name":"a"},"spec":{"size":"much"}}`, `{"metadata":{"name":"a"},"spec":{"sizes":{"b":"1","a":"1"}}}`, `{"metadata":{"name":"a"},"spec":{"since":"yesterday"}}`,
	`{"metadata":{"name":"a"},"spec":{"bytes":"!"}}`, `{"metadata":{"name":"a"},"spec":{"small":256}}`, `{"metadata":{"name":"a"},"spec":{"port":[]}}`, `{"metadata":{"name":"a"},"spec":{"raw":{]}}`,
	`{"metadata":{"name":"a"},"spec":{"every":1}}`, `{"metadata":{"name":"a"},"spec":null,"status":null,"picky":null}`, `{"metadata":{"name":"a","managedFields":[{"manager":"m"}]},"spec":{}}`, `{"metadata":{"name":"a","managedFields":[x"manager":"m"}]},"spec":{}}`, `{"metadata":{"name":"a"}},{"spec":{}}`, `{"metadata":{"name":"a"}},"spec":{}`, `{"metadata":null}`, `[]`, ``,
}

// checkedTypes are the types of FuzzCheck.
var checkedTypes = []reflect.Type{
	reflect.TypeFor[*corev1.Pod](), reflect.TypeFor[*corev1.Node](), reflect.TypeFor[*corev1.ConfigMap](), reflect.TypeFor[*corev1.Secret](),
	reflect.TypeFor[*unstructured.Unstructured](), reflect.TypeFor[*gadget](), reflect.TypeFor[*metav1.PartialObjectMetadata](),
}

// FuzzCheck checks and decodes the same bytes: Check accepts only what Decode accepts, and reads the same identity. What a server
// would write of the object, Check accepts too.
func FuzzCheck(f *testing.F) {
	fuzzFormats(func(enc Format, pods [][]byte) {
		for i, pod := range pods {
			other := pods[(i+1)%len(pods)]
			if enc == Protobuf {
				pod, _ = Unwrap(pod)
				other, _ = Unwrap(other)
			}
			for kind := range checkedTypes {
				f.Add(byte(kind), byte(enc), pod)
			}
			for n, changed := range variants(enc, pod, other, 2) {
				if n%50 == 0 {
					f.Add(byte(0), byte(enc), changed)
				}
			}
		}
	})
	for _, raw := range gadgets {
		for kind := range checkedTypes {
			f.Add(byte(kind), byte(JSON), []byte(raw))
		}
	}
	f.Fuzz(func(t *testing.T, kind, enc byte, raw []byte) {
		typ := checkedTypes[int(kind)%len(checkedTypes)]
		u := newUpdates(t, typ, Format(enc%2))
		if u.f == Protobuf && !u.d.typ.Protobuf() {
			return
		}
		obj, err := u.d.Decode(u.f, raw, Origin{})
		u.check(raw, obj, err)
		u.limits(raw, nil)
		if err != nil {
			return
		}
		_, written, err := Encode(obj, u.f == Protobuf, nil)
		if err != nil || bytes.IndexByte(written, '\\') >= 0 || typ == reflect.TypeFor[*gadget]() {
			return // such names are rare, and a picky has no encoding
		}
		for _, c := range written {
			if c >= 0x80 && u.f == JSON {
				return
			}
		}
		if obj, err = u.d.Decode(u.f, written, Origin{}); err == nil && u.takes(written, obj) && !u.check(written, obj, nil) {
			t.Fatalf("%q: decoded, but not checked", written)
		}
	})
}

// takes reports whether our own decoder accepts raw, which is obj, without the library.
func (u *updates) takes(raw []byte, obj any) bool {
	if any, ok := obj.(*unstructured.Unstructured); ok {
		_, found, err := unstructured.NestedFieldNoCopy(any.Object, "metadata", "labels")
		return err == nil && (!found || any.GetLabels() != nil && !bytes.Contains(raw, []byte("null"))) // one may be a label
	}
	v := reflect.New(u.d.typ.elem).Elem()
	var ok bool
	if u.f == JSON {
		ok, _ = u.d.json.decode(raw, v, nil, reuse{layout: noLayout}, nil)
	} else {
		ok, _ = u.d.wire.decode(raw, v, nil, reuse{layout: noLayout}, nil)
	}
	return ok
}

// Check accepts what API servers write of every built-in kind.
func TestCheckTakesBuiltinKinds(t *testing.T) {
	for _, gvk := range builtinKinds() {
		typ := scheme.Scheme.AllKnownTypes()[gvk]
		fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(7), scheme.Codecs)
		for _, media := range []string{MediaJSON, MediaProtobuf} {
			f, _ := FormatOf(media)
			peer, u := newPeer(t, media, gvk.GroupVersion()), newUpdates(t, reflect.PointerTo(typ), f)
			for range 5 {
				obj := reflect.New(typ).Interface().(runtime.Object)
				fill.Fill(obj)
				meta := obj.(metav1.Object)
				meta.SetName("a")
				meta.SetLabels(map[string]string{"b": "c", "a": "d"})
				raw := peer.encode(t, obj)
				if f == Protobuf {
					raw, _ = Unwrap(raw)
				}
				decoded, err := u.d.Decode(f, raw, Origin{})
				if taken := u.check(raw, decoded, err); !taken && !escapedKeys(raw) {
					t.Errorf("%v: not checked: %q", gvk, raw)
				}
			}
		}
	}
}

// escapedKeys reports whether raw may have keys of maps that no API server accepts, such as those of the fuzzer.
func escapedKeys(raw []byte) bool {
	return bytes.ContainsFunc(raw, func(r rune) bool { return r >= 0x80 }) || bytes.IndexByte(raw, '\\') >= 0
}

// Only the other members of a frame may follow an object.
// Guarantees: D4
func TestWhatFollowsAnObject(t *testing.T) {
	const object = `{"metadata":{"name":"a"}}`
	for behind, ok := range map[string]bool{
		``: true, ` `: true, `,"x":1`: true, ` , "x" : {"y":[]} , "z" : null `: true,
		`,`: false, `,{"spec":{}}`: false, `,"x"`: false, `,"x":`: false, `,"x":1}`: false, `}`: false, `{}`: false, `,"x":1,`: false,
	} {
		for _, typ := range checkedTypes {
			u := newUpdates(t, typ, JSON)
			if _, err := u.d.Decode(JSON, []byte(object+behind), Origin{}); (err == nil) != ok {
				t.Errorf("%v with %q behind it: %v", typ, behind, err)
			}
		}
	}
}

// Check accepts the first gadget, and does what Decode does with the others.
// Guarantees: D3
func TestCheckOfGadgets(t *testing.T) {
	taken := 0
	for i, raw := range gadgets {
		for _, typ := range []reflect.Type{reflect.TypeFor[*gadget](), reflect.TypeFor[*unstructured.Unstructured]()} {
			u := newUpdates(t, typ, JSON)
			obj, err := u.d.Decode(JSON, []byte(raw), Origin{})
			switch ok := u.check([]byte(raw), obj, err); {
			case ok:
				taken++
			case i == 0:
				t.Errorf("%v: not checked: %s", typ, raw)
			}
		}
	}
	if taken < 10 {
		t.Errorf("%d were checked", taken)
	}
}

type namedAnew struct {
	metav1.ObjectMeta `json:"metadata"`
	Other             string `json:"other"`
}

func (n *namedAnew) GetName() string {
	if n.ObjectMeta.GetName() == "" {
		return n.Other
	}
	return n.ObjectMeta.GetName()
}

type namedByValue struct {
	metav1.ObjectMeta `json:"metadata"`
	Other             string `json:"other"`
}

func (n namedByValue) GetName() string { return n.Other }

type namedBelow struct{ namedAnew }

type labeledAnew struct {
	metav1.ObjectMeta `json:"metadata"`
}

func (*labeledAnew) GetLabels() map[string]string { return map[string]string{"a": "b"} }

type generic[T any] struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              T `json:"spec"`
}

func (*generic[T]) GetUID() (uid string) { return "1" }

type unnamed struct {
	metav1.ObjectMeta `json:"other"`
	Meta              metav1.ObjectMeta `json:"metadata"`
}

type behindPointer struct {
	*metav1.ObjectMeta `json:"metadata"`
}

// Only the metadata's own methods tell what an object is called. An object of a type with other methods is decoded.
// Guarantees: D3
func TestCheckNeedsTheMethodsOfMetadata(t *testing.T) {
	for _, c := range []struct {
		typ   reflect.Type
		plain bool
	}{
		{reflect.TypeFor[corev1.Pod](), true}, {reflect.TypeFor[gadget](), true}, {reflect.TypeFor[metav1.PartialObjectMetadata](), true},
		{reflect.TypeFor[unstructured.Unstructured](), true}, {reflect.TypeFor[smalls](), true},
		{reflect.TypeFor[namedAnew](), false}, {reflect.TypeFor[namedByValue](), false}, {reflect.TypeFor[namedBelow](), false},
		{reflect.TypeFor[labeledAnew](), false}, {reflect.TypeFor[generic[int]](), false}, {reflect.TypeFor[unnamed](), false},
		{reflect.TypeFor[behindPointer](), false}, {reflect.TypeFor[struct{}](), false},
	} {
		if got := plain(c.typ); got != c.plain {
			t.Errorf("%v: plain is %t", c.typ, got)
		}
	}
	for _, gvk := range builtinKinds() {
		if typ := scheme.Scheme.AllKnownTypes()[gvk]; !plain(typ) {
			t.Errorf("%v is not plain", typ)
		}
	}
}

// To check a pod again takes no memory.
func TestCheckTakesNoMemory(t *testing.T) {
	for _, f := range []Format{JSON, Protobuf} {
		u := newUpdates(t, reflect.TypeFor[*corev1.Pod](), f)
		raw := fleetFrame(t, f, fleet.New(fleet.Config{Pods: 40}).Pod(7))
		if n := testing.AllocsPerRun(100, func() {
			if _, ok := u.d.Check(f, raw); !ok {
				t.Fatal("not checked")
			}
		}); n > 0 {
			t.Errorf("format %d: %v allocations", f, n)
		}
	}
}

// BenchmarkCheck checks and decodes the pods of a fleet.
func BenchmarkCheck(b *testing.B) {
	typ, err := TypeOf(reflect.TypeFor[*corev1.Pod]())
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range []Format{JSON, Protobuf} {
		var raw [][]byte
		for pod := range fleet.New(fleet.Config{Pods: 500}).All() {
			raw = append(raw, fleetFrame(b, f, pod))
		}
		for _, way := range []string{"check", "decode"} {
			b.Run(fmt.Sprintf("format=%s/way=%s", strings.ToLower(map[Format]string{JSON: "JSON", Protobuf: "protobuf"}[f]), way), func(b *testing.B) {
				d := NewDecoder(typ, false)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					pod := raw[i%len(raw)]
					if way == "check" {
						if _, ok := d.Check(f, pod); !ok {
							b.Fatal("not checked")
						}
					} else if _, err := d.Decode(f, pod, Origin{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
