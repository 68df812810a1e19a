package informer

import (
	"context"
	"sync"
)

// reshard is the shard of a reflector and its change: the shard that is wanted, the one that requests are for, and the
// one that the sink has.
type reshard struct {
	// Only the goroutine of the reflector uses these.
	shard  Shard  // of the requests
	change uint64 // the number of the change to shard
	has    Shard  // the shard that the sink has, while the state's Moves is true; otherwise it has shard
	// how many objects outside the shard the server had sent when the last list of the whole shard began
	outside int64

	mu        sync.Mutex              // protects the fields below
	wanted    Shard                   // the latest
	changes   uint64                  // how often it has changed
	interrupt context.CancelCauseFunc // ends what the reflector does, because the shard has changed
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

// take takes on the latest shard, and returns a context that ends when it changes. If it has changed, changed is true,
// and before is the shard of the requests until now.
func (s *reshard) take(ctx context.Context) (part context.Context, end context.CancelCauseFunc, before Shard,
	changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, changed = s.shard, s.change != s.changes; changed {
		s.shard, s.change = s.wanted, s.changes
	}
	part, end = context.WithCancelCause(ctx)
	s.interrupt = end
	return part, end, before, changed
}
