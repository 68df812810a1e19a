// Package hashrange does arithmetic with ranges of hashes, and reads and writes the shard selectors of KEP-5866
// (sharded list and watch). A shard of a collection has the objects with the hash of a field in one of some ranges.
//
// The functions take ranges of any type with the fields of [Range], in any order, which may overlap. No ranges mean all
// hashes.
package hashrange

import (
	"cmp"
	"math"
	"slices"
)

// Range is the range of hashes h with First <= h <= Last.
type Range struct{ First, Last uint64 }

// bounds are the types with the fields of [Range].
type bounds interface{ ~struct{ First, Last uint64 } }

// Of returns the 64-bit FNV-1a hash of value.
func Of[S ~string | ~[]byte](value S) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(value) {
		h = (h ^ uint64(value[i])) * prime
	}
	return h
}

// Has reports whether one of ranges has the hash h.
func Has[R bounds](ranges []R, h uint64) bool {
	if len(ranges) == 0 {
		return true
	}
	for _, r := range ranges {
		if r := Range(r); r.First <= h && h <= r.Last {
			return true
		}
	}
	return false
}

// Minus returns the ranges of the hashes that ranges have and other have not, sorted and apart. None mean no hash.
// common reports whether there are hashes that both have.
func Minus[R bounds](ranges, other []R) (missing []R, common bool) {
	if len(other) == 0 {
		return nil, true
	}
	have := Merged(other)
	for _, r := range Merged(ranges) {
		want := Range(r)
		next := want.First // the first hash of want that has not been looked at
		covered := false
		for _, r := range have {
			h := Range(r)
			if h.Last < next || want.Last < h.First {
				continue
			}
			common = true
			if next < h.First {
				missing = append(missing, R{next, h.First - 1})
			}
			if covered = want.Last <= h.Last; covered {
				break
			}
			next = h.Last + 1
		}
		if !covered {
			missing = append(missing, R{next, want.Last})
		}
	}
	return missing, common
}

// Merged returns ranges of the same hashes, sorted and apart. There is always one.
func Merged[R bounds](ranges []R) []R {
	if len(ranges) == 0 {
		return []R{{0, math.MaxUint64}}
	}
	var merged []Range
	for _, r := range slices.SortedFunc(slices.Values(ranges),
		func(a, b R) int { return cmp.Compare(Range(a).First, Range(b).First) }) {
		r, last := Range(r), len(merged)-1
		if last >= 0 && (r.First <= merged[last].Last || r.First == merged[last].Last+1) {
			merged[last].Last = max(merged[last].Last, r.Last)
		} else {
			merged = append(merged, r)
		}
	}
	all := make([]R, len(merged))
	for i, r := range merged {
		all[i] = R(r)
	}
	return all
}
