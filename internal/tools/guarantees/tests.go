package main

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// test is a test that holds a rule, a table with such subtests, or a trace: a text file whose output a test compares.
type test struct{ name, file string }

var (
	testFunc = regexp.MustCompile(`^func (Test\w+)\(`)
	subtest  = regexp.MustCompile(`(?:\bname: |^\t*\{)"((?:[A-Z][0-9]+)+)[ _]`)
	comment  = regexp.MustCompile(`^(?://|#) Guarantees: ((?:[A-Z][0-9]+(?:, )?)+)\n$`)
	ruleName = regexp.MustCompile(`[A-Z][0-9]+`)
)

// findTests returns the tests in root that hold each rule, by its name.
func findTests(root fs.FS) (map[string][]test, error) {
	tests := map[string][]test{}
	err := fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && len(file) > 1 && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		}
		inTestdata := strings.Contains("/"+file, "/testdata/")
		isTrace := inTestdata && strings.HasSuffix(file, ".txt")
		if !isTrace && (inTestdata || !strings.HasSuffix(file, "_test.go")) {
			return nil
		}
		source, err := fs.ReadFile(root, file)
		switch {
		case err != nil:
			return err
		case isTrace:
			findInTrace(tests, file, string(source))
		default:
			findInFile(tests, file, string(source))
		}
		return nil
	})
	return tests, err
}

// findInFile adds the tests of a file.
func findInFile(tests map[string][]test, file, source string) {
	add := func(names, name string) { add(tests, names, test{name, file}) }
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

// findInTrace adds a trace.
func findInTrace(tests map[string][]test, file, source string) {
	name := "the trace " + strings.TrimSuffix(path.Base(file), ".txt")
	for line := range strings.Lines(source) {
		if c := comment.FindStringSubmatch(line); c != nil {
			add(tests, c[1], test{name, file})
		}
	}
}

// add adds t to the rules in names.
func add(tests map[string][]test, names string, t test) {
	for _, r := range ruleName.FindAllString(names, -1) {
		if !slices.Contains(tests[r], t) {
			tests[r] = append(tests[r], t)
		}
	}
}
