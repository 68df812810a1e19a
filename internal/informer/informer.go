// Package informer is the engine of an informer: it takes the deltas of its reflectors, writes them to a store, and
// adds the changes to the backlogs of the handlers.
//
//	reflector -- feed --> buffer -- mirror --> store
//	                                       \-> backlogs (internal/deliver)
//
// An [Informer] has one mirror, whose store is that of the informer. With selections, it has a mirror with a store of
// its own for each, and the store of the informer is their union.
package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/informer/durable"
	"github.com/typedinformer/informer/internal/object"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/status"
)

// Part is the part of a collection that one reflector reads. The zero Part is all of it.
type Part struct {
	Namespace      string // empty for all
	Labels, Fields string // the selectors of the requests
	Optional       bool   // the informer syncs without a selection that the server refuses
	Text           string // describes the part after the name of the collection, such as " in a with labels app=web"
}

// id returns the name of p among the selections of its namespace.
func (p Part) id() string { return fmt.Sprintf("%q", []any{p.Labels, p.Fields, p.Optional}) }

// Config describes an [Informer] of objects T.
type Config[T object.Object] struct {
	Kind string // of the objects, such as "apps/v1 deployments"
	Name string // of the collection, in errors, logs and profiles
	// Parts are read by a reflector each. They are disjoint, unless they are selections.
	Parts []Part
	// Selections means that Parts may overlap, and that SetSelections may change them.
	Selections bool
	Shard      shardset.Shard
	Packing    intake.Packing[T]
	SaveEvery  time.Duration // zero for no warm start
	Audit      audit.Config  // without what the informer adds
	Log        *slog.Logger

	// Reflect returns a reflector of a part, which puts deltas into sink. held returns an object that the sink has. The
	// root makes reflectors, since their configuration is of its types.
	Reflect func(p Part, shard shardset.Shard, sink reflector.Sink[T],
		held func(object.Key) (T, bool)) (*reflector.Loop[T], error)
	// NotSynced returns the error of an informer that is not synced for these reasons. It is of a type of the root.
	NotSynced func(why string, errs []error) error
	// Settle packs the objects of the store again, after the handlers have the first list. Nil if they are not packed.
	Settle func(ctx context.Context, objects iter.Seq[T])
}

// Errors of an informer that is not running; see package informer above.
var (
	ErrNotStarted = errors.New("informer not started")
	ErrStopped    = errors.New("informer stopped")
	ErrRunning    = errors.New("informer already started")
)

// Informer has a store, the handlers, and mirrors that write to both; see informer.Informer. Its methods are safe for
// concurrent use.
type Informer[T object.Object] struct {
	Hub *deliver.Hub[T] // has the handlers

	config  Config[T]
	invalid error // the reason why New rejected its arguments; nil if it did not
	store   *Store[T]
	memory  *heapsize.Estimate[T]
	feeder  feeder[T]
	audits  *audit.Auditor
	waiting run.Broadcast // sent when a reflector begins the wait after a failure
	retired atomic.Bool   // Retire was called; it stays true

	mu      sync.Mutex // protects the fields below
	started bool
	retire  func() // ends the feeder for good; nil before Run
}

// feeder keeps the store of an informer equal to what it follows: a mirror, or the selections. Its methods are safe for
// concurrent use.
type feeder[T object.Object] interface {
	// run feeds the store until ctx ends, and returns the cause. It calls end, which ends ctx, if the store fails. When it
	// returns, every goroutine that it started has ended.
	run(ctx context.Context, end context.CancelCauseFunc) error
	// close ends a feeder that does not run. Nothing can feed the store afterwards.
	close()
	// mirrors returns a mirror for each collection of the store.
	mirrors() []*Mirror[T]
	// awaited returns the mirrors whose first lists the store needs to be synced.
	awaited() []*Mirror[T]
	// latest returns the latest shard and parts.
	latest() (shardset.Shard, []Part)
	// setShard changes the shard of the store.
	setShard(shardset.Shard)
	// lacking returns the namespaces whose objects the store may lack, although it is synced; "" means all.
	lacking() []string
	// sharded reports whether the store has the latest shard. If not, it returns a channel that is closed when the answer
	// may have changed.
	sharded() (ok bool, changed <-chan struct{})
}

