package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/run"
)

// Informer keeps a [Store] equal to a collection on the API server, and delivers each change to its handlers.
//
// Create one with [New], add handlers and indexes at any time, and call Run. All methods are safe for concurrent use.
type Informer[T Object] struct {
	resource Resource
	config   Config[T]
	invalid  error // the reason why New rejected its arguments; nil if it did not
	store    *Store[T]
	parts    int             // the number of reflectors
	synced   <-chan struct{} // closed when store has the whole collection
	stopped  <-chan struct{} // closed when the informer has stopped

	compact *Informer[*packed] // with Config.Compact: does the work, and the fields below are not set; nil otherwise

	memory     memoryEstimate[T]
	packing    packing[T] // nil without Config.Compact
	reflectors []*Reflector[T]
	fifo       *FIFO[T]
	hub        *deliver.Hub[T]
	end        context.CancelCauseFunc // ends Run

	// A goroutine holds applying while it moves deltas from fifo to the store and to every backlog. Two goroutines apply
	// deltas: that of apply, and that of a reflector in flush. The lock keeps the deltas in order.
	applying sync.Mutex
	// applying also protects the fields below.
	full    bool            // a listener has no room; apply waits for it
	past    map[string]bool // the namespaces that have objects of a saved snapshot, and not yet every change since
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

// Errors of an Informer that is not running.
var (
	// ErrNotStarted indicates that Run has not been called.
	ErrNotStarted = errors.New("informer not started")
	// ErrStopped indicates that the informer has stopped. An informer cannot be started again.
	ErrStopped = errors.New("informer stopped")
	// ErrRunning indicates that Run has been called before.
	ErrRunning = errors.New("informer already started")
)

// New returns an informer of resource. It starts no goroutine and sends no request; Run does.
//
// If client, resource, T or config is wrong, New logs the error. Run, WaitSynced, WaitForResourceVersion, WaitForObject
// and Await then return it at once, and each subscription ends with it.
func New[T Object](client *Client, resource Resource, config Config[T]) *Informer[T] {
	i := newInformer(client, resource, config)
	if i.invalid != nil {
		config.logger().Error("the informer does not run", "resource", resource.String(), "err", i.invalid)
	}
	return i
}

// newInformer is New without the log, for a caller that returns the error.
func newInformer[T Object](client *Client, resource Resource, config Config[T]) *Informer[T] {
	if config.Compact {
		return newCompact(client, resource, config)
	}
	return makeInformer(client, resource, config, nil, nil)
}

// newCompact is newInformer with Config.Compact. The informer shows another one, of packed objects, which does the
// work.
func newCompact[T Object](client *Client, resource Resource, config Config[T]) *Informer[T] {
	packer, err := newPacker(config.goType(), config.KeepManagedFields, resource)
	if invalid := config.validate(); invalid != nil {
		err = invalid // says more
	}
	inner := makeInformer(client, resource, compactConfig(config, packer), packer, err)
	packer.Failures.Report = func(err error) { inner.reportUnreadable(err.(*DecodeError)) }
	return &Informer[T]{
		resource: resource,
		config:   config,
		invalid:  inner.invalid,
		store:    newCompactStore[T](inner.store, &packer.Failures),
		parts:    inner.parts,
		synced:   inner.synced,
		stopped:  inner.stopped,
		compact:  inner,
	}
}

// makeInformer makes an informer that holds a T for each object. packing is that of newReflector. If invalid is not
// nil, the informer is invalid for that reason.
func makeInformer[T Object](client *Client, resource Resource, config Config[T], packing packing[T],
	invalid error) *Informer[T] {
	store, _ := NewStore[T]()
	i := &Informer[T]{
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
	i.synced, i.stopped = i.hub.Synced(), i.hub.Stopped()
	i.hub.Unsynced, i.hub.Report, i.hub.Slow = i.unsynced, i.report, i.reportSlow
	if i.invalid = invalid; invalid == nil {
		i.invalid = i.makeReflectors(client)
	}
	i.parts = len(i.reflectors)
	if i.invalid != nil {
		i.hub.Stop(i.invalid)
	}
	return i
}

// makeReflectors makes one reflector for each namespace. It returns an error if the client, the resource or the config
// is wrong.
func (i *Informer[T]) makeReflectors(client *Client) error {
	if err := i.resource.validate(); err != nil {
		return err
	}
	for _, namespace := range i.resource.sources() {
		part := i.resource
		if namespace != "" {
			part.Namespaces = []string{namespace}
		}
		r, err := newReflector(client, part, feed[T]{i}, i.config, i.packing)
		if err != nil {
			return err
		}
		r.decoder.own = true // only the reflectors write to the store
		i.reflectors = append(i.reflectors, r)
	}
	if len(i.reflectors) > 1 {
		decoding, calling := run.NewLimit(run.MaxWorkers), run.NewLimit(1)
		for _, r := range i.reflectors {
			r.decoder.decoding, r.decoder.calling = decoding, calling
		}
	}
	return nil
}

// feed is the [Holder] and the batcher that the reflectors feed.
type feed[T Object] struct{ informer *Informer[T] }

func (f feed[T]) Put(ctx context.Context, d Delta[T]) error   { return f.informer.fifo.Put(ctx, d) }
func (f feed[T]) Get(key Key) (T, bool)                       { return f.informer.store.Get(key) }
func (f feed[T]) queue(ctx context.Context, d Delta[T]) error { return f.informer.fifo.queue(ctx, d) }
func (f feed[T]) flush() error                                { return f.informer.flush() }

// Store returns the local copy. It is empty at first, complete once WaitSynced has returned nil, and stays readable
// after the informer has stopped.
func (i *Informer[T]) Store() *Store[T] { return i.store }

// Resource returns the collection that the informer follows. Its Shard is the one at the beginning; Status has the
// present one.
func (i *Informer[T]) Resource() Resource { return i.resource }

// Run follows the collection until ctx ends, and returns the cause of ctx. If New rejected its arguments, Run returns
// that error at once. If the function of an index calls runtime.Goexit, Run returns an error. Run waits for the handler
// calls under way, and for the last save with Config.Snapshot. When it returns, every goroutine that it started has
// ended, and no handler is called any more. An informer runs once; later calls return [ErrRunning].
//
// In profiles, its goroutines have the label "informer" with the resource, and those that call a handler also "handler"
// with its name.
func (i *Informer[T]) Run(ctx context.Context) error {
	if i.compact != nil {
		return i.compact.Run(ctx)
	}
	if err := i.begin(); err != nil {
		return err
	}
	defer i.stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	i.end = end
	var running sync.WaitGroup
	labels := pprof.WithLabels(ctx, pprof.Labels("informer", i.resource.String()))
	run := func(f func(context.Context) error) {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			defer end(fmt.Errorf("%s: %w", i.resource, run.ErrGoroutineEnded)) // only the first cause counts
			end(f(ctx))
		})
	}
	for _, r := range i.reflectors {
		run(r.Run)
	}
	run(i.apply)
	if i.config.Snapshot.Storage != nil {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			i.save(ctx)
		})
	}
	if i.packing != nil {
		running.Go(func() {
			pprof.SetGoroutineLabels(labels)
			if i.WaitSynced(ctx) != nil {
				return
			}
			for _, l := range i.hub.All() {
				_ = l.WaitSynced(ctx) // the handlers need the processor more
			}
			i.packing.Settle(ctx, i.store.All())
		})
	}
	running.Wait()
	if i.config.Snapshot.Storage != nil {
		i.saveNow(context.WithoutCancel(ctx), true)
	}
	return context.Cause(ctx)
}

