package informer

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/hashrange"
	"github.com/typedinformer/informer/internal/intake"
)

// Shard is a part of a collection: the objects with a hash in one of some ranges, as KEP-5866 (sharded list and watch)
// defines it. The hash is the 64-bit FNV-1a of the value of a field. The zero value is the whole collection.
//
//	third := informer.Shard{Ranges: []informer.HashRange{{0, 1 << 64 / 3}}}
//
// The informer asks the server for the shard. A kube-apiserver with the feature gate ShardedListAndWatch, alpha since
// 1.36, sends only these objects. Other servers send all objects, and the informer drops those outside the shard before
// it decodes them: they cost traffic, but no memory.
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

// HashOf returns the hash of the value of a field, such as a UID.
func HashOf[S ~string | ~[]byte](value S) uint64 { return hashrange.Of(value) }

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

func (s Shard) hasHash(h uint64) bool { return hashrange.Has(s.Ranges, h) }

// String returns the shard selector of a request, such as
//
//	shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')
//
// It is empty for the whole collection.
func (s Shard) String() string { return hashrange.Selector(hashrange.Field(s.Field), s.Ranges) }

// asked returns how to treat the objects in the response to a request for s.
func (s Shard) asked() intake.Asked {
	a := intake.Asked{ByNamespace: s.Field == ShardByNamespace}
	if len(s.Ranges) > 0 {
		a.Shard = s.hasHash
	}
	return a
}

// validate names the field that is wrong.
func (s Shard) validate() error {
	if s.Field >= shardFields {
		return fmt.Errorf("Shard.Field is %d: it must be ShardByUID or ShardByNamespace", s.Field)
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

// rest returns the part of s that has lacks, and whether it lacks any. usable reports whether both share some hash, and
// one request can ask for the rest. Shards of different fields share none, but the whole collection has every hash of
// any field.
func (s Shard) rest(has Shard) (rest Shard, lacks, usable bool) {
	missing, common := hashrange.Merged(s.Ranges), false
	if s.Field == has.Field || len(has.Ranges) == 0 {
		missing, common = hashrange.Minus(s.Ranges, has.Ranges)
	}
	return Shard{s.Field, missing}, len(missing) > 0, common && len(missing) <= maxRanges
}

// clone returns a copy that shares nothing with s.
func (s Shard) clone() Shard {
	s.Ranges = slices.Clone(s.Ranges)
	return s
}