// New returns an informer. If invalid is not nil, the informer is invalid for that reason.
func New[T object.Object](c Config[T], invalid error) *Informer[T] {
	store := NewStore(c.Packing.SameContent)
	f := &Informer[T]{
		Hub:     deliver.NewHub[T](),
		config:  c,
		invalid: invalid,
		memory:  heapsize.NewEstimate(c.Packing.Measure),
		store:   store,
	}
	f.Hub.Resource, f.Hub.View = c.Name, func() deliver.View[T] { return store.Snapshot() }
	f.Hub.Log, f.Hub.Unsynced = c.Log, f.unsynced
	audits := c.Audit
	audits.Sources, audits.Published, audits.Stopped = f.audited, store.Published, f.Hub.Stopped()
	var reflect func() error
	if c.Selections {
		s := newMerged(f)
		f.feeder, audits.Union = s, s.compare
		reflect = func() error { return s.want(c.Parts) }
	} else {
		m := newMirror(&f.config, c.Name, c.Parts, c.Shard, store, f.Hub)
		f.feeder = m
		reflect = func() error { return m.reflect(f) }
	}
	f.audits = audit.New(audits)
	if invalid == nil {
		f.invalid = reflect()
	}
	if f.invalid != nil {
		f.Hub.Stop(f.invalid)
	}
	return f
}

// Invalid returns the reason why the informer does not run, or nil.
func (f *Informer[T]) Invalid() error { return f.invalid }

// Store returns the store.
func (f *Informer[T]) Store() *Store[T] { return f.store }

// Mirrors returns a mirror for each collection of the store.
func (f *Informer[T]) Mirrors() []*Mirror[T] { return f.feeder.mirrors() }

// Run follows the collection until ctx ends; see informer.Informer.
func (f *Informer[T]) Run(ctx context.Context) (err error) {
	feeding, end := context.WithCancelCause(ctx)
	defer end(nil)
	retire := func() {
		if feeding.Err() == nil {
			f.retired.Store(true) // before the store becomes empty
			end(errRetired)
		}
	}
	if err := f.begin(retire); err != nil {
		return err
	}
	defer f.Stop()
	pprof.Do(feeding, pprof.Labels("informer", f.config.Name), func(ctx context.Context) {
		var running sync.WaitGroup
		running.Go(func() { f.startAudits(ctx) })
		if f.config.Settle != nil {
			running.Go(func() { f.settle(ctx) })
		}
		err = f.feeder.run(ctx, end)
		end(nil)
		running.Wait()
		f.audits.Stop()
	})
	if err == errRetired {
		f.empty(ctx)
		err = fmt.Errorf("%s: %w", f.config.Name, err)
	}
	return err
}

func (f *Informer[T]) begin(retire func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.invalid != nil:
		return f.invalid
	case f.started:
		return fmt.Errorf("%s: %w", f.config.Name, ErrRunning)
	case run.IsClosed(f.Hub.Stopped()):
		return fmt.Errorf("%s: %w", f.config.Name, ErrStopped)
	}
	f.started, f.retire = true, retire
	return nil
}

// errRetired is why the feeder ends after Retire.
var errRetired = fmt.Errorf("%w: it was retired", ErrStopped)

// Retire ends the informer, whose handlers receive the deletion of each object; see informer.Informer. It does not
// wait.
func (f *Informer[T]) Retire() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.retire == nil {
		f.abandonLocked()
	} else {
		f.retire()
	}
}

// Retired reports whether the store may be empty because of Retire.
func (f *Informer[T]) Retired() bool { return f.retired.Load() }

