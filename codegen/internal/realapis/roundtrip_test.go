package realapis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
)

// through is a program that passes objects through the generated types, and their copies. It skips kinds that it does
// not know.
const through = `// Command through passes objects through generated types.
package main

import (
	"encoding/json"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

%s)

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
%s	} {
		check(add(scheme))
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var raw json.RawMessage
		err := in.Decode(&raw)
		if err == io.EOF {
			return
		}
		check(err)
		var head struct{ APIVersion, Kind string }
		check(json.Unmarshal(raw, &head))
		obj, err := scheme.New(schema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
		if runtime.IsNotRegisteredError(err) {
			check(out.Encode(nil))
			continue
		}
		check(err)
		check(json.Unmarshal(raw, obj))
		check(out.Encode(obj.DeepCopyObject()))
	}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
`

// passThrough returns objects after they passed through the types below dir; nil for those of other kinds.
func passThrough(t *testing.T, dir string, objects []map[string]any) (passed []map[string]any) {
	packages, err := filepath.Glob(filepath.Join(dir, "*/*/types.go"))
	if err != nil {
		t.Fatal(err)
	}
	var imports, functions strings.Builder
	for i, pkg := range packages {
		fmt.Fprintf(&imports, "\tapi%d \"github.com/typedinformer/informer/codegen/internal/realapis/%s\"\n", i, filepath.ToSlash(filepath.Dir(pkg)))
		fmt.Fprintf(&functions, "\t\tapi%d.AddToScheme,\n", i)
	}
	if err := os.Mkdir(filepath.Join(dir, "through"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "through/main.go"), fmt.Appendf(nil, through, &imports, &functions), 0o600); err != nil {
		t.Fatal(err)
	}
	var in bytes.Buffer
	for _, obj := range objects {
		if err := json.NewEncoder(&in).Encode(obj); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "run", quick, "./"+dir+"/through")
	cmd.Stdin, cmd.Stderr = &in, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var obj map[string]any
		if err := decoder.Decode(&obj); err != nil {
			t.Fatal(err)
		}
		passed = append(passed, obj)
	}
	if len(passed) != len(objects) {
		t.Fatalf("%d objects came through, of %d", len(passed), len(objects))
	}
	return passed
}

// loss is what an object may lose on its way through a generated type. codegen's README names each.
type loss string

const (
	noNull       loss = "null"           // of an optional property
	noText       loss = "empty string"   // of an optional property that has no default, or cannot be empty
	noPart       loss = "spec or status" // with only zero values
	noSelector   loss = "selector"       // an empty part of a label selector
	noGeneration loss = "generation"     // observedGeneration of 0 in a condition
	noMetadata   loss = "metadata"       // an empty field
	noFraction   loss = "fraction"       // of a second
	noQuantity   loss = "quantity"       // the same, written differently
	other        loss = "another loss"   // which would be a defect
)

// losses finds what differs between an object and what a generated type made of it.
type losses struct {
	found     map[loss]bool
	where     []string        // of other losses
	selectors map[string]bool // the paths of label selectors
}

func (l *losses) add(what loss, path string) {
	if l.found[what] = true; what == other {
		l.where = append(l.where, path)
	}
}

// compare compares values under a schema. s is nil for values without one.
func (l *losses) compare(s *schema, path string, want, got any) {
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			l.compareObjects(s, path, want, got)
			return
		}
	case []any:
		if got, ok := got.([]any); ok && len(got) == len(want) {
			var items *schema
			if s != nil && s.Items != nil {
				items = s.Items.Schema
			}
			for i := range want {
				l.compare(items, path+"[*]", want[i], got[i])
			}
			return
		}
	}
	if !reflect.DeepEqual(want, got) {
		l.add(rewritten(s, want, got), path)
	}
}

