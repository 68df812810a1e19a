package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

// When another generator takes over the deep copies of a package, or its last type goes, codegen removes its file. A
// file of that name that codegen did not write stays.
func TestStaleCopiesAreRemoved(t *testing.T) {
	deepCopies := "package v1\n\nfunc (in *Widget) DeepCopyInto(out *Widget) { *out = *in }\n\n" +
		"func (in *Widget) DeepCopy() *Widget { return in }\n\nfunc (in *Widget) DeepCopyObject() any { return in }\n"
	others := strings.ReplaceAll(deepCopies, "Widget", "WidgetList") + deepCopies[len("package v1\n"):]
	inModule(t, map[string]string{
		"v1/types.go":                  objects("+kubebuilder:object:root=true", "Widget"),
		"v2/types.go":                  objects("+genclient", "Widget"),
		"v3/types.go":                  objects("+genclient", "Widget"),
		"byhand/types.go":              "package byhand\n",
		"byhand/deepcopy_generated.go": "package byhand\n",
	})
	args := []string{"-deepcopy", "-output-dir", "out/informers", "./..."}
	check := append([]string{"-check"}, args...)
	exists := func(name string) bool {
		_, err := os.Stat(name)
		return err == nil
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{args, check} {
		if err := run(args, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	write("v1/zz_generated.deepcopy.go", others)
	write("v2/types.go", "package v1\n")
	want := "no longer generated: v1/deepcopy_generated.go, v2/deepcopy_generated.go, "
	if err := run(check, io.Discard, io.Discard); !strings.HasPrefix(errorText(err), want) {
		t.Errorf("-check: %v, want %s", err, want)
	}
	for _, forgotten := range [][]string{{"./..."}, {"-check", "./..."}} { // it would leave the copies as they are
		err := run(forgotten, io.Discard, io.Discard)
		if !strings.Contains(errorText(err), "v1/deepcopy_generated.go: a run with -deepcopy wrote this file") || !exists("v2/deepcopy_generated.go") {
			t.Errorf("%s: %v", forgotten, err)
		}
	}
	var log strings.Builder
	for _, args := range [][]string{args, check} {
		if err := run(args, io.Discard, &log); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(log.String(), "codegen: removed v2/deepcopy_generated.go, which an earlier run wrote\n") {
		t.Errorf("log: %s", &log)
	}
	for name, want := range map[string]bool{"v1": false, "v2": false, "v3": true, "byhand": true} {
		if exists(name+"/deepcopy_generated.go") != want {
			t.Errorf("%s: the file exists: %v, want %v", name, !want, want)
		}
	}
}
