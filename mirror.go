package informer

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/deliver/fifo"
	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/internal/source/reshard"
	"github.com/typedinformer/informer/internal/source/warmstart"
)

// mirror keeps a store equal to a collection on the API server: reflectors put deltas into a FIFO, and the mirror
// writes them to the store. It is the feeder of a follower whose store is that store.
type mirror[T Object] struct {
	resource   Resource
	config     Config[T]
	store      *Store[T]
	reflectors []*Reflector[T]
	audited    []audit.Source
	fifo       *FIFO[T]
	sharding   *reshard.Rollout
	end        context.CancelCauseFunc // ends run

	hub *deliver.Hub[T]

	drain   fifo.Drain[Delta[T]]                       // moves deltas from fifo to the store, by apply
	write   func(batch []Delta[T], initial bool) error // writes a batch to the store; its additions may be initial
	changes []change[T]                                // scratch memory of write
	done    func()                                     // called when the store has the first list of each namespace
}

// hooks are functions that the reflectors of a mirror call.
type hooks struct {
	resumed func(away time.Duration, unsure bool) // when a watch resumes; see reflector.Config
	waiting func()                                // when the wait after a failure begins
}

// newMirror returns a mirror without reflectors that writes to store and to the backlogs of hub.
func newMirror[T Object](resource Resource, config Config[T], store *Store[T], hub *deliver.Hub[T]) *mirror[T] {
	m := &mirror[T]{
		resource: resource,
		config:   config,
		store:    store,
		fifo:     NewFIFO[T](0),
		sharding: reshard.New(shardset.Shard(resource.Shard).Clone()),
		hub:      hub,
	}
	m.write, m.done = m.writeOwn, hub.Load
	m.drain.Pipe, m.drain.Few, m.drain.Apply = m.fifo.pipe, fewChanges, m.apply
	m.drain.Wait, m.drain.Full = hub.WaitForRoom, hub.Full
	m.drain.Exited = func() { m.end(m.exited()) } // the reflector must not retry then
	return m
}

// reflect makes one reflector for each namespace. It passes packing to newReflector. The reflectors call hooks.
// reflect returns an error if the client, the resource or the config is wrong.
func (m *mirror[T]) reflect(client *Client, packing intake.Packing[T], hooks hooks) error {
	if err := m.resource.validate(); err != nil {
		return err
	}
	for _, namespace := range m.resource.sources() {
		part := m.resource
		if namespace != "" {
			part.Namespaces = []string{namespace}
		}
		r, err := newReflector(client, part, feed[T]{m}, m.config, packing)
		if err != nil {
			return err
		}
		r.loop.Decoder.Own = true // only the reflectors write to the store
		r.loop.Resumed, r.loop.Waiting = hooks.resumed, hooks.waiting
		m.store.values = r.loop.Source.HasValues()
		m.sharding.Add(namespace, r.loop.Shard.Want)
		m.reflectors = append(m.reflectors, r)
		m.audited = append(m.audited, newAudited(client, part, r, m.store))
	}
	if len(m.reflectors) > 1 {
		shareWork(m.reflectors)
	}
	return nil
}

// shareWork makes reflectors share one limit of concurrent decoding, and call one callback of Config at a time.
func shareWork[T Object](reflectors []*Reflector[T]) {
	decoding, calling := run.NewLimit(run.MaxWorkers), run.NewLimit(1)
	for _, r := range reflectors {
		r.loop.Decoder.Decoding, r.loop.Decoder.Calling = decoding, calling
	}
}

// feed is the [Holder] and the batcher that the reflectors feed.
type feed[T Object] struct{ mirror *mirror[T] }

func (f feed[T]) Put(ctx context.Context, d Delta[T]) error { return f.mirror.fifo.Put(ctx, d) }
func (f feed[T]) Get(key Key) (T, bool)                     { return f.mirror.store.Get(key) }
func (f feed[T]) queue(ctx context.Context, d Delta[T]) error {
	return f.mirror.fifo.pipe.Queue(ctx, &d)
}
func (f feed[T]) flush() error                     { return f.mirror.drain.Flush() }
func (f feed[T]) settle(ctx context.Context) error { return f.mirror.drain.Settle(ctx) }

