package informer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/run"
)

// follower is the engine of an [Informer]. It keeps a store equal to a collection on the API server: reflectors put
// deltas into a FIFO, and the follower writes them to the store and to the backlog of each handler.
type follower[T Object] struct {
	resource   Resource
	config     Config[T]
	invalid    error // the reason why New rejected its arguments; nil if it did not
	store      *Store[T]
	memory     memoryEstimate[T]
	packing    packing[T] // that of newReflector
	reflectors []*Reflector[T]
	fifo       *FIFO[T]
	hub        *deliver.Hub[T]
	end        context.CancelCauseFunc // ends run

	// A goroutine holds applying while it moves deltas from fifo to the store and to every backlog. Two goroutines apply
	// deltas: that of apply, and that of a reflector in flush. The lock keeps the deltas in order.
	applying sync.Mutex
	// applying also protects the fields below.
	full    bool            // a listener has no room; apply waits for it
	past    map[string]bool // the namespaces that have objects of a saved state, and not yet every change since
	batch   []Delta[T]      // scratch memory
	changes []change[T]     // scratch memory

	mu      sync.Mutex // protects the fields below
	started bool
	listed  map[string]bool // the namespaces whose first list is in the store
	shard   Shard
	wanted  map[string]uint64 // by namespace: the number of the latest change of the shard
	sharded map[string]uint64 // by namespace: the number of the change that the store has
	changed chan struct{}     // closed when sharded changes
}

// newFollower returns a follower that holds a T for each object. packing is that of newReflector. If invalid is not
// nil, the follower is invalid for that reason.
func newFollower[T Object](client *Client, resource Resource, config Config[T], packing packing[T],
	invalid error) *follower[T] {
	store, _ := NewStore[T]()
	f := &follower[T]{
		resource: resource,
		config:   config,
		packing:  packing,
		fifo:     NewFIFO[T](0),
		store:    store,
		hub:      newHub(resource, store),
		listed:   map[string]bool{},
		shard:    resource.Shard.clone(),
		wanted:   map[string]uint64{},
		sharded:  map[string]uint64{},
		changed:  make(chan struct{}),
	}
	f.hub.Unsynced, f.hub.Report, f.hub.Slow = f.unsynced, f.report, f.reportSlow
	if f.invalid = invalid; invalid == nil {
		f.invalid = f.makeReflectors(client)
	}
	if f.invalid != nil {
		f.hub.Stop(f.invalid)
	}
	return f
}

// makeReflectors makes one reflector for each namespace. It returns an error if the client, the resource or the config
// is wrong.
func (f *follower[T]) makeReflectors(client *Client) error {
	if err := f.resource.validate(); err != nil {
		return err
	}
	for _, namespace := range f.resource.sources() {
		part := f.resource
		if namespace != "" {
			part.Namespaces = []string{namespace}
		}
		r, err := newReflector(client, part, feed[T]{f}, f.config, f.packing)
		if err != nil {
			return err
		}
		r.decoder.own = true // only the reflectors write to the store
		f.reflectors = append(f.reflectors, r)
	}
	if len(f.reflectors) > 1 {
		decoding, calling := run.NewLimit(run.MaxWorkers), run.NewLimit(1)
		for _, r := range f.reflectors {
			r.decoder.decoding, r.decoder.calling = decoding, calling
		}
	}
	return nil
}

// feed is the [Holder] and the batcher that the reflectors feed.
type feed[T Object] struct{ follower *follower[T] }

func (f feed[T]) Put(ctx context.Context, d Delta[T]) error   { return f.follower.fifo.Put(ctx, d) }
func (f feed[T]) Get(key Key) (T, bool)                       { return f.follower.store.Get(key) }
func (f feed[T]) queue(ctx context.Context, d Delta[T]) error { return f.follower.fifo.queue(ctx, d) }
func (f feed[T]) flush() error                                { return f.follower.flush() }

// run implements engine.
func (f *follower[T]) run(ctx context.Context) error {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	f.end = end
	var running sync.WaitGroup
	labels := pprof.WithLabels(ctx, pprof.Labels("informer", f.resource.String()))
	run := func(do func(context.Context) error) {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			defer end(fmt.Errorf("%s: %w", f.resource, run.ErrGoroutineEnded)) // only the first cause counts
			end(do(ctx))
		})
	}
	for _, r := range f.reflectors {
		run(r.Run)
	}
	run(f.apply)
	if f.config.WarmStart.Storage != nil {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			f.save(ctx)
		})
	}
	if f.packing != nil {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			if f.waitSynced(ctx) != nil {
				return
			}
			for _, l := range f.hub.All() {
				_ = l.WaitSynced(ctx) // the handlers need the processor more
			}
			f.packing.Settle(ctx, f.store.All())
		})
	}
	running.Wait()
	if f.config.WarmStart.Storage != nil {
		f.saveNow(context.WithoutCancel(ctx), true)
	}
	return context.Cause(ctx)
}

