package conformance

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/typedinformer/informer/proof/internal/outcome"
)

// What two processes of a suite ran counts once; what one skipped counts as in the other; and a failure stays one.
func TestAddResult(t *testing.T) {
	passed := func(test string) outcome.Outcome { return outcome.Outcome{Test: test, Passed: true} }
	skipped := func(test string) outcome.Outcome { return outcome.Outcome{Test: test, Skipped: true} }
	failed := func(test string) outcome.Outcome { return outcome.Outcome{Test: test} }
	all := result{}
	all.add(result{outcomes: []outcome.Outcome{
		passed("a Go test"), passed("one"), passed("one"), skipped("two"), failed("three"), passed("four"), skipped("five"),
	}})
	all.add(result{outcomes: []outcome.Outcome{
		passed("a Go test"), skipped("one"), skipped("one"), passed("two"), skipped("three"), failed("four"), skipped("five"),
	}})
	want := []outcome.Outcome{
		passed("a Go test"), passed("one"), passed("one"), passed("two"), failed("three"), failed("four"), skipped("five"),
	}
	if diff := cmp.Diff(want, all.outcomes); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}
