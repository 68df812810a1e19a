package informer

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/intake"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/sources"
	"github.com/typedinformer/informer/internal/union"
)

// selections is the feeder of a follower whose resource has Selections. It has a mirror for each of them, with a store
// of its own, and the store of the follower has what at least one of these stores has, as the room internal/union
// decides. Each step of a mirror is one call of the hub's Apply, for the mirror's store and the follower's. What
// belongs to the union belongs to the lock of the hub.
type selections[T Object] struct {
	client   *Client
	resource Resource
	config   Config[T]
	store    *Store[T]
	hub      *deliver.Hub[T]
	resumed  func(away time.Duration) // that of each reflector
	packing  intake.Packing[T]
	members  *union.Members[Selection, T]
	scratch  []change[T] // of the mirrors; belongs to the lock of the hub
	decoding run.Limit
	calling  run.Limit

	mu    sync.Mutex // protects shard
	shard Shard
}

// newSelections returns a feeder of store and hub. It has no members before want.
func newSelections[T Object](client *Client, resource Resource, config Config[T], packing intake.Packing[T],
	store *Store[T], hub *deliver.Hub[T], resumed func(away time.Duration)) *selections[T] {
	s := &selections[T]{
		client:   client,
		resource: resource,
		config:   config,
		store:    store,
		hub:      hub,
		resumed:  resumed,
		packing:  packing,
		decoding: run.NewLimit(run.MaxWorkers),
		calling:  run.NewLimit(1),
		shard:    resource.Shard.clone(),
	}
	s.members = union.NewMembers(union.Config[Selection, T]{
		Make:   s.newMember,
		Step:   func(do func(union.Content[T])) { s.step(false, func(c content[T]) { do(c) }) },
		Loaded: hub.Load,
		Lacked: s.lacked,
	})
	return s
}

// want makes the store have these selections.
func (s *selections[T]) want(wanted []Selection) error {
	r := s.resource
	r.Selections = wanted
	if err := r.validate(); err != nil {
		return err
	}
	return s.members.Want(wanted)
}

// member is the mirror of one selection.
type member[T Object] struct {
	*mirror[T]
	Selection
	refused atomic.Bool // the server refuses the selection, which is optional
}

// newMember returns the member for a selection.
func (s *selections[T]) newMember(of Selection) (union.Member[T], error) {
	m := &member[T]{Selection: of}
	resource, config := s.resource.part(of), s.config
	s.mu.Lock()
	resource.Shard = s.shard
	s.mu.Unlock()
	if report := config.OnFailure; of.Optional {
		config.OnFailure = func(err error) {
			if apierrors.IsForbidden(err) {
				s.refuse(m)
			}
			if report != nil {
				report(err)
			}
		}
	}
	store, _ := NewStore[T]()
	store.same = s.packing.SameContent
	m.mirror = newMirror(resource, config, store, s.hub)
	m.write = func(batch []Delta[T], initial bool) error { return s.write(m, batch, initial) }
	m.done = s.members.Settle
	err := m.reflect(s.client, s.packing, s.resumed)
	for _, r := range m.reflectors {
		r.decoder.Decoding, r.decoder.Calling = s.decoding, s.calling
	}
	return m, err
}

// refuse notes that the server refuses m, which then counts as empty.
func (s *selections[T]) refuse(m *member[T]) {
	if run.IsClosed(m.whole) || m.refused.Swap(true) {
		return
	}
	s.step(false, func(c content[T]) { s.members.Advanced(m, c) })
	s.members.Settle()
}

// step makes one step of the follower's store.
func (s *selections[T]) step(initial bool, do func(content[T])) {
	_, _ = s.hub.Apply(func() ([]change[T], error) {
		return s.store.merge(nil, func(w *edit[T]) { do(content[T]{w}) }), nil
	}, initial)
}

// write writes a batch of m to its store and to that of the follower, in one step.
func (s *selections[T]) write(m *member[T], batch []Delta[T], initial bool) error {
	_, err := s.hub.Apply(func() (changes []change[T], err error) {
		if !s.members.Contains(m) { // dropped
			return nil, nil
		}
		m.refused.Store(false)
		if s.scratch, err = m.store.apply(batch, s.scratch); err != nil {
			return nil, err
		}
		changes = s.store.merge(nil, func(w *edit[T]) { s.merge(m, batch, content[T]{w}) })
		clear(s.scratch)
		s.scratch = s.scratch[:0]
		return changes, nil
	}, initial && !run.IsClosed(s.hub.Synced()))
	s.members.Changed()
	return err
}

