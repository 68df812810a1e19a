package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each rule in GUARANTEES.md has at least one test that holds it. Each rule that a test's comment names exists. No number
// is missing, and none is given twice.
func TestGuarantees(t *testing.T) {
	root, err := rootFolder()
	if err != nil {
		t.Fatal(err)
	}
	rules, err := readRules(filepath.Join(root, document))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := findTests(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	count, known := map[string]int{}, map[string]bool{}
	for _, r := range rules {
		count[r.letter()]++
		if want := fmt.Sprint(r.letter(), count[r.letter()]); r.name != want {
			t.Errorf("%s stands where %s is expected: %s", r.name, want, r.text)
		}
		known[r.name] = true
		if len(tests[r.name]) == 0 {
			t.Errorf("no test holds %s: %s", r.name, r.text)
		}
	}
	for name, holders := range tests {
		if !known[name] {
			t.Errorf("%s is not a rule in %s; tests: %v", name, document, holders)
		}
	}
	// The last number of each letter: a rule that was lost with its tests would be missed by nobody.
	for letter, last := range map[string]int{"R": 30, "F": 5, "C": 10, "I": 6, "H": 14, "Q": 11, "D": 5, "L": 5, "O": 4, "S": 6, "W": 10, "E": 5, "P": 6, "Z": 3, "M": 8, "T": 8, "U": 10} {
		if count[letter] < last {
			t.Errorf("%s has no %s%d", document, letter, count[letter]+1)
		}
	}
}

// A comment names rules for the next test, a subtest's name has them for its file, a line of a trace for the trace, and a row that misses a cell is an
// error that names its line.
func TestRulesAndTestsAreFound(t *testing.T) {
	tests := map[string][]test{}
	findInFile(tests, "a/b_test.go", "// X.\n// Guarantees: H2, R7\nfunc TestX(t *testing.T) {\n\t{\"H3 keeps\", 1},\n}\nfunc TestY(t *testing.T) {}\n")
	findInTrace(tests, "a/testdata/c.txt", "# One.\n# Guarantees: H4, R8\n\nrun\n----\n# Guarantees: none\n")
	for rule, want := range map[string]test{"R8": {"the trace c", "a/testdata/c.txt"}, "H2": {"TestX", "a/b_test.go"}, "R7": {"TestX", "a/b_test.go"}, "H3": {"a table of b", "a/b_test.go"}} {
		if !slices.Equal(tests[rule], []test{want}) {
			t.Errorf("%s: %v, want %v", rule, tests[rule], want)
		}
	}
	file := filepath.Join(t.TempDir(), document)
	read := func(text string) ([]rule, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readRules(file)
	}
	rules, err := read("# G\n\n## Reading\n\n| rule | guarantee | peer |\n| --- | --- | --- |\n| H2 | a b | c |\n| R7 | d [e](e.md) [f](docs/f.md#g) | the same |\n")
	if err != nil || len(rules) != 2 || rules[0] != (rule{"Reading", "H2", "a b", "c"}) {
		t.Errorf("rules %v, %v", rules, err)
	}
	for _, wanted := range []string{"r", "R7"} {
		if got := choose(rules, []string{wanted}); len(got) != 1 || got[0].name != "R7" {
			t.Errorf("%s: %v", wanted, got)
		}
	}
	if page := pageOf(rules, tests); !strings.Contains(page, "| R7 | d [e](../e.md) [f](f.md#g) | [TestX](../a/b_test.go) |") {
		t.Error(page)
	}
	for _, row := range []string{"| R8 | a |", "| R8 | a | b | c |", "| R8 | a | b"} {
		if _, err := read("\n" + row + "\n"); err == nil || !strings.Contains(err.Error(), "GUARANTEES.md:2") {
			t.Errorf("%q: %v", row, err)
		}
	}
}
