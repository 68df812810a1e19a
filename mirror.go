package informer

import (
	"context"
	"fmt"
	"runtime/pprof"
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

// mirror keeps a store equal to a collection on the API server: reflectors put deltas into a pipe, and the mirror
// writes them to the store. It is the feeder of a follower whose store is that store.
type mirror[T Object] struct {
	resource Resource
	config   Config[T]
	store    *Store[T]
	feeds    []*feed[T] // one for each namespace
	pipe     *fifo.Pipe[reflector.Delta[T]]
	sharding *reshard.Rollout
	end      context.CancelCauseFunc // ends run

	hub *deliver.Hub[T]

	drain fifo.Drain[reflector.Delta[T]] // moves deltas from pipe to the store, by apply
	// write writes a batch to the store; its additions may be initial
	write   func(batch []reflector.Delta[T], initial bool) error
	changes []change[T] // scratch memory of write
	done    func()      // called when the store has the first list of each namespace
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
		pipe:     fifo.New(fifoCapacity, (*reflector.Delta[T]).Alone),
		sharding: reshard.New(shardset.Shard(resource.Shard).Clone()),
		hub:      hub,
	}
	m.write, m.done = m.writeOwn, hub.Load
	m.drain.Pipe, m.drain.Few, m.drain.Apply = m.pipe, fewChanges, m.apply
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
		f := &feed[T]{resource: part, mirror: m}
		loop, err := newLoop(client, part, m.config, packing, f, m.store.Get)
		if err != nil {
			return err
		}
		f.loop = loop
		loop.Decoder.Own = true // only the feeds write to the store
		loop.Resumed, loop.Waiting = hooks.resumed, hooks.waiting
		m.store.values = loop.Source.HasValues()
		m.sharding.Add(namespace, loop.Shard.Want)
		f.audited = newAudited(client, part, loop, m.store)
		m.feeds = append(m.feeds, f)
	}
	if len(m.feeds) > 1 {
		m.shareWork(run.NewLimit(run.MaxWorkers), run.NewLimit(1))
	}
	return nil
}

// shareWork makes the feeds share limits of concurrent decoding, and of calls of functions of Config.
func (m *mirror[T]) shareWork(decoding, calling run.Limit) {
	for _, f := range m.feeds {
		f.loop.Decoder.Decoding, f.loop.Decoder.Calling = decoding, calling
	}
}

// feed is a reflector of a mirror, which reads one namespace or all, and its sink: it puts deltas into the pipe of the
// mirror.
type feed[T Object] struct {
	resource  Resource
	mirror    *mirror[T]
	loop      *reflector.Loop[T]
	audited   audit.Source
	undecoded undecodable // as of the last delta
}

// run lists and watches until ctx ends.
func (f *feed[T]) run(ctx context.Context) (err error) {
	pprof.Do(ctx, pprof.Labels("informer", f.resource.String()), func(ctx context.Context) { err = f.loop.Run(ctx) })
	return err
}

// Put implements reflector.Sink.
func (f *feed[T]) Put(ctx context.Context, d reflector.Delta[T]) (err error) {
	if d.Type == reflector.Replaced {
		err = f.mirror.pipe.Put(ctx, &d)
	} else {
		err = f.mirror.pipe.Queue(ctx, &d)
	}
	if err == nil {
		f.undecoded = undecodableAfter(f.undecoded, &d)
	}
	return err
}

// Flush implements reflector.Sink.
func (f *feed[T]) Flush() error { return f.mirror.drain.Flush() }

// Held implements reflector.Sink.
func (f *feed[T]) Held(ctx context.Context, key Key) (version string, ok bool, err error) {
	if err := f.mirror.drain.Settle(ctx); err != nil {
		return "", false, err
	}
	if obj, has := f.mirror.store.Get(key); has {
		version = obj.GetResourceVersion()
	}
	return version, true, nil
}

// Stale implements reflector.Sink.
func (f *feed[T]) Stale() int { return f.undecoded.Len() }

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
	for _, f := range m.feeds {
		run(f.run)
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
func (m *mirror[T]) close() { m.pipe.Close(false) }

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
	for _, f := range m.feeds {
		s.States = append(s.States, f.loop.Saved)
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

// apply writes a batch of the pipe to the store. The drain calls it, for one batch at a time.
func (m *mirror[T]) apply(batch []reflector.Delta[T]) error {
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
func (m *mirror[T]) writeOwn(batch []reflector.Delta[T], initial bool) (err error) {
	m.changes, err = m.hub.Apply(func() ([]change[T], error) { return m.store.apply(batch, m.changes) }, initial)
	clear(m.changes)
	if m.changes = m.changes[:0]; cap(m.changes) > fifoCapacity {
		m.changes = nil // only a list has that many changes, and lists are rare
	}
	return err
}

// step returns how many deltas of batch to apply in one step, and whether their additions are initial. They are initial
// until the store has the first list of their namespace, or has caught up after a warm start.
func (m *mirror[T]) step(batch []reflector.Delta[T]) (n int, initial bool) {
	if run.IsClosed(m.sharding.Begun()) {
		return len(batch), false
	}
	n, initial = 1, !m.sharding.Began(batch[0].Namespace)
	for n < len(batch) && batch[n-1].From == nil && !m.sharding.Began(batch[n].Namespace) == initial {
		n++
	}
	return n, initial
}

// note records the first list and the shard that the store has after d, the last delta of a step.
func (m *mirror[T]) note(d *reflector.Delta[T]) {
	from := d.Origin()
	if d.Type != reflector.Replaced && from.Kind != reflector.CaughtUp || from.Kind == reflector.OlderState {
		return
	}
	if m.sharding.Begin(d.Namespace) {
		m.done()
	}
	m.sharding.Note(d.Namespace, from.Change)
}

// exited returns the error of a goroutine in which a callback called runtime.Goexit.
func (m *mirror[T]) exited() error { return fmt.Errorf("%s: %w", m.resource, run.ErrGoroutineEnded) }
