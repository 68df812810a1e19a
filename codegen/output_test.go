package main

import (
	"errors"
	"flag"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOutputDir(t *testing.T) {
	dir := outputDir(filepath.Join(t.TempDir(), "new"))
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(dir.path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stale := func(files map[string][]byte, want string) {
		t.Helper()
		err := dir.check(files)
		if err == nil != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want+"\n") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	generated := generatedBy + " from x. DO NOT EDIT.\n\npackage v1\n"
	files := map[string][]byte{"a/v1/informers.go": []byte(generated), "b/v1/informers.go": []byte(generated)}

	stale(files, "missing: "+dir.path("a/v1/informers.go")+", "+dir.path("b/v1/informers.go"))
	if dir.has("a/v1/informers.go") {
		t.Error("check has written something")
	}
	if _, err := dir.write(files); err != nil {
		t.Fatal(err)
	}
	stale(files, "")

	write("a/v1/informers.go", generated+"// changed\n")
	stale(files, "out of date: "+dir.path("a/v1/informers.go"))
	write("c/v1/informers.go", "// Header\n\n"+generated) // of a deleted type
	write("c/v1/expansion.go", "package v1\n\n// "+generatedBy+" is what others have.\n")
	stale(files, "out of date: "+dir.path("a/v1/informers.go")+"\nno longer generated: "+dir.path("c/v1/informers.go"))
	if _, err := dir.write(files); err != nil {
		t.Fatal(err)
	}
	stale(files, "")
	if dir.has("c/v1/informers.go") || !dir.has("c/v1/expansion.go") {
		t.Error("write must remove exactly the files that codegen wrote")
	}
}

// A run leaves alone the files that another run generates below its directory.
func TestOtherRunsFilesStay(t *testing.T) {
	dir := outputDir(t.TempDir())
	generated := []byte(generatedBy + " from x. DO NOT EDIT.\n\npackage v1\n")
	for name, text := range map[string]string{
		"other/doc.go":    "package other\n\n//go:generate go tool codegen -output-dir . ./...\n",
		"other/v1/old.go": string(generated),
		"mine/doc.go":     "package mine\n\n//go:generate go tool stringer\n",
		"mine/v1/old.go":  string(generated),
	} {
		if err := os.MkdirAll(filepath.Dir(dir.path(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir.path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dir.write(map[string][]byte{"new.go": generated}); err != nil {
		t.Fatal(err)
	}
	if !dir.has("other/v1/old.go") || dir.has("mine/v1/old.go") || !dir.has("new.go") {
		t.Error("write must remove what codegen wrote, but not below a directory with a run of its own")
	}
}

// codegen neither overwrites a file that somebody wrote by hand, nor reports it as out of date.
func TestHandWrittenFileStays(t *testing.T) {
	dir := outputDir(t.TempDir())
	own := []byte("package v1\n\n// Code that no generator wrote.\n")
	if err := os.WriteFile(dir.path("informers.go"), own, 0o600); err != nil {
		t.Fatal(err)
	}
	generated := []byte(generatedBy + " from x. DO NOT EDIT.\n\npackage v1\n")
	files := map[string][]byte{"informers.go": generated, "another.go": generated}
	want := dir.path("informers.go") + " is not generated: move it away, or name another -output-dir"
	for name, do := range map[string]func(map[string][]byte, ...string) error{"write": func(files map[string][]byte, others ...string) error {
		_, err := dir.write(files, others...)
		return err
	}, "check": dir.check} {
		if err := do(files); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %q", name, err, want)
		}
	}
	if have, err := os.ReadFile(dir.path("informers.go")); err != nil || string(have) != string(own) {
		t.Errorf("the file is now %q, %v", have, err)
	}
	if dir.has("another.go") {
		t.Error("write has written another file before it failed")
	}
}

// -check distinguishes files that are missing, that differ, and that are no longer generated.
func TestCheckTellsMissingFromStale(t *testing.T) {
	dir := outputDir(t.TempDir())
	text := []byte(generatedBy + " from x. DO NOT EDIT.\n\npackage v1\n")
	if _, err := dir.write(map[string][]byte{"differs.go": append(text, "\n"...), "left.go": text}); err != nil {
		t.Fatal(err)
	}
	err := dir.check(map[string][]byte{"differs.go": text, "missing.go": text})
	want := "out of date: " + dir.path("differs.go") + "\nmissing: " + dir.path("missing.go") +
		"\nno longer generated: " + dir.path("left.go") + "\nrun codegen with the same flags, but without -check" +
		"\nthat removes what is no longer generated: to keep it, add the flag that wrote it, such as -apply"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A header with a year does not make files stale at new year.
func TestYearStays(t *testing.T) {
	dir := outputDir(t.TempDir())
	text := []byte("// Copyright YEAR Somebody.\n\n" + generatedBy + " from x. DO NOT EDIT.\n\npackage v1\n")
	files := map[string][]byte{"informers.go": text}
	if _, err := dir.write(files); err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile(dir.path("informers.go"))
	if err != nil || !strings.HasPrefix(string(have), "// Copyright "+time.Now().Format("2006")+" Somebody.\n") {
		t.Fatalf("%v:\n%s", err, have)
	}
	if err := os.WriteFile(dir.path("informers.go"), []byte(strings.Replace(string(text), "YEAR", "1999", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := dir.check(files); err != nil {
		t.Error(err)
	}
}

func TestFlags(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"", "name packages"},
		{"-plural-exceptions Datum ./...", `"Datum": want Kind:Plural`},
		{"-plural-exceptions Datum:Da-ta ./...", `"Datum:Da-ta": want Kind:Plural`},
		{"-nonsense ./...", "flag provided but not defined"},
		{"-go-header-file nowhere ./testdata/genclient/...", "nowhere"},
		{"./nowhere/...", "nowhere"},
		{"fmt", "no type in fmt has one of the markers"},
		{"fmt -check", "-check follows a package or file: flags come first"},
		{"-crd testdata/crdfields/widgets.yaml -fields Thing:spec", "-fields Thing: no kind has this name; the kinds are Widget"},
		{"-crd testdata/crdfields/widgets.yaml -fields Widget:", "want paths like spec.nodeName"},
		{"-crd testdata/crdfields/widgets.yaml -fields spec.factory -index Widget:Factory=spec.factory", `type WidgetSpec: -fields: spec.factory: WidgetSpecSpec has no "factory"; it has a`},
		{"-crd testdata/crdfields/widgets.yaml -fields Widget:spec.factory -index Widget:Factory=spec.factory", "type Widget of shop.example.com/v1: -index: indexes are methods of the lister, which needs metadata.labels"},
		{"-crd testdata/crdfields/widgets.yaml -index Widget:Factory=spec.nowhere", `type Widget of shop.example.com/v1: -index: spec.nowhere: WidgetSpec2 has no "nowhere"; it has anyValues, anything, bare, `},
		{"-crd testdata/crdfields/widgets.yaml -index Thing:Node=spec.node", "-index Thing:Node=spec.node: no kind has this name; the kinds are Widget"},
		{"-exclude excluded.shop.example.com -crd testdata/crd/widgets.yaml -index Widget:Node=spec.nowhere", "type Widget of shop.example.com/v1alpha1: -index: spec.nowhere: "},
		{"-index Widget:Color=spec.color ./testdata/fields/...", "-index Widget:Color=spec.color: no kind has this name; the kinds are "},
		{"-index Thing:Table=spec.depth ./testdata/fields/...", `spec.depth: v1.ThingSpec has no "depth"; it has Labels, any, deep`},
		{"-index Thing:Table=spec.labels.node ./testdata/fields/...", `it has Labels, which is its name in JSON, too, because the field has no json tag`},
		{"-apply -fields spec ./...", "-apply takes types with all of their fields, so it excludes -fields and -factory"},
		{"-deepcopy k8s.io/api/core/v1", "-deepcopy: k8s.io/api/core/v1 belongs to another module, k8s.io/api. Deep copies are methods"},
		{"-deepcopy -crd testdata/crdfields/widgets.yaml", "-deepcopy copies the types of Go packages, so it excludes -crd and -fields"},
		{"-crd testdata/crdfields/widgets.yaml -index Widget=spec.node", "want Kind:Name=path"},
		{"-factory a»b/clientset/versioned ./...", `-factory and -listers: malformed import path "a»b/clientset/versioned"`},
		{"-listers k8s.io/client-go/listers ./...", "or -compat, for listers of this library"},
		{"-compat -listers example.com/listers -crd testdata/crdfields/widgets.yaml", "-listers takes the types of Go packages"},
		{"-compat -listers github.com/typedinformer/informer/codegen/nowhere ./testdata/factory/api/shop/v1",
			"-listers: github.com/typedinformer/informer/codegen/nowhere/shop/v1: "},
		{"-compat -listers github.com/typedinformer/informer/codegen/testdata/factory/client/listers ./testdata/factory/api/shop/v1",
			"type Widget: -listers: github.com/typedinformer/informer/codegen/testdata/factory/client/listers/shop/v1.WidgetLister " +
				"has no method Widgets. To leave the type out: -exclude github.com/typedinformer/informer/codegen/testdata/factory/api/shop/v1.Widget"},
		{"-crd testdata/header.txt", "no CustomResourceDefinition in testdata/header.txt"},
	} {
		if err := run(strings.Fields(test.args), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.args, err, test.want)
		}
	}
	var out strings.Builder
	if err := run([]string{"-h"}, &out, io.Discard); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out.String(), "-plural-exceptions") {
		t.Errorf("%v:\n%s", err, &out)
	}
}

// Text of a flag stays text in the generated code.
func TestTextOfFlagsIsNoCode(t *testing.T) {
	o, err := parseOptions([]string{"-crd", "testdata/crdfields/widgets.yaml", "-index", "Widget:App=metadata.labels['«os»\nx()']"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	files, err := o.generate()
	text := string(files["shop/v1/informers.go"])
	for _, want := range []string{"Labels[\"«os»\\nx()\"]", "// ByApp yields the widgets that have app at metadata.labels['«os» x()'].\n"} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v, want %s in\n%s", err, want, text)
		}
	}
}

// -check writes nothing, and fails until codegen runs.
func TestCheckFailsWhenStale(t *testing.T) {
	dir := t.TempDir()
	args := []string{"-output-dir", dir, "./testdata/genclient/api/..."}
	if err := run(append([]string{"-check"}, args...), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "shop/v1/informers.go") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "shop")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("-check has written something: %v", err)
	}
	if err := run(args, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := run(append([]string{"-check"}, args...), io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}
