package queue

import "github.com/typedinformer/informer/status"

// Status returns the present status, without Name and LongestRunningKey.
func (l *Line[K]) Status() status.Queue {
	now := l.now()
	s := l.counts
	s.State = l.state
	s.Depth = status.QueueDepth{High: l.depth[0], Normal: l.depth[1], Low: l.depth[2]}
	s.Delayed, s.Awaited, s.InWork = len(l.delayed), l.owner.awaited.n, l.working.n
	if e := l.working.first; e != nil {
		s.LongestRunning = now - e.began
	}
	for e := l.working.first; e != nil; e = l.working.next(e) {
		s.Unfinished += now - e.began
	}
	if e := l.ranks.age.first; e != nil {
		s.LongestReady = now - e.queued
	}
	return s
}

// Longest returns the key that has been in work for longest, or the zero K if none is.
func (l *Line[K]) Longest() (key K) {
	if e := l.working.first; e != nil {
		key = e.key
	}
	return key
}
