package lease

import (
	"fmt"
	"sync/atomic"
	"time"
)

// State is the state of a [Term].
type State uint8

const (
	// Vacant means that this process does not hold the lease, and nothing is under way that needs it.
	Vacant State = iota
	// Held means that this process holds the lease.
	Held
	// Draining means that the lease is lost, and that what needs it may still be under way.
	Draining
)

// String returns the name of the state, such as "Held".
func (s State) String() string {
	switch s {
	case Vacant:
		return "Vacant"
	case Held:
		return "Held"
	case Draining:
		return "Draining"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Term is the time for which this process holds a lease, by its own clocks.
//
//	        Renew, with a write           Lose, when it is overdue,
//	        sent in this state            or deleted, or taken
//	Vacant --------------------> Held ------------------------> Draining -- Left is zero --> the process must end
//	  ^                            |                               |
//	  +----- Drained: nothing is under way that needs the lease ---+
//
// Its invariants are:
//
//   - The age of a lease counts from when its last renewal was sent. That is before the server wrote it, and before
//     other processes saw it, which count from there. So this process has lost the lease before others may take it.
//   - Age is the larger of two: each clock may stop while the process or the system is suspended, and the wall clock
//     may be set back. Neither makes a lease younger.
//   - A lease that has passed its deadline is lost for good. No later renewal counts before all that needed it has
//     returned, and then only one that was sent after that.
//
// What needs the lease may go on in the next term if nothing of it was under way between the two: package leader pauses
// its work for that, and package shard owns no slot.
//
// A Term starts nothing. Its caller looks at the clocks every [WatchPeriod]. One goroutine at a time may use it, except
// for Alive.
type Term struct {
	timing   Timing
	wall     func() time.Time
	state    State
	deadline time.Duration           // the age at which the lease is lost
	terms    uint64                  // that have ended
	counted  atomic.Pointer[instant] // when the last renewal that counts was sent; nil unless held
	renewed  instant                 // when the last renewal was sent, also if it came too late to count
}

// instant is a point in time on both clocks.
type instant struct{ monotonic, wall time.Time }

// Stamp says when a write was sent, and in which term.
type Stamp struct {
	sent  instant
	terms uint64
}

// NewTerm returns a vacant term. wall is the wall clock.
func NewTerm(timing Timing, wall func() time.Time) *Term {
	return &Term{timing: timing, wall: wall, deadline: timing.RenewDeadline}
}

// Alive reports whether the lease is held and younger than RenewDeadline. It is safe for concurrent use.
func (t *Term) Alive() bool {
	counted := t.counted.Load()
	return counted != nil && t.age(*counted) < t.timing.RenewDeadline
}

// State returns the state.
func (t *Term) State() State { return t.state }

// Stamp is taken before a write is sent.
func (t *Term) Stamp() Stamp { return Stamp{instant{time.Now(), t.wall()}, t.terms} }

// Renew records that the server has accepted a write. It reports whether that counts: the lease is now held, and as old
// as the stamp. A renewal does not count if the lease has passed its deadline before the response. The term is then
// overdue, and the caller must call Lose.
func (t *Term) Renew(s Stamp) bool {
	t.renewed = s.sent // others count from it, whatever it means here
	switch {
	case t.state == Draining || s.terms != t.terms || t.Overdue():
		return false
	case t.state == Vacant && t.age(s.sent) >= t.timing.RenewDeadline:
		return false
	}
	t.state = Held
	t.counted.Store(&s.sent)
	return true
}

// Close moves the deadline to Expiry, because the work is returning already, and nothing begins.
func (t *Term) Close() { t.deadline = t.timing.Expiry() }

// Overdue reports whether a lease that is held has passed its deadline. The caller must then call Lose.
func (t *Term) Overdue() bool { return t.state == Held && t.age(*t.counted.Load()) >= t.deadline }

// Lose ends the term. It returns false if the lease is not held.
func (t *Term) Lose() bool {
	if t.state != Held {
		return false
	}
	t.state = Draining
	t.counted.Store(nil)
	return true
}

// Drained records that nothing is under way that needs the lease. It may follow Lose, or end a term that is held.
func (t *Term) Drained() {
	t.state, t.deadline = Vacant, t.timing.RenewDeadline
	t.terms++
	t.counted.Store(nil)
}

// Left returns the time until the clocks ask for the next step: until the deadline of a lease that is held, and
// otherwise until its end, when others may take it and all work must have returned.
func (t *Term) Left() time.Duration {
	if t.state == Held {
		return t.deadline - t.age(*t.counted.Load())
	}
	return t.timing.Expiry() - t.age(t.renewed)
}

// Deadline returns when a lease that is held reaches RenewDeadline, by the monotonic clock.
func (t *Term) Deadline() time.Time { return t.counted.Load().monotonic.Add(t.timing.RenewDeadline) }

// Renewed returns when the last renewal was sent, by the wall clock, also if it came too late to count. Zero means that
// there was none.
func (t *Term) Renewed() time.Time { return t.renewed.wall }

// age returns the time since i on the clock that shows more.
func (t *Term) age(i instant) time.Duration {
	return max(time.Since(i.monotonic), t.wall().Sub(i.wall))
}
