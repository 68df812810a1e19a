package main

import (
	"bytes"
	"errors"
	"flag"
	"go/format"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "k8s.io/api/core/v1"                           // and apimachinery: testdata is generated from them
	_ "k8s.io/client-go/applyconfigurations/core/v1" // apply configurations contain them
	_ "k8s.io/client-go/tools/cache"                 // the factory in testdata imports it
)

var update = flag.Bool("update", false, "write the current output into testdata")

// golden is one directory of testdata: Go packages or CRDs as the input, flags, and the expected output below out/, or
// the expected error. The file notes contains the notes of codegen on types that it leaves out.
type golden struct{ dir string }

// read returns the text of a file, or "" if it does not exist.
func (g golden) read(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(g.dir, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// generate runs codegen for the input of g. It also returns the notes, as lines.
func (g golden) generate(t *testing.T) (files map[string][]byte, notes string, err error) {
	args := append([]string{"-output-dir", filepath.Join(g.dir, "out")}, strings.Fields(g.read(t, "flags"))...)
	if last := args[len(args)-1]; !slices.Contains(args, "-crd") && !strings.HasPrefix(last, "k8s.io/") {
		args = append(args, "./"+g.dir+"/...")
	}
	o, err := parseOptions(args, io.Discard)
	if err != nil {
		return nil, "", err
	}
	files, err = o.generate()
	for name, text := range files {
		files[name] = outputDir(o.outputDir).dated(name, text)
	}
	for _, note := range o.notes {
		notes += strings.ReplaceAll(note, g.dir+"/", "") + "\n"
	}
	return files, notes, err
}

// expected returns the expected output.
func (g golden) expected(t *testing.T) map[string]string {
	files := map[string]string{}
	out := filepath.Join(g.dir, "out")
	err := filepath.WalkDir(out, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(file, "_expansion.go") {
			return err
		}
		name, _ := filepath.Rel(out, file)
		files[filepath.ToSlash(name)] = g.read(t, "out/"+name)
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	copies, _ := filepath.Glob(filepath.Join(g.dir, "*/*", copiesFile))
	for _, file := range copies {
		name, _ := filepath.Rel(g.dir, file)
		files["../"+filepath.ToSlash(name)] = g.read(t, name)
	}
	return files
}

// accept makes the output the expected one.
func (g golden) accept(t *testing.T, got map[string][]byte, notes, failed string) {
	if _, err := outputDir(filepath.Join(g.dir, "out")).write(got); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"notes": notes, "error": failed} {
		os.Remove(filepath.Join(g.dir, name))
		if text != "" {
			if err := os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestGolden generates from every directory of testdata, compares the output, and compiles it.
func TestGolden(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/README")
	if err != nil || len(dirs) < 8 {
		t.Fatalf("%d directories, %v", len(dirs), err)
	}
	compile := []string{"build", "-C", "internal/generated"} // a module with the imports of generated code
	for _, dir := range dirs {
		g := golden{filepath.ToSlash(filepath.Dir(dir))}
		t.Run(path.Base(g.dir), func(t *testing.T) {
			got, notes, err := g.generate(t)
			failed := ""
			if err != nil {
				failed = strings.ReplaceAll(err.Error(), g.dir+"/", "") + "\n"
			}
			if *update {
				g.accept(t, got, notes, failed)
			}
			if diff := cmp.Diff(g.read(t, "error"), failed); diff != "" {
				t.Errorf("error differs (-want +got), -update accepts it:\n%s", diff)
			}
			if diff := cmp.Diff(g.read(t, "notes"), notes); diff != "" {
				t.Errorf("notes differ (-want +got), -update accepts them:\n%s", diff)
			}
			texts := map[string]string{}
			for name, text := range got {
				texts[name] = string(text)
				if formatted, err := format.Source(text); err != nil || !bytes.Equal(formatted, text) {
					t.Errorf("%s is not formatted: %v", name, err)
				}
				if !regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`).Match(text) {
					t.Errorf("%s is not marked as generated", name)
				}
			}
			if diff := cmp.Diff(g.expected(t), texts); diff != "" {
				t.Errorf("output differs (-want +got), -update accepts it:\n%s", diff)
			}
			for name := range got {
				if pkg := "github.com/typedinformer/informer/codegen/" + path.Join(g.dir, "out", path.Dir(name)); !slices.Contains(compile, pkg) && path.Base(g.dir) != "unfinished" {
					compile = append(compile, pkg)
				}
			}
		})
	}
	if out, err := exec.Command("go", compile...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
