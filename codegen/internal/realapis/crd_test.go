package realapis

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// published are popular definitions, with the number of kinds that they define, in all versions.
var published = []struct {
	module, pattern string
	kinds           int
}{
	{"github.com/cert-manager/cert-manager", "deploy/crds/*.yaml", 6},
	{"sigs.k8s.io/gateway-api", "config/crd/experimental/gateway.networking.k8s.io_[^v]*.yaml", 10},
	{"sigs.k8s.io/cluster-api@v1.14.2", "*/kubeadm/config/crd/bases/*.yaml", 4},
	{"k8s.io/kubernetes@v1.36.3", "cluster/addons/volumesnapshots/crd/*.yaml", 3},
}

// schema is the part of a CRD's schema that samples must fit.
type schema struct {
	Type, Format, Pattern string
	Enum                  []any
	Default               any
	MinLength             int
	Properties            map[string]*schema
	Required              []string
	Additional            json.RawMessage `json:"additionalProperties"`
	Items                 *schema
	Nullable              bool
	Preserve              bool `json:"x-kubernetes-preserve-unknown-fields"`
	Embedded              bool `json:"x-kubernetes-embedded-resource"`
	IntOrString           bool `json:"x-kubernetes-int-or-string"`
}

// sampler generates values that fit the types of a schema.
type sampler struct {
	*rand.Rand
	all  bool // set all optional fields
	zero bool // with zero values
}

func (r *sampler) value(s *schema) any {
	switch {
	case s.Nullable && !r.all && r.IntN(3) == 0:
		return nil
	case s.IntOrString:
		return []any{"1500m", "8Gi", "17"}[r.IntN(3)]
	case len(s.Enum) > 0:
		return s.Enum[r.IntN(len(s.Enum))]
	}
	switch s.Type {
	case "string":
		switch s.Format {
		case "date-time":
			return "2026-01-15T09:00:00Z"
		case "byte":
			return "aGVsbG8="
		}
		if r.zero && s.Default != nil && s.Default != "" && s.MinLength == 0 && regexp.MustCompile(s.Pattern).MatchString("") {
			return "" // different from no string
		}
		return fmt.Sprintf("text %d", r.IntN(100))
	case "boolean":
		return !r.zero && r.IntN(2) == 0
	case "integer":
		if r.zero {
			return 0
		}
		return 1 + r.IntN(1000) // an observedGeneration of 0 counts as none
	case "number":
		if r.zero {
			return 0
		}
		return float64(r.IntN(1000)) / 8
	case "array":
		list := []any{}
		for range r.length() {
			list = append(list, r.value(s.Items))
		}
		return list
	}
	m := map[string]any{}
	for name, property := range s.Properties {
		if r.all || slices.Contains(s.Required, name) || r.IntN(3) == 0 {
			m[name] = r.value(property)
		}
	}
	if s.Embedded {
		m["apiVersion"], m["kind"], m["metadata"] = "v1", "Pod", map[string]any{"name": "embedded"}
	}
	var additional schema
	switch {
	case len(s.Properties) > 0:
	case json.Unmarshal(s.Additional, &additional) == nil:
		for i := range r.length() {
			m[fmt.Sprintf("key-%d", i)] = r.value(&additional)
		}
	case s.Preserve:
		m["free"] = []any{1, "two", map[string]any{"three": 3.5}, nil}
	}
	return m
}

// length returns the length of a list or map.
func (r *sampler) length() int {
	if r.zero {
		return 0
	}
	return 1 + r.IntN(2)
}

// samples returns objects of every version of the kinds that files define. The generated types must be able to hold
// them.
func samples(t *testing.T, files []string, seed uint64) (objects []map[string]any) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Served bool
					Schema struct{ OpenAPIV3Schema *schema }
				}
			}
		}
		if err := yaml.Unmarshal(text, &crd); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, v := range crd.Spec.Versions {
			for i := range 40 {
				if !v.Served {
					break
				}
				r := &sampler{Rand: rand.New(rand.NewPCG(seed, uint64(i))), all: i < 3, zero: i == 2}
				obj := r.value(v.Schema.OpenAPIV3Schema).(map[string]any)
				obj["apiVersion"], obj["kind"] = crd.Spec.Group+"/"+v.Name, crd.Spec.Names.Kind
				obj["metadata"] = map[string]any{"name": "sample", "namespace": "default"}
				objects = append(objects, obj)
			}
		}
	}
	return objects
}

// manifests returns the objects in YAML files below dir.
func manifests(t *testing.T, dir string) (objects []map[string]any) {
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, document := range regexp.MustCompile(`(?m)^---.*$`).Split(string(text), -1) {
			var obj map[string]any
			if err := yaml.Unmarshal([]byte(document), &obj); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
			if obj["kind"] != nil {
				objects = append(objects, obj)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

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

// plain returns an object as encoding/json decodes it, without parts that may get lost because they mean the same as
// nothing: an empty list or map in a metav1.LabelSelector, a creation timestamp that is null, a spec or status with
// only zero values and, in hand-written manifests, an empty string without a default.
func plain(t *testing.T, obj map[string]any, written bool) map[string]any {
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	var clean func(value any)
	clean = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, element := range value {
				clean(element)
			}
		case map[string]any:
			for name, inner := range value {
				clean(inner)
				switch name {
				case "matchExpressions", "matchLabels", "values":
					if isEmpty(inner) {
						delete(value, name)
					}
				case "creationTimestamp":
					if inner == nil {
						delete(value, name)
					}
				}
				if written && inner == "" {
					delete(value, name)
				}
			}
		}
	}
	clean(m)
	for _, name := range []string{"spec", "status"} {
		if isEmpty(m[name]) {
			delete(m, name)
		}
	}
	return m
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

// Types generated from published CRDs compile, and hold everything in the schemas. Objects made from the schemas, and
// published examples, pass through unchanged.
func TestPublishedCRDs(t *testing.T) {
	dir, err := os.MkdirTemp(".", "generated-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	args := []string{"tool", "codegen", "-output-dir", dir}
	var objects []map[string]any
	var files []string
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, p := range published {
		pattern := filepath.Join(moduleDir(t, p.module), p.pattern)
		matches, err := filepath.Glob(pattern)
		if err != nil || len(matches) != p.kinds {
			t.Fatalf("%s: %d files, %v", pattern, len(matches), err)
		}
		args = append(args, "-crd", pattern)
		files = append(files, matches...)
	}
	run(t, "go", args...)
	run(t, "go", "vet", "./"+dir+"/...")
	compare(t, generated(t, dir), crds(t, files...), 35)

	objects = samples(t, files, seed)
	made := len(objects)
	objects = append(objects, manifests(t, filepath.Join(moduleDir(t, "sigs.k8s.io/gateway-api"), "examples"))...)
	byKind := map[string]int{}
	for i, got := range passThrough(t, dir, objects) {
		if got == nil && i >= made {
			continue // a Namespace, or a Service
		}
		byKind[fmt.Sprint(objects[i]["apiVersion"], " ", objects[i]["kind"])]++
		if diff := cmp.Diff(plain(t, objects[i], i >= made), plain(t, got, i >= made)); diff != "" {
			t.Errorf("%v %v (-want +got):\n%s", objects[i]["apiVersion"], objects[i]["kind"], diff)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(byKind)) {
		t.Logf("%s: %d objects", kind, byKind[kind])
	}
}
