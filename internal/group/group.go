// Package group is the engine of a group: a table of shared members. A member runs while it has users.
package group

import (
	"context"
	"errors"
	"slices"
	"sync"
)

var (
	// ErrRunning indicates that Run has been called before.
	ErrRunning = errors.New("the members are already running")
	// ErrStopped indicates that Run has ended, so that no member can join.
	ErrStopped = errors.New("the members have stopped")
)

// Table has members by key, each with the number of its users. A member leaves the table when its last user releases
// it. While Run is under way, the members run.
//
//	Join: first user --> waiting -- Run, or at once during Run --> running -- last user releases --> its context ends
//	                       |                                        |
//	                       +-- last user releases --> abandoned     +-- ends by itself --> Run ends, and so do all members
//
// All methods are safe for concurrent use. Create one with [New].
type Table[K comparable, M any] struct {
	run     func(context.Context, M) error
	abandon func(M)

	mu      sync.Mutex // protects the fields below
	members map[K]*member[K, M]
	order   []*member[K, M]         // in the order in which they joined
	ctx     context.Context         // the context of Run; nil before Run
	end     context.CancelCauseFunc // ends ctx
	running sync.WaitGroup          // the running members; only added to before Run waits for it
	started bool
	stopped bool
}

type member[K comparable, M any] struct {
	key    K
	value  M
	users  int
	cancel context.CancelFunc // ends its run; nil if it does not run
}

// New returns an empty table. run runs a member, on a goroutine of its own, until its context ends. abandon ends a
// member that has never run; it is called with the lock of the table held.
func New[K comparable, M any](run func(context.Context, M) error, abandon func(M)) *Table[K, M] {
	return &Table[K, M]{run: run, abandon: abandon, members: map[K]*member[K, M]{}}
}

// Join adds a user of the member with that key, and returns the member and a function that removes the user. That
// function does not wait until the member has stopped. Calling it again does nothing.
//
// If there is no such member, Join adds the one that create returns. Otherwise it asks accept whether the user can
// share the present member. If one of them returns an error, Join changes nothing and returns that error. Both are
// called with the lock of the table held. After Run, Join calls neither, and returns [ErrStopped].
func (t *Table[K, M]) Join(key K, create func() (M, error), accept func(M) error) (M, func(), error) {
	var none M
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return none, nil, ErrStopped
	}
	m := t.members[key]
	if m == nil {
		value, err := create()
		if err != nil {
			return none, nil, err
		}
		m = &member[K, M]{key: key, value: value}
		t.members[key] = m
		t.order = append(t.order, m)
		t.startLocked(m)
	} else if err := accept(m.value); err != nil {
		return none, nil, err
	}
	m.users++
	return m.value, sync.OnceFunc(func() { t.release(m) }), nil
}

// startLocked starts m, if Run is under way.
func (t *Table[K, M]) startLocked(m *member[K, M]) {
	if t.ctx == nil {
		return
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(t.ctx)
	t.running.Go(func() {
		if err := t.run(ctx, m.value); ctx.Err() == nil {
			t.end(err) // the member ended by itself
		}
	})
}

// release removes a user of m.
func (t *Table[K, M]) release(m *member[K, M]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.users--; m.users > 0 {
		return
	}
	delete(t.members, m.key)
	t.order = slices.DeleteFunc(t.order, func(other *member[K, M]) bool { return other == m })
	if m.cancel != nil {
		m.cancel()
	} else {
		t.abandon(m.value) // no run will end it, and somebody may wait for it
	}
}

// Run runs all members, also those that join later, until ctx ends or a member ends by itself. It returns the cause of
// ctx or the error of that member, once all of them have stopped. A table runs once; later calls return [ErrRunning].
func (t *Table[K, M]) Run(ctx context.Context) error {
	t.mu.Lock()
	if t.started {
		t.mu.Unlock()
		return ErrRunning
	}
	t.started = true
	t.ctx, t.end = context.WithCancelCause(ctx)
	ctx = t.ctx
	for _, m := range t.order {
		t.startLocked(m)
	}
	t.mu.Unlock()
	defer t.end(nil)

	<-ctx.Done()
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	t.running.Wait()
	return context.Cause(ctx)
}

// Every reports whether condition returns true for every member. It calls condition with the lock of the table held.
func (t *Table[K, M]) Every(condition func(M) bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(t.order, func(m *member[K, M]) bool { return !condition(m.value) })
}

// Each calls do for each member that is now in the table, in the order in which they joined, without the lock. It
// returns the errors of do, joined, without those of members that left the table before do returned.
func (t *Table[K, M]) Each(do func(M) error) error {
	t.mu.Lock()
	members := slices.Clone(t.order)
	t.mu.Unlock()
	var errs []error
	for _, m := range members {
		err := do(m.value)
		t.mu.Lock()
		released := m.users == 0
		t.mu.Unlock()
		if err != nil && !released {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
