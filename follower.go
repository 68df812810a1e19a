package informer

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"

	"github.com/typedinformer/informer/internal/audit"
	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/intake"
	"github.com/typedinformer/informer/internal/pipe"
	"github.com/typedinformer/informer/internal/rollout"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/saved"
)

// follower is the engine of an [Informer]. It keeps a store equal to a collection on the API server: reflectors put
// deltas into a FIFO, and the follower writes them to the store and to the backlog of each handler.
type follower[T Object] struct {
	resource   Resource
	config     Config[T]
	invalid    error // the reason why New rejected its arguments; nil if it did not
	store      *Store[T]
	memory     *heapsize.Estimate[T]
	beside     func(context.Context) // runs beside the rest; nil for none
	reflectors []*Reflector[T]
	fifo       *FIFO[T]
	hub        *deliver.Hub[T]
	sharding   *rollout.Rollout[Shard]
	audits     *audit.Auditor
	end        context.CancelCauseFunc // ends run

	drain   pipe.Drain[Delta[T]] // moves deltas from fifo to the store and to every backlog, by apply
	changes []change[T]          // scratch memory of apply

	mu      sync.Mutex // protects the fields below
	started bool
	listed  map[string]bool // the namespaces whose first list is in the store
}

// newFollower returns a follower that holds a T for each object. packing is that of newReflector. If invalid is not
// nil, the follower is invalid for that reason.
func newFollower[T Object](client *Client, resource Resource, config Config[T], packing intake.Packing[T],
	invalid error) *follower[T] {
	store, _ := NewStore[T]()
	store.same = packing.SameContent
	f := &follower[T]{
		resource: resource,
		config:   config,
		memory:   heapsize.NewEstimate(packing.Measure),
		fifo:     NewFIFO[T](0),
		store:    store,
		hub:      newHub(resource, store),
		listed:   map[string]bool{},
		sharding: rollout.New(resource.Shard.clone(), Shard.equal),
	}
	f.audits = newAuditor(client, resource, config, store, f.hub.Stopped())
	f.hub.Unsynced, f.hub.Report, f.hub.Slow = f.unsynced, f.report, f.reportSlow
	f.drain.Pipe, f.drain.Few, f.drain.Apply = f.fifo.pipe, fewChanges, f.apply
	f.drain.Wait, f.drain.Full = f.hub.WaitForRoom, f.hub.Full
	f.drain.Exited = func() { f.end(f.exited()) } // the reflector must not retry then
	if f.invalid = invalid; invalid == nil {
		f.invalid = f.makeReflectors(client, packing)
	}
	if f.invalid != nil {
		f.hub.Stop(f.invalid)
	}
	return f
}

// makeReflectors makes one reflector for each namespace. It returns an error if the client, the resource or the config
// is wrong.
func (f *follower[T]) makeReflectors(client *Client, packing intake.Packing[T]) error {
	if err := f.resource.validate(); err != nil {
		return err
	}
	for _, namespace := range f.resource.sources() {
		part := f.resource
		if namespace != "" {
			part.Namespaces = []string{namespace}
		}
		r, err := newReflector(client, part, feed[T]{f}, f.config, packing)
		if err != nil {
			return err
		}
		r.decoder.Own = true // only the reflectors write to the store
		f.sharding.Add(namespace, r.reshard.want)
		f.reflectors = append(f.reflectors, r)
		f.audits.Add(newAudited(client, part, r, f.store))
		r.resumed = f.audits.Resumed
	}
	if len(f.reflectors) > 1 {
		decoding, calling := run.NewLimit(run.MaxWorkers), run.NewLimit(1)
		for _, r := range f.reflectors {
			r.decoder.Decoding, r.decoder.Calling = decoding, calling
		}
	}
	return nil
}

// feed is the [Holder] and the batcher that the reflectors feed.
type feed[T Object] struct{ follower *follower[T] }

func (f feed[T]) Put(ctx context.Context, d Delta[T]) error { return f.follower.fifo.Put(ctx, d) }
func (f feed[T]) Get(key Key) (T, bool)                     { return f.follower.store.Get(key) }
func (f feed[T]) queue(ctx context.Context, d Delta[T]) error {
	return f.follower.fifo.pipe.Queue(ctx, &d)
}
func (f feed[T]) flush() error { return f.follower.drain.Flush() }

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
			defer end(f.exited()) // only the first cause counts
			end(do(ctx))
		})
	}
	for _, r := range f.reflectors {
		run(r.Run)
	}
	run(f.drain.Run)
	saver := f.saver()
	if saver != nil {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			saver.Run(ctx, f.waitSynced)
		})
	}
	running.Go(func() {
		pprof.SetGoroutineLabels(labels)
		f.runAudits(ctx)
	})
	if f.beside != nil {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			f.beside(ctx)
		})
	}
	running.Wait()
	if saver != nil {
		saver.Save(context.WithoutCancel(ctx), true)
	}
	return context.Cause(ctx)
}

