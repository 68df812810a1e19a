package informer

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/informer/selections"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
)

// member is the mirror of one selection. While the server refuses it, no wait includes it, and its objects stay.
type member[T object.Object] struct {
	*Mirror[T]
	Part
	since  string                  // what others had reached before the first list; merged.hub's lock protects it
	leaves bool                    // no longer wanted: to be dropped when the others have arrived; merged.mu protects it
	stop   context.CancelCauseFunc // ends its run; nil before
}

// newMemberLocked returns the member for a selection.
func (s *merged[T]) newMemberLocked(part Part) (*member[T], error) {
	config, store := &s.informer.config, NewStore(s.store.same)
	m := &member[T]{Part: part}
	m.Mirror = newMirror(config, config.Kind+part.Text, []Part{part}, s.shard, store, s.hub)
	m.Write = func(batch []reflector.Delta[T], initial bool) error { return s.write(m, batch, initial) }
	m.done = s.settle
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
	}
	return m, err
}

// arrived reports whether the store has the first list of m, or does not wait for it.
func (m *member[T]) arrived() bool { return run.IsClosed(m.Sharding.Begun()) || m.refused.Load() }

// Get implements selections.Part.
func (m *member[T]) Get(key object.Key) (T, bool) { return m.find(m.store.Snapshot(), key) }

// Undecodable implements selections.Part.
func (m *member[T]) Undecodable(obj T) bool { return m.fails(m.store.Snapshot(), obj) }

// All implements selections.Part.
func (m *member[T]) All() iter.Seq[T] { return m.all(m.store.Snapshot()) }

// Version implements selections.Part.
func (m *member[T]) Version() string {
	src, listed := m.store.Snapshot().sources.Of(m.Namespace)
	if !listed {
		return selections.Unlisted
	}
	return src.Version
}

// Frozen implements selections.Part.
func (m *member[T]) Frozen() selections.Part[T] { return frozen[T]{m, m.store.Snapshot()} }

// frozen is a member at one moment.
type frozen[T object.Object] struct {
	*member[T]
	snapshot *Snapshot[T]
}

// Get implements selections.Part.
func (f frozen[T]) Get(key object.Key) (T, bool) { return f.find(f.snapshot, key) }

// Undecodable implements selections.Part.
func (f frozen[T]) Undecodable(obj T) bool { return f.fails(f.snapshot, obj) }

// All implements selections.Part.
func (f frozen[T]) All() iter.Seq[T] { return f.all(f.snapshot) }

// find returns the object of snap with that key, if m has it.
func (m *member[T]) find(snap *Snapshot[T], key object.Key) (obj T, ok bool) {
	if obj, ok = snap.Get(key); ok && m.drops(obj) {
		var none T
		return none, false
	}
	return obj, ok
}

// fails reports whether m should have obj, and its newest version could not be decoded, as of snap. An object of that
// name that m has stays until the newest one can be decoded, whatever its UID.
func (m *member[T]) fails(snap *Snapshot[T], obj T) bool {
	src, _ := snap.sources.Of(m.Namespace)
	failed, ok := src.Data.undecoded.ID(object.KeyOf(obj))
	if !ok || m.drops(obj) || !src.Data.shard().Has(obj) {
		return false
	}
	_, has := snap.Get(object.KeyOf(obj))
	return has || failed.UID == "" || failed.UID == string(obj.GetUID())
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

// want makes the store hold the objects of these selections. Members that are no longer wanted stay until all wanted
// ones have arrived. If a selection is wrong, want returns an error and changes nothing.
func (s *merged[T]) want(wanted []Part) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make([]*member[T], len(wanted))
	var added []*member[T]
	for i, part := range wanted {
		index := slices.IndexFunc(s.members, func(m *member[T]) bool { return m.Part == part })
		if index >= 0 {
			next[i] = s.members[index]
			continue
		}
		m, err := s.newMemberLocked(part)
		if err != nil {
			return err
		}
		next[i] = m
		added = append(added, m)
	}
	for _, m := range s.members {
		if m.leaves = !slices.Contains(wanted, m.Part); m.leaves {
			next = append(next, m)
		}
	}
	s.members = next
	for _, m := range added {
		s.step(func(w *edit[T]) {
			m.since = s.union.Add(m, m.Namespace)
			w.next.sources = w.next.sources.Set(source{Namespace: m.Namespace, Part: m.id()}) // its version is unknown
		})
		if m.since != "" {
			for _, f := range m.Feeds {
				f.Loop.ListSince(m.since) // an older list could have deleted objects
			}
		}
		if s.start != nil {
			s.start(m)
		}
	}
	s.settleLocked()
	return nil
}