// rewritten returns what a value that is written differently has lost.
func rewritten(s *schema, want, got any) loss {
	text, ok := got.(string)
	switch {
	case s == nil || !ok:
	case s.Format == "date-time":
		before, err := time.Parse(time.RFC3339, fmt.Sprint(want))
		after, err2 := time.Parse(time.RFC3339, text)
		if err == nil && err2 == nil && before.Nanosecond() > 0 && before.Truncate(time.Second).Equal(after) {
			return noFraction
		}
	case s.XIntOrString && s.Pattern == quantityPattern:
		before, err := quantity.ParseQuantity(fmt.Sprint(want))
		if after, err2 := quantity.ParseQuantity(text); err == nil && err2 == nil && before.Cmp(after) == 0 {
			return noQuantity
		}
	}
	return other
}

// quantityPattern is what controller-gen writes for a resource.Quantity. Other values that are integers or strings, such as
// ports, must keep their type.
const quantityPattern = `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|` +
	`([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`

func (l *losses) compareObjects(s *schema, path string, want, got map[string]any) {
	if s != nil && hasJust(s, "matchLabels", "matchExpressions") {
		l.selectors[path] = true
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		place := strings.TrimPrefix(path+"."+name, ".")
		if value, ok := got[name]; ok {
			l.compare(below(s, name), place, want[name], value)
		} else {
			l.add(l.dropped(s, path, name, want[name]), place)
		}
	}
	for name, value := range got {
		if _, ok := want[name]; !ok {
			l.add(other, fmt.Sprintf("%s.%s, which is new: %v", path, name, value))
		}
	}
}

// below returns the schema of a member of an object, or nil.
func below(s *schema, name string) *schema {
	if s == nil {
		return nil
	}
	if property, ok := s.Properties[name]; ok {
		return &property
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Schema
	}
	return nil
}

// hasJust reports whether s has these properties and no others.
func hasJust(s *schema, names ...string) bool {
	for _, name := range names {
		if _, ok := s.Properties[name]; !ok {
			return false
		}
	}
	return len(s.Properties) == len(names)
}

// dropped returns what an object has lost that lacks a member with that value.
func (l *losses) dropped(s *schema, path, name string, value any) loss {
	var property schema
	known := false
	if s != nil {
		property, known = s.Properties[name]
	}
	if path == "metadata" || !known && strings.HasSuffix(path, ".metadata") { // an ObjectMeta
		if isEmpty(value) {
			return noMetadata
		}
		return other
	}
	if !known || slices.Contains(s.Required, name) { // the entries of a map are not properties
		return other
	}
	isCondition := func() bool { _, ok := s.Properties["lastTransitionTime"]; return ok }
	switch {
	case value == nil && property.Nullable:
		return noNull
	case path == "" && (name == "spec" || name == "status") && isZero(&property, value):
		return noPart
	case (name == "matchLabels" || name == "matchExpressions") && l.selectors[path] && isEmpty(value):
		return noSelector
	case name == "values" && l.selectors[strings.TrimSuffix(path, ".matchExpressions[*]")] && isEmpty(value):
		return noSelector
	case name == "observedGeneration" && isCondition() && isEmpty(value):
		return noGeneration
	case value == "" && property.Type == "string" && (property.Default == nil || string(property.Default.Raw) == `""`):
		return noText
	}
	return other
}

// isZero reports whether a struct for s is zero that holds value. Its optional properties are pointers, lists and maps,
// except strings, so they are zero only if they are absent.
func isZero(s *schema, value any) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range object {
		property, required := s.Properties[name], slices.Contains(s.Required, name)
		switch {
		case value == nil, value == "":
		case required && !property.Nullable && (value == 0.0 || value == false || isZero(&property, value)):
		default:
			return false
		}
	}
	return true
}

// isEmpty reports whether a value consists of zero values.
func isEmpty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(value)), func(v any) bool { return !isEmpty(v) })
	case []any:
		return len(value) == 0
	}
	return value == "" || value == 0.0 || value == false
}

