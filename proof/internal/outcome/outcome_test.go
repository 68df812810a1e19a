package outcome

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// The outcomes of Go tests are those that passed, failed, were skipped, and that did not end.
func TestGoTests(t *testing.T) {
	output := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":1.5}
{"Action":"run","Package":"p","Test":"TestBad"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"because\n"}
{"Action":"fail","Package":"p","Test":"TestBad","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestNotHere"}
{"Action":"skip","Package":"p","Test":"TestNotHere"}
{"Action":"run","Package":"p","Test":"TestSpecs"}
{"Action":"output","Package":"p","Test":"TestSpecs","Output":"Running Suite: specs\n"}
{"Action":"pass","Package":"p","Test":"TestSpecs"}
{"Action":"run","Package":"p","Test":"TestHangs"}
not an event
{"Action":"output","Package":"p","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"p"}
{"Action":"run","Package":"q","Test":"TestB"}
{"Action":"run","Package":"q","Test":"TestB/one"}
{"Action":"pass","Package":"q","Test":"TestB/one"}
{"Action":"pass","Package":"q","Test":"TestB"}
{"Action":"output","Package":"q","Output":"exit status 3\n"}
{"Action":"fail","Package":"q"}
{"ImportPath":"r [r.test]","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"r [r.test]","Action":"build-fail"}
{"Action":"output","Package":"r","Output":"FAIL\tr [build failed]\n"}
{"Action":"fail","Package":"r","FailedBuild":"r [r.test]"}
{"Action":"pass","Package":"s"}
`
	got, err := Of(nil, []byte(output))
	if err != nil {
		t.Fatal(err)
	}
	want := []Outcome{
		{Package: "p", Test: "TestGood", Passed: true, Took: 1500 * time.Millisecond},
		{Package: "p", Test: "TestBad", Message: "because\n"},
		{Package: "p", Test: "TestNotHere", Skipped: true},
		{Package: "p", Test: "TestSpecs", Passed: true},
		{Package: "q", Test: "TestB/one", Passed: true},
		{Package: "q", Test: "TestB", Passed: true},
		{Package: "p", Test: "TestHangs", Message: "it did not end\n"},
		{Package: "q", Message: "exit status 3\n"},
		{Package: "r", Message: "undefined: x\n"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c := CountOf(got); c != (Count{Passed: 4, Failed: 4, Skipped: 1}) {
		t.Errorf("count: %+v", c)
	}
	if text := Text([]byte(output)); !strings.HasPrefix(text, "=== RUN   TestGood\nbecause\nRunning Suite: specs\npanic: test timed out\n") {
		t.Errorf("text: %q", text)
	}
}

// The outcomes of specs are those of a report. What runs before and after them counts only if it fails.
func TestSpecs(t *testing.T) {
	report := `[{"SpecReports":[
{"LeafNodeType":"BeforeSuite","State":"passed"},
{"LeafNodeType":"It","ContainerHierarchyTexts":["cache","Get"],"LeafNodeText":"works","State":"passed"},
{"LeafNodeType":"It","ContainerHierarchyTexts":["cache"],"LeafNodeText":"waits","State":"pending"},
{"LeafNodeType":"AfterSuite","State":"panicked","Failure":{"Message":"ouch","Location":{"FileName":"a.go","LineNumber":7}}}
]}]`
	output := `{"Action":"output","Package":"p","Test":"TestSpecs","Output":"Running Suite: specs\n"}
{"Action":"fail","Package":"p","Test":"TestSpecs"}
{"Action":"fail","Package":"p"}
`
	got, err := Of([]byte(report), []byte(output))
	want := []Outcome{
		{Package: "p", Test: "cache Get works", Passed: true},
		{Package: "p", Test: "cache waits", Skipped: true},
		{Package: "p", Test: "AfterSuite", Message: "panicked: ouch\na.go:7"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := Of([]byte("{"), nil); err == nil {
		t.Error("a report that is no report gives no error")
	}
}

// A suite whose specs have passed can have failed all the same: a Go test found an error beside the specs, or did not end,
// the process ended with an error, or the race detector found something.
func TestSuiteThatFailsBesideItsSpecs(t *testing.T) {
	const passed = `[{"SpecReports":[{"LeafNodeType":"It","LeafNodeText":"works","State":"passed"}]}]`
	const failed = `[{"SpecReports":[{"LeafNodeType":"It","LeafNodeText":"works","State":"failed"}]}]`
	const suite = `{"Action":"run","Package":"p","Test":"TestSpecs"}
{"Action":"output","Package":"p","Test":"TestSpecs","Output":"Running Suite: specs\n"}
`
	const race = `{"Action":"output","Package":"p","Test":"TestSpecs","Output":"WARNING: DATA RACE\nhere\n"}
`
	const pass, fail = `{"Action":"pass","Package":"p","Test":"TestSpecs"}`, `{"Action":"fail","Package":"p","Test":"TestSpecs"}`
	const exit = `
{"Action":"fail","Package":"p"}
`
	for name, c := range map[string]struct {
		report, output string
		want           []string // the tests that failed; empty for the package
	}{
		"all passed":                  {passed, suite + pass, nil},
		"the test failed":             {passed, suite + fail + exit, []string{"TestSpecs"}},
		"the test did not end":        {passed, suite + exit, []string{"TestSpecs"}},
		"the process failed later":    {passed, suite + pass + exit, []string{""}},
		"a race":                      {passed, suite + race + fail + exit, []string{"TestSpecs, race detector", "TestSpecs"}},
		"a spec explains the failure": {failed, suite + fail + exit, []string{"works"}},
		"a spec explains no race":     {failed, suite + race + fail + exit, []string{"works", "TestSpecs, race detector"}},
	} {
		all, err := Of([]byte(c.report), []byte(c.output))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, o := range all {
			if !o.Passed {
				got = append(got, o.Test)
			}
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q failed, want %q", name, got, c.want)
		}
	}
}

// The tests of a package take what go test says at their end.
func TestTook(t *testing.T) {
	output := `{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":1.5}
{"Action":"fail","Package":"p","Elapsed":2.5}
{"Action":"pass","Package":"q","Elapsed":0.5}
`
	if got := Took([]byte(output)); got != 3*time.Second {
		t.Errorf("got %v, want 3s", got)
	}
}
