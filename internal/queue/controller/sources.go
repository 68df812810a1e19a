package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Sources has the sources of a controller that are not known to be synced. The zero value has none. All methods are
// safe for concurrent use.
type Sources struct {
	mu       sync.Mutex // protects unsynced
	unsynced []*Source
}

// Source is a source of keys.
type Source struct {
	// Subscription is the subscription to the source. Set it before Subscribed, unless subscribing panicked.
	Subscription Subscription

	closed     error         // of a subscription that has been closed: nobody waits for it any more
	subscribed chan struct{} // closed when Subscription is set
}

// Subscription is a subscription to a source.
type Subscription interface {
	HasSynced() bool
	WaitSynced(ctx context.Context) error
	Err() error
}

// Add adds a source. The controller calls it before the source adds its first key. closed is the error of a
// subscription that has been closed.
func (s *Sources) Add(closed error) *Source {
	source := &Source{closed: closed, subscribed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsynced = append(s.unsynced, source)
	return source
}

// Subscribed says that Subscription is set, or never will be.
func (s *Source) Subscribed() { close(s.subscribed) }

// waitSynced waits until the source has synced, or its subscription has been closed.
func (s *Source) waitSynced(ctx context.Context) error {
	<-s.subscribed
	if s.Subscription == nil {
		return nil
	}
	err := s.Subscription.WaitSynced(ctx)
	if errors.Is(s.Subscription.Err(), s.closed) {
		return nil
	}
	return err
}

// failed returns the error of a subscription that ended before it synced, or nil.
func (s *Source) failed() error {
	<-s.subscribed
	if s.Subscription == nil || s.Subscription.HasSynced() || errors.Is(s.Subscription.Err(), s.closed) {
		return nil
	}
	return s.Subscription.Err()
}

// Synced reports whether all sources are known to be synced.
func (s *Sources) Synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.unsynced) == 0
}

// Wait waits until all sources have synced, and then returns nil. It returns an error if ctx ends first, and the error
// of a source that ended before it synced.
func (s *Sources) Wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		if len(s.unsynced) == 0 {
			s.mu.Unlock()
			return nil
		}
		first := s.unsynced[0]
		s.mu.Unlock()
		if err := first.waitSynced(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		s.unsynced = slices.DeleteFunc(s.unsynced, func(other *Source) bool { return other == first })
		s.mu.Unlock()
	}
}

// longWait is the time after which WaitLong calls slow.
const longWait = 10 * time.Second

var errLongWait = fmt.Errorf("not after %v", longWait)

// WaitLong is like Wait, and calls slow once if that takes long, with what is missing and why. The reason may be that
// nobody runs the informers.
func (s *Sources) WaitLong(ctx context.Context, slow func(err error)) error {
	first, end := context.WithTimeoutCause(ctx, longWait, errLongWait)
	err := s.Wait(first)
	end()
	if errors.Is(err, errLongWait) {
		slow(err)
		return s.Wait(ctx)
	}
	return err
}

// Failed returns the error of a source that ended before it synced, or nil if there is none.
func (s *Sources) Failed() error {
	s.mu.Lock()
	sources := slices.Clone(s.unsynced)
	s.mu.Unlock()
	for _, source := range sources {
		if err := source.failed(); err != nil {
			return err
		}
	}
	return nil
}