func (f *follower[T]) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.invalid != nil:
		return f.invalid
	case f.started:
		return fmt.Errorf("%s: %w", f.resource, ErrRunning)
	case run.IsClosed(f.hub.Stopped()):
		return fmt.Errorf("%s: %w", f.resource, ErrStopped)
	}
	f.started = true
	return nil
}

// waitSynced implements engine.
func (f *follower[T]) waitSynced(ctx context.Context) error {
	if run.IsClosed(f.hub.Synced()) {
		return nil
	}
	select {
	case <-f.hub.Synced():
		return nil
	case <-f.hub.Stopped():
		return f.unsynced(ErrStopped)
	case <-ctx.Done():
		return f.unsynced(context.Cause(ctx))
	}
}

// unsynced returns an error that says what the store lacks and why. The error wraps cause.
func (f *follower[T]) unsynced(cause error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.invalid != nil:
		return f.invalid
	case !f.started:
		return fmt.Errorf("%s: %w: %w", f.resource, ErrNotStarted, cause)
	}
	var why []string
	errs := []error{cause}
	for _, r := range f.reflectors {
		if f.listed[r.decoder.namespace] {
			continue
		}
		s := r.Status()
		text := s.State.String()
		if s.WarmStart.CatchUpTo != "" {
			text = "catching up from a saved state at resource version " + s.ResourceVersion + " to " + s.WarmStart.CatchUpTo +
				", " + text
		}
		if s.Namespace != "" {
			text = "namespace " + s.Namespace + ": " + text
		}
		if s.LastError != nil {
			text += " after: " + s.LastError.Error()
			errs = append(errs, s.LastError)
		}
		why = append(why, text)
	}
	return &NotSyncedError{Resource: f.resource, Why: strings.Join(why, "; "), errs: errs}
}

// subscribe implements engine.
func (f *follower[T]) subscribe(h Handler[T], config SubscriptionConfig[T]) *Subscription {
	l, invalid := newListener(f.hub, h, config)
	f.hub.Join(l, invalid)
	if invalid != nil {
		f.report(l.Name(), invalid)
	}
	return &Subscription{l}
}

// pull implements engine.
func (f *follower[T]) pull(ctx context.Context, yield func(Event[T]) bool) { pull(ctx, f.hub, yield) }

// apply writes the deltas of the reflectors to the store, and delivers the changes.
func (f *follower[T]) apply(ctx context.Context) error {
	for {
		if err := f.fifo.wait(ctx); err != nil {
			return context.Cause(ctx)
		}
		if err := f.applyBatch(ctx); err != nil {
			return err
		}
	}
}

// applyBatch applies the next batch of the FIFO, if there is any, once all listeners have room for it.
func (f *follower[T]) applyBatch(ctx context.Context) (err error) {
	f.applying.Lock()
	defer f.applying.Unlock()
	if f.hub.WaitForRoom(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	f.full = false
	if f.batch, err = f.fifo.takeNow(f.batch); err != nil {
		return err
	}
	return f.applyLocked()
}

// fewChanges is the largest number of changes that a reflector applies by itself. It leaves more to another goroutine,
// and continues to decode.
const fewChanges = 32

// flush applies the changes that wait in the FIFO, if they are few, no other goroutine is applying, and all listeners
// have room. That saves waking another goroutine. Otherwise flush wakes apply.
func (f *follower[T]) flush() error {
	if !f.applying.TryLock() {
		run.Signal(f.fifo.readable)
		return nil
	}
	defer f.applying.Unlock()
	if f.full {
		run.Signal(f.fifo.readable)
		return nil
	}
	f.batch = f.fifo.takeFew(f.batch, fewChanges)
	ended := true // stays true if the function of an index calls runtime.Goexit; the reflector must not retry then
	defer func() {
		if ended {
			f.end(fmt.Errorf("%s: %w", f.resource, run.ErrGoroutineEnded))
		}
	}()
	err := f.applyLocked()
	ended = false
	return err
}

// applyLocked applies f.batch, unless it is empty.
func (f *follower[T]) applyLocked() (err error) {
	if len(f.batch) == 0 {
		return nil
	}
	if f.batch[0].Type == Replaced {
		err = f.applyListLocked(&f.batch[0])
	} else if len(f.past) == 0 {
		f.changes, err = writeTo(f.hub, f.store, f.batch, f.changes, false)
	} else {
		err = f.applyPastLocked()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.resource, err)
	}
	if f.full = f.hub.Full(); f.full {
		run.Signal(f.fifo.readable) // for apply to wait
	}
	clear(f.batch)
	clear(f.changes)
	if f.changes = f.changes[:0]; cap(f.changes) > fifoCapacity {
		f.changes = nil // only a list has that many changes, and lists are rare
	}
	return nil
}

// applyListLocked applies f.batch, which is the Replaced d.
func (f *follower[T]) applyListLocked(d *Delta[T]) (err error) {
	first := !f.listed[d.Namespace]
	if f.changes, err = writeTo(f.hub, f.store, f.batch, f.changes, first); err != nil {
		return err
	}
	switch {
	case d.past:
		if f.past == nil {
			f.past = map[string]bool{}
		}
		f.past[d.Namespace] = true
		return nil // the namespace has its shard once it is current
	case first:
		delete(f.past, d.Namespace)
		f.noteFirstList(d.Namespace)
	}
	f.noteShard(d)
	return nil
}

