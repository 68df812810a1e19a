package informer

import (
	"math"
	"slices"
	"testing"
)

// The ranges that a shard has and another one has not are those of the hashes that only the first one has.
// Guarantees: S2
func TestShardMinus(t *testing.T) {
	const most = math.MaxUint64
	of := func(bounds ...uint64) (s Shard) {
		for i := 0; i < len(bounds); i += 2 {
			s.Ranges = append(s.Ranges, HashRange{bounds[i], bounds[i+1]})
		}
		return s
	}
	byNamespace := Shard{Field: ShardByNamespace, Ranges: of(1, 2).Ranges}
	for _, c := range []struct {
		s, other Shard
		want     Shard
		common   bool
	}{
		{of(), of(), of(), true},
		{of(1, 2), of(), of(), true},
		{byNamespace, of(), of(), true},
		{byNamespace, of(1, 2), of(1, 2), false},
		{of(), byNamespace, of(0, most), false},
		{of(), of(1, 2), of(0, 0, 3, most), true},
		{of(), of(0, 2), of(3, most), true},
		{of(), of(5, most), of(0, 4), true},
		{of(), of(0, most), of(), true},
		{of(1, 2), of(1, 2), of(), true},
		{of(1, 2), of(1, 3), of(), true},
		{of(1, 3), of(1, 2), of(3, 3), true},
		{of(1, 3), of(2, 2), of(1, 1, 3, 3), true},
		{of(1, 3), of(4, 6), of(1, 3), false},
		{of(4, 6), of(1, 3), of(4, 6), false},
		{of(1, 6), of(4, 6, 1, 3), of(), true},
		{of(1, 6), of(5, 6, 1, 3), of(4, 4), true},
		{of(2, 6), of(0, 3, 2, 4, 3, 9), of(), true},
		{of(1, 1, 3, 3, 5, 5), of(1, 3, 5, 5), of(), true},
		{of(5, 5, 1, 1, 4, 4), of(1, 3, 5, 5), of(4, 4), true},
		{of(1, 4, 3, 9, 2, 2), of(4, 5), of(1, 3, 6, 9), true},
		{of(0, 9, 20, 29), of(5, 24), of(0, 4, 25, 29), true},
		{of(0, most), of(0, 7, 8, most), of(), true},
		{of(0, most), of(0, 7, 9, most), of(8, 8), true},
		{of(7, most), of(9, most, 0, 6), of(7, 8), true},
		{of(0, most), of(most, most), of(0, most-1), true},
		{of(0, most), of(0, 0), of(1, most), true},
	} {
		if got, common := c.s.minus(c.other); !slices.Equal(got, c.want.Ranges) || common != c.common {
			t.Errorf("%v minus %v: %v, %v", c.s, c.other, got, common)
		}
	}
}
