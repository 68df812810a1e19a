package informer

import (
	"context"
	"fmt"

	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/informer/selections"
	"github.com/typedinformer/informer/internal/object"
)

// compare compares the store with the union of what the selections have, and repairs it. Objects that have left a
// selection are not compared: compare waits until each of them is gone or is in another selection. It waits, too, until
// each selection has listed a server that was restored.
func (s *merged[T]) compare(ctx context.Context) (found audit.Found, err error) {
	var c *selections.Copy[T]
	var content *Snapshot[T]
	if err = s.waitFor(ctx, func() (ok bool) {
		content = s.store.Snapshot()
		c, ok = s.union.Copy()
		return ok
	}); err != nil {
		return found, err
	}
	found.Objects, found.Unclear = c.Compare(content, func(key object.Key, have, want T) {
		found.Note(key, idOf(have), !object.IsNil(have), idOf(want), !object.IsNil(want))
	})
	if err = s.waitFor(ctx, func() bool { return s.union.Concluded(c) }); err != nil {
		return found, err
	}
	if found.Differ > 0 {
		s.step(func(w *edit[T]) { s.union.Rebuild(s.store.Snapshot().List(), w) })
	}
	return found, nil
}

// waitFor waits until ok, which only reads, returns true after some step.
func (s *merged[T]) waitFor(ctx context.Context, ok func() bool) error {
	for {
		published, done := s.store.Published(), false
		if s.look(func() { done = ok() }); done {
			return nil
		}
		select {
		case <-published:
		case <-ctx.Done():
			return fmt.Errorf("%w: a selection lags behind another one", context.Cause(ctx))
		}
	}
}

// idOf returns the ID of obj, or that of an unknown object if obj is nil.
func idOf[T object.Object](obj T) object.ID {
	if object.IsNil(obj) {
		return object.ID{}
	}
	return object.IDOf(obj)
}
