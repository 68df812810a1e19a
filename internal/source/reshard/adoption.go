package reshard

import (
	"context"
	"errors"
	"sync"

	"github.com/typedinformer/informer/internal/shardset"
)

// ErrChanged is the cause that ends the work for a shard that is no longer wanted.
var ErrChanged = errors.New("the shard has changed")

// Adoption is how one part of a [Progress] adopts a shard by long work. It tracks three shards: the wanted one, the
// target of the work, and the one that the result has. If the result has a part of the target already, the work is only
// for the rest. [NewAdoption] returns one.
//
// Only Want and End are safe for concurrent use. The other methods are for the goroutine that does the work.
type Adoption struct {
	// Target is the shard that the work is for.
	Target shardset.Shard
	// Change is the number of the change to Target.
	Change uint64

	has   *shardset.Shard // the shard of the result, if work for the rest may suffice; nil otherwise
	again bool            // Target was set again without a change, to do all of the work again

	mu        sync.Mutex              // protects the fields below
	wanted    shardset.Shard          // the latest
	changes   uint64                  // how often it has changed
	work      context.Context         // that Take returned
	interrupt context.CancelCauseFunc // ends work
	ended     error                   // of a call of End that interrupted no work; nil for none
}

// NewAdoption returns the adoption of a part whose first shard is first.
func NewAdoption(first shardset.Shard) *Adoption { return &Adoption{Target: first} }

// Want changes the wanted shard, interrupts the work, and returns the number of that change.
func (a *Adoption) Want(shard shardset.Shard) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = shard
	a.changes++
	if a.interrupt != nil {
		a.interrupt(ErrChanged)
	}
	return a.changes
}

// End interrupts the work with that cause. If no work is under way, or it has been interrupted already, End interrupts
// the next.
func (a *Adoption) End(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.work == nil || a.work.Err() != nil {
		a.ended = cause
		return
	}
	a.interrupt(cause)
}

// Take begins work for the wanted shard, and returns a context for it that Want and End interrupt. changed is true if
// Want was called since the last Take, even with the same shard.
func (a *Adoption) Take(ctx context.Context) (work context.Context, end context.CancelCauseFunc, changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if changed = a.Change != a.changes; changed {
		before := a.Target
		a.Target, a.Change = a.wanted, a.changes
		if a.again = a.has == nil && a.Target.Equal(before); a.has == nil {
			a.has = &before
		}
	}
	work, end = context.WithCancelCause(ctx)
	a.work, a.interrupt = work, end
	if a.ended != nil {
		end(a.ended)
		a.ended = nil
	}
	return work, end, changed
}

// RestSuffices reports whether work for the rest of the target makes the result whole. If so, lacks reports whether
// there is a rest. There is none if the result has all of the target, and more.
func (a *Adoption) RestSuffices() (ok, lacks bool) {
	if a.has == nil || a.again {
		return false, false
	}
	_, lacks, ok = a.Target.Rest(*a.has)
	return ok, lacks
}

// HasPart reports whether the result has only a part of the target, or too much, so that the next work is for the rest.
func (a *Adoption) HasPart() bool { return a.has != nil }

// Rest returns the part of the target that the result lacks. ok is false if it lacks nothing.
func (a *Adoption) Rest() (rest shardset.Shard, ok bool) {
	rest, ok, _ = a.Target.Rest(*a.has)
	return rest, ok
}

// Settle records that the result has the target, or that the work is for all of it.
func (a *Adoption) Settle() { a.has, a.again = nil, false }
