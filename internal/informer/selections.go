package informer

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/informer/edits"
	"github.com/typedinformer/informer/internal/informer/selections"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
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
	members  *selections.Members[Part, T, *edit[T], *member[T]]
	scratch  []change[T] // of the mirrors; the lock of the hub protects it
	decoding run.Limit
	calling  run.Limit

	sharding sync.Mutex // serializes setShard
	mu       sync.Mutex // protects shard
	shard    shardset.Shard
}

// newMerged returns the feeder of f. It has no members before want.
func newMerged[T object.Object](f *Informer[T]) *merged[T] {
	s := &merged[T]{
		informer: f,
		store:    f.store,
		hub:      f.Hub,
		decoding: run.NewLimit(run.MaxWorkers),
		calling:  run.NewLimit(1),
		shard:    f.config.Shard.Clone(),
	}
	s.members = selections.NewMembers(selections.Config[Part, T, *edit[T], *member[T]]{
		Make:   s.newMember,
		Step:   s.step,
		Loaded: f.Hub.Load,
		Lacked: s.lacked,
	})
	return s
}

// want makes the store hold the objects of these selections.
func (s *merged[T]) want(wanted []Part) error { return s.members.Want(wanted) }

// member is the mirror of one selection. While the server refuses it, no wait includes it, and its objects stay.
type member[T object.Object] struct {
	*Mirror[T]
	Part
}

// newMember returns the member for a selection.
func (s *merged[T]) newMember(part Part) (*member[T], error) {
	s.mu.Lock()
	shard := s.shard
	s.mu.Unlock()
	config, store := &s.informer.config, NewStore(s.store.same)
	m := &member[T]{newMirror(config, config.Kind+part.Text, []Part{part}, shard, store, s.hub), part}
	m.Write = func(batch []reflector.Delta[T], initial bool) error { return s.write(m, batch, initial) }
	m.done = s.members.Settle
	err := m.reflect(s.informer)
	m.shareWork(s.decoding, s.calling)
	for _, f := range m.Feeds {
		f.Loop.Decoder.Held = func(key object.Key) (T, bool) { // an object of several selections is decoded and held once
			if obj, ok := m.get(key); ok {
				return obj, true
			}
			return s.store.Snapshot().Get(key)
		}
		if part.Optional {
			f.Loop.OnFailure = s.refusing(m, f.Loop.OnFailure)
		}
		if highest := s.store.Snapshot().sources.Highest(); highest != "" {
			f.Loop.ListSince(highest) // an older list could have deleted objects
		}
	}
	return m, err
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
		s.members.Refuse(m, w)
		s.members.Reshape(m, m.store.Snapshot().All(), w) // a change of the shard was under way
	})
	m.Sharding.Wake()
	s.members.Settle()
}

// step makes one step of the informer's store.
func (s *merged[T]) step(do func(*edit[T])) {
	_, _ = s.hub.Apply(func() ([]change[T], error) {
		return s.store.merge(nil, func(w *edit[T]) {
			do(w)
			s.claim(w)
		}), nil
	}, false)
}

// look calls do, which only reads the union and the stores, between two steps.
func (s *merged[T]) look(do func()) {
	_, _ = s.hub.Apply(func() ([]change[T], error) { do(); return nil, nil }, false)
}

// write writes a batch of m to its store and to that of the informer, in one step.
func (s *merged[T]) write(m *member[T], batch []reflector.Delta[T], initial bool) error {
	restored := false
	_, err := s.hub.Apply(func() (changes []change[T], err error) {
		if !s.members.Contains(m) { // dropped
			return nil, nil
		}
		before := m.store.Snapshot().ResourceVersion() // empty before the first list
		s.share(batch)
		if s.scratch, err = m.store.Write(batch, s.scratch); err != nil {
			return nil, err
		}
		m.refused.Store(false)
		changes = s.store.merge(nil, func(w *edit[T]) { restored = s.merge(m, before, batch, w) })
		clear(s.scratch)
		if s.scratch = s.scratch[:0]; cap(s.scratch) > maxScratch {
			s.scratch = nil
		}
		return changes, nil
	}, initial && !run.IsClosed(s.hub.Synced()))
	s.members.Changed()
	if restored {
		s.relist()
	}
	return err
}

