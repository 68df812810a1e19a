package heapsize

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// store holds the numbers from zero up. Each takes as many bytes as its value.
type store struct {
	*testing.T
	estimate *Estimate[int]
	measured []int // since the last call of of
}

func newStore(t *testing.T) *store {
	s := &store{T: t}
	s.estimate = NewEstimate(func(n int, set *Set) {
		s.measured = append(s.measured, n)
		set.AddBytes(n)
	})
	return s
}

// of checks the estimate for n objects, and whether some were measured for it.
func (s *store) of(n, indexes int, want int64, measured bool) {
	s.Helper()
	s.measured = nil
	got := s.estimate.Of(n, indexes, func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	})
	if got != want || (s.measured != nil) != measured {
		s.Errorf("%d bytes for %d objects, measured %d, want %d", got, n, s.measured, want)
	}
}

// Objects are measured again after a minute, or when their number has doubled or halved, and not for each status.
func TestMemoryIsMeasuredSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.of(0, 0, 0, false)
		s.of(3, 0, 3*(1+OverheadStore), true) // 0, 1 and 2: their mean is 1
		time.Sleep(time.Second)
		s.of(4, 0, 4*(1+OverheadStore), false)
		s.of(6, 0, 6*(1+OverheadStore), false)
		s.of(2, 0, 2*(1+OverheadStore), false)
		s.of(7, 0, 7*(3+OverheadStore), true)
		s.of(3, 0, 3*(1+OverheadStore), true)
		s.of(1, 0, OverheadStore, true)
		time.Sleep(time.Minute)
		s.of(2, 0, 2*OverheadStore, false)
		time.Sleep(time.Second)
		s.of(1, 0, OverheadStore, true)
		s.of(0, 0, 0, false)
	})
}

// Each index adds to the estimate, without measuring again.
func TestIndexesCount(t *testing.T) {
	s := newStore(t)
	s.of(5, 2, 5*(2+OverheadStore+2*overheadIndex), true)
	s.of(5, 3, 5*(2+OverheadStore+3*overheadIndex), false)
}

// The measured objects are few, neighbors, and from all over the store.
func TestMeasuredObjectsAreSpread(t *testing.T) {
	s := newStore(t)
	const objects, stride = 15*200 + RunLength, 200 // from one run to the next one
	var want []int
	sum := 0
	for run := range Runs {
		for i := range RunLength {
			want = append(want, run*stride+i)
			sum += run*stride + i
		}
	}
	s.of(objects, 0, int64(objects*(float64(sum)/float64(len(want))+OverheadStore)), true)
	if !slices.Equal(s.measured, want) {
		t.Errorf("measured %d", s.measured)
	}
}
