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
	Test    string // its name; for a spec, the texts of its containers and its own
	Passed  bool
	Skipped bool
	Message string        // why it failed
	Took    time.Duration // zero if that is not known
}

// Of reads the outcomes from a JSON report of Ginkgo, if there is one, and the output of go test -json. A Go test that
// began and did not end has failed.
func Of(report, output []byte) ([]Outcome, error) {
	var all []Outcome
	if len(report) > 0 {
		specs, err := specOutcomes(report)
		if err != nil {
			return nil, err
		}
		all = append(all, specs...)
	}
	tests, err := testOutcomes(output)
	return append(all, tests...), err
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

// testOutcomes reads the outcomes of Go tests, except those that run the specs of a suite.
func testOutcomes(output []byte) ([]Outcome, error) {
	type name struct{ pkg, test string }
	var all []Outcome
	var begun []name // those that have not ended
	text := map[name]*strings.Builder{}
	suites := map[name]bool{} // the tests that run specs
	err := events(output, func(e event) {
		this := name{e.Package, e.Test}
		if e.Test == "" {
			return
		}
		switch e.Action {
		case "run":
			begun = append(begun, this)
			text[this] = &strings.Builder{}
		case "output":
			if text[this] != nil {
				text[this].WriteString(e.Output)
			}
			suites[this] = suites[this] || strings.HasPrefix(e.Output, "Running Suite: ")
		case "pass", "fail", "skip":
			begun = slices.DeleteFunc(begun, func(n name) bool { return n == this })
			if suites[this] {
				return
			}
			o := Outcome{Test: e.Test, Passed: e.Action == "pass", Skipped: e.Action == "skip"}
			o.Took = time.Duration(e.Elapsed * float64(time.Second))
			if e.Action == "fail" && text[this] != nil {
				o.Message = text[this].String()
			}
			all = append(all, o)
		}
	})
	for _, n := range begun {
		if !suites[n] {
			all = append(all, Outcome{Test: n.test, Message: "it did not end\n" + text[n].String()})
		}
	}
	return all, err
}

// event is one line of the output of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
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
