package informer

import (
	"context"
	"fmt"
	"time"

	"github.com/typedinformer/informer/internal/line"
)

// Ownership says whether a key belongs to this replica of a program. [Controller.Own] uses it.
type Ownership uint8

const (
	// KeyForeign keys belong to another replica. A queue drops them.
	KeyForeign Ownership = iota
	// KeyAwaited keys are about to belong to this replica. A queue keeps them, and does not hand them out.
	KeyAwaited
	// KeyOwned keys belong to this replica.
	KeyOwned
)

// String returns "Foreign", "Awaited" or "Owned".
func (o Ownership) String() string {
	switch o {
	case KeyForeign:
		return "Foreign"
	case KeyAwaited:
		return "Awaited"
	case KeyOwned:
		return "Owned"
	}
	return fmt.Sprintf("Ownership(%d)", uint8(o))
}

// own makes the queue hand out a key only while of returns KeyOwned for it. Nil means that all keys are KeyOwned.
func (q *Queue[K]) own(of func(key K) Ownership) {
	var owned func(K) line.Ownership
	if of != nil {
		owned = func(key K) line.Ownership { return line.Ownership(of(key)) }
	}
	q.mu.Lock()
	foreign := q.line.Own(owned)
	q.mu.Unlock()
	q.forget(foreign)
}

// waitReleased waits until no key for which match returns true is in work, and then returns nil. If the keys are not
// KeyOwned, none of them will be in work then. If ctx ends first, the error has the number of keys left and wraps the
// cause of ctx.
func (q *Queue[K]) waitReleased(ctx context.Context, match func(key K) bool) error {
	q.mu.Lock()
	release := q.line.Released(match)
	q.mu.Unlock()
	if release == nil {
		return nil
	}
	select {
	case <-release.Done():
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if left := q.line.Abandon(release); left > 0 {
		return fmt.Errorf("%s has %d of these keys in work: %w", q.config.Name, left, context.Cause(ctx))
	}
	return nil
}

// inWork returns the keys in work for which match returns true, and when Get handed out each.
func (q *Queue[K]) inWork(match func(key K) bool) map[K]time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	keys := map[K]time.Time{}
	for key, began := range q.line.Working() {
		if match(key) {
			keys[key] = q.epoch.Add(began)
		}
	}
	return keys
}
