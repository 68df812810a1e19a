package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goGenerate matches a comment that runs codegen from its own module.
var goGenerate = regexp.MustCompile(`^//go:generate go run -C (?:\.\./)+codegen \. (-C .*)\n`)

// runsOf returns, by directory, the arguments of each codegen run in a comment of the repository, and all generated
// files.
func runsOf(t *testing.T, root string) (runs map[string][][]string, files map[string]bool) {
	runs, files = map[string][][]string{}, map[string]bool{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "testdata" || strings.HasPrefix(name, "generated-") || strings.HasPrefix(name, ".") && file != root):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if isGenerated(text) {
			files[file] = true
		}
		for line := range bytes.Lines(text) {
			if run := goGenerate.FindSubmatch(line); run != nil {
				args := string(run[1])
				if strings.ContainsAny(args, `"'$`) {
					t.Errorf("%s: this test cannot split %s", file, args)
				}
				runs[filepath.Dir(file)] = append(runs[filepath.Dir(file)], strings.Fields(args))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return runs, files
}

// Every generated file in the repository is up to date, and a go:generate comment generates it.
func TestGeneratedFilesAreFresh(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	runs, files := runsOf(t, root)
	if len(runs) == 0 || len(files) == 0 {
		t.Fatalf("%d generated files, and %d directories with a go:generate comment", len(files), len(runs))
	}
	for dir, list := range runs {
		for _, args := range list {
			o, err := parseOptions(args, t.Output())
			if err != nil {
				t.Fatalf("%s: %s: %v", dir, args, err)
			}
			t.Chdir(filepath.Join(root, "codegen", o.dir))
			generated, err := o.generate()
			if err != nil {
				t.Fatalf("%s: %s: %v", dir, args, err)
			}
			if err := outputDir(o.outputDir).check(generated); err != nil {
				t.Errorf("%s: %v: go generate %[1]s", dir, err)
			}
			for name := range generated {
				delete(files, filepath.Join(dir, outputDir(o.outputDir).path(name)))
			}
		}
	}
	for file := range files {
		t.Errorf("%s is generated, but by no go:generate comment", file)
	}
}
