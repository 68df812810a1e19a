// Package histogram counts durations in the buckets of a [status.Durations].
package histogram

import (
	"math/bits"
	"time"

	"github.com/typedinformer/informer/status"
)

// Add counts d in h. A duration below zero, which a clock that was set back can give, counts as zero.
func Add(h *status.Durations, d time.Duration) {
	d = max(d, 0)
	h.Count++
	h.Sum += d
	h.Max = max(h.Max, d)
	if b := bucketOf(d); b < len(h.Buckets) {
		h.Buckets[b]++
	}
}

// bucketOf returns the first bucket whose bound is not below d, or a larger number if there is none. The bounds are
// those of status.DurationBounds: one microsecond, and four times as much for each next one.
func bucketOf(d time.Duration) int {
	micros := uint64(d+time.Microsecond-1) / uint64(time.Microsecond) // rounded up
	if micros <= 1 {
		return 0
	}
	return (bits.Len64(micros-1) + 1) / 2
}