// run implements feeder.
func (m *mirror[T]) run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	m.end = end
	var running sync.WaitGroup
	run := func(do func(context.Context) error) {
		running.Go(func() {
			defer end(m.exited()) // only the first cause counts
			end(do(ctx))
		})
	}
	for _, r := range m.reflectors {
		run(r.Run)
	}
	run(m.drain.Run)
	saver := m.saver()
	if saver != nil {
		running.Go(func() { saver.Run(ctx, m.sharding.Begun()) })
	}
	running.Wait()
	if saver != nil {
		saver.Save(context.WithoutCancel(ctx), true)
	}
	return context.Cause(ctx)
}

// close implements feeder.
func (m *mirror[T]) close() { m.fifo.Close(false) }

// mirrors implements feeder.
func (m *mirror[T]) mirrors() []*mirror[T] { return []*mirror[T]{m} }

// awaited implements feeder.
func (m *mirror[T]) awaited() []*mirror[T] { return m.mirrors() }

// latest implements feeder.
func (m *mirror[T]) latest() Resource {
	r := m.resource
	r.Shard = Shard(m.sharding.Latest().Clone())
	return r
}

// setShard implements feeder.
func (m *mirror[T]) setShard(shard shardset.Shard) { m.sharding.Want(shard) }

// sharded implements feeder.
func (m *mirror[T]) sharded() (ok bool, changed <-chan struct{}) { return m.sharding.Arrived() }

// saver returns the saver of the store. It returns nil without Config.WarmStart.
func (m *mirror[T]) saver() *warmstart.Saver {
	if m.config.WarmStart.Storage == nil {
		return nil
	}
	s := &warmstart.Saver{Interval: m.config.WarmStart.interval(), Content: m.content}
	for _, r := range m.reflectors {
		s.States = append(s.States, r.loop.Saved)
	}
	return s
}

// content returns the content of a namespace of the store to save. It returns false before the first list.
func (m *mirror[T]) content(namespace string) (c warmstart.Content, ok bool) {
	snap := m.store.Snapshot()
	src, ok := snap.sources.Of(namespace)
	if !ok || src.Version == "" || src.Data.list == nil {
		return c, false
	}
	return warmstart.Content{
		Objects: warmstart.Objects(snap.in(namespace)),
		Version: src.Version,
		Shard:   src.Data.shard().String(),
		Listed:  src.Data.list.Listed,
		Stale:   src.Data.undecoded.Len() > 0,
	}, true
}

// fewChanges is the largest number of changes that a reflector applies itself. It leaves more to another goroutine, and
// continues to decode.
const fewChanges = 32

// apply writes a batch of the FIFO to the store. The drain calls it, for one batch at a time.
func (m *mirror[T]) apply(batch []Delta[T]) error {
	for len(batch) > 0 {
		n, initial := m.step(batch)
		if err := m.write(batch[:n], initial); err != nil {
			return fmt.Errorf("%s: %w", m.resource, err)
		}
		m.note(&batch[n-1])
		batch = batch[n:]
	}
	return nil
}

// writeOwn writes a batch to the store and to every backlog.
func (m *mirror[T]) writeOwn(batch []Delta[T], initial bool) (err error) {
	m.changes, err = m.hub.Apply(func() ([]change[T], error) { return m.store.apply(batch, m.changes) }, initial)
	clear(m.changes)
	if m.changes = m.changes[:0]; cap(m.changes) > fifoCapacity {
		m.changes = nil // only a list has that many changes, and lists are rare
	}
	return err
}

// step returns how many deltas of batch to apply in one step, and whether their additions are initial. They are initial
// until the store has the first list of their namespace, or has caught up after a warm start.
func (m *mirror[T]) step(batch []Delta[T]) (n int, initial bool) {
	if run.IsClosed(m.sharding.Begun()) {
		return len(batch), false
	}
	n, initial = 1, !m.sharding.Began(batch[0].Namespace)
	for n < len(batch) && batch[n-1].from == nil && !m.sharding.Began(batch[n].Namespace) == initial {
		n++
	}
	return n, initial
}

// note records the first list and the shard that the store has after d, the last delta of a step.
func (m *mirror[T]) note(d *Delta[T]) {
	from := d.whence()
	if d.Type != Replaced && from.Kind != reflector.CaughtUp || from.Kind == reflector.OlderState {
		return
	}
	if m.sharding.Begin(d.Namespace) {
		m.done()
	}
	m.sharding.Note(d.Namespace, from.Change)
}

// exited returns the error of a goroutine in which a callback called runtime.Goexit.
func (m *mirror[T]) exited() error { return fmt.Errorf("%s: %w", m.resource, run.ErrGoroutineEnded) }
