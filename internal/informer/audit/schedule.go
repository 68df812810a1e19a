package audit

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// within is the time within which an audit begins that is due. A thousand replicas that lost the same server at once
	// spread their lists over it.
	within = 30 * time.Second
	// again is the time after which an audit checks a repair, or follows one that failed. At most maxAgain follow one
	// another.
	again    = time.Minute
	maxAgain = 5
)

// outcome is the outcome of an audit.
type outcome uint8

const (
	equal     outcome = iota
	different         // at least one object differed
	failed            // the two could not be compared
)

// schedule decides when to audit: once in each period, with a jitter of a tenth, and whenever an audit is due.
type schedule struct {
	every time.Duration // the period; zero for none
	due   chan struct{} // holds a token if an audit is due

	mu   sync.Mutex // protects the fields below
	next time.Time  // of the next audit; zero if none is planned
}

// nextAt returns the time of the next audit, or the zero time if none is planned.
func (s *schedule) nextAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// run calls audit, one call at a time, until ctx ends. An audit that finds a difference is followed by one that checks
// the repair, and one that fails by another try.
func (s *schedule) run(ctx context.Context, audit func(context.Context) outcome) {
	timer := time.NewTimer(0)
	timer.Stop()
	plan := func(delay time.Duration) {
		timer.Reset(delay)
		s.plan(time.Now().Add(delay))
	}
	first, tries := true, 0
	periodic := func() {
		switch delay := s.every; {
		case delay <= 0:
			s.plan(time.Time{})
		case first: // replicas that start together audit at different times
			plan(rand.N(delay))
		default:
			plan(delay - delay/10 + rand.N(delay/5+1))
		}
		first = false
	}
	for periodic(); ; {
		select {
		case <-ctx.Done():
			s.plan(time.Time{})
			return
		case <-s.due:
			if next := s.nextAt(); next.IsZero() || time.Until(next) > within {
				plan(rand.N(within))
			}
		case <-timer.C:
			if audit(ctx) != equal && tries < maxAgain {
				tries++
				plan(again/2 + rand.N(again/2))
				continue
			}
			tries = 0
			periodic()
		}
	}
}

func (s *schedule) plan(next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = next
}
