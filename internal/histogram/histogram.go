// Package histogram counts durations in buckets whose bounds never change.
package histogram

import (
	"math/bits"
	"time"
)

// Buckets is the number of bounds.
const Buckets = 15

// Bound returns the upper bound of bucket i: one microsecond for the first, and four times as much for each next one,
// up to 268 seconds.
func Bound(i int) time.Duration { return time.Microsecond << (2 * i) }

// Histogram counts durations. The zero value has none. Its fields are those of the library's exported type, so that one
// converts to the other.
type Histogram struct {
	Count   uint64
	Sum     time.Duration
	Max     time.Duration
	Buckets [Buckets]uint64 // durations that are at most as long as the bound, and longer than the bound before
}

// Add counts d. A duration below zero, which a clock that was set back can give, counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.Count++
	h.Sum += d
	h.Max = max(h.Max, d)
	if b := bucketOf(d); b < Buckets {
		h.Buckets[b]++
	}
}

// bucketOf returns the first bucket whose bound is not below d, or Buckets.
func bucketOf(d time.Duration) int {
	micros := uint64(d+time.Microsecond-1) / uint64(time.Microsecond) // rounded up
	if micros <= 1 {
		return 0
	}
	return min((bits.Len64(micros-1)+1)/2, Buckets)
}
