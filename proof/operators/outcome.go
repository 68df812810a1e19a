package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// outcome is the outcome of a test, or of the specs of a suite of Ginkgo, which count one by one.
type outcome struct {
	test                    string // with its package
	passed, failed, skipped int
	message                 string // the end of the output, if something failed
}

// ginkgo matches the line in which a suite of Ginkgo sums up its specs.
var ginkgo = regexp.MustCompile(`(\d+) Passed \| (\d+) Failed \| (\d+) Pending \| (\d+) Skipped`)

// colors matches the codes for colors in a terminal.
var colors = regexp.MustCompile("\x1b\\[[0-9;]*m")

// lastOutput is how many bytes of the output of a failed test a message has.
const lastOutput = 4000

// outcomes reads the output of go test -json. A test with subtests does not count, but they do. A package that fails
// without a failing test, because it does not compile or a test ends the process, counts as one that failed.
func outcomes(output []byte) ([]outcome, error) {
	var all []outcome
	text := map[string]*strings.Builder{} // by package and test
	parents := map[string]bool{}
	specs := map[string]outcome{}
	failures := map[string]bool{} // the packages with a failed test, and the tests with a failed subtest
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var event struct{ Action, Package, Test, Output string }
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue // a message of the go command
		}
		name := event.Package
		if event.Test != "" {
			name += " " + event.Test
		}
		switch event.Action {
		case "run":
			parents[parent(event.Package, event.Test)] = true
		case "output":
			if text[name] == nil {
				text[name] = &strings.Builder{}
			}
			text[name].WriteString(event.Output)
			if n := ginkgo.FindStringSubmatch(colors.ReplaceAllString(event.Output, "")); n != nil && event.Test != "" {
				specs[name] = outcome{passed: number(n[1]), failed: number(n[2]), skipped: number(n[3]) + number(n[4])}
			}
		case "pass", "fail", "skip":
			o, isSuite := specs[name]
			switch {
			case event.Test == "" && (event.Action != "fail" || failures[name]):
				continue
			case isSuite:
			case event.Action == "fail":
				o.failed = 1
			case parents[name]:
				continue
			case event.Action == "skip":
				o.skipped = 1
			default:
				o.passed = 1
			}
			if event.Action == "fail" {
				failures[event.Package], failures[parent(event.Package, event.Test)] = true, true
				if failures[name] && event.Test != "" {
					continue // a subtest failed
				}
				o.message = end(text[name])
			}
			o.test = name
			all = append(all, o)
		}
	}
	return all, lines.Err()
}

// parent returns the name of the test that has a subtest, or an empty string for a test that is none.
func parent(pkg, test string) string {
	i := strings.LastIndex(test, "/")
	if i < 0 {
		return ""
	}
	return pkg + " " + test[:i]
}

func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0 // more digits than tests can have
	}
	return n
}

// end returns the last bytes of an output.
func end(of *strings.Builder) string {
	if of == nil {
		return ""
	}
	s := of.String()
	return s[max(0, len(s)-lastOutput):]
}
