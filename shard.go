package informer

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Shard is a part of a collection: the objects with a hash in one of some ranges, as KEP-5866 (sharded list and watch)
// defines it. The hash is the 64-bit FNV-1a of the value of a field. The zero value is the whole collection.
//
//	third := informer.Shard{Ranges: []informer.HashRange{{0, 1 << 64 / 3}}}
//
// The informer asks the server for the shard. A kube-apiserver with the feature gate ShardedListAndWatch, alpha since
// 1.36, sends nothing else. Others send all objects: the informer then drops those outside the shard before it decodes
// them, so they cost bytes, and no memory.
type Shard struct {
	// Field is the field whose value is hashed. Zero means the UID.
	Field ShardField
	// Ranges are the ranges of hashes that belong to the shard, in any order. An object belongs to it if its hash is in
	// one of them. Empty means all objects.
	Ranges []HashRange
}

// HashRange is the range of hashes h with First <= h <= Last.
type HashRange struct{ First, Last uint64 }

// ShardField is a field that a [Shard] hashes.
type ShardField uint8

const (
	// ShardByUID hashes metadata.uid, so objects are spread evenly. An object that is deleted and created again may move
	// to another shard.
	ShardByUID ShardField = iota
	// ShardByNamespace hashes metadata.namespace, so all objects of a namespace are in the same shard.
	ShardByNamespace

	shardFields = iota
)

// path returns the field in a shard selector.
func (f ShardField) path() string {
	if f == ShardByNamespace {
		return "object.metadata.namespace"
	}
	return "object.metadata.uid"
}

// HashOf returns the hash of the value of a field, such as a UID.
func HashOf[S ~string | ~[]byte](value S) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a
	h := uint64(offset)
	for i := range len(value) {
		h = (h ^ uint64(value[i])) * prime
	}
	return h
}

// Has reports whether obj belongs to s.
func (s Shard) Has(obj interface {
	GetNamespace() string
	GetUID() types.UID
}) bool {
	if len(s.Ranges) == 0 {
		return true
	}
	if s.Field == ShardByNamespace {
		return s.hasHash(HashOf(obj.GetNamespace()))
	}
	return s.hasHash(HashOf(obj.GetUID()))
}

func (s Shard) hasHash(h uint64) bool {
	return slices.ContainsFunc(s.Ranges, func(r HashRange) bool { return r.First <= h && h <= r.Last })
}

// String returns the shard selector of a request, such as
//
//	shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')
//
// It is empty for the whole collection.
func (s Shard) String() string {
	var parts []string
	for _, r := range s.Ranges {
		end := "0x10000000000000000"
		if r.Last < 1<<64-1 {
			end = fmt.Sprintf("0x%016x", r.Last+1)
		}
		parts = append(parts, fmt.Sprintf("shardRange(%s, '0x%016x', '%s')", s.Field.path(), r.First, end))
	}
	return strings.Join(parts, " || ")
}

// validate names the field that is wrong.
func (s Shard) validate() error {
	if s.Field >= shardFields {
		return fmt.Errorf("Shard.Field is %d", s.Field)
	}
	for i, r := range s.Ranges {
		if r.First > r.Last {
			return fmt.Errorf("Shard.Ranges[%d]: First %#x is after Last %#x", i, r.First, r.Last)
		}
	}
	if len(s.Ranges) > maxRanges {
		return fmt.Errorf("Shard.Ranges has %d ranges: the URL of a request would be too long for more than %d",
			len(s.Ranges), maxRanges)
	}
	return nil
}

// maxRanges is the largest number of ranges: each takes up to 110 bytes of the URL, which many proxies limit to 8 KiB.
const maxRanges = 64

// equal reports whether both have the same field and the same ranges, in the same order.
func (s Shard) equal(other Shard) bool {
	return s.Field == other.Field && slices.Equal(s.Ranges, other.Ranges)
}

// minus returns the ranges of hashes that s has and other has not, sorted and apart. common reports whether there are
// hashes that both have. Shards of different fields have none in common, but the whole collection has every hash of any
// field.
func (s Shard) minus(other Shard) (missing []HashRange, common bool) {
	switch {
	case len(other.Ranges) == 0:
		return nil, true
	case s.Field != other.Field:
		return s.merged(), false
	}
	have := other.merged()
	for _, want := range s.merged() {
		next := want.First // the first hash of want that has not been looked at
		covered := false
		for _, h := range have {
			if h.Last < next || want.Last < h.First {
				continue
			}
			common = true
			if next < h.First {
				missing = append(missing, HashRange{next, h.First - 1})
			}
			if covered = want.Last <= h.Last; covered {
				break
			}
			next = h.Last + 1
		}
		if !covered {
			missing = append(missing, HashRange{next, want.Last})
		}
	}
	return missing, common
}

// merged returns the ranges of s, sorted and apart.
func (s Shard) merged() (ranges []HashRange) {
	if len(s.Ranges) == 0 {
		return []HashRange{{0, math.MaxUint64}}
	}
	for _, r := range slices.SortedFunc(slices.Values(s.Ranges),
		func(a, b HashRange) int { return cmp.Compare(a.First, b.First) }) {
		if last := len(ranges) - 1; last >= 0 && (r.First <= ranges[last].Last || r.First == ranges[last].Last+1) {
			ranges[last].Last = max(ranges[last].Last, r.Last)
		} else {
			ranges = append(ranges, r)
		}
	}
	return ranges
}

// clone returns a copy that shares nothing with s.
func (s Shard) clone() Shard {
	s.Ranges = slices.Clone(s.Ranges)
	return s
}

// errResharded ends requests for a shard that is no longer wanted.
var errResharded = errors.New("the shard has changed")
