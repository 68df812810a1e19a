package heapsize

import (
	"iter"
	"math/bits"
	"sync"
	"time"
)

const (
	sampledFor    = time.Minute // the time for which the mean size of a sample counts; it takes some milliseconds
	overheadIndex = 50          // bytes for each object and index
)

// OverheadStore is the memory that a store takes for each object, in bytes, as BenchmarkStoreOverhead measures it:
// about 100, and 60 where pointers have 32 bits.
const OverheadStore = 20 + 80*bits.UintSize/64

// Estimate estimates the memory of a store of objects from the sizes of some of them. It is safe for concurrent use.
type Estimate[T any] struct {
	measure func(obj T, set *Set)

	mu       sync.Mutex // protects the fields below
	measured time.Time  // when objects were measured; zero if they never were
	objects  int        // the number of objects in the store then
	mean     float64    // the mean size of the measured objects
}

// NewEstimate returns an estimate. measure adds the size of an object to set.
func NewEstimate[T any](measure func(obj T, set *Set)) *Estimate[T] {
	return &Estimate[T]{measure: measure}
}

// Of returns the estimate for a store with this number of objects and of indexes, in bytes. It may read objects from
// all, which yields each object of the store.
func (e *Estimate[T]) Of(objects, indexes int, all iter.Seq[T]) int64 {
	if objects == 0 {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.measured.IsZero() || time.Since(e.measured) > sampledFor || objects > 2*e.objects || 2*objects < e.objects {
		e.measured, e.objects, e.mean = time.Now(), objects, e.meanSize(objects, all)
	}
	return int64(float64(objects) * (e.mean + OverheadStore + overheadIndex*float64(indexes)))
}

// meanSize returns the mean size of a sample of the objects.
func (e *Estimate[T]) meanSize(objects int, all iter.Seq[T]) float64 {
	var set Set
	places := Sample(objects)
	measured, place := 0, 0
	for obj := range all {
		if place == places[measured] {
			e.measure(obj, &set)
			if measured++; measured == len(places) {
				break
			}
		}
		place++
	}
	return float64(set.Bytes()) / float64(measured)
}
