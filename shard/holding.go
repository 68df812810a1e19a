package shard

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/run"
)

// keepPeriod is how long the informers keep the objects of slots that have moved to another replica. The next change of
// the group may bring the slots back, and fetching the objects again would need a list.
const keepPeriod = time.Minute

// holding makes the informers hold the objects of the slots that a replica needs. A slot is in one of these states:
//
//	            aim, with the slot                     the lists have ended
//	not wanted --------------------> in the target ----------------------> in the target, and held
//	    ^                                  |                                          |
//	    +----------------------------------+------------------------------------------+
//	       aim, without the slot: at once if another slot comes, else keepPeriod after no slot has been moving
//
// Its invariant is that the informers hold all objects of a slot that is held. So a slot that leaves the target is no
// longer held, even if it comes back before the informers have dropped its objects: they list it again. And a list that
// ends counts for the slots that were in the target from its beginning to its end.
//
// One change of the informers is under way at a time. A list in progress goes on if the target changes, unless more
// than a quarter of it is no longer wanted. Otherwise no list would end while the group keeps changing.
type holding struct {
	field       informer.ShardField
	keep        time.Duration // keepPeriod, or less in tests
	retry       time.Duration // the pause after a failure
	patience    time.Duration // how long the sources of a controller may take to sync before that is reported
	followers   []Sharded
	controllers controllers
	journal     *journal
	tasks       *sync.WaitGroup
	changed     chan<- struct{} // receives a token when more slots are held
	known       chan struct{}   // closed when the informers have their first shard

	mu      sync.Mutex         // protects the fields below
	target  slotSet            // the informers hold their objects, or are about to; nil before the first
	held    slotSet            // all informers hold their objects
	listing slotSet            // the slots that the informers are changing to; nil if they are not
	relist  context.CancelFunc // makes the informers change to target at once
	settled time.Time          // since when no slot is moving; zero while one is
}

// newHolding returns a holding without a target. It signals changed when more slots are held.
func newHolding(r *Replica, followers []Sharded, c controllers, j *journal, tasks *sync.WaitGroup,
	changed chan<- struct{}) *holding {
	return &holding{
		field: r.config.Field, keep: r.keepHeld, retry: r.config.RetryPeriod, patience: r.config.LeaseDuration,
		followers: followers, controllers: c, journal: j, tasks: tasks, changed: changed, known: make(chan struct{}),
		held: make(slotSet, r.config.Slots),
	}
}

// has returns the slots that are held. The caller must not change it.
func (h *holding) has() slotSet {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// wants returns the target. Nil means that there is none yet. The caller must not change it.
func (h *holding) wants() slotSet {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.target
}

// aim makes needed the target, unless that only removes slots too early. settled means that no slot is moving. aim
// reports whether the target has changed: then the caller must call pursue. It must call aim again after the returned
// time at the latest.
func (h *holding) aim(needed slotSet, settled bool) (changed bool, next time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !settled:
		h.settled = time.Time{}
	case h.settled.IsZero():
		h.settled = time.Now()
	}
	if h.target != nil && slices.Equal(needed, h.target) {
		return false, keepPeriod
	}
	if h.target != nil && needed.within(h.target) {
		if !settled {
			return false, keepPeriod
		}
		if left := h.keep - time.Since(h.settled); left > 0 {
			return false, left
		}
	}
	h.target = needed
	h.held = h.held.and(needed)
	return true, keepPeriod
}

// pursue makes the informers change to the target, until ctx ends.
func (h *holding) pursue(ctx context.Context) {
	if !run.IsClosed(h.known) {
		ended, end := context.WithCancel(ctx)
		end()
		shard := h.wants().shard(h.field)
		for _, f := range h.followers {
			_ = f.SetShard(ended, shard) // an informer that has not begun to run lists this shard first
		}
		close(h.known)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.listing == nil:
		h.listing, h.relist = h.target, func() {} // change reads the target when it begins
		h.tasks.Go(func() { h.change(ctx) })
	case 4*h.listing.common(h.target) < 3*h.listing.count():
		h.relist() // more than a quarter of the list in progress is no longer desired
	}
}

// change changes the shards of the informers until they hold the target.
func (h *holding) change(ctx context.Context) {
	for {
		listCtx, cancel := context.WithCancel(ctx)
		h.mu.Lock()
		target := h.target
		h.listing, h.relist = target, cancel
		h.mu.Unlock()
		done := h.setShard(listCtx, target.shard(h.field)) && h.waitSources(listCtx)
		again := listCtx.Err() != nil && ctx.Err() == nil
		cancel()
		if done && h.listed(target) {
			return
		}
		if !done && !again && run.Sleep(ctx, h.retry) != nil {
			return
		}
	}
}

// listed records that the informers hold the objects of the slots that were the target when their lists began. It
// reports whether these are still the target.
func (h *holding) listed(slots slotSet) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = slots.and(h.target)
	run.Signal(h.changed)
	if !slices.Equal(slots, h.target) {
		return false
	}
	h.listing = nil
	return true
}

// waitSources waits until the sources of the controllers have synced, so that they can reconcile as soon as they own a
// slot. It reports whether they have.
func (h *holding) waitSources(ctx context.Context) bool {
	for _, c := range h.controllers {
		for {
			patience, cancel := context.WithTimeout(ctx, h.patience)
			err := c.synced(patience)
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return false
			}
			h.journal.fault("claiming no slots until the sources of a controller have synced", err)
			if run.Sleep(ctx, h.retry) != nil {
				return false
			}
		}
	}
	return true
}

// setShard makes all informers hold the objects of shard, and reports whether they do.
func (h *holding) setShard(ctx context.Context, shard informer.Shard) bool {
	errs := make([]error, len(h.followers))
	var all sync.WaitGroup
	for i, f := range h.followers {
		all.Go(func() { errs[i] = f.SetShard(ctx, shard) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if err != nil && ctx.Err() == nil {
		h.journal.fault("cannot change the shard of an informer", err)
	}
	return err == nil
}

// errNotSynced indicates that an informer or a controller's source has not synced.
var errNotSynced = errors.New("not synced yet")

// lacking returns why slots of the target are not held: the last errors of informers with failing requests. If there
// are none, it names the sources that the controllers wait for.
func (h *holding) lacking() error {
	var errs []error
	for _, f := range h.followers {
		i, ok := f.(interface {
			Status() informer.InformerStatus
		})
		if !ok {
			continue
		}
		for _, r := range i.Status().Reflectors {
			if r.Failures > 0 && r.LastError != nil {
				errs = append(errs, r.LastError)
			}
		}
	}
	ended, cancel := context.WithCancelCause(context.Background())
	cancel(errNotSynced)
	for _, c := range h.controllers {
		if len(errs) > 0 {
			break
		}
		if err := c.synced(ended); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return errNotSynced
	}
	return errors.Join(errs...)
}
