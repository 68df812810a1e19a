package informer

import (
	"math/bits"
	"time"
)

// durationBuckets is the number of bounds of a Durations.
const durationBuckets = 15

// DurationBounds returns the upper bounds of the buckets of a [Durations], each four times the one before: from one microsecond
// to 268 seconds.
func DurationBounds() []time.Duration {
	bounds := make([]time.Duration, durationBuckets)
	for i := range bounds {
		bounds[i] = time.Microsecond << (2 * i)
	}
	return bounds
}

// Durations is a histogram of durations since the beginning. The zero value has none.
type Durations struct {
	// Count is the number of durations, Sum is their sum, and Max the longest.
	Count uint64
	Sum   time.Duration
	Max   time.Duration
	// Buckets has, for each of [DurationBounds], the number of durations that are at most that long and longer than the bound
	// before. Count is larger than their sum if a duration was longer than the last bound.
	Buckets [durationBuckets]uint64
}

// add counts d. A duration below zero, which a clock that was set back can give, counts as zero.
func (h *Durations) add(d time.Duration) {
	d = max(d, 0)
	h.Count++
	h.Sum += d
	h.Max = max(h.Max, d)
	if b := bucketOf(d); b < durationBuckets {
		h.Buckets[b]++
	}
}

// bucketOf returns the first bucket whose bound is not below d, or durationBuckets.
func bucketOf(d time.Duration) int {
	micros := uint64(d+time.Microsecond-1) / uint64(time.Microsecond) // rounded up
	if micros <= 1 {
		return 0
	}
	return min((bits.Len64(micros-1)+1)/2, durationBuckets)
}