// exited is the error of a goroutine that a function of the user has ended.
func (f *follower[T]) exited() error { return fmt.Errorf("%s: %w", f.resource, run.ErrGoroutineEnded) }

// saver returns the saver of the store. It returns nil without Config.WarmStart.
func (f *follower[T]) saver() *saved.Saver {
	if f.config.WarmStart.Storage == nil {
		return nil
	}
	s := &saved.Saver{Interval: f.config.WarmStart.interval(), Content: f.content}
	for _, r := range f.reflectors {
		s.States = append(s.States, r.warm.state)
	}
	return s
}

// content returns the content of a namespace of the store to save. It returns false before the first list.
func (f *follower[T]) content(namespace string) (c saved.Content, ok bool) {
	snap := f.store.Snapshot()
	src, ok := snap.sources.Of(namespace)
	if !ok || src.Version == "" || src.Data.list == nil {
		return c, false
	}
	return saved.Content{
		Objects: func(yield func(saved.Object) bool) {
			for obj := range snap.in(namespace) {
				if !yield(obj) {
					return
				}
			}
		},
		Version: src.Version,
		Shard:   src.Data.list.shard.String(),
		Listed:  src.Data.list.listed,
		Stale:   src.Data.undecoded.Len() > 0,
	}, true
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
		if f.listed[r.decoder.Namespace] {
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

// fewChanges is the largest number of changes that a reflector applies by itself. It leaves more to another goroutine,
// and continues to decode.
const fewChanges = 32

// apply writes a batch of the FIFO to the store and to every backlog. The drain calls it, for one batch at a time.
func (f *follower[T]) apply(batch []Delta[T]) (err error) {
	for len(batch) > 0 {
		n, initial := f.step(batch)
		if f.changes, err = writeTo(f.hub, f.store, batch[:n], f.changes, initial); err != nil {
			return fmt.Errorf("%s: %w", f.resource, err)
		}
		f.note(&batch[n-1])
		batch = batch[n:]
		clear(f.changes)
		f.changes = f.changes[:0]
	}
	if cap(f.changes) > fifoCapacity {
		f.changes = nil // only a list has that many changes, and lists are rare
	}
	return nil
}

// step returns the number of deltas of batch to apply in one step, and whether their additions are initial. They are
// initial until the store has the first list of their namespace, or every change since a warm start.
func (f *follower[T]) step(batch []Delta[T]) (n int, initial bool) {
	if len(f.listed) == len(f.reflectors) {
		return len(batch), false
	}
	n, initial = 1, !f.listed[batch[0].Namespace]
	for n < len(batch) && batch[n-1].from == nil && !f.listed[batch[n].Namespace] == initial {
		n++
	}
	return n, initial
}

// note notes which list and which shard the store has after d, the last delta of a step.
func (f *follower[T]) note(d *Delta[T]) {
	from := d.whence()
	if d.Type != Replaced && from.kind != caughtUp || from.kind == olderState {
		return
	}
	if !f.listed[d.Namespace] {
		f.noteFirstList(d.Namespace)
	}
	f.sharding.Note(d.Namespace, from.change)
}

// noteFirstList notes that the store has the first list of a namespace, or what equals it. Only apply calls it.
func (f *follower[T]) noteFirstList(namespace string) {
	f.mu.Lock()
	f.listed[namespace] = true
	complete := len(f.listed) == len(f.reflectors)
	f.mu.Unlock()
	if complete {
		f.hub.Load()
	}
}

// audit implements engine.
func (f *follower[T]) audit(ctx context.Context) (AuditResult, error) {
	if err := f.waitSynced(ctx); err != nil {
		return AuditResult{}, fmt.Errorf("audit: %w", err)
	}
	ctx, end := run.Until(ctx, f.hub.Stopped(), ErrStopped)
	defer end()
	r, err := f.audits.Audit(ctx)
	if err != nil {
		err = fmt.Errorf("audit of %s: %w", f.resource, err)
	}
	return auditResult(f.resource, r), err
}

// runAudits audits by itself until ctx ends.
func (f *follower[T]) runAudits(ctx context.Context) {
	if f.waitSynced(ctx) != nil {
		return
	}
	for _, r := range f.reflectors {
		if r.Status().WarmStart.Loaded {
			f.audits.Due()
		}
	}
	f.audits.Run(ctx)
}

// setShard implements engine.
func (f *follower[T]) setShard(ctx context.Context, shard Shard) error {
	if f.invalid != nil {
		return f.invalid
	}
	if err := shard.validate(); err != nil {
		return err
	}
	f.sharding.Want(shard.clone())
	for {
		ok, changed := f.sharding.Arrived()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-f.hub.Stopped():
			return fmt.Errorf("%s has not changed its shard: %w", f.resource, ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("%s has not changed its shard: %w", f.resource, context.Cause(ctx))
		}
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
