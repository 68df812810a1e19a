package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/typedinformer/informer/internal/source/decode/proto"
)

// A version before of another Go type, or nil, is as if there was none. Config.Transform can return objects of different types.
// Guarantees: D5
func TestVersionBeforeOfAnotherTypeIsIgnored(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	maps := &corev1.ConfigMap{ObjectMeta: *pod.ObjectMeta.DeepCopy(), Data: map[string]string{"a": "b"}}
	tree := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "a"}, "data": map[string]any{"a": "b"}}}
	others := []any{nil, pod, *pod, (*corev1.Pod)(nil), maps, *maps, (*corev1.ConfigMap)(nil), tree, *tree, (*unstructured.Unstructured)(nil), 7, new(int), "a", &maps}
	podRaw, _ := pod.Marshal()
	podJSON, _ := json.Marshal(pod)
	mapsRaw, _ := maps.Marshal()
	mapsJSON, _ := json.Marshal(maps)
	for _, c := range []struct {
		typ reflect.Type
		f   Format
		raw []byte
	}{
		{reflect.TypeFor[*corev1.Pod](), JSON, podJSON}, {reflect.TypeFor[*corev1.Pod](), Protobuf, podRaw},
		{reflect.TypeFor[*corev1.ConfigMap](), JSON, mapsJSON}, {reflect.TypeFor[*corev1.ConfigMap](), Protobuf, mapsRaw},
		{reflect.TypeFor[*unstructured.Unstructured](), JSON, mapsJSON},
		{reflect.TypeFor[*unstructured.Unstructured](), JSON, podJSON},
	} {
		u := newUpdates(t, c.typ, c.f)
		for _, before := range others {
			if before != nil && reflect.TypeOf(before) == c.typ && !reflect.ValueOf(before).IsNil() {
				continue // it has no marks
			}
			got := u.decode(c.raw, before)
			want := u.decode(c.raw, nil)
			u.d.Adopt(before, got)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v after %T: (-want +got):\n%s", c.typ, before, cmp.Diff(want, got))
			}
		}
	}
	u := newUpdates(t, reflect.TypeFor[*corev1.Pod](), JSON)
	for _, before := range others {
		for _, now := range others {
			u.d.Adopt(before, now) // does not panic
		}
	}
}

// fromMethods is memory that methods of the types of this file return. All objects refer to the same. It has two values that differ in
// Version only, in memory of their own.
var fromMethods = sync.OnceValue(func() map[string]*methodMemory {
	return map[string]*methodMemory{"1": newMethodMemory(1), "2": newMethodMemory(2)}
})

type methodMemory struct {
	To      *methodPart
	List    []methodPart
	Tos     []*methodPart
	Tree    map[string]any
	Any     any
	Map     map[string]*methodPart
	Version int
}

type methodPart struct {
	Name    *string
	Words   []string
	Labels  map[string]string
	Version int
}

func newMethodMemory(version int) *methodMemory {
	tree := func() map[string]any {
		return map[string]any{"list": []any{"a", map[string]any{"b": strings.Clone("c")}}, "map": map[string]any{"version": int64(version)}, "version": int64(version)}
	}
	part := func() methodPart {
		name := strings.Clone("name")
		return methodPart{&name, []string{strings.Clone("word")}, map[string]string{"a": "b"}, version}
	}
	to, in, under := part(), part(), part()
	return &methodMemory{
		&to, []methodPart{part(), part()}, []*methodPart{&in}, tree(), []any{tree()}, map[string]*methodPart{"a": &under}, version,
	}
}

// addresses returns the addresses of everything in v that could be replaced by an equal value.
func addresses(v reflect.Value) (all []unsafe.Pointer) {
	switch v.Kind() {
	case reflect.Pointer:
		all = append(all, v.UnsafePointer())
	case reflect.Slice:
		all = append(all, v.UnsafePointer())
		for i := range v.Len() {
			all = append(all, addresses(v.Index(i))...)
		}
		return all
	case reflect.Map:
		all = append(all, v.UnsafePointer())
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, key := range keys {
			all = append(all, addresses(v.MapIndex(key))...)
		}
		return all
	case reflect.Struct:
		for i := range v.NumField() {
			all = append(all, addresses(v.Field(i))...)
		}
		return all
	case reflect.String:
		return append(all, unsafe.Pointer(unsafe.StringData(v.String())))
	case reflect.Interface:
	default:
		return nil
	}
	return append(all, addresses(v.Elem())...)
}

var errUnknownValue = errors.New("unknown value")

