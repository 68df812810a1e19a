// Package guarantees checks that tests hold the rules of GUARANTEES.md.
package guarantees

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "fill in the tests that hold each rule in GUARANTEES.md")

var (
	testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	subtest  = regexp.MustCompile(`(?:\bname: |^\t*\{)"((?:[A-Z][0-9]+)+)[ _]`)
	comment  = regexp.MustCompile(`^// Guarantees: ((?:[A-Z][0-9]+(?:, )?)+)\n$`)
	ruleName = regexp.MustCompile(`[A-Z][0-9]+`)
	ruleRow  = regexp.MustCompile(`^\| ([A-Z][0-9]+) \| ([^|]*) \|([^|]*)\|([^|]*)\|$`)
)

// holders returns for each rule the links to the tests that hold it: those with its number in a "// Guarantees: H2, R7" line of
// their comment, or in the name of a row of a table.
func holders(t *testing.T) map[string][]string {
	held := map[string][]string{}
	add := func(rules, test, file string) {
		for _, rule := range ruleName.FindAllString(rules, -1) {
			if link := fmt.Sprintf("[%s](%s)", test, file); !slices.Contains(held[rule], link) {
				held[rule] = append(held[rule], link)
			}
		}
	}
	var files []string
	if err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || len(path) > 1 && strings.HasPrefix(path, ".")):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			files = append(files, filepath.ToSlash(path))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inside, promised := "", ""
		for line := range strings.Lines(string(source)) {
			if c := comment.FindStringSubmatch(line); c != nil {
				promised = c[1]
			}
			if f := testFunc.FindStringSubmatch(line); f != nil {
				inside = f[1]
				add(promised, strings.TrimPrefix(inside, "Test"), file)
				promised = ""
			}
			for _, s := range subtest.FindAllStringSubmatch(line, -1) {
				add(s[1], "a table of "+strings.TrimSuffix(filepath.Base(file), "_test.go"), file)
			}
		}
	}
	return held
}

// Each rule in GUARANTEES.md names at least one test that holds it. Each rule that a test's comment names exists.
func TestGuarantees(t *testing.T) {
	const name = "GUARANTEES.md"
	t.Chdir("../../..")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	held := holders(t)
	rules := map[string]bool{}
	var want strings.Builder
	for line := range strings.Lines(string(text)) {
		row := ruleRow.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if row == nil {
			want.WriteString(line)
			continue
		}
		rule := row[1]
		rules[rule] = true
		if len(held[rule]) == 0 {
			t.Errorf("no test holds %s: %s", rule, row[2])
		}
		fmt.Fprintf(&want, "| %s | %s | %s |%s|\n", rule, row[2], strings.Join(held[rule], ", "), row[4])
	}
	for rule, tests := range held {
		if !rules[rule] {
			t.Errorf("%s is not a rule in %s; tests: %v", rule, name, tests)
		}
	}
	for group, last := range map[string]int{"R": 30, "F": 5, "C": 10, "I": 6, "H": 14, "Q": 11, "D": 5, "L": 5, "O": 4, "S": 6, "W": 10, "E": 5, "P": 6, "Z": 3, "M": 8, "T": 8, "U": 10} {
		for n := range last {
			if rule := fmt.Sprint(group, n+1); !rules[rule] {
				t.Errorf("%s has no %s", name, rule)
			}
		}
	}
	switch {
	case want.String() == string(text):
	case *update:
		if err := os.WriteFile(name, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s does not match the tests; run go test ./internal/suite/guarantees -update", name)
	}
}
