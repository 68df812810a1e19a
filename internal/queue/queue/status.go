package queue

import "time"

// Status is the state of a line at one moment.
type Status[K comparable] struct {
	Counts
	State            State
	Depth            [Levels]int
	Delayed, Awaited int
	// InWork is the number of keys in work, Unfinished the sum of the times since they were handed out, and LongestRunning
	// the longest of these, that of LongestRunningKey.
	InWork                     int
	LongestRunning, Unfinished time.Duration
	LongestRunningKey          K
	// LongestReady is the longest time that a key has waited for Next. A key in work that was added again waits from its
	// Done on.
	LongestReady time.Duration
}

// Status returns the present status.
func (l *Line[K]) Status() Status[K] {
	now := l.now()
	s := Status[K]{
		Counts:  l.counts,
		State:   l.state,
		Depth:   l.depth,
		Delayed: len(l.delayed),
		Awaited: l.owner.awaited.n,
		InWork:  l.working.n,
	}
	if e := l.working.first; e != nil {
		s.LongestRunning, s.LongestRunningKey = now-e.began, e.key
	}
	for e := l.working.first; e != nil; e = l.working.next(e) {
		s.Unfinished += now - e.began
	}
	if e := l.ranks.age.first; e != nil {
		s.LongestReady = now - e.queued
	}
	return s
}