// set sets m to the value that raw names.
func (m *methodMemory) set(raw string) error {
	known := fromMethods()[strings.Trim(raw, `"`)]
	if known == nil {
		return errUnknownValue
	}
	*m = *known
	return nil
}

type (
	byJSON struct{ methodMemory }
	byText struct{ methodMemory }
	// treeByJSON is a map, to which a tree can be written.
	treeByJSON map[string]any
)

func (m *byJSON) UnmarshalJSON(raw []byte) error { return m.set(string(raw)) }
func (m *byText) UnmarshalText(raw []byte) error { return m.set(string(raw)) }
func (m *treeByJSON) UnmarshalJSON(raw []byte) error {
	var v methodMemory
	err := v.set(string(raw))
	*m = v.Tree
	return err
}

// byProto has no field that could contain another byProto: such a type is not decoded from protobuf.
type byProto struct {
	To      *methodPart
	List    []methodPart
	Tos     []*methodPart
	Map     map[string]*methodPart
	Version int
}

func (m *byProto) Unmarshal(raw []byte) error {
	var v methodMemory
	err := v.set(string(raw))
	*m = byProto{v.To, v.List, v.Tos, v.Map, v.Version}
	return err
}

// withMethods has values that methods make, at every kind of place.
type withMethods struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`

	In     byJSON            `json:"in"`
	To     *byJSON           `json:"to"`
	List   []byJSON          `json:"list"`
	Tos    []*byJSON         `json:"tos"`
	Map    map[string]byJSON `json:"map"`
	Array  [1]byJSON         `json:"array"`
	Text   byText            `json:"text"`
	Texts  []byText          `json:"texts"`
	Tree   treeByJSON        `json:"tree"`
	Trees  []treeByJSON      `json:"trees"`
	Quoted struct {          // the library decodes it
		Odd int    `json:"odd,string"`
		In  byJSON `json:"in"`
	} `json:"quoted"`
}

// withMethodsOdd is decoded by the library.
type withMethodsOdd struct {
	withMethods `json:",inline"`
	Odd         int `json:"odd,string"`
}

// allByMethod decodes itself.
type allByMethod struct {
	metav1.ObjectMeta
	Value methodMemory
}

func (m *allByMethod) UnmarshalJSON(raw []byte) error {
	m.Name = "a"
	value := string(raw[strings.Index(string(raw), `"in":`)+len(`"in":`):])
	return m.Value.set(value[:1])
}

func methodsJSON(version string) []byte {
	values := map[string]any{}
	for name, pattern := range map[string]string{
		"in": `%s`, "to": `%s`, "list": `[%[1]s,%[1]s]`, "tos": `[%s]`, "map": `{"a":%s}`, "array": `[%s]`, "text": `"%s"`, "texts": `["%s"]`,
		"tree": `%s`, "trees": `[%s]`, "quoted": `{"odd":"1","in":%s}`,
	} {
		values[name] = json.RawMessage(fmt.Sprintf(pattern, version))
	}
	values["metadata"] = json.RawMessage(fmt.Sprintf(`{"name":"a","resourceVersion":%q}`, version))
	b, err := json.Marshal(values)
	if err != nil {
		panic(err)
	}
	return b
}

// protobufMethods is a message with values that a method makes.
type protobufMethods struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`

	In   byProto            `protobuf:"bytes,2,opt,name=in"`
	To   *byProto           `protobuf:"bytes,3,opt,name=to"`
	List []byProto          `protobuf:"bytes,4,rep,name=list"`
	Map  map[string]byProto `protobuf:"bytes,5,rep,name=map"`
}

func (m *protobufMethods) Unmarshal(raw []byte) (err error) {
	_ = proto.Fields(raw, func(f proto.Field) bool {
		var v byProto
		switch f.Number {
		case 1:
			err = m.ObjectMeta.Unmarshal(f.Bytes)
		case 2:
			err = m.In.Unmarshal(f.Bytes)
		case 3:
			err = v.Unmarshal(f.Bytes)
			m.To = &v
		case 4:
			err = v.Unmarshal(f.Bytes)
			m.List = append(m.List, v)
		case 5:
			m.Map = map[string]byProto{"a": fromProto(string(f.Bytes[len(f.Bytes)-1:]))}
		}
		return err == nil
	})
	return err
}

func fromProto(version string) (v byProto) {
	if err := v.Unmarshal([]byte(version)); err != nil {
		panic(err)
	}
	return v
}

