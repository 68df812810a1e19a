package decode

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/typedinformer/informer/internal/test/fleet"
)

// The sharer's memory is released by the next garbage collection.
func TestShareHoldsWeakly(t *testing.T) {
	var w weakSharer
	w.get(nil).put([]byte("raw"), reflect.TypeFor[*int](), reflect.ValueOf(new(*int)).UnsafePointer(), 8)
	runtime.GC()
	if w.Value() != nil {
		t.Error("not collected")
	}
}

// Two values of one set that all objects have are both shared, also when a value that never comes again was first there.
func TestShareOfOneSet(t *testing.T) {
	for _, stale := range []bool{false, true} {
		var w weakSharer
		s := w.get(nil)
		var same [][]byte // all in one set
		for i := 0; len(same) < 3; i++ {
			if raw := fmt.Append(nil, "raw", i); len(same) == 0 || s.set(raw) == s.set(same[0]) {
				same = append(same, raw)
			}
		}
		typ, p := reflect.TypeFor[*int](), reflect.ValueOf(new(*int)).UnsafePointer()
		if stale {
			s.put(same[2], typ, p, 8)
			s.find(same[2], typ, p)
		}
		const objects = 20
		hits := 0
		for range objects {
			for _, raw := range same[:2] {
				if _, ok := s.find(raw, typ, p); ok {
					hits++
				} else {
					s.put(raw, typ, p, 8)
				}
			}
		}
		if hits < objects {
			t.Errorf("stale %v: %d hits of %d", stale, hits, 2*objects)
		}
	}
}

// Unchanged parts of an object are those of the version before, which does not change.
func TestShareAdopts(t *testing.T) {
	plans := plans{}
	pods := fleet.New(fleet.Config{Pods: 200})
	for i := range 200 {
		old := pods.Pod(i)
		for name, change := range map[string]func(*corev1.Pod){
			"nothing":      func(*corev1.Pod) {},
			"name":         func(p *corev1.Pod) { p.Name += "x" },
			"label":        func(p *corev1.Pod) { p.Labels["new"] = "x" },
			"no labels":    func(p *corev1.Pod) { p.Labels = nil },
			"empty labels": func(p *corev1.Pod) { p.Labels = map[string]string{} },
			"container":    func(p *corev1.Pod) { p.Spec.Containers[0].Image = "x" },
			"container+":   func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x"}) },
			"no volumes":   func(p *corev1.Pod) { p.Spec.Volumes = nil },
			"volumes-":     func(p *corev1.Pod) { p.Spec.Volumes = p.Spec.Volumes[:len(p.Spec.Volumes)-1] },
			"pointer":      func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64) },
			"time":         func(p *corev1.Pod) { p.CreationTimestamp = metav1.Now() },
		} {
			want := old.DeepCopy()
			change(want)
			before, got := old.DeepCopy(), want.DeepCopy()
			plans.adopt(old, got)
			if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(old, before) {
				t.Fatalf("%s: now (-want +got):\n%s\nold:\n%s", name, cmp.Diff(want, got), cmp.Diff(before, old))
			}
			if name == "container" && got.Spec.Containers[0].Image != "x" {
				t.Errorf("the containers are those before")
			}
			if name == "label" && unsafe.SliceData(got.Spec.Containers) != unsafe.SliceData(old.Spec.Containers) {
				t.Errorf("%s: the containers are not shared", name)
			}
		}
	}
	old := &unstructured.Unstructured{Object: map[string]any{"a": map[string]any{"b": []any{"c"}, "d": int64(1)}, "e": nil, "f": []any{map[string]any{}}}}
	got := old.DeepCopy()
	got.Object["a"].(map[string]any)["d"] = int64(2)
	want := got.DeepCopy()
	plans.adopt(old, got)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("unstructured: got %v, want %v", got, want)
	}
	if b := func(u *unstructured.Unstructured) *any { return &u.Object["a"].(map[string]any)["b"].([]any)[0] }; b(got) != b(old) {
		t.Error("unstructured: b is not shared")
	}
}

// kinds has a field of every kind that an object may have.
type kinds struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Bool       bool                         `json:"bool"`
	Int        int16                        `json:"int"`
	Uint       uint8                        `json:"uint"`
	Float      float64                      `json:"float"`
	Small      float32                      `json:"small"`
	String     string                       `json:"string"`
	Strings    []string                     `json:"strings"`
	Nested     [][]string                   `json:"nested"`
	Bytes      []byte                       `json:"bytes"`
	Array      [1][]string                  `json:"array"`
	Floats     [1]float64                   `json:"floats"`
	Doubles    map[string]float64           `json:"doubles"`
	Methods    []byText                     `json:"methods"`
	Structs    []kindsPart                  `json:"structs"`
	Struct     kindsPart                    `json:"struct"`
	Map        map[string]string            `json:"map"`
	Slices     map[string][]string          `json:"slices"`
	Parts      map[string]kindsPart         `json:"parts"`
	Anything   map[string]any               `json:"anything"`
	Any        any                          `json:"any"`
	Anys       []any                        `json:"anys"`
	Number     *int                         `json:"number"`
	ToSlice    *[]string                    `json:"toSlice"`
	ToMap      *map[string]string           `json:"toMap"`
	Part       *kindsPart                   `json:"part"`
	Time       metav1.Time                  `json:"time"`
	ToTime     *metav1.Time                 `json:"toTime"`
	Micro      metav1.MicroTime             `json:"micro"`
	Quantity   resource.Quantity            `json:"quantity"`
	ToQuantity *resource.Quantity           `json:"toQuantity"`
	Limits     map[string]resource.Quantity `json:"limits"`
	Port       intstr.IntOrString           `json:"port"`
	Raw        apiruntime.RawExtension      `json:"raw"`
}

