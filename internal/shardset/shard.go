// Package shardset does arithmetic with shards of a collection, and reads and writes the shard selectors of KEP-5866
// (sharded list and watch).
package shardset

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Shard is the part of a collection whose objects have a hash in one of some ranges; see informer.Shard. The zero value
// is the whole collection. The ranges may overlap, and be in any order.
type Shard struct {
	Field  Field   // the field whose value is hashed
	Ranges []Range // of hashes; empty for all
}

// Range is the range of hashes h with First <= h <= Last.
type Range struct{ First, Last uint64 }

// Field is a field that a [Shard] hashes.
type Field uint8

// The fields of a [Shard]; see informer.ShardField.
const (
	ByUID Field = iota
	ByNamespace

	fields = iota
)

// Hash returns the 64-bit FNV-1a hash of value.
func Hash[S ~string | ~[]byte](value S) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(value) {
		h = (h ^ uint64(value[i])) * prime
	}
	return h
}

// IsWhole reports whether s is the whole collection because it has no ranges.
func (s Shard) IsWhole() bool { return len(s.Ranges) == 0 }

// Has reports whether obj belongs to s.
func (s Shard) Has(obj interface {
	GetNamespace() string
	GetUID() types.UID
}) bool {
	switch {
	case s.IsWhole():
		return true
	case s.Field == ByNamespace:
		return s.HasHash(Hash(obj.GetNamespace()))
	}
	return s.HasHash(Hash(obj.GetUID()))
}

// HasHash reports whether objects with the hash h belong to s.
func (s Shard) HasHash(h uint64) bool {
	for _, r := range s.Ranges {
		if r.First <= h && h <= r.Last {
			return true
		}
	}
	return s.IsWhole()
}

// Equal reports whether both have the same field and the same ranges, in the same order.
func (s Shard) Equal(other Shard) bool {
	return s.Field == other.Field && slices.Equal(s.Ranges, other.Ranges)
}

// Clone returns a copy that shares nothing with s.
func (s Shard) Clone() Shard {
	s.Ranges = slices.Clone(s.Ranges)
	return s
}

// MaxRanges is the largest number of ranges: each takes up to 110 bytes of the URL, which many proxies limit to 8 KiB.
const MaxRanges = 64

// Validate returns an error if a field of s is wrong. It names the field.
func (s Shard) Validate() error {
	if s.Field >= fields {
		return fmt.Errorf("Shard.Field is %d: it must be ShardByUID or ShardByNamespace", s.Field)
	}
	for i, r := range s.Ranges {
		if r.First > r.Last {
			return fmt.Errorf("Shard.Ranges[%d]: First %#x is after Last %#x", i, r.First, r.Last)
		}
	}
	if len(s.Ranges) > MaxRanges {
		return fmt.Errorf("Shard.Ranges has %d ranges: the URL of a request would be too long for more than %d",
			len(s.Ranges), MaxRanges)
	}
	return nil
}

// Rest returns the part of s that present lacks, and whether it lacks any. usable reports whether both share some hash,
// and one request can ask for the rest. Shards of different fields share none, but the whole collection has every hash
// of any field.
func (s Shard) Rest(present Shard) (rest Shard, lacks, usable bool) {
	missing, common := merged(s.Ranges), false
	if s.Field == present.Field || present.IsWhole() {
		missing, common = minus(s.Ranges, present.Ranges)
	}
	return Shard{s.Field, missing}, len(missing) > 0, common && len(missing) <= MaxRanges
}

// minus returns the ranges of the hashes that ranges have and other have not, sorted and apart. None mean no hash.
// common reports whether there are hashes that both have.
func minus(ranges, other []Range) (missing []Range, common bool) {
	if len(other) == 0 {
		return nil, true
	}
	have := merged(other)
	for _, want := range merged(ranges) {
		next := want.First // the first hash of want that has not been looked at
		covered := false
		for _, h := range have {
			if h.Last < next || want.Last < h.First {
				continue
			}
			common = true
			if next < h.First {
				missing = append(missing, Range{next, h.First - 1})
			}
			if covered = want.Last <= h.Last; covered {
				break
			}
			next = h.Last + 1
		}
		if !covered {
			missing = append(missing, Range{next, want.Last})
		}
	}
	return missing, common
}

// merged returns ranges of the same hashes, sorted and apart. There is always one.
func merged(ranges []Range) (all []Range) {
	if len(ranges) == 0 {
		return []Range{{0, math.MaxUint64}}
	}
	for _, r := range slices.SortedFunc(slices.Values(ranges),
		func(a, b Range) int { return cmp.Compare(a.First, b.First) }) {
		last := len(all) - 1
		if last >= 0 && (r.First <= all[last].Last || r.First == all[last].Last+1) {
			all[last].Last = max(all[last].Last, r.Last)
		} else {
			all = append(all, r)
		}
	}
	return all
}
