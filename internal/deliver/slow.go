package deliver

import "time"

// slowCall is the duration after which a call of a handler causes a warning. The next warning follows when a call takes
// twice as long as at the last warning, so a handler that is always slow does not fill the log.
const slowCall = 10 * time.Second

// slowness finds slow calls.
type slowness struct {
	timer  *time.Timer   // calls checkSlow; nil before the first delivery
	checks bool          // timer is running
	limit  time.Duration // the duration of a call that causes the next warning
}

func (s *slowness) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// checkSlowLocked calls checkSlow after d.
func (l *Listener[T]) checkSlowLocked(d time.Duration) {
	l.slow.checks = true
	if l.slow.timer == nil {
		l.slow.timer = time.AfterFunc(d, l.checkSlow)
	} else {
		l.slow.timer.Reset(d)
	}
}

// checkSlow warns if a call of the handler takes long. No timer runs while the handler is idle.
func (l *Listener[T]) checkSlow() {
	h := l.hub.Load()
	l.mu.Lock()
	if l.slow.checks = false; h == nil || l.ended != nil || !l.running {
		l.mu.Unlock()
		return
	}
	s := l.statusLocked(time.Since(l.epoch))
	isSlow := s.Busy >= l.slow.limit
	if isSlow {
		l.slow.limit = 2 * s.Busy
	}
	l.checkSlowLocked(l.slow.limit - s.Busy)
	h.delivering.Add(1) // stop waits for the report
	defer h.delivering.Done()
	l.mu.Unlock()
	if isSlow {
		h.Log.Warn("a handler is slow", "resource", h.Resource, "handler", s.Name, "call", s.Busy,
			"backlog", s.Backlog, "oldest", s.Oldest)
	}
}