// Only what a type cannot hold is harmless: not entries of maps, defaults that an empty string overrides, parts of what only
// looks like a selector or a condition, and numbers that become strings.
func TestLosses(t *testing.T) {
	text, list, number := schema{Type: "string"}, schema{Type: "array"}, schema{Type: "integer"}
	object := func(properties map[string]schema, required ...string) schema {
		return schema{Type: "object", Properties: properties, Required: required}
	}
	with := func(s schema, change func(*schema)) schema { change(&s); return s }
	expression := object(map[string]schema{"key": text, "operator": text, "values": list})
	expressions := schema{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &expression}}
	selector := object(map[string]schema{"matchLabels": {Type: "object"}, "matchExpressions": expressions})
	for name, c := range map[string]struct {
		property schema
		want     any
		got      any // absent if it is what gone is
		loss     loss
	}{
		"an empty string":                {text, "", gone, noText},
		"one that is not the default":    {with(text, func(s *schema) { s.Default = &apiextensionsv1.JSON{Raw: []byte(`"a"`)} }), "", gone, other},
		"a text":                         {text, "a", gone, other},
		"null":                           {with(number, func(s *schema) { s.Nullable = true }), nil, gone, noNull},
		"zero":                           {number, 0.0, gone, other},
		"an empty list":                  {list, []any{}, gone, other},
		"an entry of a map":              {schema{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &text}}, map[string]any{"k": ""}, map[string]any{}, other},
		"labels of a selector":           {selector, map[string]any{"matchLabels": map[string]any{}}, map[string]any{}, noSelector},
		"values of a selector":           {selector, map[string]any{"matchExpressions": []any{map[string]any{"values": []any{}}}}, map[string]any{"matchExpressions": []any{map[string]any{}}}, noSelector},
		"values of something else":       {expression, map[string]any{"values": []any{}}, map[string]any{}, other},
		"labels of something else":       {object(map[string]schema{"matchLabels": {Type: "object"}}), map[string]any{"matchLabels": map[string]any{}}, map[string]any{}, other},
		"the generation of a condition":  {object(map[string]schema{"observedGeneration": number, "lastTransitionTime": text}), map[string]any{"observedGeneration": 0.0}, map[string]any{}, noGeneration},
		"that of a status":               {object(map[string]schema{"observedGeneration": number}), map[string]any{"observedGeneration": 0.0}, map[string]any{}, other},
		"a quantity":                     {schema{XIntOrString: true, Pattern: quantityPattern}, "1000m", "1", noQuantity},
		"a port":                         {schema{XIntOrString: true}, 5.0, "5", other},
		"a fraction":                     {with(text, func(s *schema) { s.Format = "date-time" }), "2026-01-15T09:00:00.250Z", "2026-01-15T09:00:00Z", noFraction},
		"another time":                   {with(text, func(s *schema) { s.Format = "date-time" }), "2026-01-15T09:00:00.250Z", "2026-01-15T09:00:01Z", other},
		"metadata of an embedded object": {schema{Type: "object"}, map[string]any{"metadata": map[string]any{"labels": map[string]any{}}}, map[string]any{"metadata": map[string]any{}}, noMetadata},
	} {
		s := object(map[string]schema{"p": c.property})
		want, got := map[string]any{"p": c.want}, map[string]any{"p": c.got}
		if c.got == gone {
			delete(got, "p")
		}
		l := losses{found: map[loss]bool{}, selectors: map[string]bool{}}
		if l.compare(&s, "", want, got); !maps.Equal(l.found, map[loss]bool{c.loss: true}) {
			t.Errorf("%s: the losses are %v, want %s", name, l.found, c.loss)
		}
	}
	for text, want := range map[string]bool{
		`{}`: true, `{"s":"","n":0,"in":{"n":0}}`: true, `{"n":1}`: false, `{"o":0}`: false, `{"list":[]}`: false, `{"in":{"n":1}}`: false,
		`{"opt":{}}`: false,
	} {
		in := object(map[string]schema{"n": number}, "n")
		s := object(map[string]schema{"s": {Type: "string"}, "n": number, "o": number, "list": list, "in": in, "opt": in}, "n", "in")
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		if got := isZero(&s, value); got != want {
			t.Errorf("isZero of %s: %v", text, got)
		}
	}
}

// gone is the value of a member that is absent.
const gone = "absent"