func methodsProtobuf(version string) []byte {
	meta := proto.AppendBytes(proto.AppendBytes(nil, metaName, []byte("a")), metaRV, []byte(version))
	b := proto.AppendBytes(nil, objectMetadata, meta)
	for _, number := range []int{2, 3, 4, 4} {
		b = proto.AppendBytes(b, number, []byte(version))
	}
	return proto.AppendBytes(b, 5, proto.AppendBytes(proto.AppendBytes(nil, 1, []byte("a")), 2, []byte(version)))
}

// Memory that a method of the type returned is never written to, since other objects may have it, too: not by our decoders, nor after
// the library, nor by Adopt. Several decoders have it at once: the race detector finds writes of equal values as well.
// Guarantees: D5
func TestMemoryOfAMethodIsNotWritten(t *testing.T) {
	for _, c := range []struct {
		typ reflect.Type
		f   Format
		raw func(version string) []byte
	}{
		{reflect.TypeFor[*withMethods](), JSON, methodsJSON},
		{reflect.TypeFor[*withMethods](), JSON, func(v string) []byte { return append([]byte(`{"\u0069n":1,`), methodsJSON(v)[1:]...) }},
		{reflect.TypeFor[*withMethodsOdd](), JSON, methodsJSON},
		{reflect.TypeFor[*allByMethod](), JSON, methodsJSON},
		{reflect.TypeFor[*protobufMethods](), Protobuf, methodsProtobuf},
		{reflect.TypeFor[*protobufMethods](), Protobuf, func(v string) []byte { return append(methodsProtobuf(v), "\x12\x01"+v...) }}, // a field twice
	} {
		t.Run(fmt.Sprint(c.typ, c.f), func(t *testing.T) {
			typ, err := TypeOf(c.typ)
			if err != nil || c.f == Protobuf && !typ.Protobuf() {
				t.Fatalf("%v cannot be decoded from %v: %v", c.typ, c.f, err)
			}
			all := func() []unsafe.Pointer {
				return slices.Concat(addresses(reflect.ValueOf(fromMethods()["1"])), addresses(reflect.ValueOf(fromMethods()["2"])))
			}
			was := all()
			var done sync.WaitGroup
			for range 2 {
				done.Go(func() {
					d := NewDecoder(typ, false)
					decode := func(version string, from Origin) any {
						obj, err := d.Decode(c.f, c.raw(version), from)
						if err != nil {
							t.Error(err)
							panic(err)
						}
						return obj
					}
					first, second := decode("1", Origin{}), decode("2", Origin{})
					for range 3 {
						for version, before := range map[string]any{"1": second, "2": first} {
							want := map[string]any{"1": first, "2": second}[version]
							for _, made := range []bool{false, true} {
								if got := decode(version, Origin{Before: before, Made: made}); !reflect.DeepEqual(got, want) {
									t.Errorf("made: %t: (-want +got):\n%s", made, cmp.Diff(want, got))
								}
							}
							if got := decode(version, Origin{Share: true}); !reflect.DeepEqual(got, want) {
								t.Errorf("shared: (-want +got):\n%s", cmp.Diff(want, got))
							}
							got := decode(version, Origin{})
							if d.Adopt(before, got); !reflect.DeepEqual(got, want) {
								t.Errorf("adopted: (-want +got):\n%s", cmp.Diff(want, got))
							}
						}
					}
				})
			}
			done.Wait()
			if !slices.Equal(all(), was) {
				t.Error("the memory that the methods returned was written to")
			}
		})
	}
}

// Adopt writes to the object that it gets, and to nothing that this refers to: Config.Transform may have set that to memory of other
// objects.
// Guarantees: D5
func TestAdoptWritesToTheObjectOnly(t *testing.T) {
	d := NewDecoder(&Type{elem: reflect.TypeFor[withTrees]()}, false)
	for name, make := range map[string]func(*methodMemory) any{
		"typed": func(m *methodMemory) any {
			return &withTrees{Memory: *m, Tree: m.Tree, Any: m.Any, Anys: m.Any.([]any)}
		},
		"trees": func(m *methodMemory) any {
			return &unstructured.Unstructured{Object: map[string]any{"tree": m.Tree, "any": m.Any}}
		},
	} {
		old, shared := make(newMethodMemory(1)), newMethodMemory(2)
		was, oldWas := addresses(reflect.ValueOf(shared)), addresses(reflect.ValueOf(old))
		now := make(shared)
		d.Adopt(old, now)
		if want := make(newMethodMemory(2)); !reflect.DeepEqual(now, want) {
			t.Errorf("%s: (-want +got):\n%s", name, cmp.Diff(want, now))
		}
		if !slices.Equal(addresses(reflect.ValueOf(shared)), was) || !slices.Equal(addresses(reflect.ValueOf(old)), oldWas) {
			t.Errorf("%s: Adopt wrote to memory behind the object", name)
		}
		d.Adopt(now, now)
	}
	// It still finds the equal parts of trees.
	old, now := newMethodMemory(1).Tree, newMethodMemory(2).Tree
	kept, _ := adoptTree(old, now, false)
	if a, b := kept.(map[string]any)["list"].([]any), old["list"].([]any); &a[0] != &b[0] {
		t.Error("an equal list is not shared")
	}
}

