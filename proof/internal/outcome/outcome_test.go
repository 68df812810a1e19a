package outcome

import (
	"reflect"
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
`
	got, err := Of(nil, []byte(output))
	if err != nil {
		t.Fatal(err)
	}
	want := []Outcome{
		{Test: "TestGood", Passed: true, Took: 1500 * time.Millisecond},
		{Test: "TestBad", Message: "because\n"},
		{Test: "TestNotHere", Skipped: true},
		{Test: "TestHangs", Message: "it did not end\n"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c := CountOf(got); c != (Count{Passed: 1, Failed: 2, Skipped: 1}) {
		t.Errorf("count: %+v", c)
	}
	if text := Text([]byte(output)); text != "=== RUN   TestGood\nbecause\nRunning Suite: specs\npanic: test timed out\n" {
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
	got, err := Of([]byte(report), nil)
	want := []Outcome{
		{Test: "cache Get works", Passed: true},
		{Test: "cache waits", Skipped: true},
		{Test: "AfterSuite", Message: "panicked: ouch\na.go:7"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := Of([]byte("{"), nil); err == nil {
		t.Error("a report that is no report gives no error")
	}
}