// errRestored is why the other selections list again when one has found a restored server.
var errRestored = fmt.Errorf("%w, as another selection has found", fetch.ErrWentBack)

// relist makes those members list again that follow a server that was restored.
func (s *merged[T]) relist() {
	var behind []selections.Part[T]
	s.look(func() { behind = s.members.Behind() })
	for _, part := range behind {
		for _, f := range part.(*member[T]).Feeds {
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
			edits.HoldAll(have, d.Items)
		}
	}
}

// merge merges the changes of a write of m into the union. The store of m was at version before. merge returns true if
// others have to list again.
func (s *merged[T]) merge(m *member[T], before string, batch []reflector.Delta[T], w *edit[T]) (restored bool) {
	src, _ := m.store.Snapshot().sources.Of(m.Namespace)
	step := selections.Step[T]{From: before, Changes: func(yield func(selections.Change[T]) bool) {
		for i := range s.scratch {
			c := &s.scratch[i]
			moves := object.IsNil(c.New) && !src.Data.shard().Has(c.Last) // to another shard
			if !yield(selections.Change[T]{Key: c.Key, Old: c.Old, New: c.New, Last: c.Last, Final: c.Final, Unwanted: moves}) {
				return
			}
		}
	}}
	for i := range batch {
		d := &batch[i]
		if d.Type == reflector.Replaced {
			step.Listed = step.Listed || d.Origin().Kind == reflector.WholeShard
			step.Relisted = step.Relisted || d.Restored
			step.WentBack = step.WentBack || d.Restored && d.Version != "" && object.Older(d.Version, before)
		}
		before = cmp.Or(d.Version, before)
	}
	restored = s.members.Update(m, step, w)
	src.Namespace, src.Part = m.Namespace, m.id()
	w.next.sources = w.next.sources.Set(src)
	s.claim(w)
	return restored
}

// claim makes the sources of w claim what the union has of each member.
func (s *merged[T]) claim(w *edit[T]) {
	for p, version := range s.members.Claims {
		m := p.(*member[T])
		w.next.sources = w.next.sources.At(m.Namespace, m.id(), version)
	}
}

// run implements feeder.
func (s *merged[T]) run(ctx context.Context) error { return s.members.Run(ctx) }

// lacked implements selections.Config.
func (s *merged[T]) lacked(ctx context.Context, q selections.Question) (version string, err error) {
	members, _ := s.members.All()
	for _, m := range members {
		if !m.Covers(q.Key.Namespace) || m.refused.Load() {
			continue
		}
		has, loop, shard := false, m.Feeds[0].Loop, m.Sharding.Latest()
		ids := loop.Decoder.Identities(intake.Asked{Shard: shard}, func(object.Key, string, string) { has = true })
		source := loop.Source.Metadata(loop.Decoder.Metadata, q.Key)
		err = run.Apart(func() (err error) { // it calls Config.Filter
			if version == "" {
				listed, err := source.List(ctx, q.Version, 0, ids, shard.String())
				version = listed.Version
				return err
			}
			return source.ListAt(ctx, version, 0, ids, shard.String())
		})
		if err != nil || has {
			return "", err
		}
	}
	return version, nil
}

// close implements feeder.
func (s *merged[T]) close() {
	for _, m := range s.mirrors() {
		m.close()
	}
}

// mirrors implements feeder.
func (s *merged[T]) mirrors() (mirrors []*Mirror[T]) {
	members, _ := s.members.All()
	for _, m := range members {
		mirrors = append(mirrors, m.Mirror)
	}
	return mirrors
}