type withTrees struct {
	metav1.ObjectMeta
	Memory methodMemory
	Tree   map[string]any
	Any    any
	Anys   []any
}

// keepsReceiver has methods that keep their receiver, as one that returns the first value of each kind to all may do.
type keepsReceiver struct {
	Text string
	self *keepsReceiver
}

func (k *keepsReceiver) UnmarshalJSON(raw []byte) error {
	k.Text, k.self = string(raw), k
	return nil
}

func (k *keepsReceiver) Unmarshal(raw []byte) error { return k.UnmarshalJSON(raw) }

type keepers struct {
	metav1.ObjectMeta `json:"metadata" protobuf:"bytes,1,opt,name=metadata"`

	In   keepsReceiver            `json:"in" protobuf:"bytes,2,opt,name=in"`
	To   *keepsReceiver           `json:"to" protobuf:"bytes,3,opt,name=to"`
	List []keepsReceiver          `json:"list" protobuf:"bytes,4,rep,name=list"`
	Map  map[string]keepsReceiver `json:"map" protobuf:"bytes,5,rep,name=map"`
}

func (k *keepers) all() []keepsReceiver {
	return slices.AppendSeq(append([]keepsReceiver{k.In, *k.To}, k.List...), maps.Values(k.Map))
}

// moreKeepers has elements that the library decodes.
type moreKeepers struct {
	keepers `json:",inline"`
	Odd     []struct {
		In keepsReceiver `json:"in"`
		N  int           `json:"n,string"`
	} `json:"odd"`
}

func (k *moreKeepers) all() []keepsReceiver { return append(k.keepers.all(), k.Odd[0].In) }

// A receiver that a method kept is not used for other values.
// Guarantees: D5
func TestReceiverOfAMethodIsNotUsedAgain(t *testing.T) {
	for f, raw := range map[Format]func(v int) []byte{
		JSON: func(v int) []byte {
			return fmt.Appendf(nil, `{"metadata":{"name":"a"},"in":%[1]d,"to":%[1]d,"list":[%[1]d,%[1]d],"map":{"a":%[1]d},"odd":[{"in":%[1]d,"n":"1"}]}`, v)
		},
		Protobuf: func(v int) []byte {
			b := proto.AppendBytes(nil, objectMetadata, proto.AppendBytes(nil, metaName, []byte("a")))
			for _, number := range []int{2, 3, 4, 4} {
				b = proto.AppendBytes(b, number, fmt.Append(nil, v))
			}
			return proto.AppendBytes(b, 5, proto.AppendBytes(proto.AppendBytes(nil, 1, []byte("a")), 2, fmt.Append(nil, v)))
		},
	} {
		typ := reflect.TypeFor[moreKeepers]()
		if f == Protobuf {
			typ = reflect.TypeFor[keepers]()
		}
		decoder := NewDecoder(&Type{elem: typ, layout: newLayout(typ)}, false)
		var versions []interface{ all() []keepsReceiver }
		var before any
		for i := range 4 {
			obj := reflect.New(typ).Interface()
			old := versionBefore(before, reflect.TypeOf(obj))
			v := reflect.ValueOf(obj).Elem()
			var ok bool
			var err error
			if reuse := decoder.reuse(reflect.New(decoder.typ.layout.memory).Interface(), nil, false); f == JSON {
				ok, err = decoder.json.decode(raw(i), v, old, reuse, nil)
			} else {
				ok, err = decoder.wire.decode(raw(i), v, old, reuse, nil)
			}
			if !ok || err != nil {
				t.Fatalf("format %d: our decoder rejects it: %v", f, err)
			}
			versions, before = append(versions, obj.(interface{ all() []keepsReceiver })), obj
		}
		for i, obj := range versions {
			if n := len(obj.all()); f == JSON && n != 6 || f == Protobuf && n != 5 {
				t.Errorf("format %d: %d values", f, n)
			}
			for number, value := range obj.all() {
				if want := fmt.Sprint(i); value.Text != want || value.self.Text != want {
					t.Errorf("format %d: value %d of version %d is %q, and its receiver %q", f, number, i, value.Text, value.self.Text)
				}
			}
		}
	}
}

