package histogram

import (
	"testing"
	"time"

	"github.com/typedinformer/informer/status"
)

// Each bound is in its bucket, and a duration that is longer by a nanosecond is in the next.
func TestDurationsAtTheBounds(t *testing.T) {
	bounds := status.DurationBounds()
	if first, last := bounds[0], bounds[len(bounds)-1]; first != time.Microsecond || last.Round(time.Second) != 268*time.Second {
		t.Errorf("the bounds reach from %v to %v", first, last)
	}
	for i, bound := range bounds {
		var h status.Durations
		Add(&h, bound)
		Add(&h, bound+1)
		Add(&h, bound-1)
		want := status.Durations{Count: 3, Sum: 3 * bound, Max: bound + 1}
		want.Buckets[i] = 2
		if i+1 < len(bounds) {
			want.Buckets[i+1] = 1
		}
		if h != want {
			t.Errorf("around %v: %+v, want %+v", bound, h, want)
		}
	}
	var h status.Durations
	Add(&h, -time.Second)
	Add(&h, 1<<63-1)
	want := status.Durations{Count: 2, Sum: 1<<63 - 1, Max: 1<<63 - 1}
	want.Buckets[0] = 1
	if h != want {
		t.Errorf("the shortest and the longest: %+v, want %+v", h, want)
	}
}
