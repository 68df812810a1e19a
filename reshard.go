package informer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errResharded ends requests for a shard that is no longer wanted.
var errResharded = errors.New("the shard has changed")

// reshard tracks the shard of a reflector while it changes: the wanted shard, the shard of the requests, and that of
// the sink. If the sink has a part of the shard, the reflector lists only the rest.
type reshard struct {
	// Only the goroutine of the reflector uses these.
	shard  Shard  // of the requests
	change uint64 // the number of the change to shard
	sink   *Shard // the shard of the sink, if a list of the rest may suffice; nil otherwise
	again  bool   // shard was set again without a change, to list it again
	// the number of objects outside the shard that the server had sent when the last list of the whole shard began
	outside int64

	mu        sync.Mutex              // protects the fields below
	wanted    Shard                   // the latest
	changes   uint64                  // how often it has changed
	interrupt context.CancelCauseFunc // ends the context that take returned
}

// want makes the reflector follow shard, and returns the number of that change.
func (s *reshard) want(shard Shard) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = shard
	s.changes++
	if s.interrupt != nil {
		s.interrupt(errResharded)
	}
	return s.changes
}

// end ends the context that take returned, with the cause why.
func (s *reshard) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt(why)
	}
}

// take adopts the latest shard, and returns a context that ends when it changes. changed is true if want was called
// since the last take, even with the same shard.
func (s *reshard) take(ctx context.Context) (part context.Context, end context.CancelCauseFunc, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if changed = s.change != s.changes; changed {
		before := s.shard
		s.shard, s.change = s.wanted, s.changes
		if s.again = s.sink == nil && s.shard.equal(before); s.sink == nil {
			s.sink = &before
		}
	}
	part, end = context.WithCancelCause(ctx)
	s.interrupt = end
	return part, end, changed
}

// lists begins a list of the whole shard, and returns its origin. outside is the number of objects outside the shard
// that the server has sent so far.
func (s *reshard) lists(outside int64) *origin {
	s.outside = outside
	return s.origin(wholeShard, time.Now().Round(0))
}

func (s *reshard) origin(kind originKind, listed time.Time) *origin {
	return &origin{kind, s.shard, s.change, listed}
}

// restSuffices reports whether the sink, which has every change so far, has a part of the shard, so that a list of the
// rest suffices. It does not suffice if the server does not filter by shard: such a server sends everything, so one
// list of the whole shard, at its newest version, is better. outside is the number of objects outside the shard that
// the server has sent so far.
func (s *reshard) restSuffices(outside int64) bool {
	if s.sink == nil || s.again {
		return false
	}
	missing, common := s.shard.minus(*s.sink)
	return common && (len(missing) == 0 || len(missing) <= maxRanges && outside == s.outside)
}

// hasPart reports whether the sink has a part of the shard, so that the next step of a watching reflector is a move.
func (s *reshard) hasPart() bool { return s.sink != nil }

// rest returns the part of the shard that the sink lacks. ok is false if it lacks nothing.
func (s *reshard) rest() (rest Shard, ok bool) {
	missing, _ := s.shard.minus(*s.sink)
	return Shard{s.shard.Field, missing}, len(missing) > 0
}

// settle records that the sink has the shard, or that the reflector will list all of it.
func (s *reshard) settle() { s.sink, s.again = nil, false }
