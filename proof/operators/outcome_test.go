package main

import (
	"strings"
	"testing"
	"time"
)

// recorded is output of go test -json: tests, subtests, a suite of Ginkgo with colors, a package that does not compile.
const recorded = `
go: downloading example.com/m v1.0.0
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestB/one"}
{"Action":"run","Package":"p","Test":"TestB/two/deep"}
{"Action":"output","Package":"p","Test":"TestB/one","Output":"want 1\n"}
{"Action":"fail","Package":"p","Test":"TestB/one"}
{"Action":"pass","Package":"p","Test":"TestB/two/deep"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
{"Action":"run","Package":"q","Test":"TestSuite"}
{"Action":"output","Package":"q","Test":"TestSuite","Output":"\u001b[38;5;9m\u001b[1mFAIL!\u001b[0m -- \u001b[38;5;10m\u001b[1m41 Passed\u001b[0m | \u001b[38;5;9m\u001b[1m2 Failed\u001b[0m | \u001b[38;5;11m\u001b[1m1 Pending\u001b[0m | \u001b[38;5;14m\u001b[1m3 Skipped\u001b[0m\n"}
{"Action":"fail","Package":"q","Test":"TestSuite"}
{"Action":"fail","Package":"q"}
{"Action":"output","Package":"r","Output":"undefined: x\n"}
{"Action":"fail","Package":"r"}
{"Action":"pass","Package":"s"}
`

func TestOutcomes(t *testing.T) {
	all, err := outcomes([]byte(recorded))
	if err != nil {
		t.Fatal(err)
	}
	r := result{program: "m", cache: "crcache", outcomes: all, took: 90 * time.Second}
	if got, want := r.line(), "m\tcrcache\t43\t4\t5\t90"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	text := table([]result{r})
	for _, want := range []string{"p TestB/one: 1 failed\nwant 1", "q TestSuite: 2 failed", "r: 1 failed\nundefined: x"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "p TestB: ") {
		t.Error("a test counts that failed by its subtest")
	}
}

// A failure with one of our caches counts, unless controller-runtime's has as many.
func TestWorseThanTheirs(t *testing.T) {
	of := func(cache string, passed, failed int) result {
		return result{program: "m", cache: cache, outcomes: []outcome{{passed: passed, failed: failed}}}
	}
	for _, test := range []struct {
		all  []result
		want bool
	}{
		{[]result{of(theirs, 9, 1), of("crcache", 9, 1)}, false},
		{[]result{of(theirs, 9, 1), of("crcache", 10, 0)}, false},
		{[]result{of(theirs, 9, 1), of("crcache", 9, 1), of("Share", 8, 2)}, true},
		{[]result{of(theirs, 9, 1), of("crcache", 8, 1)}, true},
		{[]result{of("crcache", 9, 1)}, true},
		{[]result{of("crcache", 9, 0)}, false},
	} {
		if got := worseThanTheirs(test.all); got != test.want {
			t.Errorf("%v: %v", test.all, got)
		}
	}
}
