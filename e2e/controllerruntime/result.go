package controllerruntime

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// outcome is the outcome of one spec of Ginkgo or of one Go test.
type outcome struct {
	spec    string
	passed  bool
	skipped bool
	message string
}

// outcomes reads the outcomes from a JSON report of Ginkgo and the output of go test -json.
func outcomes(report, output []byte) ([]outcome, error) {
	var all []outcome
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

func specOutcomes(report []byte) ([]outcome, error) {
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
	var all []outcome
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType != "It" && s.State == "passed" {
				continue // such as BeforeSuite
			}
			o := outcome{
				spec:    strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "),
				passed:  s.State == "passed",
				skipped: s.State == "skipped" || s.State == "pending",
			}
			if s.LeafNodeType != "It" {
				o.spec = s.LeafNodeType
			}
			if !o.passed && !o.skipped {
				o.message = fmt.Sprintf("%s: %s\n%s:%d", s.State, s.Failure.Message, s.Failure.Location.FileName,
					s.Failure.Location.LineNumber)
			}
			all = append(all, o)
		}
	}
	return all, nil
}

// testOutcomes reads the outcomes of Go tests, except those that run the specs of a suite.
func testOutcomes(output []byte) ([]outcome, error) {
	var all []outcome
	text := map[string]*strings.Builder{}
	suites := map[string]bool{} // the tests that run specs
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.Test == "" {
			continue
		}
		switch event.Action {
		case "output":
			if text[event.Test] == nil {
				text[event.Test] = &strings.Builder{}
			}
			text[event.Test].WriteString(event.Output)
			if strings.HasPrefix(event.Output, "Running Suite: ") {
				suites[event.Test] = true
			}
		case "pass", "fail", "skip":
			if !suites[event.Test] {
				o := outcome{spec: event.Test, passed: event.Action == "pass", skipped: event.Action == "skip"}
				if event.Action == "fail" {
					o.message = text[event.Test].String()
				}
				all = append(all, o)
			}
		}
	}
	return all, lines.Err()
}
