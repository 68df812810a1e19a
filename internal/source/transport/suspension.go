package transport

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrSuspended ends the watches of a client after the system was suspended. Their connections may have died meanwhile
// without a sign.
var ErrSuspended = errors.New("the system was suspended, as the jump of its wall clock shows: the connection may be dead")

const (
	// clockPeriod is the time between two looks at the clocks while a watch is open.
	clockPeriod = 5 * time.Second
	// clockJump is how far the wall clock must gain on the monotonic clock, which stands still during a suspension. Clocks
	// that NTP slews gain some milliseconds. A wall clock that is set back is no suspension.
	clockJump = 5 * time.Second
	// closeIdleAfter is the time in which ended watches leave their connections.
	closeIdleAfter = 50 * time.Millisecond
)

// Suspension ends the watches of a client when the system continues after a suspension. Create one with newSuspension.
// It is safe for concurrent use.
type Suspension struct {
	// Wall returns the wall clock. Only tests replace it, before the first watch.
	Wall func() time.Time

	closeIdle func() // closes the idle connections

	mu      sync.Mutex // protects the fields below
	watches map[*context.CancelCauseFunc]struct{}
	timer   *time.Timer // calls look; nil while no watch is open
	looked  time.Time   // the monotonic clock at the last look
	wall    time.Time   // the wall clock then
}

func newSuspension(closeIdle func()) *Suspension {
	return &Suspension{Wall: func() time.Time { return time.Now().Round(0) }, closeIdle: closeIdle,
		watches: map[*context.CancelCauseFunc]struct{}{}}
}

// Watch calls end with [ErrSuspended] after a suspension. The caller must call forget when the watch has ended.
func (s *Suspension) Watch(end context.CancelCauseFunc) (forget func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watches[&end] = struct{}{}
	if s.timer == nil {
		s.looked, s.wall = time.Now(), s.Wall()
		s.timer = time.AfterFunc(clockPeriod, s.look)
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.watches, &end); len(s.watches) == 0 && s.timer != nil {
			s.timer.Stop()
			s.timer = nil
		}
	}
}

// look ends the watches if the wall clock has jumped since the last look.
func (s *Suspension) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return
	}
	now, wall := time.Now(), s.Wall()
	jump := wall.Sub(s.wall) - now.Sub(s.looked)
	s.looked, s.wall = now, wall
	s.timer.Reset(clockPeriod)
	if jump < clockJump {
		return
	}
	for end := range s.watches {
		(*end)(ErrSuspended)
	}
	time.AfterFunc(closeIdleAfter, s.closeIdle) // so that the next watches open connections of their own
}
