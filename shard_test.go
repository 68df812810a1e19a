package informer

import (
	"math"
	"slices"
	"testing"
)

// Shards of different fields have no object in common, but the whole collection has every object. The ranges of one field
// are tested in internal/hashrange.
// Guarantees: S2
func TestShardMinusShardOfAnotherField(t *testing.T) {
	some, all := []HashRange{{1, 2}}, []HashRange{{0, math.MaxUint64}}
	byUID, byNamespace := Shard{Ranges: some}, Shard{Field: ShardByNamespace, Ranges: some}
	for _, c := range []struct {
		s, other Shard
		want     []HashRange
		common   bool
	}{
		{byNamespace, byNamespace, nil, true},
		{byNamespace, byUID, some, false},
		{byUID, byNamespace, some, false},
		{byNamespace, Shard{}, nil, true},
		{Shard{}, byNamespace, all, false},
	} {
		got, lacks, common := c.s.rest(c.other)
		if !slices.Equal(got.Ranges, c.want) || got.Field != c.s.Field || lacks != (len(c.want) > 0) || common != c.common {
			t.Errorf("%v minus %v: %v, %v, %v", c.s, c.other, got, lacks, common)
		}
	}
}
