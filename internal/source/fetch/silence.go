package fetch

import (
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// silence is the body of a watch, which measures for how long it has been waiting for data. The time in which the
// client does not read does not count. The wait for the response does.
type silence struct {
	io.ReadCloser               // nil before the response
	opened        time.Time     // when the watch was requested
	since         atomic.Int64  // how long after opened the present wait began; negative if the client does not wait
	last, longest time.Duration // waits that have ended
	failed        error         // of Read, unless it is io.EOF
}

// Read implements io.Reader.
func (s *silence) Read(b []byte) (int, error) {
	began := time.Since(s.opened)
	s.since.Store(int64(began))
	n, err := s.ReadCloser.Read(b)
	s.since.Store(-1)
	s.last = time.Since(s.opened) - began
	s.longest = max(s.longest, s.last)
	if err != nil && err != io.EOF {
		s.failed = err
	}
	return n, err
}

// lasts returns the present silence.
func (s *silence) lasts() time.Duration {
	since := s.since.Load()
	if since < 0 {
		return 0
	}
	return time.Since(s.opened) - time.Duration(since)
}

const (
	// minPeriod is the least period of bookmarks that counts: a server may send two bookmarks for two changes.
	minPeriod = 30 * time.Second
	// quietPeriods is how many periods a watch may be silent, times two.
	quietPeriods = 5
)

// bookmarks is the period in which a server sends bookmarks, by which a client notices that a watch is dead. It
// outlives a watch: a resumed watch may be dead from the start. The zero value knows no period.
type bookmarks struct {
	period time.Duration // of the last watch that had two bookmarks: the longest time between two
}

// limit returns how long a watch may be silent. Zero means that there is no limit.
func (b bookmarks) limit() time.Duration {
	if b.period == 0 {
		return 0
	}
	return max(b.period, minPeriod) * quietPeriods / 2
}

// vigil ends a watch that has been silent for longer than a limit. It is safe for concurrent use.
type vigil struct {
	silence *silence
	end     func()

	mu    sync.Mutex // protects the fields below
	limit time.Duration
	timer *time.Timer // calls check; nil without a limit
}

// set sets the limit. Zero means none.
func (v *vigil) set(limit time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch v.limit = limit; {
	case limit == 0:
	case v.timer == nil:
		v.timer = time.AfterFunc(limit, v.check)
	default:
		v.timer.Reset(limit)
	}
}

// check ends the watch if it has been silent for too long. Otherwise it checks again when that may be the case.
func (v *vigil) check() {
	lasts := v.silence.lasts()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.timer == nil || v.limit == 0:
	case lasts >= v.limit:
		v.end()
	default:
		v.timer.Reset(v.limit - lasts)
	}
}

// stop ends the vigil.
func (v *vigil) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.timer != nil {
		v.timer.Stop()
		v.timer = nil
	}
}