func (i *Informer[T]) begin() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.invalid != nil:
		return i.invalid
	case i.started:
		return fmt.Errorf("%s: %w", i.resource, ErrRunning)
	case run.IsClosed(i.hub.Stopped()):
		return fmt.Errorf("%s: %w", i.resource, ErrStopped)
	}
	i.started = true
	return nil
}

// HasSynced reports whether the store has received the whole collection. Once true, it stays true.
func (i *Informer[T]) HasSynced() bool { return run.IsClosed(i.synced) }

// WaitSynced waits until the store has the whole collection, and then returns nil. If ctx ends first, it returns a
// [*NotSyncedError] that wraps the cause of ctx, or an error that wraps [ErrNotStarted] too if Run was not called. If
// the informer stops first, the error wraps [ErrStopped]. If [New] rejected its arguments, WaitSynced returns that
// error at once, whether Run was called or not.
func (i *Informer[T]) WaitSynced(ctx context.Context) error {
	if i.compact != nil {
		return i.compact.WaitSynced(ctx)
	}
	if i.HasSynced() {
		return nil
	}
	select {
	case <-i.synced:
		return nil
	case <-i.stopped:
		return i.unsynced(ErrStopped)
	case <-ctx.Done():
		return i.unsynced(context.Cause(ctx))
	}
}

