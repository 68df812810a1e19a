package informer

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/deliver/fifo"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/source/reshard"
	"github.com/typedinformer/informer/internal/source/warmstart"
)

// Mirror keeps a store equal to a collection on the API server, or to some parts of it: the reflectors of its feeds put
// deltas into a buffer, and the mirror writes them to the store. It is the feeder of an informer whose store is that
// store.
type Mirror[T object.Object] struct {
	config   *Config[T]
	name     string // of the collection
	parts    []Part
	shard    shardset.Shard // at the beginning
	store    *Store[T]
	hub      *deliver.Hub[T]
	Feeds    []*Feed[T] // one for each part
	Sharding *reshard.Progress
	end      context.CancelCauseFunc // ends run
	refused  atomic.Bool             // the server refuses this optional selection; see member

	Buffer *fifo.Buffer[reflector.Delta[T]]
	Drain  fifo.Drain[reflector.Delta[T]] // moves deltas from buffer to the store, by apply
	// Write writes a batch to the store; its additions may be initial. The mirror of a selection writes to two stores.
	Write   func(batch []reflector.Delta[T], initial bool) error
	changes []change[T] // scratch memory of Write
	done    func()      // called when the store has the first list of each part
}

// newMirror returns a mirror without feeds that writes to store and to the backlogs of hub.
func newMirror[T object.Object](config *Config[T], name string, parts []Part, shard shardset.Shard, store *Store[T],
	hub *deliver.Hub[T]) *Mirror[T] {
	m := &Mirror[T]{
		config:   config,
		name:     name,
		parts:    parts,
		shard:    shard,
		store:    store,
		hub:      hub,
		Sharding: reshard.New(shard.Clone()),
	}
	m.Write, m.done = m.writeOwn, hub.Load
	m.Drain.Few, m.Drain.Apply = fewChanges, m.apply
	m.Drain.Wait, m.Drain.Full = hub.WaitForRoom, hub.Full
	m.Drain.Exited = func() { m.end(m.exited()) } // the reflector must not retry then
	m.Bound(pipeCapacity)
	return m
}

// pipeCapacity is about a second of a busy cluster's changes, and some 10 MB with objects of 10 kB.
const pipeCapacity = 1024

// Bound makes an empty mirror hold up to capacity deltas that the store does not have yet.
func (m *Mirror[T]) Bound(capacity int) {
	m.Buffer = fifo.New(capacity, (*reflector.Delta[T]).Alone)
	m.Drain.Buffer = m.Buffer
}

// reflect makes a feed for each part, which reports to f. It returns an error if one has a wrong configuration.
func (m *Mirror[T]) reflect(f *Informer[T]) error {
	for _, part := range m.parts {
		feed := &Feed[T]{mirror: m, part: part}
		loop, err := m.config.Reflect(part, m.shard, feed, m.get)
		if err != nil {
			return err
		}
		feed.Loop = loop
		loop.Decoder.Own = true // only the feeds write to the store
		loop.Resumed, loop.Waiting = f.audits.Resumed, f.waiting.Send
		m.store.values = loop.Source.HasValues()
		m.Sharding.Add(part.Namespace, loop.Shard.Want)
		m.Feeds = append(m.Feeds, feed)
	}
	if len(m.Feeds) > 1 {
		m.shareWork(run.NewLimit(run.MaxWorkers), run.NewLimit(1))
	}
	return nil
}

// shareWork makes the feeds share limits of concurrent decoding, and of calls of functions of the program.
func (m *Mirror[T]) shareWork(decoding, calling run.Limit) {
	for _, f := range m.Feeds {
		f.Loop.Decoder.Decoding, f.Loop.Decoder.Calling = decoding, calling
	}
}

// get returns the object of the store with that key.
func (m *Mirror[T]) get(key object.Key) (T, bool) { return m.store.Snapshot().Get(key) }

// run implements feeder.
func (m *Mirror[T]) run(ctx context.Context, end context.CancelCauseFunc) error {
	m.end = end
	ended := func(err error) { // only the first cause counts
		if err == run.ErrGoroutineEnded {
			err = m.exited()
		}
		end(err)
	}
	var running sync.WaitGroup
	for _, f := range m.Feeds {
		running.Add(1)
		f.start(ctx, func(err error) {
			ended(err)
			running.Done()
		})
	}
	saver := m.Saver()
	if saver != nil {
		running.Go(func() { saver.Run(ctx, m.Sharding.Begun()) })
	}
	ended(m.Drain.Run(ctx))
	running.Wait()
	if saver != nil {
		saver.Save(context.WithoutCancel(ctx), true)
	}
	return context.Cause(ctx)
}

