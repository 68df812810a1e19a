// Package outcome reads the outcomes of tests from the output of go test and from the reports of Ginkgo.
package outcome

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Outcome is the outcome of one spec of Ginkgo or of one Go test.
type Outcome struct {
	Package string // its import path
	// Test is its name; for a spec, the texts of its containers and its own. It is empty for a package that failed
	// without a test that did: it does not compile, or its process ended.
	Test    string
	Passed  bool
	Skipped bool
	Message string        // why it failed
	Took    time.Duration // zero if that is not known
}

// Of reads the outcomes from a JSON report of Ginkgo, if there is one, and the output of go test -json of one or more
// packages. The report is that of the package that ran specs; without one, a suite of specs counts as one test. Each
// subtest counts, and so does the test that has it. A Go test that began and did not end has failed. One that runs specs
// counts only if it failed and none of its specs did, and if the race detector found something.
func Of(report, output []byte) ([]Outcome, error) {
	r := reader{reported: len(report) > 0, text: map[name]*strings.Builder{}, suites: map[name]bool{}}
	if err := events(output, r.read); err != nil {
		return nil, err
	}
	var all []Outcome
	failed := false
	if r.reported {
		specs, err := specOutcomes(report)
		if err != nil {
			return nil, err
		}
		for _, o := range specs {
			o.Package = r.specsOf
			all = append(all, o)
			failed = failed || !o.Passed && !o.Skipped
		}
	}
	return append(all, r.outcomes(failed)...), nil
}

func specOutcomes(report []byte) ([]Outcome, error) {
	var reports []struct {
		SpecReports []struct {
			ContainerHierarchyTexts []string
			LeafNodeType            string
			LeafNodeText            string
			State                   string
			Failure                 struct {
				Message  string
				Location struct {
					FileName   string
					LineNumber int
				}
			}
		}
	}
	if err := json.Unmarshal(report, &reports); err != nil {
		return nil, fmt.Errorf("report of Ginkgo: %w", err)
	}
	var all []Outcome
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType != "It" && s.State == "passed" {
				continue // such as BeforeSuite
			}
			o := Outcome{
				Test:    strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "),
				Passed:  s.State == "passed",
				Skipped: s.State == "skipped" || s.State == "pending",
			}
			if s.LeafNodeType != "It" {
				o.Test = s.LeafNodeType
			}
			if !o.Passed && !o.Skipped {
				o.Message = fmt.Sprintf("%s: %s\n%s:%d", s.State, s.Failure.Message, s.Failure.Location.FileName,
					s.Failure.Location.LineNumber)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// raceFound begins each report of the race detector.
const raceFound = "WARNING: DATA RACE"

// lastOutput is how many bytes of the output of a failed test a message has.
const lastOutput = 8000

// name names a test of a package, or a package.
type name struct{ pkg, test string }

// reader collects the outcomes of Go tests, except those that run specs which a report has.
type reader struct {
	reported bool
	ended    []Outcome
	begun    []name // those that have not ended
	text     map[name]*strings.Builder
	suites   map[name]bool // the tests that run specs of a report
	specsOf  string        // the package of one of them
	broken   []Outcome     // those of suites that failed
	failed   []event       // the ends of packages that failed
}

func (r *reader) read(e event) {
	this := name{e.Package, e.Test}
	switch e.Action {
	case "run":
		r.begun = append(r.begun, this)
	case "output", "build-output":
		if e.Action == "build-output" {
			this = name{pkg: e.ImportPath}
		}
		if r.text[this] == nil {
			r.text[this] = &strings.Builder{}
		}
		r.text[this].WriteString(e.Output)
		if r.reported && e.Test != "" && strings.HasPrefix(e.Output, "Running Suite: ") {
			r.suites[this], r.specsOf = true, e.Package
		}
	case "pass", "fail", "skip":
		switch {
		case e.Test != "":
			r.end(this, e)
		case e.Action == "fail":
			r.failed = append(r.failed, e)
		}
	}
}

func (r *reader) end(this name, e event) {
	r.begun = slices.DeleteFunc(r.begun, func(n name) bool { return n == this })
	o := Outcome{Package: e.Package, Test: e.Test, Passed: e.Action == "pass", Skipped: e.Action == "skip"}
	o.Took = time.Duration(e.Elapsed * float64(time.Second))
	if e.Action == "fail" {
		o.Message = r.lastOf(this)
	}
	switch {
	case !r.suites[this]:
		r.ended = append(r.ended, o)
	case e.Action == "fail":
		r.broken = append(r.broken, o)
	}
}

// outcomes returns the outcomes of all tests, and of the packages whose failure no test explains. specFailed reports
// whether a spec of the report has failed, which explains why its suite failed.
func (r *reader) outcomes(specFailed bool) []Outcome {
	all := r.ended
	for _, n := range r.begun {
		o := Outcome{Package: n.pkg, Test: n.test, Message: "it did not end\n" + r.lastOf(n)}
		if r.suites[n] {
			r.broken = append(r.broken, o)
		} else {
			all = append(all, o)
		}
	}
	for suite := range r.suites {
		if text := r.text[suite].String(); strings.Contains(text, raceFound) {
			_, report, _ := strings.Cut(text, raceFound)
			o := Outcome{Package: suite.pkg, Test: suite.test + ", race detector", Message: report[:min(len(report), lastOutput)]}
			all = append(all, o)
		}
	}
	if !specFailed {
		all = append(all, r.broken...)
	}
	for _, e := range r.failed {
		explained := func(o Outcome) bool { return o.Package == e.Package && !o.Passed && !o.Skipped }
		if slices.ContainsFunc(all, explained) || specFailed && r.specsOf == e.Package {
			continue
		}
		o := Outcome{Package: e.Package, Message: r.lastOf(name{pkg: e.Package})}
		if e.FailedBuild != "" {
			o.Message = r.lastOf(name{pkg: e.FailedBuild})
		}
		all = append(all, o)
	}
	return all
}

// lastOf returns the last bytes of an output.
func (r *reader) lastOf(n name) string {
	if r.text[n] == nil {
		return ""
	}
	s := r.text[n].String()
	return s[max(0, len(s)-lastOutput):]
}

// event is one line of the output of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
	ImportPath                    string  // of build-output: what is compiled
	FailedBuild                   string  // the ImportPath that does not compile
}

// events calls do with each event of the output of go test -json.
func events(output []byte, do func(event)) error {
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) == nil {
			do(e)
		}
	}
	return lines.Err()
}

// Text returns the text in the output of go test -json: what go test prints without that flag.
func Text(output []byte) string {
	var text strings.Builder
	_ = events(output, func(e event) { text.WriteString(e.Output) })
	return text.String()
}

// Took returns how long the tests in the output of go test -json ran, without their compilation.
func Took(output []byte) (took time.Duration) {
	_ = events(output, func(e event) {
		if e.Test == "" && e.Elapsed > 0 { // the end of a package
			took += time.Duration(e.Elapsed * float64(time.Second))
		}
	})
	return took
}

// Count has how many tests ended how.
type Count struct{ Passed, Failed, Skipped int }

// CountOf counts outcomes.
func CountOf(all []Outcome) (c Count) {
	for _, o := range all {
		switch {
		case o.Skipped:
			c.Skipped++
		case o.Passed:
			c.Passed++
		default:
			c.Failed++
		}
	}
	return c
}
