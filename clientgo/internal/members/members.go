// Package members keeps the informers of a factory: it makes each once, runs them, and waits for them.
package members

import (
	"context"
	"sync"

	"k8s.io/client-go/tools/cache"
)

// Set holds the informers of a factory by key. The zero value is empty. All methods are safe for concurrent use.
type Set[K comparable] struct {
	mu       sync.Mutex // protects the fields below
	members  map[K]*member
	stopping bool
	running  sync.WaitGroup // not added to after stopping is set
}

type member struct {
	informer cache.SharedIndexInformer
	started  bool
}

// Get returns the informer with a key. If there is none, it calls create, which must not use the set. It makes one such
// call at a time.
func (s *Set[K]) Get(key K, create func() cache.SharedIndexInformer) cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.members[key]; m != nil {
		return m.informer
	}
	if s.members == nil {
		s.members = map[K]*member{}
	}
	m := &member{informer: create()}
	s.members[key] = m
	return m.informer
}

// Start runs the informers that were not started before, until ctx ends. It does not block. After Shutdown it does
// nothing.
func (s *Set[K]) Start(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return
	}
	for _, m := range s.members {
		if !m.started {
			m.started = true
			s.running.Go(func() { m.informer.RunWithContext(ctx) })
		}
	}
}

// Shutdown waits until all informers have stopped. It stops none: their contexts do.
func (s *Set[K]) Shutdown() {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	s.running.Wait()
}

// WaitSynced waits until all informers that were started have synced, or ctx ends. It reports which have synced.
func (s *Set[K]) WaitSynced(ctx context.Context) map[K]bool {
	synced := map[K]bool{}
	for key, i := range s.started() {
		select {
		case <-i.HasSyncedChecker().Done():
		case <-ctx.Done():
		}
		synced[key] = i.HasSynced()
	}
	return synced
}

func (s *Set[K]) started() map[K]cache.SharedIndexInformer {
	s.mu.Lock()
	defer s.mu.Unlock()
	started := map[K]cache.SharedIndexInformer{}
	for key, m := range s.members {
		if m.started {
			started[key] = m.informer
		}
	}
	return started
}
