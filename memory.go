package informer

import (
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/heapsize"
)

const (
	sampled       = 32          // objects whose size is measured: together they take about a millisecond
	sampledFor    = time.Minute // the time for which their mean counts
	overheadStore = 100         // bytes for each object, as BenchmarkStoreOverhead measures them
	overheadIndex = 50          // bytes for each object and index
)

// memoryEstimate estimates the memory of a store from the sizes of some objects. It is safe for concurrent use.
type memoryEstimate[T Object] struct {
	measure func(obj T, set *heapsize.Set) // adds the size of obj to set

	mu      sync.Mutex // protects the fields below
	at      time.Time  // when objects were measured; zero if they never were
	objects int        // the number of objects in the store then
	mean    float64    // the mean size of the measured objects
}

// of returns the estimate for s, in bytes.
func (m *memoryEstimate[T]) of(s *Snapshot[T]) int64 {
	n := s.Len()
	if n == 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at.IsZero() || time.Since(m.at) > sampledFor || n > 2*m.objects || 2*n < m.objects {
		m.at, m.objects, m.mean = time.Now(), n, m.meanSize(s)
	}
	return int64(float64(n) * (m.mean + overheadStore + overheadIndex*float64(s.version.Indexes())))
}

// meanSize returns the mean size of objects all over s, which must not be empty.
func (m *memoryEstimate[T]) meanSize(s *Snapshot[T]) float64 {
	var set heapsize.Set
	measured, seen := 0, 0
	stride := max(s.Len()/sampled, 1)
	for obj := range s.All() {
		if seen++; seen%stride != 0 {
			continue
		}
		m.measure(obj, &set)
		if measured++; measured == sampled {
			break
		}
	}
	return float64(set.Bytes()) / float64(measured)
}
