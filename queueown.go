package informer

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Own makes the queue hand out a key only while of returns KeyOwned for it. Nil means that all keys are KeyOwned, as before the first
// call. Call Own again when results of the function change: keys that have been awaited become ready then, or are dropped.
//
// Get calls the function immediately before it hands out a key, so no key is handed out after its result has changed. The work on
// a key that has been handed out before continues; see [Queue.WaitReleased]. Keys that are KeyForeign are refused when they are added,
// and otherwise dropped when it is their turn. Their count of retries is reset.
//
// The queue calls the function with its lock held. It must be fast, and must not call methods of the queue.
func (q *Queue[K]) Own(of func(key K) Ownership) {
	q.mu.Lock()
	q.own = of
	var foreign []K
	for e := q.awaited.first; e != nil; {
		next := e.links[byPlace].next
		switch q.ownershipLocked(e.key) {
		case KeyOwned:
			q.unparkLocked(e)
			q.makeReadyLocked(e)
		case KeyForeign:
			q.unparkLocked(e)
			foreign = append(foreign, e.key)
			q.foreign++
			q.releaseLocked(e)
		}
		e = next
	}
	q.mu.Unlock()
	q.forget(foreign)
}

// WaitReleased waits until no key for which match returns true is in work, and then returns nil. If the keys are not KeyOwned, none
// of them will be in work then. If ctx ends first, the error has the number of keys left and wraps the cause of ctx.
func (q *Queue[K]) WaitReleased(ctx context.Context, match func(key K) bool) error {
	w := &unowned[K]{left: map[*entry[K]]struct{}{}, done: make(chan struct{})}
	q.mu.Lock()
	for e := q.working.first; e != nil; e = e.links[byPlace].next {
		if match(e.key) {
			w.left[e] = struct{}{}
		}
	}
	if len(w.left) == 0 {
		q.mu.Unlock()
		return nil
	}
	q.unowned = append(q.unowned, w)
	q.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unowned = slices.DeleteFunc(q.unowned, func(other *unowned[K]) bool { return other == w })
	if len(w.left) == 0 {
		return nil
	}
	return fmt.Errorf("%s has %d of these keys in work: %w", q.config.Name, len(w.left), context.Cause(ctx))
}

// inWork returns the keys in work for which match returns true, and when Get handed out each.
func (q *Queue[K]) inWork(match func(key K) bool) map[K]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := map[K]time.Time{}
	for e := q.working.first; e != nil; e = e.links[byPlace].next {
		if match(e.key) {
			keys[e.key] = q.epoch.Add(e.began)
		}
	}
	return keys
}
