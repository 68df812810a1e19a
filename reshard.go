package informer

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errResharded ends requests for a shard that is no longer wanted.
var errResharded = errors.New("the shard has changed")

// reshard is the shard of a reflector and its change: the shard that is wanted, the one that requests are for, and the
// one that the sink has. If the sink has a part of the shard, the rest of it is all to list.
type reshard struct {
	// Only the goroutine of the reflector uses these.
	shard  Shard  // of the requests
	change uint64 // the number of the change to shard
	sink   *Shard // what the sink has, if a list of the rest of shard may suffice; nil otherwise
	again  bool   // shard equals that of the sink: somebody wants it listed again
	// how many objects outside the shard the server had sent when the last list of the whole shard began
	outside int64

	mu        sync.Mutex              // protects the fields below
	wanted    Shard                   // the latest
	changes   uint64                  // how often it has changed
	interrupt context.CancelCauseFunc // ends what the reflector does
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

// end ends what the reflector does, for the reason why.
func (s *reshard) end(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.interrupt != nil {
		s.interrupt(why)
	}
}

// take takes on the latest shard, and returns a context that ends when it changes. changed is true if it is another one
// than that of the requests until now, or the same one again.
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

// lists begins a list of the whole shard, and returns its origin. outside is how many objects outside the shard the
// server has sent until now.
func (s *reshard) lists(outside int64) *origin {
	s.outside = outside
	return s.origin(wholeShard, time.Now().Round(0))
}

func (s *reshard) origin(kind originKind, listed time.Time) *origin {
	return &origin{kind, s.shard, s.change, listed}
}

// restSuffices reports whether the sink, which has every change so far, has a part of the shard, so that a list of the
// rest suffices. But a server that does not filter sends everything, so one list of the whole shard, at its newest
// version, is better. outside is how many objects outside the shard the server has sent until now.
func (s *reshard) restSuffices(outside int64) bool {
	if s.sink == nil || s.again {
		return false
	}
	missing, common := s.shard.minus(*s.sink)
	return common && (len(missing) == 0 || len(missing) <= maxRanges && outside == s.outside)
}

// hasPart reports whether to list the rest, unless the whole shard has to be listed for another reason.
func (s *reshard) hasPart() bool { return s.sink != nil }

// rest returns what the sink lacks of the shard. ok is false if it lacks nothing.
func (s *reshard) rest() (rest Shard, ok bool) {
	missing, _ := s.shard.minus(*s.sink)
	return Shard{s.shard.Field, missing}, len(missing) > 0
}

// settle notes that the sink has the shard, or that all of it is to be listed.
func (s *reshard) settle() { s.sink, s.again = nil, false }
