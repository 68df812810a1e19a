package histogram

import (
	"testing"
	"time"
)

// Each bound is in its bucket, and a duration that is longer by a nanosecond is in the next.
func TestDurationsAtTheBounds(t *testing.T) {
	if first, last := Bound(0), Bound(Buckets-1); first != time.Microsecond || last.Round(time.Second) != 268*time.Second {
		t.Errorf("the bounds reach from %v to %v", first, last)
	}
	for i := range Buckets {
		bound := Bound(i)
		var h Histogram
		h.Add(bound)
		h.Add(bound + 1)
		h.Add(bound - 1)
		want := Histogram{Count: 3, Sum: 3 * bound, Max: bound + 1}
		want.Buckets[i] = 2
		if i+1 < Buckets {
			want.Buckets[i+1] = 1
		}
		if h != want {
			t.Errorf("around %v: %+v, want %+v", bound, h, want)
		}
	}
	var h Histogram
	h.Add(-time.Second)
	h.Add(1<<63 - 1)
	if want := (Histogram{Count: 2, Sum: 1<<63 - 1, Max: 1<<63 - 1, Buckets: [Buckets]uint64{1}}); h != want {
		t.Errorf("the shortest and the longest: %+v, want %+v", h, want)
	}
}