// unsynced returns an error that says what the store lacks and why. The error wraps cause.
func (i *Informer[T]) unsynced(cause error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.invalid != nil:
		return i.invalid
	case !i.started:
		return fmt.Errorf("%s: %w: %w", i.resource, ErrNotStarted, cause)
	}
	var why []string
	errs := []error{cause}
	for _, r := range i.reflectors {
		if i.listed[r.decoder.namespace] {
			continue
		}
		s := r.Status()
		text := s.State.String()
		if s.Snapshot.CatchUpTo != "" {
			text = "catching up from a snapshot at resource version " + s.ResourceVersion + " to " + s.Snapshot.CatchUpTo +
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
	return &NotSyncedError{Resource: i.resource, Why: strings.Join(why, "; "), errs: errs}
}

// NotSyncedError indicates that an informer does not have the whole collection yet. It wraps the cause of the context,
// or [ErrStopped], and the last failure of each missing part.
type NotSyncedError struct {
	Resource Resource
	// Why names the state of each missing part, and its last failure.
	Why  string
	errs []error
}

// Error implements error.
func (e *NotSyncedError) Error() string {
	return fmt.Sprintf("%s not synced: %s: %v", e.Resource, e.Why, e.errs[0])
}

// Unwrap returns the errors that e wraps.
func (e *NotSyncedError) Unwrap() []error { return e.errs }

// Subscribe registers h. The subscription first calls OnAdd for every object in the store, and then delivers every
// later change. No change is missed or delivered twice. On an informer that has stopped, Subscribe returns a
// subscription that has ended; see [Subscription.Err].
func (i *Informer[T]) Subscribe(h Handler[T]) *Subscription {
	return i.SubscribeWith(h, SubscriptionConfig[T]{})
}

// SubscribeWith is like Subscribe, with a configuration. If config is wrong, SubscribeWith logs the error and returns a
// subscription that has ended with it; see [Subscription.Err].
func (i *Informer[T]) SubscribeWith(h Handler[T], config SubscriptionConfig[T]) *Subscription {
	if i.compact != nil {
		return i.compact.SubscribeWith(compactSubscription(h, config))
	}
	l, invalid := newListener(i.hub, h, config)
	i.hub.Join(l, invalid)
	if invalid != nil {
		i.report(l.Name(), invalid)
	}
	return &Subscription{l}
}

// Changes yields the events that a handler would receive, in the goroutine that iterates. It begins with an addition
// for each object in the store. It ends when ctx ends, when the informer stops, or when the loop breaks. While the loop
// body is busy, changes of one key fold into one.
func (i *Informer[T]) Changes(ctx context.Context) iter.Seq[Event[T]] {
	return func(yield func(Event[T]) bool) {
		if i.compact != nil {
			var unpack unpacking[T]
			for packed := range i.compact.Changes(ctx) {
				if e, ok := unpack.event(packed); ok && !yield(e) {
					return
				}
			}
			return
		}
		pull(ctx, i.hub, yield)
	}
}

// Status returns the present status of the informer.
func (i *Informer[T]) Status() InformerStatus {
	if i.compact != nil {
		return i.compact.Status()
	}
	snap := i.store.Snapshot()
	s := InformerStatus{
		Resource:        i.resource,
		Synced:          i.HasSynced(),
		ResourceVersion: snap.ResourceVersion(),
		Objects:         snap.Len(),
		Memory:          i.memory.of(snap),
	}
	s.Undecodable, s.Missing = snap.undecodable()
	s.Queued, s.Blocked = i.fifo.Len()
	i.mu.Lock()
	s.Resource.Shard = i.shard.clone()
	i.mu.Unlock()
	for _, r := range i.reflectors {
		part := r.Status()
		src, _ := snap.sourceOf(r.decoder.namespace)
		part.Stale = src.undecoded.len() // so that who sees a list in the store also sees what it lacks
		s.Reflectors = append(s.Reflectors, part)
	}
	for _, l := range i.hub.All() {
		s.Handlers = append(s.Handlers, subscriptionStatus(l.Status()))
	}
	return s
}

// InformerStatus is the status of an [Informer].
type InformerStatus struct {
	Resource Resource
	// Synced is true once the store has received the whole collection. It stays true.
	Synced bool
	// ResourceVersion is the resource version up to which the store is complete; see [Snapshot.ResourceVersion].
	ResourceVersion string
	// Objects is the number of objects in the store.
	Objects int
	// Undecodable is the number of objects that the server has and whose newest version could not be decoded, or with
	// Config.Compact not be decoded again. Missing is the number of those of which the store has no older version, either.
	// Each version of an object whose name could not be decoded counts as another object, until the next list.
	Undecodable, Missing int
	// Memory is an estimate of the memory that the store takes, in bytes, from the sizes of 32 of its objects. They are
	// measured at most once a minute. Memory that several objects share counts as often as among these 32.
	Memory int64
	// Reflectors has one status for each namespace of Resource, or one for all namespaces.
	Reflectors []ReflectorStatus
	// Queued is the number of changes that wait to enter the store. Blocked is the number of reflectors that wait because
	// that queue is full.
	Queued, Blocked int
	// Handlers are the open subscriptions, in the order in which they joined.
	Handlers []SubscriptionStatus
}

func (i *Informer[T]) indexed() *Store[T] { return i.store }

// apply writes the deltas of the reflectors to the store, and delivers the changes.
func (i *Informer[T]) apply(ctx context.Context) error {
	for {
		if err := i.fifo.wait(ctx); err != nil {
			return context.Cause(ctx)
		}
		if err := i.applyBatch(ctx); err != nil {
			return err
		}
	}
}

// applyBatch applies the next batch of the FIFO, if there is any, once all listeners have room for it.
func (i *Informer[T]) applyBatch(ctx context.Context) (err error) {
	i.applying.Lock()
	defer i.applying.Unlock()
	if i.hub.WaitForRoom(ctx); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	i.full = false
	if i.batch, err = i.fifo.takeNow(i.batch); err != nil {
		return err
	}
	return i.applyLocked()
}

// fewChanges is the largest number of changes that a reflector applies by itself. It leaves more to another goroutine,
// and continues to decode.
const fewChanges = 32

// flush applies the changes that wait in the FIFO, if they are few, no other goroutine is applying, and all listeners
// have room. That saves waking another goroutine. Otherwise flush wakes apply.
func (i *Informer[T]) flush() error {
	if !i.applying.TryLock() {
		run.Signal(i.fifo.readable)
		return nil
	}
	defer i.applying.Unlock()
	if i.full {
		run.Signal(i.fifo.readable)
		return nil
	}
	i.batch = i.fifo.takeFew(i.batch, fewChanges)
	ended := true // stays true if the function of an index calls runtime.Goexit; the reflector must not retry then
	defer func() {
		if ended {
			i.end(fmt.Errorf("%s: %w", i.resource, run.ErrGoroutineEnded))
		}
	}()
	err := i.applyLocked()
	ended = false
	return err
}

// applyLocked applies i.batch, unless it is empty.
func (i *Informer[T]) applyLocked() (err error) {
	if len(i.batch) == 0 {
		return nil
	}
	if i.batch[0].Type == Replaced {
		err = i.applyListLocked(&i.batch[0])
	} else if len(i.past) == 0 {
		i.changes, err = writeTo(i.hub, i.store, i.batch, i.changes, false)
	} else {
		err = i.applyPastLocked()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", i.resource, err)
	}
	if i.full = i.hub.Full(); i.full {
		run.Signal(i.fifo.readable) // for apply to wait
	}
	clear(i.batch)
	clear(i.changes)
	if i.changes = i.changes[:0]; cap(i.changes) > fifoCapacity {
		i.changes = nil // only a list has that many changes, and lists are rare
	}
	return nil
}

// applyListLocked applies i.batch, which is the Replaced d.
func (i *Informer[T]) applyListLocked(d *Delta[T]) (err error) {
	first := !i.listed[d.Namespace]
	if i.changes, err = writeTo(i.hub, i.store, i.batch, i.changes, first); err != nil {
		return err
	}
	switch {
	case d.past:
		if i.past == nil {
			i.past = map[string]bool{}
		}
		i.past[d.Namespace] = true
		return nil // the namespace has its shard once it is current
	case first:
		delete(i.past, d.Namespace)
		i.noteFirstList(d.Namespace)
	}
	i.noteShard(d)
	return nil
}

// applyPastLocked applies i.batch, which has no Replaced. Additions to a namespace whose objects are of the past are
// initial, as those of the first list.
func (i *Informer[T]) applyPastLocked() (err error) {
	for from := 0; from < len(i.batch); {
		to, past := from+1, i.past[i.batch[from].Namespace]
		for to < len(i.batch) && !i.batch[to-1].current && i.past[i.batch[to].Namespace] == past {
			to++
		}
		clear(i.changes)
		if i.changes, err = writeTo(i.hub, i.store, i.batch[from:to], i.changes[:0], past); err != nil {
			return err
		}
		if last := &i.batch[to-1]; last.current && past {
			delete(i.past, last.Namespace)
			i.noteFirstList(last.Namespace)
			i.noteShard(last)
		}
		from = to
	}
	return nil
}

// noteFirstList notes that the store has the first list of a namespace, or what equals it. Only applyLocked calls it.
func (i *Informer[T]) noteFirstList(namespace string) {
	i.mu.Lock()
	i.listed[namespace] = true
	complete := len(i.listed) == len(i.reflectors)
	i.mu.Unlock()
	if complete {
		i.hub.Load()
	}
}

// SetShard makes the store hold exactly the objects of shard, and returns when it does. Until then, it holds those of
// the shard before. It changes in one step, or in one for each namespace of the Resource: objects that stay raise no
// event unless they have changed, those that come are added, and those that go are deleted with final=false.
//
// If the store has a part of shard, and the server filters by shard, the informer lists only what comes, as of the
// resource version of the store, and resumes the watch there. If nothing comes, it needs no list. Otherwise, also if
// shard is the one that the store has, it lists the whole shard, and changes of objects that stay raise events when it
// has the list. It does none of this while it waits to try again after a failure. If another call for the same shard is
// under way, or has ended before the informer had it, they share the list.
//
// If ctx ends first, SetShard returns an error that wraps the cause of ctx, and the change continues. Before Run, and
// while a resource has never been served, SetShard waits. If another call changes the shard meanwhile, the later shard
// counts, and SetShard waits for that one. The error wraps [ErrStopped] if the informer stops.
func (i *Informer[T]) SetShard(ctx context.Context, shard Shard) error {
	if i.compact != nil {
		return i.compact.SetShard(ctx, shard)
	}
	if i.invalid != nil {
		return i.invalid
	}
	if err := shard.validate(); err != nil {
		return err
	}
	shard = shard.clone()
	i.mu.Lock()
	if i.hasShardLocked() || !i.shard.equal(shard) { // otherwise an earlier call has asked for the same list
		i.shard = shard
		for _, r := range i.reflectors {
			i.wanted[r.decoder.namespace] = r.setShard(shard)
		}
	}
	for !i.hasShardLocked() {
		changed := i.changed
		i.mu.Unlock()
		select {
		case <-changed:
		case <-i.stopped:
			return fmt.Errorf("%s has not changed its shard: %w", i.resource, ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("%s has not changed its shard: %w", i.resource, context.Cause(ctx))
		}
		i.mu.Lock()
	}
	i.mu.Unlock()
	return nil
}

// hasShardLocked reports whether the store has the latest shard.
func (i *Informer[T]) hasShardLocked() bool {
	for namespace, n := range i.wanted {
		if i.sharded[namespace] < n {
			return false
		}
	}
	return true
}

// noteShard notes the shard of a list that is in the store, or of a warm start that has caught up.
func (i *Informer[T]) noteShard(d *Delta[T]) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if d.sharded > i.sharded[d.Namespace] {
		i.sharded[d.Namespace] = d.sharded
		close(i.changed)
		i.changed = make(chan struct{})
	}
}

// report logs that a subscription ended by itself.
func (i *Informer[T]) report(handler string, why error) {
	i.config.logger().Error("a subscription has ended", "resource", i.resource.String(), "handler", handler, "why", why)
}

// reportUnreadable logs that an object of the store cannot be decoded again.
func (i *Informer[T]) reportUnreadable(failed *DecodeError) {
	i.config.logger().Error("an object of the store cannot be decoded", "resource", i.resource.String(),
		"key", failed.Key.String(), "err", failed.Err)
}

// reportSlow logs that a call of a handler takes long.
func (i *Informer[T]) reportSlow(s deliver.Status) {
	i.config.logger().Warn("a handler is slow", "resource", i.resource.String(), "handler", s.Name, "call", s.Busy,
		"backlog", s.Backlog, "oldest", s.Oldest)
}

// stop ends all subscriptions, waits for the calls under way, and drops the deltas that are not in the store.
func (i *Informer[T]) stop() {
	i.hub.Stop(ErrStopped)
	i.fifo.Close(false)
}

// abandon ends an informer that was not started, so that nobody waits for it. Run then returns [ErrStopped].
func (i *Informer[T]) abandon() {
	if i.compact != nil {
		i.compact.abandon()
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.started && !run.IsClosed(i.hub.Stopped()) {
		i.stop()
	}
}

// save saves the objects of each namespace from time to time, until ctx ends.
func (i *Informer[T]) save(ctx context.Context) {
	if i.WaitSynced(ctx) == nil {
		i.saveAll(ctx, i.config.Snapshot.interval()/firstSave)
	}
	for ctx.Err() == nil {
		interval := i.config.Snapshot.interval()
		i.saveAll(ctx, interval-rand.N(interval/10+1))
	}
}

// firstSave is the part of Config.Snapshot.Interval after which the first save follows.
const firstSave = 10

// saveAll saves the objects of each namespace after a wait.
func (i *Informer[T]) saveAll(ctx context.Context, wait time.Duration) {
	if run.Sleep(ctx, wait) == nil {
		i.saveNow(ctx, false)
	}
}

// saveNow saves the objects of each namespace.
func (i *Informer[T]) saveNow(ctx context.Context, last bool) {
	for _, r := range i.reflectors {
		if err := run.Apart(func() error { // a method of T may call runtime.Goexit
			r.saved.save(ctx, i.store.Snapshot(), r.log, last)
			return nil
		}); err != nil {
			r.saved.noteSaveError(err, r.log)
		}
	}
}
