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
	cmd := exec.Command("go", "run", "./"+dir+"/through")
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
	noGeneration loss = "generation"     // observedGeneration of 0
	noMetadata   loss = "metadata"       // an empty field
	noFraction   loss = "fraction"       // of a second
	noQuantity   loss = "quantity"       // the same, written differently
	other        loss = "another loss"   // which would be a defect
)

// losses finds what differs between an object and what a generated type made of it.
type losses struct {
	found map[loss]bool
	where []string // of other losses
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
		if after, err2 := time.Parse(time.RFC3339, text); err == nil && err2 == nil && before.Truncate(time.Second).Equal(after) {
			return noFraction
		}
	case s.XIntOrString:
		before, err := quantity.ParseQuantity(fmt.Sprint(want))
		if after, err2 := quantity.ParseQuantity(text); err == nil && err2 == nil && before.Cmp(after) == 0 {
			return noQuantity
		}
	}
	return other
}

func (l *losses) compareObjects(s *schema, path string, want, got map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		at := strings.TrimPrefix(path+"."+name, ".")
		if value, ok := got[name]; ok {
			l.compare(below(s, name), at, want[name], value)
		} else {
			l.add(dropped(s, path, name, want[name]), at)
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

// dropped returns what an object has lost that lacks a member with that value.
func dropped(s *schema, path, name string, value any) loss {
	isMetadata := path == "metadata" || strings.HasSuffix(path, ".metadata")
	property := below(s, name)
	switch {
	case isMetadata && isEmpty(value):
		return noMetadata
	case property == nil || slices.Contains(s.Required, name):
		return other
	case path == "" && (name == "spec" || name == "status") && isEmpty(value):
		return noPart
	case slices.Contains([]string{"matchLabels", "matchExpressions", "values"}, name) && isEmpty(value):
		return noSelector
	case name == "observedGeneration" && isEmpty(value):
		return noGeneration
	case value == nil && property.Nullable:
		return noNull
	case value == "" && property.Type == "string":
		return noText
	}
	return other
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
