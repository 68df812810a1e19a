package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/typedinformer/informer/proof/internal/outcome"
)

// A line of the table has the counts and the largest heap; each failure is listed below the table.
func TestTable(t *testing.T) {
	r := result{program: "m", cache: "crcache", took: 90 * time.Second, outcomes: []outcome.Outcome{
		{Package: "p", Test: "TestA", Passed: true},
		{Package: "p", Test: "TestB", Message: "want 1"},
		{Package: "p", Test: "TestC", Skipped: true},
		{Package: "q", Message: "undefined: x"},
	}}
	if got, want := r.line(), "m\tcrcache\t1\t2\t1\t90\t-"; got != want {
		t.Errorf("without a heap: %q, want %q", got, want)
	}
	file := filepath.Join(t.TempDir(), "heap")
	if err := os.WriteFile(file, []byte("1048576\n3145728\n2097152\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.addHeap(file); err != nil {
		t.Fatal(err)
	}
	if err := r.addHeap(file); err != nil {
		t.Errorf("the file is gone: %v", err)
	}
	if got, want := r.line(), "m\tcrcache\t1\t2\t1\t90\t3.0"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	text := table([]result{r})
	for _, want := range []string{"m with crcache fails: p TestB\nwant 1\n", "fails: q \nundefined: x\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "TestA") || strings.Contains(text, "TestC") {
		t.Errorf("the table lists tests that did not fail:\n%s", text)
	}
}

// A test that fails with one of our caches counts, unless it fails with controller-runtime's, too. So does one that
// passes only with controller-runtime's. A number that is new in each run is no part of a name.
func TestWorseThanTheirs(t *testing.T) {
	newResult := func(cache, passed, failed string) result {
		r := result{program: "m", cache: cache}
		for _, name := range strings.Fields(passed) {
			r.outcomes = append(r.outcomes, outcome.Outcome{Test: name, Passed: true})
		}
		for _, name := range strings.Fields(failed) {
			r.outcomes = append(r.outcomes, outcome.Outcome{Test: name})
		}
		return r
	}
	for _, test := range []struct {
		all  []result
		want string
	}{
		{[]result{newResult(theirs, "A", "B"), newResult("crcache", "A", "B")}, ""},
		{[]result{newResult(theirs, "A", "B"), newResult("crcache", "A B", "")}, ""},
		{[]result{newResult(theirs, "A", "B"), newResult("crcache", "B", "A")}, "m with crcache:  A fails only there"},
		{[]result{newResult(theirs, "A", "B"), newResult("crcache", "A", "B"), newResult("separate", "", "A B")}, "m with separate:  A fails only there"},
		{[]result{newResult(theirs, "A", ""), newResult("crcache", "", "")}, "m with crcache:  A does not run"},
		{[]result{newResult("crcache", "A", "B")}, "m with crcache:  B fails only there"},
		{[]result{newResult("crcache", "A", "")}, ""},
		{[]result{newResult(theirs, "A/random(1795633142781390871)", ""), newResult("crcache", "A/random(1795633465671048928)", "")}, ""},
		{[]result{newResult(theirs, "A/1795633142781390871 A/1795633142781390872", ""),
			newResult("crcache", "A/1795633465671048928", "A/1795633465671048929")}, "m with crcache:  A/N fails only there"},
	} {
		if got := strings.Join(worseThanTheirs(test.all), "\n"); got != test.want {
			t.Errorf("%v: %q, want %q", test.all, got, test.want)
		}
	}
}
