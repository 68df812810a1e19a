package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/internal/deliver"
	"github.com/typedinformer/informer/internal/heapsize"
	"github.com/typedinformer/informer/internal/informer/audit"
	"github.com/typedinformer/informer/internal/run"
	"github.com/typedinformer/informer/internal/shardset"
	"github.com/typedinformer/informer/internal/source/fetch"
	"github.com/typedinformer/informer/internal/source/intake"
	"github.com/typedinformer/informer/internal/source/reflector"
	"github.com/typedinformer/informer/status"
)

// follower is the engine of an [Informer]: it has the store and the handlers, and a feeder that writes to both.
type follower[T Object] struct {
	resource Resource
	config   Config[T]
	invalid  error // the reason why New rejected its arguments; nil if it did not
	store    *Store[T]
	memory   *heapsize.Estimate[T]
	beside   func(context.Context) // runs beside the rest; nil for none
	feeder   feeder[T]
	hub      *deliver.Hub[T]
	audits   *audit.Auditor
	waiting  run.Broadcast // sent when a reflector begins the wait after a failure

	mu      sync.Mutex // protects started
	started bool
}

// feeder keeps the store of a follower equal to what it follows. Its methods are safe for concurrent use.
type feeder[T Object] interface {
	// run feeds the store until ctx ends or the store fails, and returns the cause. When it returns, every goroutine that
	// it started has ended.
	run(ctx context.Context) error
	// close ends a feeder that does not run. Nothing can feed the store afterwards.
	close()
	// mirrors returns a mirror for each collection of the store.
	mirrors() []*mirror[T]
	// awaited returns the mirrors whose first lists the store needs to be synced.
	awaited() []*mirror[T]
	// latest returns the resource with the latest shard and selections.
	latest() Resource
	// setShard changes the shard of the store.
	setShard(shardset.Shard)
	// sharded reports whether the store has the latest shard. If not, it returns a channel that is closed when the answer
	// may have changed.
	sharded() (ok bool, changed <-chan struct{})
}

// newFollower returns a follower that holds a T for each object. It passes packing to newReflector. If invalid is not
// nil, the follower is invalid for that reason.
func newFollower[T Object](client *Client, resource Resource, config Config[T], packing intake.Packing[T],
	invalid error) *follower[T] {
	store, _ := NewStore[T]()
	store.same = packing.SameContent
	f := &follower[T]{
		resource: resource,
		config:   config,
		memory:   heapsize.NewEstimate(packing.Measure),
		store:    store,
		hub:      newHub(resource, store),
	}
	f.hub.Unsynced, f.hub.Report, f.hub.Slow = f.unsynced, f.report, f.reportSlow
	var union func(context.Context) (audit.Found, error)
	if len(resource.Selections) > 0 {
		union = func(ctx context.Context) (audit.Found, error) { return f.feeder.(*selections[T]).compare(ctx) }
	}
	f.audits = newAuditor(client, resource, config, store, f.hub.Stopped(), f.audited, union)
	feed := f.feed(client, packing)
	if f.invalid = invalid; invalid == nil {
		f.invalid = feed()
	}
	if f.invalid != nil {
		f.hub.Stop(f.invalid)
	}
	return f
}

// feed makes the feeder of f. It returns a function that makes the feeder's reflectors, or fails.
func (f *follower[T]) feed(client *Client, packing intake.Packing[T]) func() error {
	if len(f.resource.Selections) > 0 {
		s := newSelections(client, f.resource, f.config, packing, f.store, f.hub, f.hooks())
		f.feeder = s
		return func() error { return s.want(f.resource.Selections) }
	}
	m := newMirror(f.resource, f.config, f.store, f.hub)
	f.feeder = m
	return func() error { return m.reflect(client, packing, f.hooks()) }
}

// hooks returns what the reflectors of f call.
func (f *follower[T]) hooks() hooks { return hooks{resumed: f.audits.Resumed, waiting: f.waiting.Send} }

