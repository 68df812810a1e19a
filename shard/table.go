package shard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
)

// controllers are those of Control. A step of a slot is the same step of all of them.
type controllers []controller

// own makes the controllers look up the ownership of their keys again.
func (c controllers) own() {
	for _, ctl := range c {
		ctl.own()
	}
}

// waitReleased waits until no controller reconciles a key with such a hash. When ctx ends, it ends their contexts.
func (c controllers) waitReleased(ctx context.Context, in func(hash uint64) bool) {
	var all sync.WaitGroup
	for _, ctl := range c {
		all.Go(func() { ctl.release(ctx, in) })
	}
	all.Wait()
}

// inWork returns the calls under way for keys with such a hash, the oldest first.
func (c controllers) inWork(in func(hash uint64) bool) (calls []Call) {
	for _, ctl := range c {
		calls = append(calls, ctl.inWork(in)...)
	}
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key)) })
	return calls
}

// table says which keys the controllers may reconcile. Each call of Reconcile looks up its key here before it begins.
//
// Its invariant is that a key is owned only if its slot was published as owned, and the lease is alive at the time of
// the look-up. A key of an owned slot is parked while the lease is too old. The session then calls unpark when the
// lease has been renewed, or publishes that the slots are lost. ownership is safe for concurrent use and takes no lock.
type table struct {
	slots       atomic.Pointer[[]informer.Ownership] // for each slot
	parked      atomic.Bool                          // a key of an owned slot had to wait, because the lease was old
	term        *lease.Term
	controllers controllers
}

// reset makes all keys wait. The controllers need not know: they begin to run later.
func (t *table) reset(slots int) {
	awaited := slices.Repeat([]informer.Ownership{informer.KeyAwaited}, slots)
	t.slots.Store(&awaited)
}

// ownership looks up the slot of a hash.
func (t *table) ownership(hash uint64) informer.Ownership {
	slots := *t.slots.Load()
	o := slots[slotOf(hash, len(slots))]
	if o == informer.KeyOwned && !t.term.Alive() {
		t.parked.Store(true)
		return informer.KeyAwaited
	}
	return o
}

// publish tells the controllers which slots are theirs: those that are owned. Keys of the target, and of slots that are
// claimed, wait. Others are dropped.
func (t *table) publish(phases []phase, target slotSet) {
	slots := make([]informer.Ownership, len(phases))
	for slot, p := range phases {
		switch {
		case p == owned:
			slots[slot] = informer.KeyOwned
		case target == nil || target[slot] || p != absent:
			slots[slot] = informer.KeyAwaited
		}
	}
	if slices.Equal(slots, *t.slots.Load()) {
		return
	}
	t.slots.Store(&slots)
	t.parked.Store(false)
	t.controllers.own()
}

// unpark makes the controllers look up the keys again that were parked, if the lease was renewed at the last moment.
func (t *table) unpark() {
	if t.parked.Load() && t.term.Alive() {
		t.parked.Store(false)
		t.controllers.own()
	}
}