// floatPlaces has floats at every kind of place.
type floatPlaces struct {
	metav1.ObjectMeta `json:"metadata"`

	Any    any                `json:"any"`
	Map    map[string]any     `json:"map"`
	List   []any              `json:"list"`
	Deep   []map[string]any   `json:"deep"`
	Named  map[string]float64 `json:"named"`
	Array  [1]float64         `json:"array"`
	Arrays [1]map[string]any  `json:"arrays"`
	Float  float64            `json:"float"`
	To     *float64           `json:"to"`
	Floats []float64          `json:"floats"`
}

// 0 and -0, or 1 and 1.0, are two values: an update from one to the other changes the object, in a tree and elsewhere. reflect.DeepEqual
// finds 0 equal to -0.
// Guarantees: D1
func TestUpdateOfAZero(t *testing.T) {
	values := map[string]any{"0": int64(0), "0.0": 0.0, "-0.0": math.Copysign(0, -1), "1": int64(1), "1.0": 1.0, "false": false, `""`: "", "null": nil}
	same := func(a, b any) bool {
		x, isFloat := a.(float64)
		y, isFloat2 := b.(float64)
		if isFloat && isFloat2 {
			return math.Float64bits(x) == math.Float64bits(y)
		}
		return a == b
	}
	tree := func(text string) string { return strings.ReplaceAll(`{"a":V,"b":[V,{"c":V}]}`, "V", text) }
	inTree := func(v any) []any {
		m := v.(map[string]any)
		list := m["b"].([]any)
		return []any{m["a"], list[0], list[1].(map[string]any)["c"]}
	}
	check := func(what string, d *Decoder, raw func(text string) string, numbers func(any) []any, numbersOnly bool) {
		for before := range values {
			for now, want := range values {
				if _, float := want.(float64); numbersOnly && !float {
					continue
				} else if _, float := values[before].(float64); numbersOnly && !float {
					continue
				}
				old, err := d.Decode(JSON, []byte(raw(before)), Origin{})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for _, from := range []Origin{{}, {Before: old}, {Before: old, Made: true}, {Share: true}} {
					obj, err := d.Decode(JSON, []byte(raw(now)), from)
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					if from.Before == nil && !from.Share {
						d.Adopt(old, obj)
					}
					for i, got := range numbers(obj) {
						if !same(got, want) {
							t.Errorf("%s: value %d is %T %v after %s, want %s", what, i, got, got, before, now)
						}
					}
				}
			}
		}
	}
	whole, err := TypeOf(reflect.TypeFor[*unstructured.Unstructured]())
	if err != nil {
		t.Fatal(err)
	}
	check("unstructured", NewDecoder(whole, false), func(v string) string {
		return `{"metadata":{"name":"a"},"spec":` + tree(v) + `,"list":[` + tree(v) + `],"v":` + v + `}`
	}, func(obj any) []any {
		m := obj.(*unstructured.Unstructured).Object
		return append(slices.Concat(inTree(m["spec"]), inTree(m["list"].([]any)[0])), m["v"])
	}, false)
	typ, err := TypeOf(reflect.TypeFor[*floatPlaces]())
	if err != nil {
		t.Fatal(err)
	}
	for _, escaped := range []string{`"`, `"\u006eothing":1,"`} { // the library decodes the second one
		check("trees in "+escaped, NewDecoder(typ, false), func(v string) string {
			return `{` + escaped + strings.ReplaceAll(`metadata":{"name":"a"},"any":V,"map":V,"list":[V],"deep":[V],"arrays":[V]}`, "V", tree(v))
		}, func(obj any) []any {
			o := obj.(*floatPlaces)
			return slices.Concat(inTree(o.Any), inTree(o.Map), inTree(o.List[0]), inTree(o.Deep[0]), inTree(o.Arrays[0]))
		}, false)
		check("floats in "+escaped, NewDecoder(typ, false), func(v string) string {
			return `{` + escaped + strings.ReplaceAll(`metadata":{"name":"a"},"any":V,"named":{"a":V},"array":[V],"float":V,"to":V,"floats":[V]}`, "V", v)
		}, func(obj any) []any {
			o := obj.(*floatPlaces)
			return []any{o.Any, o.Named["a"], o.Array[0], o.Float, *o.To, o.Floats[0]}
		}, true)
	}
}