// run implements engine.
func (f *follower[T]) run(ctx context.Context) (err error) {
	if err := f.begin(); err != nil {
		return err
	}
	defer f.stop()
	pprof.Do(ctx, pprof.Labels("informer", f.resource.String()), func(ctx context.Context) {
		ctx, end := context.WithCancelCause(ctx)
		defer end(nil)
		var running sync.WaitGroup
		running.Go(func() { f.runAudits(ctx) })
		if f.beside != nil {
			running.Go(func() { f.beside(ctx) })
		}
		err = f.feeder.run(ctx)
		end(nil)
		running.Wait()
	})
	return err
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

// waitReadable implements engine.
func (f *follower[T]) waitReadable(ctx context.Context, timeout time.Duration) error {
	if run.IsClosed(f.hub.Synced()) {
		return nil
	}
	patience := time.NewTimer(timeout)
	defer patience.Stop()
	for late := false; ; {
		waiting := f.waiting.Next()
		if why := f.unreadable(late); why != nil {
			return f.unsynced(why)
		}
		select {
		case <-waiting:
		case <-patience.C:
			late = true
		case <-f.hub.Synced():
			return nil
		case <-f.hub.Stopped():
			return f.unsynced(ErrStopped)
		case <-ctx.Done():
			return f.unsynced(context.Cause(ctx))
		}
	}
}

// unreadable returns why a read does not wait any longer for the first lists, or nil. late is true
// after the timeout of the read.
func (f *follower[T]) unreadable(late bool) error {
	for _, m := range f.feeder.awaited() {
		for _, feed := range m.feeds {
			if m.sharding.Began(feed.loop.Decoder.Namespace) {
				continue
			}
			switch n, err := feed.loop.Failure(); {
			case err == nil:
			case n > 1 && fetch.IsLasting(err), errors.Is(err, ErrNoList):
				return &unreadableError{"the server refuses it", asUnsynced(err)}
			case late:
				return &unreadableError{"the read does not wait longer", asUnsynced(err)}
			}
		}
	}
	return nil
}

// unreadableError is why a read does not wait for the first lists.
type unreadableError struct {
	says string
	err  error // the failure of the list
}

func (e *unreadableError) Error() string { return e.says }
func (e *unreadableError) Unwrap() error { return e.err }

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
	for _, m := range f.feeder.mirrors() {
		for _, feed := range m.feeds {
			namespace, text := feed.loop.Decoder.Namespace, ""
			if m.sharding.Began(namespace) {
				continue
			}
			if len(f.resource.Selections) > 0 {
				text = cmp.Or(strings.TrimPrefix(m.resource.where(), " "), "all namespaces") + ": "
			} else if namespace != "" {
				text = "namespace " + namespace + ": "
			}
			s := feed.loop.Status()
			if why = append(why, text+reflector.Text(&s)); s.LastError != nil {
				errs = append(errs, asUnsynced(s.LastError))
			}
		}
	}
	return &NotSyncedError{Resource: f.resource, Why: strings.Join(why, "; "), errs: errs}
}

// asUnsynced returns the failure err of a list for a reader of objects. A 404 of the list must not tell the reader that
// an object does not exist.
func asUnsynced(err error) error {
	switch {
	case errors.Is(err, ErrAbsent):
		return ErrAbsent
	case apierrors.IsNotFound(err) && errors.Is(err, ErrNoList):
		return ErrNoList
	case apierrors.IsNotFound(err):
		return errors.New(err.Error())
	}
	return err
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

// audited returns the sources that audits compare with the server.
func (f *follower[T]) audited() (all []audit.Source) {
	for _, m := range f.feeder.mirrors() {
		for _, feed := range m.feeds {
			all = append(all, feed.audited)
		}
	}
	return all
}

// audit implements engine.
func (f *follower[T]) audit(ctx context.Context) (status.AuditResult, error) {
	if err := f.waitSynced(ctx); err != nil {
		return status.AuditResult{}, fmt.Errorf("audit: %w", err)
	}
	ctx, end := run.Until(ctx, f.hub.Stopped(), ErrStopped)
	defer end()
	r, err := f.audits.Audit(ctx)
	if err != nil {
		err = fmt.Errorf("audit of %s: %w", f.resource, err)
	}
	return r, err
}

// runAudits runs the follower's own audits until ctx ends.
func (f *follower[T]) runAudits(ctx context.Context) {
	if f.waitSynced(ctx) != nil {
		return
	}
	for _, m := range f.feeder.mirrors() {
		for _, feed := range m.feeds {
			if feed.loop.Status().WarmStart.Loaded {
				f.audits.Due()
			}
		}
	}
	f.audits.Run(ctx)
}

// setShard implements engine.
func (f *follower[T]) setShard(ctx context.Context, shard shardset.Shard) error {
	if f.invalid != nil {
		return f.invalid
	}
	if err := shard.Validate(); err != nil {
		return err
	}
	f.feeder.setShard(shard.Clone())
	if err := f.waitUntil(ctx, f.feeder.sharded); err != nil {
		return fmt.Errorf("%s has not changed its shard: %w", f.resource, err)
	}
	return nil
}

// setSelections implements engine.
func (f *follower[T]) setSelections(ctx context.Context, selected []Selection) error {
	if f.invalid != nil {
		return f.invalid
	}
	s, ok := f.feeder.(*selections[T])
	if !ok {
		return fmt.Errorf("%s: SetSelections is for a Resource with Selections", f.resource)
	}
	if run.IsClosed(f.hub.Stopped()) {
		return fmt.Errorf("%s: %w", f.resource, ErrStopped)
	}
	if err := s.want(selected); err != nil {
		return err
	}
	if err := f.waitUntil(ctx, s.members.Settled); err != nil {
		return fmt.Errorf("%s has not changed its selections: %w", f.resource, err)
	}
	return nil
}

// waitUntil waits until done returns true. Otherwise, done returns a channel that is closed when waitUntil must call it
// again.
func (f *follower[T]) waitUntil(ctx context.Context, done func() (bool, <-chan struct{})) error {
	for {
		ok, changed := done()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-f.hub.Stopped():
			return ErrStopped
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// latest implements engine.
func (f *follower[T]) latest() Resource { return f.feeder.latest() }

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
func (f *follower[T]) reportSlow(s status.Subscription) {
	f.config.logger().Warn("a handler is slow", "resource", f.resource.String(), "handler", s.Name, "call", s.Busy,
		"backlog", s.Backlog, "oldest", s.Oldest)
}

// stop ends all subscriptions, waits for the calls under way, and drops the deltas that are not in the store.
func (f *follower[T]) stop() {
	f.hub.Stop(ErrStopped)
	f.feeder.close()
}

// abandon implements engine.
func (f *follower[T]) abandon() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started && !run.IsClosed(f.hub.Stopped()) {
		f.stop()
	}
}
