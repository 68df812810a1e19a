package shard

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
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
	for slot := range s.releases {
		stuck = stuck || s.stuckLocked(slot)
	}
	if s.lost || stuck == !s.stuck.IsZero() {
		return
	}
	if stuck {
		s.stuck = time.Now()
		s.faultLocked("calls of Reconcile are stuck: handing over the other slots, then letting the lease expire",
			overdueError(s.overdueLocked()))
	} else {
		s.stuck = time.Time{}
		s.say(slog.LevelInfo, "stuck calls of Reconcile have returned")
	}
	s.claimsChangedLocked()
}

// silentLocked reports whether the Lease must not be written, because calls under way may never return, and only the
// end of this process ends them.
func (s *session) silentLocked() bool {
	if s.draining || s.stuck.IsZero() {
		return s.draining
	}
	if time.Since(s.stuck) >= s.config.HandOverTimeout {
		return true
	}
	for slot, p := range s.phases {
		if p != absent && !(p == releasing && s.stuckLocked(slot)) {
			return false // to be handed over
		}
	}
	return s.published == s.generation
}

// stuckLocked reports whether a call in a slot that is releasing is stuck.
func (s *session) stuckLocked(slot int) bool {
	return time.Since(s.releases[slot]) >= max(s.config.Grace, 0)+s.config.StuckAfter
}

// overdueLocked returns the calls of Reconcile that have not returned although their contexts have ended, the oldest
// first.
func (s *session) overdueLocked() (calls []Call) {
	var slots []int
	for slot, p := range s.phases {
		if p != absent && s.draining || p == releasing && time.Since(s.releases[slot]) >= s.config.Grace {
			slots = append(slots, slot)
		}
	}
	if len(slots) == 0 {
		return nil
	}
	in := s.in(slots...)
	for _, c := range s.controllers {
		calls = append(calls, c.inWork(in)...)
	}
	slices.SortFunc(calls, func(a, b Call) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Key, b.Key)) })
	return calls
}

// overdueError returns an error that has the number of overdue calls and names the oldest.
func overdueError(calls []Call) error {
	if len(calls) == 0 {
		return errOverdue
	}
	return fmt.Errorf("%w: %d, the first with key %s for %v", errOverdue, len(calls), calls[0].Key,
		time.Since(calls[0].Since).Round(time.Second))
}
