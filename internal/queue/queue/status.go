package queue

import "github.com/typedinformer/informer/status"

// Status returns the present status, without Name and LongestRunningKey.
func (q *Queue[K]) Status() status.Queue {
	now := q.now()
	s := q.counts
	s.State = q.state
	s.Depth = status.QueueDepth{High: q.depth[0], Normal: q.depth[1], Low: q.depth[2]}
	s.Delayed, s.Awaited, s.InWork = len(q.delayed), q.owner.awaited.n, q.working.n
	if e := q.working.first; e != nil {
		s.LongestRunning = now - e.began
	}
	for e := q.working.first; e != nil; e = q.working.next(e) {
		s.Unfinished += now - e.began
	}
	if e := q.ranks.age.first; e != nil {
		s.LongestReady = now - e.queued
	}
	return s
}

// Longest returns the key that has been in work for longest, or the zero K if none is.
func (q *Queue[K]) Longest() (key K) {
	if e := q.working.first; e != nil {
		key = e.key
	}
	return key
}
