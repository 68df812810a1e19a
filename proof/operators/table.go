package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/typedinformer/informer/proof/internal/outcome"
)

// result is the result of a program with a cache.
type result struct {
	program, cache string
	outcomes       []outcome.Outcome
	took           time.Duration
	heap           uint64 // the largest live heap that was measured, in bytes; zero if no cache ran for long enough
}

// addHeap reads the sizes of the heap in file, which the tests of a package wrote, and removes it.
func (r *result) addHeap(file string) error {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		heap, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		r.heap = max(r.heap, heap)
	}
	return os.Remove(file)
}

func (r *result) line() string {
	n := outcome.CountOf(r.outcomes)
	heap := "-"
	if r.heap > 0 {
		heap = fmt.Sprintf("%.1f", float64(r.heap)/(1<<20))
	}
	return fmt.Sprintf("%s\t%s\t%d\t%d\t%d\t%.0f\t%s", r.program, r.cache, n.Passed, n.Failed, n.Skipped, r.took.Seconds(),
		heap)
}

// table returns a table of results, and below it each failure, also those that all caches have.
func table(all []result) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	// A strings.Builder returns no error.
	_, _ = fmt.Fprintln(columns, "program\tcache\tpassed\tfailed\tskipped\tseconds\theap (MiB)")
	for _, r := range all {
		_, _ = fmt.Fprintln(columns, r.line())
	}
	_ = columns.Flush()
	for _, r := range all {
		for _, o := range r.outcomes {
			if failed(o) {
				fmt.Fprintf(&text, "\n%s with %s fails: %s %s\n%s\n", r.program, r.cache, o.Package, o.Test, o.Message)
			}
		}
	}
	return text.String()
}

func failed(o outcome.Outcome) bool { return !o.Passed && !o.Skipped }

// worseThanTheirs lists the tests that fail with one of our caches, but not with controller-runtime's. It also lists
// those that pass with controller-runtime's cache and do not run with ours.
func worseThanTheirs(all []result) []string {
	type test struct{ program, pkg, name string }
	const passed, bad = 1, 2 // bits of what happened to the tests of one name
	theyDid := map[test]int{}
	did := func(r result) map[test]int {
		did := map[test]int{}
		for _, o := range r.outcomes {
			t := test{r.program, o.Package, seed.ReplaceAllString(o.Test, "N")}
			switch {
			case failed(o):
				did[t] |= bad
			case o.Passed:
				did[t] |= passed
			}
		}
		return did
	}
	for _, r := range all {
		if r.cache == theirs {
			maps.Copy(theyDid, did(r))
		}
	}
	var worse []string
	note := func(r result, t test, what string) {
		worse = append(worse, fmt.Sprintf("%s with %s: %s %s %s", r.program, r.cache, t.pkg, t.name, what))
	}
	for _, r := range all {
		weDid := did(r)
		for t, how := range weDid {
			if how&bad != 0 && theyDid[t]&bad == 0 {
				note(r, t, "fails only there")
			}
		}
		for t, how := range theyDid {
			if how == passed && t.program == r.program && weDid[t] == 0 {
				note(r, t, "does not run")
			}
		}
	}
	slices.Sort(worse)
	return worse
}

// seed matches numbers that are different in each run, like the names of Cluster API's tests of random sequences.
var seed = regexp.MustCompile(`[0-9]{10,}`)