// empty deletes all objects, and waits until the handlers have received that. The feeder must have ended: nothing else
// writes to the store.
func (f *Informer[T]) empty(ctx context.Context) {
	_, _ = f.Hub.Apply(func() ([]change[T], error) { return f.store.empty(), nil }, false)
	f.Hub.Finish(ctx)
}

// settle packs the objects again, when the handlers have processed the first list. It may run until ctx ends.
func (f *Informer[T]) settle(ctx context.Context) {
	if f.waitSynced(ctx) != nil {
		return
	}
	for _, l := range f.Hub.All() {
		_ = l.WaitSynced(ctx) // the handlers need the processor more
	}
	f.config.Settle(ctx, f.store.Snapshot().All())
}

// Subscribe registers h for the objects for which filter returns true. A nil filter means all. keep describes the state
// of a durable subscription; nil for others. If invalid, the error of h or of its configuration, is not nil, the
// subscription ends at once.
func (f *Informer[T]) Subscribe(h deliver.Handler[T], filter func(T) bool, c deliver.Config, keep *durable.Config,
	invalid error) deliver.Subscriber {
	var keeper *durable.Keeper[T]
	if keep != nil && invalid == nil {
		keeper = durable.New(*keep, f.durableStore(), f.config.Packing)
		h = keeper.Handler(h)
	}
	l := deliver.NewListener(f.Hub, h, filter, c)
	if keeper != nil {
		l.Keep(keeper)
	}
	f.Hub.Join(l, invalid)
	if invalid != nil {
		f.Hub.Report(c.Name, invalid)
	}
	return l
}

// durableStore returns the store for a durable subscription.
func (f *Informer[T]) durableStore() durable.Store[T] {
	return durable.Store[T]{
		View:      func() durable.View[T] { return f.store.Snapshot() },
		Published: f.store.Published,
		Retired:   f.Retired,
		Lacks: func() func(namespace string) bool {
			lacking := f.feeder.lacking()
			return func(namespace string) bool {
				return slices.Contains(lacking, "") || slices.Contains(lacking, namespace)
			}
		},
	}
}

// Pull calls h in the goroutine of the caller, and drain after each change, until drain returns false, ctx ends or the
// informer stops. open reports whether the informer has not stopped.
func (f *Informer[T]) Pull(ctx context.Context, h deliver.Handler[T], drain func(open func() bool) bool) {
	l := deliver.NewListener(f.Hub, h, nil, deliver.Config{Name: "Changes"})
	l.Pull(ctx, func() bool { return drain(l.Open) })
}

// Handlers returns the status of each open subscription.
func (f *Informer[T]) Handlers() (all []status.Subscription) {
	for _, l := range f.Hub.All() {
		all = append(all, l.Status())
	}
	return all
}

// audited returns the sources that audits compare with the server.
func (f *Informer[T]) audited() (all []audit.Source) {
	for _, m := range f.feeder.mirrors() {
		for _, feed := range m.Feeds {
			all = append(all, feed)
		}
	}
	return all
}

// Audit compares the store with the server; see informer.Informer.
func (f *Informer[T]) Audit(ctx context.Context) (status.AuditResult, error) {
	if err := f.WaitSynced(ctx); err != nil {
		return status.AuditResult{}, fmt.Errorf("audit: %w", err)
	}
	ctx, end := run.Until(ctx, f.Hub.Stopped(), ErrStopped)
	defer end()
	r, err := f.audits.Audit(ctx)
	if err != nil {
		err = fmt.Errorf("audit of %s: %w", f.config.Name, err)
	}
	return r, err
}

// startAudits starts the informer's own audits, which end with ctx, once the store is synced.
func (f *Informer[T]) startAudits(ctx context.Context) {
	if f.waitSynced(ctx) != nil {
		return
	}
	for _, m := range f.feeder.mirrors() {
		for _, feed := range m.Feeds {
			if feed.Loop.Status().WarmStart.Loaded {
				f.audits.Due()
			}
		}
	}
	f.audits.Start(ctx)
}

