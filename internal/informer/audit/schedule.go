package audit

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/run"
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

// schedule decides when to audit: once in each period, with a jitter of a tenth, and whenever an audit is due. One
// audit runs at a time, and between them there is no goroutine. An audit that finds a difference is followed by one
// that checks the repair, and one that fails by another try. A schedule is safe for concurrent use.
type schedule struct {
	every time.Duration // the period; zero for none

	mu       sync.Mutex                    // protects the fields below
	ctx      context.Context               // of the audits; nil before start and after stop
	audit    func(context.Context) outcome // set by start
	next     time.Time                     // of the next audit; zero if none is planned
	timer    *time.Timer                   // calls run at next; nil before the first plan
	due      bool                          // an audit is due that could not be planned yet
	auditing bool                          // next is to be planned when the audit has ended
	planned  bool                          // an audit has been planned before
	tries    int                           // consecutive audits that did not find it equal

	running sync.WaitGroup // the audit
}

// nextAt returns the time of the next audit, or the zero time if none is planned.
func (s *schedule) nextAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// start makes s call audit until stop, with a context that must end before that.
func (s *schedule) start(ctx context.Context, audit func(context.Context) outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ctx, s.audit = ctx, audit
	s.periodLocked()
	s.dueLocked(false)
}

// stop ends s, and waits for an audit under way.
func (s *schedule) stop() {
	s.mu.Lock()
	s.ctx, s.next = nil, time.Time{}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// makeDue makes an audit due.
func (s *schedule) makeDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dueLocked(true)
}

// dueLocked plans an audit soon if one is due, now or since it could not be planned.
func (s *schedule) dueLocked(now bool) {
	s.due = s.due || now
	if !s.due || s.ctx == nil || s.auditing {
		return
	}
	s.due = false
	if s.next.IsZero() || time.Until(s.next) > within {
		s.planLocked(rand.N(within))
	}
}

// periodLocked plans the audit of the next period.
func (s *schedule) periodLocked() {
	switch delay := s.every; {
	case delay <= 0:
		s.next = time.Time{}
	case !s.planned: // replicas that start together audit at different times
		s.planLocked(rand.N(delay))
	default:
		s.planLocked(delay - delay/10 + rand.N(delay/5+1))
	}
	s.planned = true
}

func (s *schedule) planLocked(delay time.Duration) {
	s.next = time.Now().Add(delay)
	if s.timer == nil {
		s.timer = time.AfterFunc(delay, s.run)
	} else {
		s.timer.Reset(delay)
	}
}

// run audits, unless the plan has changed since the timer fired, and plans the next audit.
func (s *schedule) run() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx == nil || s.auditing || s.next.IsZero() || time.Now().Before(s.next) {
		return
	}
	s.auditing = true
	s.running.Add(1)
	defer s.running.Done()
	ctx, found := s.ctx, failed
	s.mu.Unlock()
	_ = run.Apart(func() error { // the audit may call index functions, in a repair
		found = s.audit(ctx)
		return nil
	})
	s.mu.Lock()
	s.auditing = false
	if s.ctx == nil {
		return
	}
	if found != equal && s.tries < maxAgain {
		s.tries++
		s.planLocked(again/2 + rand.N(again/2))
	} else {
		s.tries = 0
		s.periodLocked()
	}
	s.dueLocked(false)
}