// applyPastLocked applies f.batch, which has no Replaced. Additions to a namespace whose objects are of the past are
// initial, as those of the first list.
func (f *follower[T]) applyPastLocked() (err error) {
	for from := 0; from < len(f.batch); {
		to, past := from+1, f.past[f.batch[from].Namespace]
		for to < len(f.batch) && !f.batch[to-1].current && f.past[f.batch[to].Namespace] == past {
			to++
		}
		clear(f.changes)
		if f.changes, err = writeTo(f.hub, f.store, f.batch[from:to], f.changes[:0], past); err != nil {
			return err
		}
		if last := &f.batch[to-1]; last.current && past {
			delete(f.past, last.Namespace)
			f.noteFirstList(last.Namespace)
			f.noteShard(last)
		}
		from = to
	}
	return nil
}

// noteFirstList notes that the store has the first list of a namespace, or what equals it. Only applyLocked calls it.
func (f *follower[T]) noteFirstList(namespace string) {
	f.mu.Lock()
	f.listed[namespace] = true
	complete := len(f.listed) == len(f.reflectors)
	f.mu.Unlock()
	if complete {
		f.hub.Load()
	}
}

// setShard implements engine.
func (f *follower[T]) setShard(ctx context.Context, shard Shard) error {
	if f.invalid != nil {
		return f.invalid
	}
	if err := shard.validate(); err != nil {
		return err
	}
	shard = shard.clone()
	f.mu.Lock()
	if f.hasShardLocked() || !f.shard.equal(shard) { // otherwise an earlier call has asked for the same list
		f.shard = shard
		for _, r := range f.reflectors {
			f.wanted[r.decoder.namespace] = r.setShard(shard)
		}
	}
	for !f.hasShardLocked() {
		changed := f.changed
		f.mu.Unlock()
		select {
		case <-changed:
		case <-f.hub.Stopped():
			return fmt.Errorf("%s has not changed its shard: %w", f.resource, ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("%s has not changed its shard: %w", f.resource, context.Cause(ctx))
		}
		f.mu.Lock()
	}
	f.mu.Unlock()
	return nil
}

// hasShardLocked reports whether the store has the latest shard.
func (f *follower[T]) hasShardLocked() bool {
	for namespace, n := range f.wanted {
		if f.sharded[namespace] < n {
			return false
		}
	}
	return true
}

// noteShard notes the shard of a list that is in the store, or of a warm start that has caught up.
func (f *follower[T]) noteShard(d *Delta[T]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d.sharded > f.sharded[d.Namespace] {
		f.sharded[d.Namespace] = d.sharded
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// report logs that a subscription ended by itself.
func (f *follower[T]) report(handler string, why error) {
	f.config.logger().Error("a subscription has ended", "resource", f.resource.String(), "handler", handler, "why", why)
}

// reportUnreadable logs that an object of the store cannot be decoded again.
func (f *follower[T]) reportUnreadable(failed *DecodeError) {
	f.config.logger().Error("an object of the store cannot be decoded", "resource", f.resource.String(),
		"key", failed.Key.String(), "err", failed.Err)
}

// reportSlow logs that a call of a handler takes long.
func (f *follower[T]) reportSlow(s deliver.Status) {
	f.config.logger().Warn("a handler is slow", "resource", f.resource.String(), "handler", s.Name, "call", s.Busy,
		"backlog", s.Backlog, "oldest", s.Oldest)
}

// stop ends all subscriptions, waits for the calls under way, and drops the deltas that are not in the store.
func (f *follower[T]) stop() {
	f.hub.Stop(ErrStopped)
	f.fifo.Close(false)
}

// abandon implements engine.
func (f *follower[T]) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started && !run.IsClosed(f.hub.Stopped()) {
		f.stop()
	}
}

// save saves the objects of each namespace from time to time, until ctx ends.
func (f *follower[T]) save(ctx context.Context) {
	if f.waitSynced(ctx) == nil {
		f.saveAll(ctx, f.config.WarmStart.interval()/firstSave)
	}
	for ctx.Err() == nil {
		interval := f.config.WarmStart.interval()
		f.saveAll(ctx, interval-rand.N(interval/10+1))
	}
}

// firstSave is the part of Config.WarmStart.Interval after which the first save follows.
const firstSave = 10

// saveAll saves the objects of each namespace after a wait.
func (f *follower[T]) saveAll(ctx context.Context, wait time.Duration) {
	if run.Sleep(ctx, wait) == nil {
		f.saveNow(ctx, false)
	}
}

// saveNow saves the objects of each namespace.
func (f *follower[T]) saveNow(ctx context.Context, last bool) {
	for _, r := range f.reflectors {
		if err := run.Apart(func() error { // a method of T may call runtime.Goexit
			r.saved.save(ctx, f.store.Snapshot(), r.log, last)
			return nil
		}); err != nil {
			r.saved.noteSaveError(err, r.log)
		}
	}
}
