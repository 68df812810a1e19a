package status

import "time"

// durationBuckets is the number of bounds of a Durations.
const durationBuckets = 15

// DurationBounds returns the upper bounds of the buckets of a [Durations], each four times the one before: from one
// microsecond to 268 seconds.
func DurationBounds() []time.Duration {
	bounds := make([]time.Duration, durationBuckets)
	for i := range bounds {
		bounds[i] = time.Microsecond << (2 * i)
	}
	return bounds
}

// Durations is a histogram of all durations so far. The zero value has none.
type Durations struct {
	// Count is the number of durations, Sum is their sum, and Max the longest.
	Count uint64
	Sum   time.Duration
	Max   time.Duration
	// Buckets has, for each of [DurationBounds], the number of durations that are at most that long and longer than the
	// bound before. Count is larger than their sum if a duration was longer than the last bound.
	Buckets [durationBuckets]uint64
}
