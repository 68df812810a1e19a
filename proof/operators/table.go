package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// result is the result of a program with a cache.
type result struct {
	program, cache string
	outcomes       []outcome
	took           time.Duration
}

// counts returns how many tests passed, failed and were skipped.
func (r result) counts() (passed, failed, skipped int) {
	for _, o := range r.outcomes {
		passed += o.passed
		failed += o.failed
		skipped += o.skipped
	}
	return passed, failed, skipped
}

func (r result) line() string {
	passed, failed, skipped := r.counts()
	return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%.0f", r.program, r.cache, passed, failed, skipped, r.took.Seconds())
}

// table returns a table of results, and below it each failure, also those that all caches have.
func table(all []result) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(columns, "program\tcache\tpassed\tfailed\tskipped\tseconds") // a strings.Builder returns no error
	for _, r := range all {
		_, _ = fmt.Fprintln(columns, r.line())
	}
	_ = columns.Flush()
	for _, r := range all {
		for _, o := range r.outcomes {
			if o.failed > 0 {
				fmt.Fprintf(&text, "\n%s with %s, %s: %d failed\n%s\n", r.program, r.cache, o.test, o.failed, o.message)
			}
		}
	}
	return text.String()
}

// worseThanTheirs reports whether a program fails more tests with one of our caches than with controller-runtime's, or
// passes fewer. Without a result of the latter, each failure counts.
func worseThanTheirs(all []result) bool {
	passes, fails := map[string]int{}, map[string]int{}
	for _, r := range all {
		if r.cache == theirs {
			passes[r.program], fails[r.program], _ = r.counts()
		}
	}
	for _, r := range all {
		if passed, failed, _ := r.counts(); passed < passes[r.program] || failed > fails[r.program] {
			return true
		}
	}
	return false
}
