package status

import (
	"testing"
	"time"
)

// A list describes what is known of it, and says what is not.
//
// Guarantees: O6
func TestListDescribesItsProgress(t *testing.T) {
	for want, l := range map[string]List{
		"0 objects so far, 0 B received":                             {},
		"999 objects so far, 999 B received":                         {Objects: 999, Bytes: 999},
		"30,000 of 88,000 objects, 190 MB received":                  {Objects: 30_000, Total: 88_000, Bytes: 190e6},
		"30,000 of 88,000 objects, about 1m2s left, 190 MB received": {Objects: 30_000, Total: 88_000, Bytes: 190e6, Rate: 100, Left: 61_600 * time.Millisecond},
		"30,000 of 88,001 objects, 190 MB received":                  {Objects: 30_000, Total: 88_001, Bytes: 190e6, Left: 900 * time.Millisecond},
		"1,000,000 of 1,000,000 objects, 9.9 GB received":            {Objects: 1e6, Total: 1e6, Bytes: 9_900e6},
		"30,000 of 88,000 objects, 260 MB of memory; the whole collection will take about 760 MB, and the process about " +
			"1.0 GB of a limit of 512 MB (GOMEMLIMIT); LayoutShared would take 380 MB, LayoutCompact 90 MB, metadata only 80 MB": {Objects: 30_000, Total: 88_000,
			Forecast: Forecast{Loaded: 260e6, Whole: 760e6, Process: 999_900_000, Limit: 512e6, LimitedBy: "GOMEMLIMIT", Shared: 380e6, Compact: 90e6, Metadata: 80e6}},
		"7 objects so far, 10 MB of memory; how many remain is not known; the process will use at least 20 MB of a limit of 12 MB (the cgroup)": {Objects: 7,
			Forecast: Forecast{Loaded: 10e6, Process: 20e6, Limit: 12e6, LimitedBy: "the cgroup"}},
		"7 of 9 objects, 10 MB of memory; the whole collection will take about 12 MB; the informer will hold at least 15 MB, and Config.MaxMemory is 5.0 MB; " +
			"metadata only would take 999 kB": {Objects: 7, Total: 9, Forecast: Forecast{Loaded: 10e6, Whole: 12e6, Informer: 15e6, Max: 5e6, Metadata: 999_400}},
	} {
		if got := l.String(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