// settle checks whether the members have arrived. It must be called when one of them arrives.
func (s *merged[T]) settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settleLocked()
}

// settleLocked drops members that are no longer wanted, if all others have arrived.
func (s *merged[T]) settleLocked() {
	if s.start == nil {
		return
	}
	if slices.ContainsFunc(s.members, func(m *member[T]) bool { return !m.leaves && !m.arrived() }) {
		return
	}
	for _, m := range s.members {
		if m.leaves {
			s.drop(m)
		}
	}
	s.members = slices.DeleteFunc(s.members, func(m *member[T]) bool { return m.leaves })
	if !s.loaded {
		s.loaded = true
		s.hub.Load()
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// errDropped ends a member that is no longer wanted.
var errDropped = errors.New("the selection is no longer wanted")

// drop ends m, and removes what only m has from the store.
func (s *merged[T]) drop(m *member[T]) {
	if m.stop != nil {
		m.stop(errDropped)
	}
	s.step(func(w *edit[T]) {
		had := m.store.Snapshot().List()
		w.next.sources = w.next.sources.Without(m.Namespace, m.id())
		m.Sharding.Note(m.Namespace, math.MaxUint64) // no wait includes it any more
		nothing := []reflector.Delta[T]{{Type: reflector.Replaced, Namespace: m.Namespace}}
		_, _ = m.store.Write(nothing, nil) // nor does an audit or a save
		s.union.Remove(m, had, w)
	})
	run.Signal(s.unclear)
}

// settled reports whether there are exactly the members of the last want, and all of them have arrived. If not, it
// returns a channel that is closed when the answer may have changed. Before and after run, it returns false.
func (s *merged[T]) settled() (ok bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits := func(m *member[T]) bool { return m.leaves || !m.arrived() }
	return s.start != nil && !slices.ContainsFunc(s.members, waits), s.changed
}

// all returns the members, the wanted ones first, in the order of want.
func (s *merged[T]) all() []*member[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.members)
}

// run implements feeder.
func (s *merged[T]) run(ctx context.Context, end context.CancelCauseFunc) error {
	var running sync.WaitGroup
	start := func(m *member[T]) {
		var own context.Context
		own, m.stop = context.WithCancelCause(ctx)
		running.Go(func() {
			if err := m.run(own, m.stop); !errors.Is(err, errDropped) {
				end(err)
			}
		})
	}
	s.mu.Lock()
	s.start = start
	for _, m := range s.members {
		start(m)
	}
	s.settleLocked()
	s.mu.Unlock()
	s.ask(ctx)
	s.mu.Lock()
	s.start = nil
	s.mu.Unlock()
	running.Wait()
	return context.Cause(ctx)
}

const (
	// askAfter is how long to wait before asking the server whether an object that no member has is gone. Members usually
	// know earlier.
	askAfter = time.Second
	// maxQuestions is the maximum number of questions at a time. For more, waiting for the bookmarks of the members, about
	// once a minute, is soon faster.
	maxQuestions = 20
	// askAgainAfter is how long to wait before repeating questions that the server did not answer.
	askAgainAfter = 15 * time.Second
)

// ask asks the server about objects that no member has any more, until ctx ends. Without that, a member without changes
// would learn of their deletion only with its next bookmark, about a minute later.
func (s *merged[T]) ask(ctx context.Context) {
	for {
		select {
		case <-s.unclear:
		case <-ctx.Done():
			return
		}
		if run.Sleep(ctx, askAfter) != nil {
			return
		}
		var questions []selections.Question
		s.look(func() { questions = s.union.Questions(maxQuestions) })
		if len(questions) == maxQuestions {
			run.Signal(s.unclear)
		}
		if s.askEach(ctx, questions) != nil {
			_ = run.Sleep(ctx, askAgainAfter)
			run.Signal(s.unclear)
		}
	}
}

// askEach asks the server. It returns the error of the last question that the server did not answer.
func (s *merged[T]) askEach(ctx context.Context, questions []selections.Question) (last error) {
	for _, q := range questions {
		open := false
		if s.look(func() { open = s.union.Open(q) }); !open {
			continue
		}
		version, err := s.lacked(ctx, q)
		if err != nil {
			last = err
			s.look(func() { s.union.Unanswered(q) })
		} else if version != "" {
			s.step(func(w *edit[T]) { s.union.Lacked(q, version, w) })
		}
	}
	return last
}

// lacked asks the server about q. It returns a version at which no member has the object, or "" if one has.
func (s *merged[T]) lacked(ctx context.Context, q selections.Question) (version string, err error) {
	for _, m := range s.all() {
		if m.Namespace != "" && m.Namespace != q.Key.Namespace || m.refused.Load() {
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