// close implements feeder.
func (m *Mirror[T]) close() { m.Buffer.Close(false) }

// mirrors implements feeder.
func (m *Mirror[T]) mirrors() []*Mirror[T] { return []*Mirror[T]{m} }

// awaited implements feeder.
func (m *Mirror[T]) awaited() []*Mirror[T] { return m.mirrors() }

// latest implements feeder.
func (m *Mirror[T]) latest() (shardset.Shard, []Part) { return m.Sharding.Latest().Clone(), m.parts }

// lacking implements feeder.
func (m *Mirror[T]) lacking() []string { return nil }

// setShard implements feeder.
func (m *Mirror[T]) setShard(shard shardset.Shard) { m.Sharding.Want(shard) }

// sharded implements feeder.
func (m *Mirror[T]) sharded() (ok bool, changed <-chan struct{}) { return m.Sharding.Arrived() }

// Saver returns the saver of the store. It returns nil without a warm start.
func (m *Mirror[T]) Saver() *warmstart.Saver {
	if m.config.SaveEvery == 0 {
		return nil
	}
	s := &warmstart.Saver{Interval: m.config.SaveEvery, Content: m.content}
	for _, f := range m.Feeds {
		s.States = append(s.States, f.Loop.Saved)
	}
	return s
}

// content returns the content of a namespace of the store to save. It returns false before the first list.
func (m *Mirror[T]) content(namespace string) (c warmstart.Content, ok bool) {
	snap := m.store.Snapshot()
	src, ok := snap.sources.Of(namespace)
	if !ok || src.Version == "" || src.Data.list == nil {
		return c, false
	}
	return warmstart.Content{
		Objects: warmstart.Objects(snap.In(namespace)),
		Version: src.Version,
		Shard:   src.Data.shard().String(),
		Listed:  src.Data.list.Listed,
		Stale:   src.Data.undecoded.Len() > 0,
	}, true
}

// fewChanges is the largest number of changes that a reflector applies itself. It leaves more to another goroutine, and
// continues to decode.
const fewChanges = 32

// apply writes a batch of the buffer to the store. The drain calls it, for one batch at a time.
func (m *Mirror[T]) apply(batch []reflector.Delta[T]) error {
	for len(batch) > 0 {
		n, initial := m.step(batch)
		if err := m.Write(batch[:n], initial); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		m.note(&batch[n-1])
		batch = batch[n:]
	}
	return nil
}

// writeOwn writes a batch to the store and to every backlog.
func (m *Mirror[T]) writeOwn(batch []reflector.Delta[T], initial bool) (err error) {
	m.changes, err = m.hub.Apply(func() ([]change[T], error) { return m.store.Write(batch, m.changes) }, initial)
	clear(m.changes)
	if m.changes = m.changes[:0]; cap(m.changes) > maxScratch {
		m.changes = nil
	}
	return err
}

// step returns how many deltas of batch to apply in one step, and whether their additions are initial. They are initial
// until the store has the first list of their namespace, or has caught up after a warm start.
func (m *Mirror[T]) step(batch []reflector.Delta[T]) (n int, initial bool) {
	if run.IsClosed(m.Sharding.Begun()) {
		return len(batch), false
	}
	n, initial = 1, !m.Sharding.Began(batch[0].Namespace)
	for n < len(batch) && batch[n-1].From == nil && !m.Sharding.Began(batch[n].Namespace) == initial {
		n++
	}
	return n, initial
}

// note records the first list and the shard that the store has after d, the last delta of a step.
func (m *Mirror[T]) note(d *reflector.Delta[T]) {
	from := d.Origin()
	if d.Type != reflector.Replaced && from.Kind != reflector.CaughtUp || from.Kind == reflector.OlderState {
		return
	}
	if m.Sharding.Begin(d.Namespace) {
		m.done()
	}
	m.Sharding.Note(d.Namespace, from.Change)
}

// exited returns the error of a goroutine in which a callback called runtime.Goexit.
func (m *Mirror[T]) exited() error { return fmt.Errorf("%s: %w", m.name, run.ErrGoroutineEnded) }
