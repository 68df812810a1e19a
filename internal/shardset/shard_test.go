package shardset

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// minus returns the ranges of the hashes that only the first ranges have.
// Guarantees: S2
func TestMinus(t *testing.T) {
	const most = math.MaxUint64
	ranges := func(bounds ...uint64) (ranges []Range) {
		for i := 0; i < len(bounds); i += 2 {
			ranges = append(ranges, Range{bounds[i], bounds[i+1]})
		}
		return ranges
	}
	for _, c := range []struct {
		ranges, other []Range
		want          []Range
		common        bool
	}{
		{ranges(), ranges(), ranges(), true},
		{ranges(1, 2), ranges(), ranges(), true},
		{ranges(), ranges(1, 2), ranges(0, 0, 3, most), true},
		{ranges(), ranges(0, 2), ranges(3, most), true},
		{ranges(), ranges(5, most), ranges(0, 4), true},
		{ranges(), ranges(0, most), ranges(), true},
		{ranges(1, 2), ranges(1, 2), ranges(), true},
		{ranges(1, 2), ranges(1, 3), ranges(), true},
		{ranges(1, 3), ranges(1, 2), ranges(3, 3), true},
		{ranges(1, 3), ranges(2, 2), ranges(1, 1, 3, 3), true},
		{ranges(1, 3), ranges(4, 6), ranges(1, 3), false},
		{ranges(4, 6), ranges(1, 3), ranges(4, 6), false},
		{ranges(1, 6), ranges(4, 6, 1, 3), ranges(), true},
		{ranges(1, 6), ranges(5, 6, 1, 3), ranges(4, 4), true},
		{ranges(2, 6), ranges(0, 3, 2, 4, 3, 9), ranges(), true},
		{ranges(1, 1, 3, 3, 5, 5), ranges(1, 3, 5, 5), ranges(), true},
		{ranges(5, 5, 1, 1, 4, 4), ranges(1, 3, 5, 5), ranges(4, 4), true},
		{ranges(1, 4, 3, 9, 2, 2), ranges(4, 5), ranges(1, 3, 6, 9), true},
		{ranges(0, 9, 20, 29), ranges(5, 24), ranges(0, 4, 25, 29), true},
		{ranges(0, most), ranges(0, 7, 8, most), ranges(), true},
		{ranges(0, most), ranges(0, 7, 9, most), ranges(8, 8), true},
		{ranges(7, most), ranges(9, most, 0, 6), ranges(7, 8), true},
		{ranges(0, most), ranges(most, most), ranges(0, most-1), true},
		{ranges(0, most), ranges(0, 0), ranges(1, most), true},
	} {
		if got, common := minus(c.ranges, c.other); !slices.Equal(got, c.want) || common != c.common {
			t.Errorf("%v minus %v: %v, %v", c.ranges, c.other, got, common)
		}
	}
}

// merged and minus have the hashes that HasHash reports, and their ranges are sorted and apart.
func TestRangesHaveTheirHashes(t *testing.T) {
	const size = 24
	spread := func(n uint64) uint64 { // few different hashes, the smallest and the largest among them
		if n >= size/2 {
			return math.MaxUint64 - (size - 1 - n)
		}
		return n
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		draw := func() (ranges []Range) {
			for range random.IntN(5) {
				first := random.Uint64N(size)
				ranges = append(ranges, Range{spread(first), spread(first + random.Uint64N(size-first))})
			}
			return ranges
		}
		ranges, other := draw(), draw()
		all := merged(ranges)
		missing, common := minus(ranges, other)
		for _, sorted := range [][]Range{all, missing} {
			for i, r := range sorted {
				if r.First > r.Last || i > 0 && (r.First <= sorted[i-1].Last || r.First == sorted[i-1].Last+1) {
					t.Fatalf("seed %d: %v and %v: %v are not apart", seed, ranges, other, sorted)
				}
			}
		}
		wantCommon := false
		for n := range uint64(size) {
			h := spread(n)
			in, inOther := (Shard{Ranges: ranges}).HasHash(h), (Shard{Ranges: other}).HasHash(h)
			wantCommon = wantCommon || in && inOther
			if (Shard{Ranges: all}).HasHash(h) != in || (len(missing) > 0 && (Shard{Ranges: missing}).HasHash(h)) != (in && !inOther) {
				t.Fatalf("seed %d: %v and %v: hash %#x of %v, %v", seed, ranges, other, h, all, missing)
			}
		}
		if common != wantCommon {
			t.Fatalf("seed %d: %v and %v: common is %v", seed, ranges, other, common)
		}
	}
}

// The hash is the FNV-1a of the standard library.
func TestHash(t *testing.T) {
	for _, value := range []string{"", "a", "default", "2b1f5cd4-8d4c-4c7c-b0a2-6c1f0e7d7f0a"} {
		h := fnv.New64a()
		h.Write([]byte(value))
		if Hash(value) != h.Sum64() || Hash([]byte(value)) != h.Sum64() {
			t.Errorf("the hash of %q is %#x, want %#x", value, Hash(value), h.Sum64())
		}
	}
}

// Shards of different fields have no object in common, but the whole collection has every object.
// Guarantees: S2
func TestRestOfAShard(t *testing.T) {
	some, all := []Range{{1, 2}}, []Range{{0, math.MaxUint64}}
	byUID, byNamespace := Shard{Ranges: some}, Shard{Field: ByNamespace, Ranges: some}
	for _, c := range []struct {
		s, other Shard
		want     []Range
		common   bool
	}{
		{byNamespace, byNamespace, nil, true},
		{byNamespace, byUID, some, false},
		{byUID, byNamespace, some, false},
		{byNamespace, Shard{}, nil, true},
		{Shard{}, byNamespace, all, false},
	} {
		got, lacks, common := c.s.Rest(c.other)
		if !slices.Equal(got.Ranges, c.want) || got.Field != c.s.Field || lacks != (len(c.want) > 0) || common != c.common {
			t.Errorf("the rest of %v, of which %v is there: %v, %v, %v", c.s, c.other, got, lacks, common)
		}
	}
}

// The rest must fit into one request.
func TestRestOfAShardHasALimit(t *testing.T) {
	var whole Shard
	for i := range uint64(MaxRanges + 2) {
		whole.Ranges = append(whole.Ranges, Range{First: 3 * i, Last: 3*i + 1})
	}
	for has, want := range map[int]bool{2: true, 1: false} {
		if _, lacks, usable := whole.Rest(Shard{Ranges: whole.Ranges[:has]}); !lacks || usable != want {
			t.Errorf("%d of %d ranges are there: %v, %v", has, len(whole.Ranges), lacks, usable)
		}
	}
}
