package informer

import (
	"math"
	"testing"
)

// A shard is within another one if each hash of it is in a range of the other one.
// Guarantees: S2
func TestShardWithin(t *testing.T) {
	of := func(bounds ...uint64) (s Shard) {
		for i := 0; i < len(bounds); i += 2 {
			s.Ranges = append(s.Ranges, HashRange{bounds[i], bounds[i+1]})
		}
		return s
	}
	for _, c := range []struct {
		s, other Shard
		want     bool
	}{
		{of(), of(), true},
		{of(1, 2), of(), true},
		{of(), of(1, 2), false},
		{Shard{Field: ShardByNamespace, Ranges: of(1, 2).Ranges}, of(), true},
		{Shard{Field: ShardByNamespace, Ranges: of(1, 2).Ranges}, of(1, 2), false},
		{of(1, 2), of(1, 2), true},
		{of(1, 2), of(1, 3), true},
		{of(1, 3), of(1, 2), false},
		{of(0, 2), of(1, 2), false},
		{of(1, 6), of(4, 6, 1, 3), true},
		{of(1, 6), of(5, 6, 1, 3), false},
		{of(2, 6), of(0, 3, 2, 4, 3, 9), true},
		{of(2, 6), of(0, 9, 2, 3), true},
		{of(1, 1, 3, 3, 5, 5), of(1, 3, 5, 5), true},
		{of(1, 1, 4, 4, 5, 5), of(1, 3, 5, 5), false},
		{of(0, math.MaxUint64), of(0, 7, 8, math.MaxUint64), true},
		{of(0, math.MaxUint64), of(0, 7, 9, math.MaxUint64), false},
		{of(7, math.MaxUint64), of(9, math.MaxUint64, 0, 7), false},
	} {
		if got := c.s.within(c.other); got != c.want {
			t.Errorf("%v within %v: %v", c.s, c.other, got)
		}
	}
}
