package informer

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/informer/edits"
	"github.com/typedinformer/informer/internal/informer/selections"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/reflector"
)

// merged is the feeder of an informer with selections. It has a mirror with its own store for each selection. The store
// of the informer is the union of these stores, which internal/informer/selections computes. One call of the hub's
// Apply applies a step of a mirror to both stores.
//
// Invariant: with the lock of the hub, the union has seen every change of the mirrors' stores.
type merged[T object.Object] struct {
	informer *Informer[T]
	store    *Store[T] // the informer's
	hub      *deliver.Hub[T]
	union    *selections.Union[T] // its parts are members; the lock of the hub protects it
	scratch  []change[T]          // of the mirrors; the lock of the hub protects it
	unclear  chan struct{}        // holds a token if the union may have questions
	decoding run.Limit
	calling  run.Limit

	sharding sync.Mutex // serializes setShard
	mu       sync.Mutex // protects the fields below; taken before the lock of the hub
	shard    shardset.Shard
	members  []*member[T]
	start    func(*member[T]) // runs a member; nil before run and after it
	loaded   bool             // every member has arrived once
	changed  chan struct{}    // closed when a member arrives or is dropped
}

// newMerged returns the feeder of f. It has no members before want.
func newMerged[T object.Object](f *Informer[T]) *merged[T] {
	return &merged[T]{
		informer: f,
		store:    f.store,
		hub:      f.Hub,
		union:    selections.New[T](),
		unclear:  make(chan struct{}, 1),
		decoding: run.NewLimit(run.MaxWorkers),
		calling:  run.NewLimit(1),
		shard:    f.config.Shard.Clone(),
		changed:  make(chan struct{}),
	}
}

// refusing returns a function that reports a failure of m, and notes whether the server refuses m. report may be nil.
func (s *merged[T]) refusing(m *member[T], report func(error)) func(error) {
	return func(err error) {
		if apierrors.IsForbidden(err) {
			s.refuse(m)
		}
		if report != nil {
			report(err)
		}
	}
}

// refuse records that the server refuses m.
func (s *merged[T]) refuse(m *member[T]) {
	s.step(func(w *edit[T]) {
		m.refused.Store(true)
		w.next.sources = w.next.sources.Without(m.Namespace, m.id())
		s.union.Refuse(m, w)
		s.union.Reshape(m, m.store.Snapshot().All(), w) // a change of the shard was under way
	})
	m.Sharding.Wake()
	s.settle()
}

// step makes one step of the informer's store, unless that may have become empty by Retire.
func (s *merged[T]) step(do func(*edit[T])) {
	_, _ = s.hub.Apply(func() ([]change[T], error) {
		if s.informer.Retired() {
			return nil, nil
		}
		return s.store.merge(nil, func(w *edit[T]) {
			do(w)
			s.claim(w)
		}), nil
	}, false)
}

// look calls do, which does not change what the union has, between two steps.
func (s *merged[T]) look(do func()) {
	_, _ = s.hub.Apply(func() ([]change[T], error) { do(); return nil, nil }, false)
}

// write writes a batch of m to its store and to that of the informer, in one step.
func (s *merged[T]) write(m *member[T], batch []reflector.Delta[T], initial bool) error {
	restored := false
	_, err := s.hub.Apply(func() (changes []change[T], err error) {
		if !s.union.Contains(m) { // dropped
			return nil, nil
		}
		had := m.store.Snapshot()
		s.share(batch)
		if s.scratch, err = m.store.Write(batch, s.scratch); err != nil {
			return nil, err
		}
		m.refused.Store(false)
		changes = s.store.merge(nil, func(w *edit[T]) { restored = s.merge(m, had, batch, w) })
		clear(s.scratch)
		if s.scratch = s.scratch[:0]; cap(s.scratch) > maxScratch {
			s.scratch = nil
		}
		return changes, nil
	}, initial && !run.IsClosed(s.hub.Synced()))
	run.Signal(s.unclear)
	if restored {
		s.relist()
	}
	return err
}

// errRestored is why the other selections list again when one has found a restored server.
var errRestored = fmt.Errorf("%w, as another selection has found", fetch.ErrWentBack)

// relist makes those members list again that follow a server that was restored.
func (s *merged[T]) relist() {
	members := s.all()
	s.look(func() {
		members = slices.DeleteFunc(members, func(m *member[T]) bool { return !s.union.IsBehind(m) })
	})
	for _, m := range members {
		for _, f := range m.Feeds {
			f.Loop.Relist(errRestored)
		}
	}
}

// share replaces the objects of batch by those of the store that are the same versions, so that they are held once.
func (s *merged[T]) share(batch []reflector.Delta[T]) {
	have := &s.store.Snapshot().version
	for i := range batch {
		if d := &batch[i]; d.Type == reflector.Upserted {
			d.Object = edits.Held(have, d.Object)
		} else if !d.Restored { // otherwise, the same version can have other content
			d.Items = edits.HoldAll(have, d.Items)
		}
	}
}

