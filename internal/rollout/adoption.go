package rollout

import (
	"context"
	"errors"
	"sync"
)

// ErrChanged is the cause that ends the work for a value that is no longer wanted.
var ErrChanged = errors.New("the value has changed")

// Adoption is how one part of a [Rollout] adopts a value by long work: it tracks the wanted value, the value that the
// work is for, and the value that its result has. If the result has some of the value already, the work is only for the
// rest. [NewAdoption] returns one.
//
// Only Want and End are safe for concurrent use. The other methods are for the goroutine that does the work.
type Adoption[V any] struct {
	// Value is the value that the work is for.
	Value V
	// Change is the number of the change to Value.
	Change uint64

	equal func(a, b V) bool
	rest  func(v, has V) (rest V, lacks, usable bool)
	has   *V   // the value of the result, if work for the rest may suffice; nil otherwise
	again bool // Value was set again without a change, to do all of the work again

	mu        sync.Mutex              // protects the fields below
	wanted    V                       // the latest
	changes   uint64                  // how often it has changed
	work      context.Context         // that Take returned
	interrupt context.CancelCauseFunc // ends work
	ended     error                   // of a call of End that interrupted no work; nil for none
}

// NewAdoption returns the adoption of a part whose first value is v. rest returns the part of v that has lacks, whether
// it lacks any, and whether work for the rest can replace work for the whole.
func NewAdoption[V any](v V, equal func(a, b V) bool, rest func(v, has V) (rest V, lacks, usable bool)) *Adoption[V] {
	return &Adoption[V]{Value: v, equal: equal, rest: rest}
}

// Want changes the wanted value, interrupts the work, and returns the number of that change.
func (a *Adoption[V]) Want(v V) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wanted = v
	a.changes++
	if a.interrupt != nil {
		a.interrupt(ErrChanged)
	}
	return a.changes
}

// End interrupts the work, with the cause why. If no work is under way, or it has been interrupted already, End
// interrupts the next.
func (a *Adoption[V]) End(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.work == nil || a.work.Err() != nil {
		a.ended = why
		return
	}
	a.interrupt(why)
}

// Take begins work for the wanted value, and returns a context for it that Want and End interrupt. changed is true if
// Want was called since the last Take, even with the same value.
func (a *Adoption[V]) Take(ctx context.Context) (work context.Context, end context.CancelCauseFunc, changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if changed = a.Change != a.changes; changed {
		before := a.Value
		a.Value, a.Change = a.wanted, a.changes
		if a.again = a.has == nil && a.equal(a.Value, before); a.has == nil {
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

// RestSuffices reports whether work for the rest of the value makes the result whole. If so, lacks reports whether
// there is a rest. There is none if the result has all of the value, and more.
func (a *Adoption[V]) RestSuffices() (ok, lacks bool) {
	if a.has == nil || a.again {
		return false, false
	}
	_, lacks, ok = a.rest(a.Value, *a.has)
	return ok, lacks
}

// HasPart reports whether the result has only a part of the value, or too much, so that the next work is for the rest.
func (a *Adoption[V]) HasPart() bool { return a.has != nil }

// Rest returns the part of the value that the result lacks. ok is false if it lacks nothing.
func (a *Adoption[V]) Rest() (rest V, ok bool) {
	rest, ok, _ = a.rest(a.Value, *a.has)
	return rest, ok
}

// Settle records that the result has the value, or that the work is for all of it.
func (a *Adoption[V]) Settle() { a.has, a.again = nil, false }
