package hashrange

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Minus returns the ranges of the hashes that only the first ranges have.
// Guarantees: S2
func TestMinus(t *testing.T) {
	const most = math.MaxUint64
	of := func(bounds ...uint64) (ranges []Range) {
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
		{of(), of(), of(), true},
		{of(1, 2), of(), of(), true},
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
		if got, common := Minus(c.ranges, c.other); !slices.Equal(got, c.want) || common != c.common {
			t.Errorf("%v minus %v: %v, %v", c.ranges, c.other, got, common)
		}
	}
}

// Merged and Minus have the hashes that Has reports, and their ranges are sorted and apart.
func TestRangesHaveTheirHashes(t *testing.T) {
	type field struct{ First, Last uint64 } // any type of this form will do
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
		draw := func() (ranges []field) {
			for range random.IntN(5) {
				first := random.Uint64N(size)
				ranges = append(ranges, field{spread(first), spread(first + random.Uint64N(size-first))})
			}
			return ranges
		}
		ranges, other := draw(), draw()
		merged := Merged(ranges)
		missing, common := Minus(ranges, other)
		for _, sorted := range [][]field{merged, missing} {
			for i, r := range sorted {
				if r.First > r.Last || i > 0 && (r.First <= sorted[i-1].Last || r.First == sorted[i-1].Last+1) {
					t.Fatalf("seed %d: %v and %v: %v are not apart", seed, ranges, other, sorted)
				}
			}
		}
		wantCommon := false
		for n := range uint64(size) {
			h := spread(n)
			in, inOther := Has(ranges, h), Has(other, h)
			wantCommon = wantCommon || in && inOther
			if Has(merged, h) != in || (len(missing) > 0 && Has(missing, h)) != (in && !inOther) {
				t.Fatalf("seed %d: %v and %v: hash %#x of %v, %v", seed, ranges, other, h, merged, missing)
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
		if Of(value) != h.Sum64() || Of([]byte(value)) != h.Sum64() {
			t.Errorf("the hash of %q is %#x, want %#x", value, Of(value), h.Sum64())
		}
	}
}
