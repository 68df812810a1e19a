package shard

import (
	"fmt"
	"log/slog"
	"time"
)

// yields are the slots that a replica leaves to others, because its informers have not listed the objects in time. It
// keeps trying, and takes the slots back when it holds their objects.
type yields struct {
	slots slotSet
	since []time.Time // when the replica began to lack each slot; zero if it does not
}

func newYields(slots int) yields { return yields{make(slotSet, slots), make([]time.Time, slots)} }

// look records which slots the replica lacks: those that it should own, or has yielded, and whose objects it does not
// hold. It returns how many more slots are now yielded, whether any slot is no longer yielded, and the time after which
// to look again.
func (y *yields) look(now time.Time, patience time.Duration, lacks func(slot int) bool) (more int, fewer bool,
	next time.Duration) {
	next = patience
	for slot, since := range y.since {
		switch {
		case !lacks(slot):
			fewer = fewer || y.slots[slot]
			y.slots[slot], y.since[slot] = false, time.Time{}
		case since.IsZero():
			y.since[slot] = now
		case y.slots[slot]:
		case now.Sub(since) >= patience:
			y.slots[slot] = true
			more++
		default:
			next = min(next, patience-now.Sub(since))
		}
	}
	return more, fewer, next
}

// yieldLocked yields the slots whose objects the informers have not listed in time. It returns the time after which to
// look again.
func (s *session) yieldLocked(g *group, desired slotSet) time.Duration {
	held := s.holding.has()
	more, fewer, next := s.yields.look(time.Now(), s.config.ListTimeout, func(slot int) bool {
		return s.claims.phases[slot] == absent && !held[slot] && (desired[slot] || s.yields.slots[slot] && g.yielded(slot))
	})
	if more > 0 {
		s.journal.fault("yielding slots to other replicas, because their objects were not listed in time",
			fmt.Errorf("%d slots: %w", more, s.holding.lacking()))
	}
	if fewer {
		s.journal.say(slog.LevelInfo, "taking back yielded slots", "yielded", s.yields.slots.count())
	}
	if more > 0 || fewer {
		s.changedLocked()
	}
	return next
}