// Audits returns the status of the audits.
func (f *Informer[T]) Audits() status.Audit { return f.audits.Status() }

// SetShard makes the store hold exactly the objects of shard, and returns when it does; see informer.Informer.
func (f *Informer[T]) SetShard(ctx context.Context, shard shardset.Shard) error {
	if f.invalid != nil {
		return f.invalid
	}
	if err := shard.Validate(); err != nil {
		return err
	}
	f.feeder.setShard(shard.Clone())
	if err := f.waitUntil(ctx, f.feeder.sharded); err != nil {
		return fmt.Errorf("%s has not changed its shard: %w", f.config.Name, err)
	}
	return nil
}

// SetSelections makes the store hold the objects of these selections, which validate accepts, and returns when it does;
// see informer.Informer.
func (f *Informer[T]) SetSelections(ctx context.Context, wanted []Part, validate func() error) error {
	if f.invalid != nil {
		return f.invalid
	}
	s, ok := f.feeder.(*merged[T])
	if !ok {
		return fmt.Errorf("%s: SetSelections is for a Resource with Selections", f.config.Name)
	}
	if run.IsClosed(f.Hub.Stopped()) {
		return fmt.Errorf("%s: %w", f.config.Name, ErrStopped)
	}
	if err := validate(); err != nil {
		return err
	}
	if err := s.want(wanted); err != nil {
		return err
	}
	if err := f.waitUntil(ctx, s.settled); err != nil {
		return fmt.Errorf("%s has not changed its selections: %w", f.config.Name, err)
	}
	return nil
}

// waitUntil waits until done returns true. Otherwise, done returns a channel that is closed when waitUntil must call it
// again.
func (f *Informer[T]) waitUntil(ctx context.Context, done func() (bool, <-chan struct{})) error {
	for {
		ok, changed := done()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-f.Hub.Stopped():
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Latest returns the latest shard and parts.
func (f *Informer[T]) Latest() (shardset.Shard, []Part) { return f.feeder.latest() }

// Memory returns an estimate of the memory that the store takes; see informer.InformerStatus.
func (f *Informer[T]) Memory() int64 {
	snap := f.store.Snapshot()
	return f.memory.Of(snap.Len(), snap.version.Indexes(), snap.All())
}

// Loading yields the objects that the first lists under way have read so far.
func (f *Informer[T]) Loading() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, m := range f.feeder.mirrors() {
			for _, feed := range m.Feeds {
				for obj := range feed.Loop.Progress.Arriving.All() {
					if !yield(obj) {
						return
					}
				}
			}
		}
	}
}

// Reflectors returns the status of each reflector, and the number of deltas and of reflectors that wait; see
// informer.InformerStatus.
func (f *Informer[T]) Reflectors() (all []status.Reflector, queued, blocked int) {
	for _, m := range f.feeder.mirrors() {
		snap := m.store.Snapshot()
		q, b := m.Buffer.Len()
		queued += q
		blocked += b
		for _, feed := range m.Feeds {
			part := feed.Loop.Status()
			src, _ := snap.sources.Of(feed.part.Namespace)
			part.Stale = src.Data.undecoded.Len() // a reader that sees a list in the store must see what it lacks
			all = append(all, part)
		}
	}
	return all, queued, blocked
}

// Stop ends all subscriptions, waits for the calls under way, and drops the deltas that are not in the store.
func (f *Informer[T]) Stop() {
	f.Hub.Stop(ErrStopped)
	f.feeder.close()
}

// Abandon ends an informer that was not started, so that nobody waits for it. Run then returns [ErrStopped].
func (f *Informer[T]) Abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abandonLocked()
}

func (f *Informer[T]) abandonLocked() {
	if !f.started && !run.IsClosed(f.Hub.Stopped()) {
		f.Stop()
	}
}
