package shard

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/typedinformer/informer/internal/lease"
)

// Call is a call of Reconcile.
type Call struct {
	// Key is the key, as fmt prints it.
	Key string
	// Since is when the work on the key began.
	Since time.Time
}

var errOverdue = errors.New("calls of Reconcile have not returned although their contexts have ended")

// A stuck call may still write, so no other replica may have its slot before the call has returned or this process has
// ended. The replica leaves the group as far as it can:
//
//	the call is stuck                 its Lease says that it leaves, and its other slots move as when a replica leaves
//	they have, or HandOverTimeout     it stops renewing
//	RenewDeadline                     the lease is lost: the contexts of all calls end
//	LeaseDuration - Margin            Fatal
//
// If the call returns before the lease is lost, the replica renews it and takes part again.

// lookForStuckLocked finds out whether a call is stuck.
func (s *session) lookForStuckLocked() {
	stuck := false
	for slot := range s.claims.releases {
		stuck = stuck || s.stuckLocked(slot)
	}
	if s.term.State() != lease.Held || stuck == !s.claims.stuck.IsZero() {
		return
	}
	if stuck {
		s.claims.stuck = time.Now()
		s.journal.fault("calls of Reconcile are stuck: handing over the other slots, then letting the lease expire",
			overdueError(s.overdueLocked()))
	} else {
		s.claims.stuck = time.Time{}
		s.journal.say(slog.LevelInfo, "stuck calls of Reconcile have returned")
	}
	s.changedLocked()
}

// silentLocked reports whether the Lease must not be written, because calls under way may never return, and only the
// end of this process ends them.
func (s *session) silentLocked() bool {
	if draining := s.term.State() == lease.Draining; draining || s.claims.stuck.IsZero() {
		return draining
	}
	if time.Since(s.claims.stuck) >= s.config.HandOverTimeout {
		return true
	}
	for slot, p := range s.claims.phases {
		if p != absent && !(p == releasing && s.stuckLocked(slot)) {
			return false // to be handed over
		}
	}
	return s.own.published == s.claims.generation
}

// stuckLocked reports whether a call in a slot that is releasing is stuck.
func (s *session) stuckLocked(slot int) bool {
	return time.Since(s.claims.releases[slot]) >= max(s.config.Grace, 0)+s.config.StuckAfter
}

// overdueLocked returns the calls of Reconcile that have not returned although their contexts have ended, the oldest
// first.
func (s *session) overdueLocked() (calls []Call) {
	var slots []int
	draining := s.term.State() == lease.Draining
	for slot, p := range s.claims.phases {
		if p != absent && draining || p == releasing && time.Since(s.claims.releases[slot]) >= s.config.Grace {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return nil
	}
	return s.controllers.inWork(s.in(slots...))
}

// overdueError returns an error that has the number of overdue calls and names the oldest.
func overdueError(calls []Call) error {
	if len(calls) == 0 {
		return errOverdue
	}
	return fmt.Errorf("%w: %d, the first with key %s for %v", errOverdue, len(calls), calls[0].Key,
		time.Since(calls[0].Since).Round(time.Second))
}