// merge merges the changes of a write of m into the union. The store of m had those objects before. merge returns true
// if others have to list again.
func (s *merged[T]) merge(m *member[T], had *Snapshot[T], batch []reflector.Delta[T], w *edit[T]) (restored bool) {
	src, _ := m.store.Snapshot().sources.Of(m.Namespace)
	before := had.ResourceVersion() // empty before the first list
	step := selections.Step[T]{From: before, Changes: func(yield func(selections.Change[T]) bool) {
		for i := range s.scratch {
			c := &s.scratch[i]
			moves := object.IsNil(c.New) && !src.Data.shard().Has(c.Last) // to another shard
			if !yield(selections.Change[T]{Key: c.Key, Old: c.Old, New: c.New, Last: c.Last, Final: c.Final, Unwanted: moves}) {
				return
			}
		}
		old, _ := had.sources.Of(m.Namespace)
		s.lost(m, old.Data.undecoded, batch)(yield)
	}}
	for i := range batch {
		d := &batch[i]
		if d.Type == reflector.Replaced {
			step.Replaced = true
			listed := d.Origin().Kind == reflector.WholeShard
			step.Listed = step.Listed || listed
			step.Widened = step.Widened || widened(had, src)
			step.Relisted = step.Relisted || d.Restored
			step.WentBack = step.WentBack || d.Restored && d.Version != "" && object.Older(d.Version, before)
			if listed { // the first list can find the restored server, too
				step.WentBack = step.WentBack || d.Version != "" && object.Older(d.Version, m.since)
				m.since = ""
			}
		}
		before = cmp.Or(d.Version, before)
	}
	restored = s.union.Update(m, step, w)
	src.Namespace, src.Part = m.Namespace, m.id()
	w.next.sources = w.next.sources.Set(src)
	s.claim(w)
	return restored
}

// lost yields the versions that have left in batch and that could not be decoded, of objects that m does not have.
// failed are those before batch.
func (s *merged[T]) lost(m *member[T], failed Undecoded, batch []reflector.Delta[T]) iter.Seq[selections.Change[T]] {
	return func(yield func(selections.Change[T]) bool) {
		after, snap := failed, m.store.Snapshot()
		has := func(key object.Key) bool { _, ok := snap.Get(key); return ok }
		for i := range batch {
			d, before := &batch[i], after
			if after = After(before, d); before.Set == nil { // the common case
				continue
			}
			switch d.Type {
			case reflector.Removed:
				key := d.RemovedKey()
				if before.Has(key) && !s.removed(key) && !yield(selections.Change[T]{Key: key, Lost: true, At: d.Version}) {
					return
				}
			case reflector.Replaced:
				for key := range before.In("") {
					if !after.Has(key) && !has(key) && !s.removed(key) && !yield(selections.Change[T]{Key: key, Lost: true}) {
						return
					}
				}
			}
		}
	}
}

// removed reports whether the write of a member has removed the object with that key.
func (s *merged[T]) removed(key object.Key) bool {
	return slices.ContainsFunc(s.scratch, func(c change[T]) bool { return c.Key == key && object.IsNil(c.New) })
}

// widened reports whether now has objects of hashes that had, which has listed, lacks.
func widened[T object.Object](had *Snapshot[T], now source) bool {
	old, listed := had.sources.Of(now.Namespace)
	_, lacks, _ := now.Data.shard().Rest(old.Data.shard())
	return listed && lacks
}

// claim makes the sources of w claim what the union has of each member.
func (s *merged[T]) claim(w *edit[T]) {
	for p, version := range s.union.Claims {
		m := p.(*member[T])
		w.next.sources = w.next.sources.At(m.Namespace, m.id(), version)
	}
}

// close implements feeder.
func (s *merged[T]) close() {
	for _, m := range s.mirrors() {
		m.close()
	}
}

// mirrors implements feeder.
func (s *merged[T]) mirrors() (mirrors []*Mirror[T]) {
	for _, m := range s.all() {
		mirrors = append(mirrors, m.Mirror)
	}
	return mirrors
}

// awaited implements feeder.
func (s *merged[T]) awaited() (mirrors []*Mirror[T]) {
	for _, m := range s.all() {
		if !m.refused.Load() {
			mirrors = append(mirrors, m.Mirror)
		}
	}
	return mirrors
}

// lacking implements feeder. The server refuses the selections of these namespaces, and has not listed them before.
func (s *merged[T]) lacking() (namespaces []string) {
	for _, m := range s.all() {
		if m.refused.Load() && !run.IsClosed(m.Sharding.Begun()) {
			namespaces = append(namespaces, m.Namespace)
		}
	}
	return namespaces
}

// latest implements feeder.
func (s *merged[T]) latest() (shardset.Shard, []Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var wanted []Part
	for _, m := range s.members {
		if !m.leaves {
			wanted = append(wanted, m.Part)
		}
	}
	return s.shard.Clone(), wanted
}

// setShard implements feeder.
func (s *merged[T]) setShard(shard shardset.Shard) {
	s.sharding.Lock()
	defer s.sharding.Unlock()
	s.mu.Lock()
	s.shard = shard // for later members
	s.mu.Unlock()
	for _, m := range s.all() {
		m.setShard(shard)
		s.step(func(w *edit[T]) {
			if m.refused.Load() {
				s.union.Reshape(m, m.store.Snapshot().All(), w)
			}
		})
	}
}

// sharded implements feeder.
func (s *merged[T]) sharded() (ok bool, changed <-chan struct{}) {
	for _, m := range s.all() {
		if ok, changed := m.sharded(); !ok && !m.refused.Load() {
			return false, changed
		}
	}
	return true, nil
}
