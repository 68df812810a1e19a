package informer

import (
	"testing"
	"time"
)

// Each bound is in its bucket, and what is longer by a nanosecond in the next.
func TestDurationsAtTheBounds(t *testing.T) {
	bounds := DurationBounds()
	if first, last := bounds[0], bounds[len(bounds)-1]; first != time.Microsecond || last.Round(time.Second) != 268*time.Second {
		t.Errorf("the bounds reach from %v to %v", first, last)
	}
	for i, bound := range bounds {
		var h Durations
		h.add(bound)
		h.add(bound + 1)
		h.add(bound - 1)
		want := Durations{Count: 3, Sum: 3 * bound, Max: bound + 1}
		want.Buckets[i] = 2
		if i+1 < len(bounds) {
			want.Buckets[i+1] = 1
		}
		if h != want {
			t.Errorf("around %v: %+v, want %+v", bound, h, want)
		}
	}
	var h Durations
	h.add(-time.Second)
	h.add(1<<63 - 1)
	if want := (Durations{Count: 2, Sum: 1<<63 - 1, Max: 1<<63 - 1, Buckets: [durationBuckets]uint64{1}}); h != want {
		t.Errorf("the shortest and the longest: %+v, want %+v", h, want)
	}
}