// awaited implements feeder.
func (s *merged[T]) awaited() (mirrors []*Mirror[T]) {
	members, _ := s.members.All()
	for _, m := range members {
		if !m.refused.Load() {
			mirrors = append(mirrors, m.Mirror)
		}
	}
	return mirrors
}

// latest implements feeder.
func (s *merged[T]) latest() (shardset.Shard, []Part) {
	_, wanted := s.members.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shard.Clone(), wanted
}

// setShard implements feeder.
func (s *merged[T]) setShard(shard shardset.Shard) {
	s.sharding.Lock()
	defer s.sharding.Unlock()
	s.mu.Lock()
	s.shard = shard // for later members
	s.mu.Unlock()
	members, _ := s.members.All()
	for _, m := range members {
		m.setShard(shard)
		s.step(func(w *edit[T]) {
			if m.refused.Load() {
				s.members.Reshape(m, m.store.Snapshot().All(), w)
			}
		})
	}
}

// sharded implements feeder.
func (s *merged[T]) sharded() (ok bool, changed <-chan struct{}) {
	members, _ := s.members.All()
	for _, m := range members {
		if ok, changed := m.sharded(); !ok && !m.refused.Load() {
			return false, changed
		}
	}
	return true, nil
}

// Run implements selections.Member.
func (m *member[T]) Run(ctx context.Context) error { return m.run(ctx) }

// Arrived implements selections.Member.
func (m *member[T]) Arrived() bool { return run.IsClosed(m.Sharding.Begun()) || m.refused.Load() }

// Added implements selections.Member.
func (m *member[T]) Added(w *edit[T]) {
	next := w.next
	next.sources = next.sources.Set(source{Namespace: m.Namespace, Part: m.id()}) // its version is unknown
}

// Dropped implements selections.Member.
func (m *member[T]) Dropped(w *edit[T]) (objects []T) {
	next, had := w.next, m.store.Snapshot()
	next.sources = next.sources.Without(m.Namespace, m.id())
	m.Sharding.Note(m.Namespace, math.MaxUint64) // no wait includes it any more
	nothing := []reflector.Delta[T]{{Type: reflector.Replaced, Namespace: m.Namespace}}
	_, _ = m.store.Write(nothing, nil) // nor does an audit or a save
	return had.List()
}

// Covers implements selections.Part.
func (m *member[T]) Covers(namespace string) bool {
	return m.Namespace == "" || m.Namespace == namespace
}

// Overlaps implements selections.Part.
func (m *member[T]) Overlaps(other selections.Part[T]) bool {
	return m.Covers(cmp.Or(other.(*member[T]).Namespace, m.Namespace))
}

// Get implements selections.Part.
func (m *member[T]) Get(key object.Key) (T, bool) { return m.find(m.store.Snapshot(), key) }

// All implements selections.Part.
func (m *member[T]) All() iter.Seq[T] { return m.all(m.store.Snapshot()) }

// find returns the object of snap with that key, if m has it.
func (m *member[T]) find(snap *Snapshot[T], key object.Key) (obj T, ok bool) {
	if obj, ok = snap.Get(key); ok && m.drops(obj) {
		var none T
		return none, false
	}
	return obj, ok
}

// all yields the objects of snap that m has.
func (m *member[T]) all(snap *Snapshot[T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for obj := range snap.All() {
			if !m.drops(obj) && !yield(obj) {
				return
			}
		}
	}
}

// drops reports whether obj, which the store of m has, has left the shard. A list drops such objects, but the server
// refuses that.
func (m *member[T]) drops(obj T) bool { return m.refused.Load() && !m.Sharding.Latest().Has(obj) }

// Version implements selections.Part.
func (m *member[T]) Version() string {
	src, listed := m.store.Snapshot().sources.Of(m.Namespace)
	if !listed {
		return selections.Unlisted
	}
	return src.Version
}
