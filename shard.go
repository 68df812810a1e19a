package informer

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/shardset"
)

// Shard is a part of a collection: the objects with a hash in one of some ranges, as KEP-5866 (sharded list and watch)
// defines it. The hash is the 64-bit FNV-1a of the value of a field. The zero value is the whole collection.
//
//	third := informer.Shard{Ranges: []informer.HashRange{{0, 1 << 64 / 3}}}
//
// A shard has two fields. Field, a [ShardField], is the field whose value is hashed. Zero means the UID. Ranges, a
// slice of [HashRange], are the ranges of hashes that belong to the shard, in any order. An object belongs to it if its
// hash is in one of them. Empty means all objects.
//
// The informer asks the server for the shard. A kube-apiserver with the feature gate ShardedListAndWatch, alpha since
// 1.36, sends only these objects. Other servers send all objects, and the informer drops those outside the shard before
// it decodes them: they cost traffic, but no memory.
type Shard shardset.Shard

// HashRange is the range of hashes h with First <= h <= Last.
type HashRange = shardset.Range

// ShardField is a field that a [Shard] hashes.
type ShardField = shardset.Field

const (
	// ShardByUID hashes metadata.uid, so objects are spread evenly. An object that is deleted and created again may move
	// to another shard.
	ShardByUID ShardField = shardset.ByUID
	// ShardByNamespace hashes metadata.namespace, so all objects of a namespace are in the same shard.
	ShardByNamespace ShardField = shardset.ByNamespace
)

// HashOf returns the hash of the value of a field, such as a UID.
func HashOf[S ~string | ~[]byte](value S) uint64 { return shardset.Hash(value) }

// Has reports whether obj belongs to s.
func (s Shard) Has(obj interface {
	GetNamespace() string
	GetUID() types.UID
}) bool {
	return shardset.Shard(s).Has(obj)
}

// String returns the shard selector of a request, such as
//
//	shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')
//
// It is empty for the whole collection.
func (s Shard) String() string { return shardset.Shard(s).String() }