// merge merges what a batch of m has changed in its store.
func (s *selections[T]) merge(m *member[T], batch []Delta[T], c content[T]) {
	var none T
	snap := m.store.Snapshot()
	for i := range s.scratch {
		switch change := &s.scratch[i]; {
		case change.New != none:
			s.members.Entered(change.Old, change.New, c)
		case change.Deleted:
			s.members.Left(change.Key, snap.ResourceVersion(), change.Last, change.Final, c)
		}
	}
	if slices.ContainsFunc(batch, func(d Delta[T]) bool { return d.Type == Replaced && d.Restored }) {
		s.members.Restored(m, snap.All(), c)
	}
	s.members.Advanced(m, c)
	for _, src := range snap.sources {
		src.Part = m.part()
		c.edit.next.sources = c.edit.next.sources.Set(src)
	}
}

// run implements feeder.
func (s *selections[T]) run(ctx context.Context) error { return s.members.Run(ctx) }

// lacked implements union.Config.
func (s *selections[T]) lacked(ctx context.Context, q union.Question) (version string) {
	for _, m := range s.mirrors() {
		r := m.reflectors[0]
		if ns := r.decoder.Namespace; ns != "" && ns != q.Key.Namespace {
			continue
		}
		has := false
		ids := r.decoder.Identities(asked(Shard{}, false), func(Key, string, string) { has = true })
		source := newMetadataSource(s.client, m.resource, r, q.Key)
		var err error
		if version == "" {
			version, err = source.List(ctx, q.Version, 0, ids, "")
		} else {
			err = source.ListAt(ctx, version, 0, ids, "")
		}
		if err != nil || has {
			return ""
		}
	}
	return version
}

// close implements feeder.
func (s *selections[T]) close() {
	for _, m := range s.mirrors() {
		m.close()
	}
}

// mirrors implements feeder.
func (s *selections[T]) mirrors() (mirrors []*mirror[T]) {
	members, _ := s.members.All()
	for _, m := range members {
		mirrors = append(mirrors, m.(*member[T]).mirror)
	}
	return mirrors
}

// latest implements feeder.
func (s *selections[T]) latest() Resource {
	r := s.resource
	_, r.Selections = s.members.All()
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Shard = s.shard.clone()
	return r
}

// setShard implements feeder.
func (s *selections[T]) setShard(shard Shard) {
	s.mu.Lock()
	s.shard = shard // for members to come
	s.mu.Unlock()
	for _, m := range s.mirrors() {
		m.setShard(shard)
	}
}

// sharded implements feeder.
func (s *selections[T]) sharded() (ok bool, changed <-chan struct{}) {
	for _, m := range s.mirrors() {
		if ok, changed := m.sharded(); !ok {
			return false, changed
		}
	}
	return true, nil
}

// Run implements union.Member.
func (m *member[T]) Run(ctx context.Context) error { return m.run(ctx) }

// Arrived implements union.Member.
func (m *member[T]) Arrived() bool { return run.IsClosed(m.whole) || m.refused.Load() }

// Dropped implements union.Member.
func (m *member[T]) Dropped(c union.Content[T]) (objects []T, version string) {
	m.sharding.Note(m.Namespace, math.MaxUint64) // nobody has to wait for it
	next := c.(content[T]).edit.next
	next.sources = next.sources.Without(m.Namespace, m.part())
	had := m.store.Snapshot()
	return had.List(), had.ResourceVersion()
}

// Covers implements union.Part.
func (m *member[T]) Covers(namespace string) bool {
	return (m.Namespace == "" || m.Namespace == namespace) && !m.refused.Load()
}

// Has implements union.Part.
func (m *member[T]) Has(key Key) bool { return m.store.Snapshot().version.Has(key) }

// Knows implements union.Part. A mirror without a version has everything: its resource is absent, or the server sends
// no versions.
func (m *member[T]) Knows(version string) bool {
	src, listed := m.store.Snapshot().sources.Of(m.Namespace)
	return listed && (src.Version == "" || !sources.Older(src.Version, version))
}

// content is the content of the follower's store while an edit is under way. It implements [union.Content].
type content[T Object] struct{ edit *edit[T] }

// Get implements union.Content.
func (c content[T]) Get(key Key) (T, bool) {
	_, obj, ok := c.edit.next.version.Find(key)
	return obj, ok
}

// Put implements union.Content.
func (c content[T]) Put(obj T) {
	key := KeyOf(obj)
	slot, old, ok := c.edit.next.version.Find(key)
	switch {
	case !ok:
		c.edit.table.Add(key, obj)
		c.edit.note(change[T]{Key: key, New: obj, Added: true})
	case old != obj:
		c.edit.table.Update(slot, obj)
		c.edit.note(replaced(key, old, obj))
	}
}

// Remove implements union.Content.
func (c content[T]) Remove(key Key, last T, final bool) {
	slot, old, ok := c.edit.next.version.Find(key)
	if !ok {
		return
	}
	gone := change[T]{Key: c.edit.table.Remove(slot), Old: old, Last: old, Deleted: true}
	if final && last.GetUID() == old.GetUID() {
		gone.Last, gone.Final = last, true
	}
	c.edit.note(gone)
}
