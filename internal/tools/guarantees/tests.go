package main

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// test is a test that holds a rule, or a table with such subtests.
type test struct{ name, file string }

var (
	testFunc = regexp.MustCompile(`^func (Test\w+)\(`)
	subtest  = regexp.MustCompile(`(?:\bname: |^\t*\{)"((?:[A-Z][0-9]+)+)[ _]`)
	comment  = regexp.MustCompile(`^// Guarantees: ((?:[A-Z][0-9]+(?:, )?)+)\n$`)
	ruleName = regexp.MustCompile(`[A-Z][0-9]+`)
)

// findTests returns the tests in root that hold each rule, by its name.
func findTests(root fs.FS) (map[string][]test, error) {
	tests := map[string][]test{}
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(file) > 1 && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(root, file)
		if err == nil {
			findInFile(tests, file, string(source))
		}
		return err
	})
	return tests, err
}

// findInFile adds the tests of a file.
func findInFile(tests map[string][]test, file, source string) {
	add := func(names, name string) {
		for _, r := range ruleName.FindAllString(names, -1) {
			if t := (test{name, file}); !slices.Contains(tests[r], t) {
				tests[r] = append(tests[r], t)
			}
		}
	}
	promised := "" // by the comment above a function
	for line := range strings.Lines(source) {
		if c := comment.FindStringSubmatch(line); c != nil {
			promised = c[1]
		}
		if f := testFunc.FindStringSubmatch(line); f != nil {
			add(promised, f[1])
			promised = ""
		}
		for _, s := range subtest.FindAllStringSubmatch(line, -1) {
			add(s[1], "a table of "+strings.TrimSuffix(path.Base(file), "_test.go"))
		}
	}
}
