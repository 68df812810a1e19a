package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inModule changes to a new module with these files. It has no dependencies.
func inModule(t *testing.T, files map[string]string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if files["go.mod"] == "" {
		files["go.mod"] = "module example.com/shop\n\ngo 1.26\n"
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// loaded returns the groups that codegen finds with these flags and patterns.
func loaded(t *testing.T, args ...string) ([]*api, error) {
	t.Helper()
	o, err := parseOptions(args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return o.load()
}

// objects is a package with objects of the names in it.
func objects(marks string, names ...string) string {
	text := "// +groupName=shop.example.com\npackage v1\n\ntype Meta struct{}\n"
	for _, method := range []string{"GetNamespace", "GetName", "GetUID", "GetResourceVersion"} {
		text += "\nfunc (Meta) " + method + "() string { return \"\" }\n"
	}
	for _, name := range names {
		text += "\n// " + marks + "\ntype " + name + " struct{ Meta }\n\ntype " + name + "List struct{ Items []" + name + " }\n"
	}
	return text
}

const shopCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  names:
    kind: Widget
    plural: widgets
`

// If the module has CRDs, a type with only +kubebuilder:object:root=true is a resource if one of them defines it.
func TestRootsByCRDs(t *testing.T) {
	helm := "{{- if .Values.crds }}\n" + strings.ReplaceAll(shopCRD, "Widget\n", "Chart\n") + "{{ end }}\n"
	for name, test := range map[string]struct {
		marks string
		crds  map[string]string // by file
		want  []string
	}{
		"no CRDs":               {"+kubebuilder:object:root=true", nil, []string{"Chart", "Summary", "Widget"}},
		"a CRD":                 {"+kubebuilder:object:root=true", map[string]string{"crd/a.yaml": shopCRD}, []string{"Widget"}},
		"another marker, too":   {"+genclient", map[string]string{"crd/a.yaml": shopCRD}, []string{"Chart", "Summary", "Widget"}},
		"a template of Helm":    {"+kubebuilder:object:root=true", map[string]string{"c/b.yaml": helm}, []string{"Chart"}},
		"of another module":     {"+kubebuilder:object:root=true", map[string]string{"x/go.mod": "module x\n", "x/a.yaml": shopCRD}, []string{"Chart", "Summary", "Widget"}},
		"of dependencies":       {"+kubebuilder:object:root=true", map[string]string{"vendor/x/a.yaml": shopCRD}, []string{"Chart", "Summary", "Widget"}},
		"of another group, too": {"+kubebuilder:object:root=true", map[string]string{"a.yaml": strings.ReplaceAll(shopCRD, "shop.example", "other.example") + "---\n" + shopCRD}, []string{"Widget"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"shop/v1/types.go": objects(test.marks, "Chart", "Summary", "Widget")}
			for file, text := range test.crds {
				files[file] = text
			}
			inModule(t, files)
			o, err := parseOptions([]string{"./shop/..."}, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			apis, err := o.load()
			if err != nil || len(apis) != 1 {
				t.Fatal(apis, err)
			}
			var got []string
			for _, k := range apis[0].Kinds {
				got = append(got, k.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(o.notes) != 3-len(got) {
				t.Errorf("%d kinds, and the notes %q", len(got), o.notes)
			}
			for _, note := range o.notes {
				if !strings.HasPrefix(note, "shop/v1/types.go:") || !strings.Contains(note, "the module has CRDs, but none for it") {
					t.Error(note)
				}
			}
		})
	}
}

// If a package registers types with +kubebuilder:object:root=true, its other types with only that marker are no
// resources. Types without the marker do not count.
func TestRootsByRegistration(t *testing.T) {
	for registered, want := range map[string]string{
		"":                                   "Chart, Widget",
		"Register(&Widget{}, &WidgetList{})": "Widget",
		"Register(&Widget{}); Register(&Chart{})": "Chart, Widget",
		"Register(&Options{})":                    "Chart, Widget",
		"print(&Widget{} == nil)":                 "Chart, Widget",
	} {
		inModule(t, map[string]string{"v1/types.go": objects("+kubebuilder:object:root=true", "Chart", "Widget") +
			"\ntype Options struct{ Meta }\n\nfunc Register(...any) {}\n\nfunc init() { " + registered + " }\n"})
		if apis, err := loaded(t, "./v1"); err != nil || kindNames(apis) != want {
			t.Errorf("%s: %s, %v, want %s", registered, kindNames(apis), err, want)
		}
	}
}

// If every type is left out, the error says so, and the log says why.
func TestEveryTypeLeftOut(t *testing.T) {
	inModule(t, map[string]string{"shop/v1/types.go": objects("+kubebuilder:object:root=true", "Chart"), "a.yaml": shopCRD})
	var log strings.Builder
	err := run([]string{"./..."}, io.Discard, &log)
	if err == nil || err.Error() != "every type in ./... is left out" {
		t.Errorf("error %v", err)
	}
	want := "codegen: shop/v1/types.go:15: type Chart is left out: the module has CRDs, but none for it. " +
		"If it is a resource, add the marker +kubebuilder:resource\n"
	if diff := cmp.Diff(want, log.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The kinds in a file of CRDs are found by their groups.
func TestKindsIn(t *testing.T) {
	inModule(t, map[string]string{"a.yaml": shopCRD + "---\nkind: ConfigMap\n"})
	text, err := os.ReadFile("a.yaml")
	if got := kindsIn("a.yaml", text); err != nil || !slices.Equal(got, []string{"shop.example.com/Widget"}) {
		t.Errorf("%q, %v", got, err)
	}
}
