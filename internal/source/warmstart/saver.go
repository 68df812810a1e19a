package warmstart

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/typedinformer/informer/internal/run"
)

// Saver saves states from time to time. It is for one goroutine.
type Saver struct {
	// Interval is the longest time between two saves. Each wait is up to a tenth shorter, at random, so that replicas do
	// not all save at once. The first save follows after a tenth of Interval.
	Interval time.Duration
	// States are the states to save.
	States []*State
	// Content returns the present content of a namespace. It returns false while there is nothing to save.
	Content func(namespace string) (c Content, ok bool)
}

// firstSave is the part of the interval after which the first save follows.
const firstSave = 10

// Run saves from time to time, until ctx ends. It begins when synced is closed: the store then has the whole
// collection.
func (s *Saver) Run(ctx context.Context, synced <-chan struct{}) {
	wait := s.Interval / firstSave
	select {
	case <-synced:
	case <-ctx.Done():
		return
	}
	for run.Sleep(ctx, wait) == nil {
		s.Save(ctx, false)
		wait = s.Interval - rand.N(s.Interval/10+1)
	}
}

// Save calls [State.Save] with the content of each state that has any.
func (s *Saver) Save(ctx context.Context, last bool) {
	for _, state := range s.States {
		if c, ok := s.Content(state.Namespace()); ok {
			state.Save(ctx, c, last)
		}
	}
}
