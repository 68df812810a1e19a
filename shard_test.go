package informer

import (
	"math"
	"slices"
	"testing"
)

// Shards of different fields have no object in common, but the whole collection has every object. The ranges of one field
// are tested in internal/hashrange.
// Guarantees: S2
func TestRestOfAShard(t *testing.T) {
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
			t.Errorf("the rest of %v, of which %v is there: %v, %v, %v", c.s, c.other, got, lacks, common)
		}
	}
}

// The rest must fit into one request.
func TestRestOfAShardHasALimit(t *testing.T) {
	var whole Shard
	for i := range uint64(maxRanges + 2) {
		whole.Ranges = append(whole.Ranges, HashRange{First: 3 * i, Last: 3*i + 1})
	}
	for has, want := range map[int]bool{2: true, 1: false} {
		if _, lacks, usable := whole.rest(Shard{Ranges: whole.Ranges[:has]}); !lacks || usable != want {
			t.Errorf("%d of %d ranges are there: %v, %v", has, len(whole.Ranges), lacks, usable)
		}
	}
}
