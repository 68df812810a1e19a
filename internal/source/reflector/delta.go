package reflector

import (
	"context"
	"time"

	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/intake"
)

// Sink takes what a [Loop] reads. Only the goroutine of the loop calls its methods.
type Sink[T object.Object] interface {
	// Put takes d, and waits while the sink has no room. It may defer the processing of d until Flush, unless d is a
	// Replaced.
	Put(ctx context.Context, d Delta[T]) error
	// Flush ends a batch of deltas.
	Flush() error
	// Held returns the resource version of the object with that key that the sink has after all deltas so far, or "" if it
	// has no such object. It returns false if the sink does not know what it has.
	Held(ctx context.Context, key object.Key) (version string, ok bool, err error)
	// Stale returns the number of objects that could not be decoded, as of the last delta.
	Stale() int
}

// Delta is one change of the collection; see informer.Delta.
type Delta[T object.Object] struct {
	Type      DeltaType
	Object    T
	Key       object.Key
	Items     []T
	Undecoded []intake.Failure
	Restored  bool
	Version   string  // the resource version
	From      *Origin // nil if the delta needs none
}

// DeltaType is the kind of a [Delta]. The values are those of informer.DeltaType.
type DeltaType uint8

// The types of deltas; see informer.DeltaType.
const (
	Upserted DeltaType = iota + 1
	Removed
	Replaced
	Bookmarked
)

// Origin describes where a Replaced comes from, and the delta that ends a warm start.
type Origin struct {
	Kind   OriginKind
	Shard  shardset.Shard // the store removes objects outside it
	Change uint64         // the number of the change to Shard
	Listed time.Time      // when the list of a Replaced began
}

// OriginKind says what the store has after a delta with an origin.
type OriginKind uint8

const (
	// WholeShard means the objects of the shard, as of the delta's version.
	WholeShard OriginKind = iota
	// RestOfShard is like WholeShard, but the Replaced has only the added objects, and the version stays.
	RestOfShard
	// OlderState means the objects of a saved state. The server has reached a later version.
	OlderState
	// CaughtUp means, after OlderState, every change up to the version that the server had then. The delta is not a
	// Replaced.
	CaughtUp
)
