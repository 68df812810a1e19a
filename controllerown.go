package informer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// errNotOwned is the cause of the context of a call of Reconcile whose key must be released.
var errNotOwned = errors.New("the key no longer belongs to this replica")

// Own makes the controller reconcile only keys for which of returns KeyOwned; see [Queue.Own]. Call it before Run for
// the first time, and again when results of the function change. Package shard does so.
//
// A key that another replica has owned until now may have changes that this one has never seen, so call
// [Controller.Replay] while the key is KeyAwaited. Before another replica owns a key, call [Controller.WaitReleased]
// when the key is no longer KeyOwned.
func (c *Controller[K]) Own(of func(key K) Ownership) {
	c.mu.Lock()
	if c.active == nil {
		c.active = map[K]context.CancelCauseFunc{}
	}
	c.mu.Unlock()
	c.queue().Own(of)
}

// WaitReleased waits until no key for which match returns true is being reconciled. The keys must not be KeyOwned. When
// ctx ends, the contexts of those calls of Reconcile end, and WaitReleased goes on waiting.
func (c *Controller[K]) WaitReleased(ctx context.Context, match func(key K) bool) {
	defer c.failures.drop(match)
	if c.queue().WaitReleased(ctx, match) == nil {
		return
	}
	c.mu.Lock()
	for key, cancel := range c.active {
		if match(key) {
			cancel(errNotOwned)
		}
	}
	c.mu.Unlock()
	_ = c.queue().WaitReleased(context.WithoutCancel(ctx), match)
}

// InWork returns the keys that are being reconciled and for which match returns true, and when the work on each began.
// match is called with the lock of the queue held: it must be fast, and must not call methods of the queue.
func (c *Controller[K]) InWork(match func(key K) bool) map[K]time.Time {
	return c.queue().inWork(match)
}

// Replay adds the keys of all objects in the stores of the sources, with LowPriority, if match returns true for the
// key. It waits until the sources have synced. It returns an error that wraps the cause of ctx if that ends first, and
// the error of a source that cannot sync.
func (c *Controller[K]) Replay(ctx context.Context, match func(key K) bool) error {
	c.mu.Lock()
	c.replays = slices.DeleteFunc(c.replays, func(r replay[K]) bool { return errors.Is(r.subscription.Err(), ErrClosed) })
	replays := slices.Clone(c.replays)
	c.mu.Unlock()
	for _, r := range replays {
		keys, err := r.keys(ctx, match)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		c.queue().AddWith(AddOptions{Priority: LowPriority}, keys...)
	}
	return nil
}
