package informer

import (
	"fmt"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/informer/edits"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/store/table"
)

// change is the effect of one delta on one key.
type change[T object.Object] = deliver.Change[T]

// Write applies batch in one step and appends its effects to changes, in order. If a delta is invalid, Write returns an
// error and does nothing.
func (s *Store[T]) Write(batch []reflector.Delta[T], changes []change[T]) ([]change[T], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applyLocked(batch, edits.Edit[T]{Changes: changes})
}

// merge applies one edit that do makes, and appends its effects to changes, in order.
func (s *Store[T]) merge(changes []change[T], do func(*edit[T])) []change[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := edit[T]{Edit: edits.Edit[T]{Changes: changes}}
	w.beginLocked(s)
	do(&w)
	w.publishLocked()
	return w.Changes
}

// empty removes all objects, and what the store knows of its sources. It returns the changes.
func (s *Store[T]) empty() []change[T] {
	return s.merge(nil, func(w *edit[T]) {
		w.Replace("", nil, func(_, _ T) bool { return false }, func(object.Key, T) bool { return false })
		w.next.sources = nil
	})
}

// applyLocked begins an edit as e and applies batch with it. It returns the changes of the edit.
func (s *Store[T]) applyLocked(batch []reflector.Delta[T], e edits.Edit[T]) ([]change[T], error) {
	for i := range batch {
		if err := batch[i].Validate(s.values); err != nil {
			return e.Changes, fmt.Errorf("delta %d of %d: %w", i+1, len(batch), err)
		}
	}
	w := edit[T]{Edit: e}
	w.beginLocked(s)
	for i := range batch {
		switch d := &batch[i]; d.Type {
		case reflector.Upserted:
			if s.values {
				w.Set(d.Object)
			} else {
				w.Upsert(d.Object)
			}
			w.advance(d)
		case reflector.Removed:
			w.Remove(d.RemovedKey(), d.Object, !object.IsNil(d.Object))
			w.advance(d)
		case reflector.Replaced:
			w.replace(d, w.list(d))
		case reflector.Bookmarked:
			w.advance(d)
		}
	}
	w.publishLocked()
	return w.Changes, nil
}

// edit creates the next snapshot of a store. Its owner holds the store's lock from beginLocked to publishLocked. If a
// function of an index or a method of an object panics or ends the goroutine, the edit ends without publication, and
// has no effect.
type edit[T object.Object] struct {
	edits.Edit[T] // makes next.version
	store         *Store[T]
	next          *Snapshot[T]
}

// beginLocked begins an edit of s.
func (w *edit[T]) beginLocked(s *Store[T]) {
	next := *s.Snapshot()
	w.store, w.next = s, &next
	w.Begin(&s.table, &next.version)
}

// publishLocked ends the edit: from now on, readers get its snapshot.
func (w *edit[T]) publishLocked() {
	s := w.store
	if table.Asserting {
		s.table.Assert(&w.next.version, w.next.sources.Check)
	}
	if s.show != nil {
		s.show(w.next, w.Changes)
	}
	s.current.Store(w.next)
	w.End()
	s.notifyLocked()
	if s.board.Waits() {
		s.board.Reached(arrivals[T]{w.next}, deliver.Keys(w.Changes))
	}
}

// replace replaces the contents of d's namespace with d's items, except for the objects of kept, which could not be
// decoded. If the store already has the version of an item, it keeps its own copy, so a relist without changes retains
// no memory.
func (w *edit[T]) replace(d *reflector.Delta[T], kept Undecoded) {
	from := d.Origin()
	keepAll := from.Kind == reflector.RestOfShard || kept.Unnamed() > 0
	w.Replace(d.Namespace, d.Items,
		func(old, new T) bool {
			if new.GetResourceVersion() == "" { // only the content shows changes
				return old.GetResourceVersion() == "" && old.GetUID() == new.GetUID() && w.store.same(old, new)
			}
			return object.SameVersion(old, new) && (!d.Restored && !w.store.values || w.store.same(old, new))
		},
		func(key object.Key, old T) bool { return (keepAll || kept.Has(key)) && from.Shard.Has(old) })
}

// advance records that the source of d has reached its resource version.
func (w *edit[T]) advance(d *reflector.Delta[T]) {
	src, _ := w.next.sources.Of(d.Namespace)
	src.Data.undecoded = After(src.Data.undecoded, d)
	w.next.sources = w.next.sources.Advance(d.Namespace, d.Version, src.Data)
}

// list records that the source of d, a Replaced, has listed its objects or has another shard. It returns the objects
// that could not be decoded.
func (w *edit[T]) list(d *reflector.Delta[T]) Undecoded {
	from, version := d.Origin(), d.Version
	have, found := w.next.sources.Of(d.Namespace)
	if found && from.Kind == reflector.RestOfShard {
		if version = have.Version; have.Data.list != nil {
			from.Listed = have.Data.list.Listed
		}
	}
	data := listed{&from, After(have.Data.undecoded, d)}
	w.next.sources = w.next.sources.Set(source{Namespace: d.Namespace, Version: version, Data: data})
	return data.undecoded
}
