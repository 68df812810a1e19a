//lint:file-ignore SA5008 these types test odd tags
//lint:file-ignore U1000 only the decoder uses these fields

package decode

import (
	"encoding/json"
	"fmt"
	"go/token"
	"io"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

// tagged and embed make fields whose tags go vet would reject.
func tagged[F any](name string, tag reflect.StructTag) reflect.StructField {
	f := reflect.StructField{Name: name, Type: reflect.TypeFor[F](), Tag: tag}
	if !token.IsExported(name) {
		f.PkgPath = "decode"
	}
	return f
}

func embed[F any]() reflect.StructField {
	return reflect.StructField{Name: reflect.TypeFor[F]().Name(), Type: reflect.TypeFor[F](), Anonymous: true}
}

func structOf(fields ...reflect.StructField) reflect.Type { return reflect.StructOf(fields) }

var oddTags = structOf(
	tagged[string]("Space", `json:"a, omitempty"`),
	tagged[string]("Empty", `json:"b,omitEmpty"`),
	tagged[string]("Dash", `json:"-,"`),
	tagged[string]("Left", `json:"-"`),
	tagged[string]("Quote", `json:"c'd"`),
	tagged[string]("Double", `json:"c\"d"`),
	tagged[string]("Backslash", `json:"c\\d"`),
	tagged[string]("Comma", `json:",a"`),
	tagged[string]("Blank", `json:" e "`),
	tagged[string]("Signs", `json:"f.g/h:$%-"`),
	tagged[string]("Letters", `json:"é"`),
	tagged[string]("HTML", `json:"<&>"`),
	tagged[string]("Control", `json:"\u0001"`),
	tagged[int]("Zero", `json:"zero,omitzero"`),
	tagged[oddDeep]("Inline", `json:",inline"`),
	tagged[oddDeep]("Both", `json:"both,inline"`),
	tagged[string]("Upper", `json:"UPPER"`),
	tagged[string]("Lower", `json:"upper"`),
	tagged[string]("NoTag", ``),
	tagged[string]("hidden", `json:"hidden"`),
	tagged[string]("ToName", `json:"a" yaml:"x"`),
)

type oddDeep struct {
	A string `json:"a"`
	B *int   `json:"b"`
}

var oddTwice = structOf(
	tagged[int]("A", `json:"a"`),
	tagged[string]("A2", `json:"a"`),
	tagged[int]("B", `json:"B2"`),
	tagged[string]("B2", ``),
	tagged[int]("C", `json:"c"`),
)

type OddLevel1 struct {
	OddLevel2
	A string `json:"a"`
	B string `json:"b"`
	X string `json:"x"`
	E int    // hidden by OddOther's tagged field
}

type OddLevel2 struct {
	A int `json:"a"`
	B int `json:"b"`
	C int `json:"c"`
	D int
}

type OddOther struct {
	B string `json:"b"`
	X int
	D string `json:"D"`
	F string `json:"E"`
}

var oddEmbeds = structOf(embed[OddLevel1](), embed[OddOther](), tagged[string]("C", ""))

type oddPointers struct {
	*OddLevel1
	*OddOther `json:"other"`
	Last      string `json:"last"`
}

type OddLoop struct {
	*OddLoop
	A string `json:"a"`
	B *OddLoop
}

type oddUnexported struct {
	oddDeep
	oddOther2 `json:"o"`
	oddNumber
	C string
}

type oddOther2 struct {
	X string `json:"x"`
	Y []oddText
}

type oddNumber int

var oddDiamond = structOf(embed[OddLeft](), embed[OddRight](), tagged[string]("A", `json:"z"`))

type OddLeft struct{ OddBase }
type OddRight struct{ OddBase }
type OddBase struct {
	A string `json:"a"`
	Z string `json:"z"`
}

type oddString struct {
	Str     string         `json:"str,string"`
	Bool    bool           `json:"bool,string"`
	Int     int8           `json:"int,string"`
	Uint    uint64         `json:"uint,string"`
	Float   float32        `json:"float,string"`
	Number  json.Number    `json:"number,string"`
	Pointer *int           `json:"pointer,string"`
	StrPtr  *string        `json:"strptr,string"`
	Twice   **int          `json:"twice,string"`
	Named   oddNumber      `json:"named,string"`
	Text    oddText        `json:"text,string"`
	Self    oddSelf        `json:"self,string"`
	Slice   []int          `json:"slice,string"`
	Map     map[string]int `json:"map,string"`
	Struct  oddDeep        `json:"struct,string"`
	Any     any            `json:"any,string"`
	Bytes   []byte         `json:"bytes,string"`
	Kind    string         `json:"kind"`
}

type oddNumbers struct {
	Number  json.Number            `json:"number"`
	Pointer *json.Number           `json:"pointer"`
	Slice   []json.Number          `json:"slice"`
	Map     map[string]json.Number `json:"map"`
	Key     map[json.Number]int    `json:"key"`
	Any     any                    `json:"any"`
	Float   float64                `json:"float"`
	Small   float32                `json:"small"`
	Int     int8                   `json:"int"`
	Uint    uint16                 `json:"uint"`
	Uintptr uintptr                `json:"uintptr"`
	Named   oddJSONNumber          `json:"named"`
}

type oddJSONNumber json.Number

type oddByte byte

func (b *oddByte) UnmarshalJSON(raw []byte) error { *b = oddByte(len(raw)); return nil }

type oddLists struct {
	Bytes   []byte              `json:"bytes"`
	Own     []oddByte           `json:"own"`
	Array   [2]int              `json:"array"`
	Hash    [4]byte             `json:"hash"`
	Nested  [][]oddDeep         `json:"nested"`
	Structs [1]oddDeep          `json:"structs"`
	Empty   []struct{}          `json:"empty"`
	None    struct{}            `json:"none"`
	Hidden  struct{ a, b int }  `json:"hidden"`
	Raw     json.RawMessage     `json:"raw"`
	RawPtr  *json.RawMessage    `json:"rawptr"`
	Raws    []json.RawMessage   `json:"raws"`
	Named   oddBytes            `json:"named"`
	Any     []any               `json:"any"`
	Self    oddSlice            `json:"self"`
	Arrays  map[string][1]int   `json:"arrays"`
	Bools   []bool              `json:"bools"`
	Strs    []*string           `json:"strs"`
	Maps    []map[string]string `json:"maps"`
}

type (
	oddBytes []byte
	oddSlice []oddSlice
	oddMap   map[string]oddMap
)

type oddMaps struct {
	Int    map[int8]string            `json:"int"`
	Uint   map[uint16]*oddDeep        `json:"uint"`
	Text   map[oddText]string         `json:"text"`
	Named  map[types.UID][]types.UID  `json:"named"`
	Self   oddMap                     `json:"self"`
	Struct map[string]oddDeep         `json:"struct"`
	Any    map[string]any             `json:"any"`
	Bytes  map[string][]byte          `json:"bytes"`
	JSON   map[oddByte]string         `json:"json"`
	Key    map[oddStringKey]string    `json:"key"`
	Plain  map[string]string          `json:"plain"`
	Own    oddLabels                  `json:"own"`
	Ptr    *map[string]*string        `json:"ptr"`
	Raw    map[string]json.RawMessage `json:"raw"`
}

type oddLabels map[string]string

// oddStringKey has a method that the decoder ignores for keys.
type oddStringKey string

func (k *oddStringKey) UnmarshalJSON([]byte) error { *k = "json"; return nil }

// oddText decodes itself from strings, with a pointer method.
type oddText struct{ Text string }

func (o *oddText) UnmarshalText(text []byte) error {
	if string(text) == "bad" {
		return io.ErrUnexpectedEOF
	}
	o.Text = "text " + string(text)
	return nil
}

// oddSelf decodes itself.
type oddSelf struct{ Raw string }

func (o *oddSelf) UnmarshalJSON(raw []byte) error {
	if string(raw) == `"bad"` {
		return io.ErrUnexpectedEOF
	}
	o.Raw = "json " + string(raw)
	return nil
}

// oddValue has a value method: decoders call it, without effect.
type oddValue struct{ A *int }

func (o oddValue) UnmarshalJSON([]byte) error { return nil }

type oddMethods struct {
	Text      oddText                        `json:"text"`
	TextPtr   *oddText                       `json:"textptr"`
	Texts     []oddText                      `json:"texts"`
	Self      oddSelf                        `json:"self"`
	SelfPtr   *oddSelf                       `json:"selfptr"`
	SelfTwice **oddSelf                      `json:"selftwice"`
	Selves    map[string]oddSelf             `json:"selves"`
	Array     [2]oddSelf                     `json:"array"`
	Value     oddValue                       `json:"value"`
	ValuePtr  *oddValue                      `json:"valueptr"`
	Unnamed   struct{ oddSelfIn }            `json:"unnamed"`
	UnnamedP  *struct{ metav1.Time }         `json:"unnamedp"`
	UnnamedS  struct{ metav1.Time }          `json:"unnameds"`
	List      []struct{ intstr.IntOrString } `json:"list"`
	NamedPtr  oddSelfPtr                     `json:"namedptr"`
	Copy      oddSelfCopy                    `json:"copy"`
	Time      metav1.Time                    `json:"time"`
	TimePtr   *metav1.Time                   `json:"timeptr"`
	Micro     metav1.MicroTime               `json:"micro"`
	GoTime    time.Time                      `json:"gotime"`
	Duration  metav1.Duration                `json:"duration"`
	IP        net.IP                         `json:"ip"`
	Quantity  resource.Quantity              `json:"quantity"`
	IntOrStr  *intstr.IntOrString            `json:"intorstr"`
	Ext       runtime.RawExtension           `json:"ext"`
	Fields    *metav1.FieldsV1               `json:"fields"`
}

type (
	oddSelfIn   struct{ oddSelf }
	oddSelfPtr  *oddSelf
	oddSelfCopy oddSelf
)

type oddNamed string

func (o *oddNamed) UnmarshalText(text []byte) error {
	*o = oddNamed("text " + string(text))
	return nil
}

// Embedded types with promoted and with hidden methods.
type oddPromoted struct {
	oddSelf  `json:"self"`
	oddValue `json:"value"` // its UnmarshalJSON and that of oddSelf hide each other
	OddNamedIn
	Kind string `json:"kind"`
}
type OddNamedIn struct{ N oddNamed }

type OddTwoA struct{ metav1.Time }

type oddConflict struct {
	metav1.Time
	metav1.MicroTime
	OddTwoA
	Kind string `json:"kind"`
}

// Fields without a tag may be of any type, if the object does not have them.
type oddFree struct {
	Chan  chan int
	Func  func()
	Read  io.Reader
	Bad   map[[1]int]string
	Cmplx []complex128
	Ptr   unsafe.Pointer
	*oddDeepUntagged
	Any  oddEmpty `json:"any"`
	Left chan int `json:"-"`
	Kind string   `json:"kind"`
}

type oddDeepUntagged struct{ Untagged string }

type oddEmpty any

var oddTypes = []struct {
	name string
	typ  reflect.Type
}{
	{"tags", oddTags},
	{"two fields of a name", oddTwice},
	{"embedded", oddEmbeds},
	{"embedded twice", oddDiamond},
	{"embedded pointers", reflect.TypeFor[oddPointers]()},
	{"embedded pointer to itself", reflect.TypeFor[OddLoop]()},
	{"embedded unexported", reflect.TypeFor[oddUnexported]()},
	{"string", reflect.TypeFor[oddString]()},
	{"numbers", reflect.TypeFor[oddNumbers]()},
	{"lists", reflect.TypeFor[oddLists]()},
	{"maps", reflect.TypeFor[oddMaps]()},
	{"methods", reflect.TypeFor[oddMethods]()},
	{"methods of embedded", reflect.TypeFor[oddPromoted]()},
	{"methods in conflict", reflect.TypeFor[oddConflict]()},
	{"no JSON", reflect.TypeFor[oddFree]()},
	{"UnmarshalJSON", reflect.TypeFor[oddSelf]()},
	{"UnmarshalText", reflect.TypeFor[oddText]()},
	{"many fields", oddMany},
}

// oddMany has more fields than our decoder supports.
var oddMany = func() reflect.Type {
	fields := []reflect.StructField{tagged[string]("Kind", `json:"kind"`), tagged[oddDeep]("Last", `json:"last"`)}
	for i := range maxFields {
		fields = append(fields, tagged[*oddDeep](fmt.Sprint("F", i), ""))
	}
	return structOf(fields...)
}()

// oddValues are the values that each member gets in turn.
var oddValues = []string{
	`null`, `true`, `false`, `0`, `-0`, `7`, `-7`, `300`, `1.5`, `1e2`, `1e999`, `9223372036854775808`, `12345678901234567890123`,
	`""`, `"x"`, `"7"`, `"-7"`, `"1.5"`, `"null"`, `"nope"`, `"true"`, `"tru"`, `"\"q\""`, `"\"7\""`, `"\"q"`, `"-"`, `"bad"`, `"é\u00e9\n"`, "\"\xff\"", `"\ud800"`,
	`"aGk="`, `"aGk"`, `"aG\u006b="`, `"10.0.0.1"`, `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.123456+01:00"`, `"1h2m"`, `"1500m"`,
	`[]`, `[null]`, `[1]`, `[1,2,3]`, `["x"]`, `["x",null,"7"]`, `[[]]`, `[[{"a":"x","b":1}],null]`, `[{"a":"x","b":1},{},null]`, `[true,false]`, `[300]`, `["aGk="]`, `[{"a":"b"}]`,
	`{}`, `{"a":"x"}`, `{"a":1}`, `{"a":null}`, `{"a":"x","b":1,"c":[1]}`, `{"a":{"a":"x"},"b":{}}`, `{"a":[1],"b":[]}`, `{"a":["x"]}`, `{"a":"1","a":"2"}`, `{"a":{"a":"1"},"a":{"b":2}}`,
	`{"1":"x","-1":"y"}`, `{"300":"x"}`, `{"1":{"a":"x"},"1":{"b":3}}`, `{"x":"z","Y":["q"]}`, `{"\u0061":"x"}`, `{"bad":"x"}`, `{"A":"x","B":2}`, `{"a":"aGk="}`, `{"a":[1.5,{"b":9007199254740993}]}`,
	`{"N":"x"}`, `{"Raw":"x"}`, `{"Text":"x"}`, `{"B":{"a":"x"},"a":"y"}`,
}

// oddNames returns the member names of a t, and similar ones.
func oddNames(t reflect.Type) (names []string) {
	seen := map[string]bool{}
	var add func(t reflect.Type, depth int)
	add = func(t reflect.Type, depth int) {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || depth > 3 {
			return
		}
		for i := range t.NumField() {
			f := t.Field(i)
			tag := f.Tag.Get("json")
			name, _, _ := strings.Cut(tag, ",")
			for _, name := range []string{name, f.Name, tag, strings.ToLower(f.Name), strings.ToUpper(name)} {
				if !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
			if f.Anonymous {
				add(f.Type, depth+1)
			}
		}
	}
	add(t, 0)
	return names[:min(len(names), 120)]
}

// sameAsClientGo checks that raw decodes to the same t as in client-go, or to an error in both.
func sameAsClientGo(t *testing.T, c *codec[anyObject], typ reflect.Type, raw []byte) {
	t.Helper()
	if !json.Valid(raw) {
		return // our decoder does not inspect skipped values
	}
	ours, theirs := reflect.New(typ), reflect.New(typ)
	err := c.typed(ours.Interface(), JSON, raw, false)
	theirErr := kjson.UnmarshalCaseSensitivePreserveInts(raw, theirs.Interface())
	if (err == nil) != (theirErr == nil) {
		t.Fatalf("%v from %q: %v; client-go: %v", typ, raw, err, theirErr)
	}
	if err == nil && !reflect.DeepEqual(ours.Interface(), theirs.Interface()) {
		t.Fatalf("%v from %q: %+v; client-go: %+v", typ, raw, ours.Elem(), theirs.Elem())
	}
}

// anyObject is for a codec whose type is known only by reflection.
type anyObject = *unstructured.Unstructured

// Guarantees: L4
//
// A type with any tags decodes as in client-go, for a member alone, twice, or after another one.
func TestOddTypesDecodeAsInClientGo(t *testing.T) {
	for _, odd := range oddTypes {
		t.Run(odd.name, func(t *testing.T) {
			t.Parallel()
			typ := odd.typ
			c := &codec[anyObject]{keepManagedFields: true}
			for _, value := range oddValues {
				sameAsClientGo(t, c, typ, []byte(value))
			}
			for i, name := range oddNames(typ) {
				key, _ := json.Marshal(name)
				for j, value := range oddValues {
					sameAsClientGo(t, c, typ, fmt.Appendf(nil, `{%s:%s}`, key, value))
					plain := fmt.Appendf(nil, `{"%s" : %s , "kind":"k"}`, name, value)
					sameAsClientGo(t, c, typ, plain)
					sameAsClientGo(t, c, typ, fmt.Appendf(nil, `{%s:%s,"last":"x",%s:%s}`, key, value, key, oddValues[(i*7+j*5)%len(oddValues)]))
				}
			}
		})
	}
}

func FuzzOddTypes(f *testing.F) {
	for i, odd := range oddTypes {
		for j, name := range oddNames(odd.typ) {
			key, _ := json.Marshal(name)
			f.Add(byte(i), fmt.Appendf(nil, `{%s:%s}`, key, oddValues[(i+j*7)%len(oddValues)]))
		}
	}
	f.Fuzz(func(t *testing.T, which byte, raw []byte) {
		sameAsClientGo(t, &codec[anyObject]{keepManagedFields: true}, oddTypes[int(which)%len(oddTypes)].typ, raw)
	})
}

// Our decoder decodes types with odd tags itself, unless their fields are behind pointers or strings.
func TestOddTypesAreDecodedHere(t *testing.T) {
	for typ, raw := range map[reflect.Type]string{
		oddTags:                        `{"a":"x","b":"y","-":"z","Quote":"q","both":{"a":"x"}}`,
		oddTwice:                       `{"a":1,"B2":2,"c":3}`,
		oddEmbeds:                      `{"a":"x","b":"y","c":3,"C":"z"}`,
		reflect.TypeFor[oddNumbers]():  `{"number":1.5,"float":2}`,
		reflect.TypeFor[oddLists]():    `{"bytes":"aGk=","array":[1,2],"any":["x",{"a":1}]}`,
		reflect.TypeFor[oddConflict](): `{"kind":"x"}`,
	} {
		if !checkJSON(t, newJSONDecoder(plans{}, true, newInterner()), typ, []byte(raw)) {
			t.Errorf("%v: %s was left to the library", typ, raw)
		}
	}
}

// jsonObstacle finds a field at any depth that is tagged for JSON but cannot hold any, and says what to do. A field without a
// tag may have any type, and so may the fields of a type that decodes itself.
func TestJSONObstacle(t *testing.T) {
	type hidden struct {
		A string `json:"a"`
	}
	type deep struct {
		Parts map[string][]struct {
			Hook *func() `json:"hook"`
		} `json:"parts"`
	}
	type loop struct {
		Next *loop         `json:"next"`
		List []loop        `json:"list"`
		Map  map[int]*loop `json:"map"`
		Bad  complex64     `json:"bad,omitempty"`
	}
	type self *self
	const holdsNone = ", which holds no JSON: change the type, or leave the field out with the tag `json:\"-\"`"
	for _, c := range []struct {
		typ          reflect.Type
		path, reason string
	}{
		{reflect.TypeFor[struct {
			Free chan int
			Done chan int `json:"done"`
		}](), "Done", "is of type chan int" + holdsNone},
		{reflect.TypeFor[struct {
			Spec deep `json:"spec"`
		}](), "Spec.Parts.Hook", "is of type func()" + holdsNone},
		{reflect.TypeFor[struct{ Untagged deep }](), "Untagged.Parts.Hook", "is of type func()" + holdsNone},
		{reflect.TypeFor[loop](), "Bad", "is of type complex64" + holdsNone},
		{reflect.TypeFor[struct {
			Any  any       `json:"any"`
			Read io.Reader `json:"read"`
		}](), "Read", "is of type io.Reader" + holdsNone},
		{reflect.TypeFor[struct {
			Map map[[2]string]int `json:",omitempty"`
		}](), "Map", "is of type map[[2]string]int" + holdsNone},
		{reflect.TypeFor[struct {
			Raw []unsafe.Pointer `json:"raw"`
		}](), "Raw", "is of type unsafe.Pointer" + holdsNone},
		{reflect.TypeFor[struct {
			Self self `json:"self"`
		}](), "Self", "is of type decode.self" + holdsNone},
		{reflect.TypeFor[struct{ *hidden }](), "A", "is behind an embedded pointer to an unexported struct, which cannot be set: embed the struct itself, or export it"},
		{reflect.TypeFor[struct {
			*hidden `json:"hidden"`
		}](), "hidden", "is behind an embedded pointer to an unexported struct, which cannot be set: embed the struct itself, or export it"},
		{typ: reflect.TypeFor[struct{ hidden }]()},
		{typ: reflect.TypeFor[struct {
			Keys map[oddText]any `json:"keys"`
			Nums map[uint8]any   `json:"nums"`
			Left chan int        `json:"-"`
			Time *metav1.Time    `json:"time"`
			done chan int
		}]()},
	} {
		if path, reason := jsonObstacle(c.typ, map[reflect.Type]bool{}); path != c.path || path != "" && reason != c.reason {
			t.Errorf("%v: field %q %s", c.typ, path, reason)
		}
	}
	for _, odd := range oddTypes {
		if path, reason := jsonObstacle(odd.typ, map[reflect.Type]bool{}); path != "" {
			t.Errorf("%s: field %s %s", odd.name, path, reason)
		}
	}
	for _, gvk := range builtinKinds() {
		if path, reason := jsonObstacle(scheme.Scheme.AllKnownTypes()[gvk], map[reflect.Type]bool{}); path != "" {
			t.Errorf("%v: field %s %s", gvk, path, reason)
		}
	}
}

// The error for an object contains none of its content, which may be secret.
func TestDecodeErrorHasNoContent(t *testing.T) {
	for _, raw := range []string{
		`{"str":"s3cret"}`, `{"int":"s3cret"}`, `{"number":"\"s3cret\""}`, `{"bool":"\"s3cret\""}`, `{"text":{"s3cret":1}}`, `{"str":"s3cret into s3cret"}`,
	} {
		if err := unmarshalJSON([]byte(raw), &oddString{}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	for _, raw := range []string{`{"number":"s3cret"}`, `{"int":"s3cret"}`, `{"key":"s3cret"}`} {
		if err := unmarshalJSON([]byte(raw), &oddNumbers{}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if err := unmarshalJSON([]byte(`{"int":{"s3cret":"x"}}`), &oddMaps{}); err == nil || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
}
