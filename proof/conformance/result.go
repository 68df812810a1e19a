package conformance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/typedinformer/informer/proof/internal/outcome"
)

// result is the result of a suite.
type result struct {
	suite    suite
	outcomes []outcome.Outcome
	took     time.Duration   // without its compilation
	starts   []time.Duration // of each server that it started; empty with binaries
}

// add adds the result of another process of the same suite. A test that both ran counts once, and has failed if it failed
// in one of them.
func (r *result) add(part result) {
	r.took += part.took
	r.starts = append(r.starts, part.starts...)
	before := r.outcomes
	for _, o := range part.outcomes {
		same := func(known outcome.Outcome) bool { return known.Package == o.Package && known.Test == o.Test }
		switch i := slices.IndexFunc(before, same); {
		case i < 0:
			r.outcomes = append(r.outcomes, o)
		case r.outcomes[i].Skipped || !o.Passed && !o.Skipped:
			r.outcomes[i] = o
		}
	}
}

// readStarts reads the durations that servers appended to a file, which is missing if there were none.
func readStarts(file string) (starts []time.Duration, err error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		took, err := time.ParseDuration(strings.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		starts = append(starts, took)
	}
	return starts, nil
}

// table returns a table of results, with their sums in the last line. A start is the longest of a suite.
func table(all []result) string {
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	// A strings.Builder returns no error.
	fmt.Fprintln(columns, "passed\tfailed\tskipped\tseconds\tstart (ms)\t  suite")
	var sum outcome.Count
	var took, start time.Duration
	for _, r := range all {
		n := outcome.CountOf(r.outcomes)
		sum.Passed, sum.Failed, sum.Skipped = sum.Passed+n.Passed, sum.Failed+n.Failed, sum.Skipped+n.Skipped
		var longest time.Duration
		for _, s := range r.starts {
			longest = max(longest, s)
		}
		took, start = took+r.took, max(start, longest)
		writeLine(columns, n, r.took, longest, r.suite.dir)
	}
	writeLine(columns, sum, took, start, "all")
	columns.Flush()
	return text.String()
}

func writeLine(columns *tabwriter.Writer, n outcome.Count, took, start time.Duration, name string) {
	fmt.Fprintf(columns, "%d\t%d\t%d\t%.1f\t%.1f\t  %s\n", n.Passed, n.Failed, n.Skipped, took.Seconds(),
		float64(start.Microseconds())/1000, name)
}
