package reflector

import (
	"context"
	"fmt"
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
	Namespace string  // that of the loop; empty means all
	Version   string  // the resource version
	From      *Origin // nil if the delta needs none, or does not come from a loop
}

// Alone reports whether d is a batch of its own, in a buffer.
func (d *Delta[T]) Alone() bool { return d.Type == Replaced }

// Origin returns where d comes from. That is a list of the whole collection if From is nil.
func (d *Delta[T]) Origin() Origin {
	if d.From == nil {
		return Origin{}
	}
	return *d.From
}

// RemovedKey returns the key of the object that d, a Removed, removes.
func (d *Delta[T]) RemovedKey() object.Key {
	if !object.IsNil(d.Object) {
		return object.KeyOf(d.Object)
	}
	return d.Key
}

// Validate returns an error if d has no type, if one of its objects is nil, has no name or is outside d.Namespace, or
// if an entry of Undecoded has no error. If nameless is true, objects may lack a name.
func (d *Delta[T]) Validate(nameless bool) error {
	for i := range d.Undecoded {
		if d.Undecoded[i].Err == nil {
			return fmt.Errorf("%v has an entry of Undecoded without an error", d.Type)
		}
	}
	switch d.Type {
	case Upserted:
		return d.validateObject(d.Object, nameless)
	case Removed:
		return d.validateKey(d.RemovedKey(), nameless)
	case Replaced:
		for _, obj := range d.Items {
			if err := d.validateObject(obj, nameless); err != nil {
				return err
			}
		}
		return nil
	case Bookmarked:
		return nil
	}
	return fmt.Errorf("unknown type %v", d.Type)
}

func (d *Delta[T]) validateObject(obj T, nameless bool) error {
	if object.IsNil(obj) {
		return fmt.Errorf("%v has a nil object", d.Type)
	}
	return d.validateKey(object.KeyOf(obj), nameless)
}

func (d *Delta[T]) validateKey(key object.Key, nameless bool) error {
	switch {
	case key.Name == "" && !nameless:
		return fmt.Errorf("%v has an object without a name", d.Type)
	case d.Namespace != "" && key.Namespace != d.Namespace:
		return fmt.Errorf("%v of namespace %q has object %s of another namespace", d.Type, d.Namespace, key)
	}
	return nil
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

// String returns "Upserted", "Removed", "Replaced" or "Bookmarked".
func (t DeltaType) String() string {
	switch t {
	case Upserted:
		return "Upserted"
	case Removed:
		return "Removed"
	case Replaced:
		return "Replaced"
	case Bookmarked:
		return "Bookmarked"
	}
	return fmt.Sprintf("DeltaType(%d)", uint8(t))
}

// Origin is the origin of a Replaced, and of the delta that ends a warm start.
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