type kindsPart struct {
	List []string `json:"list"`
	To   *string  `json:"to"`
}

func (k *kinds) DeepCopyObject() apiruntime.Object { panic("not needed") }

// kindsJSON has values for the fields of kinds. Tests also use null and a missing value.
var kindsJSON = map[string][]string{
	"bool": {"false", "true"}, "int": {"0", "-7"}, "uint": {"0", "7"}, "string": {`""`, `"a"`}, "float": {"0", "-0.0", "0.5"}, "small": {"0", "-0.0", "0.5"},
	"strings": {`[]`, `[""]`, `["a"]`, `["a","b"]`}, "nested": {`[]`, `[null]`, `[[]]`, `[[""]]`, `[[],null]`}, "bytes": {`""`, `"AA=="`},
	"array": {`[null]`, `[[]]`, `[["a"]]`}, "floats": {`[0]`, `[-0.0]`, `[1]`}, "doubles": {`{"a":0}`, `{"a":-0.0}`}, "methods": {`["1"]`, `["2","1"]`},
	"structs": {`[]`, `[{}]`, `[{"list":[]}]`, `[{"to":""}]`, `[{"list":["a"],"to":"a"},{}]`},
	"struct":  {`{}`, `{"list":[]}`, `{"list":[""],"to":""}`}, "map": {`{}`, `{"a":""}`, `{"a":"b"}`, `{"b":""}`},
	"slices": {`{}`, `{"a":null}`, `{"a":[]}`, `{"a":[""]}`}, "parts": {`{}`, `{"a":{}}`, `{"a":{"list":[]}}`, `{"a":{"to":""}}`},
	"anything": {`{}`, `{"a":null}`, `{"a":[]}`, `{"a":{}}`, `{"a":[null]}`, `{"a":[{}]}`, `{"a":{"b":[]}}`, `{"a":{"b":{}}}`, `{"a":0}`, `{"a":0.0}`, `{"a":-0.0}`, `{"a":1}`, `{"a":1.0}`, `{"a":false}`, `{"a":""}`},
	"any":      {`{}`, `[]`, `""`, `0`, `0.0`, `-0.0`, `1`, `1.0`, `0.5`, `false`, `[null]`, `[[]]`, `[{}]`, `{"a":null}`, `{"a":[]}`, `{"a":{"b":{}}}`, `{"a":{"b":[]}}`},
	"anys":     {`[]`, `[0.0]`, `[-0.0]`, `[null]`, `[[]]`, `[{}]`, `[{"a":1}]`, `["a"]`, `[{"a":{}}]`},
	"number":   {"0", "1"}, "toSlice": {`[]`, `[""]`}, "toMap": {`{}`, `{"a":""}`}, "part": {`{}`, `{"list":[]}`, `{"to":""}`},
	"time": {`"2026-01-02T03:04:05Z"`, `"2026-01-02T04:04:05+01:00"`, `"0001-01-01T00:00:00Z"`}, "toTime": {`"2026-01-02T03:04:05Z"`, `"0001-01-01T00:00:00Z"`},
	"micro": {`"2026-01-02T03:04:05.000001Z"`, `"2026-01-02T03:04:05.000000Z"`}, "quantity": {`"0"`, `"1"`, `"1000m"`, `1`}, "toQuantity": {`"0"`, `"1"`, `"1000m"`},
	"limits": {`{}`, `{"cpu":"1"}`, `{"cpu":"1000m"}`, `{"cpu":null}`}, "port": {"0", `""`, `"0"`, "1"}, "raw": {`{}`, `{"a":1}`, `[]`},
}

// Sharing keeps the sign of a zero, which reflection does not compare, and adopts NaN.
func TestShareAdoptsFloatsByTheirBits(t *testing.T) {
	type floats struct {
		A float64
		B []float32
		C *float64
	}
	newFloats := func(f float64) *floats { return &floats{f, []float32{float32(f)}, &f} }
	for _, before := range []float64{0, math.Copysign(0, -1), math.NaN(), 1} {
		for _, now := range []float64{0, math.Copysign(0, -1), math.NaN(), 1} {
			old, got := newFloats(before), newFloats(now)
			plans{}.adopt(old, got)
			same := math.Float64bits(before) == math.Float64bits(now)
			if fmt.Sprint(got.A, got.B[0], *got.C) != fmt.Sprint(now, now, now) || (got.C == old.C) != same || (&got.B[0] == &old.B[0]) != same {
				t.Errorf("%v after %v: %v", now, before, got)
			}
		}
	}
}

// Repeated strings stay shared, however many others there are, and the others are not kept.
func TestInternerIsBounded(t *testing.T) {
	n := newInterner()
	often := n.get([]byte("often"))
	for i := range 200_000 {
		n.get(fmt.Append(nil, "seldom", i))
		if i%10 == 0 {
			if again := n.get([]byte("often")); unsafe.StringData(again) != unsafe.StringData(often) {
				t.Fatal("not shared")
			}
		}
	}
	if len(n.sets) != maxInterned {
		t.Errorf("%d sets", len(n.sets))
	}
}
