package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/sharding"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/clientgo/internal/shards"
)

// shared is an informer in the form of client-go. It notes what the program sets before Run, in any order. Run then
// creates the informer that does the work.
type shared struct {
	config Config
	parts  []Part
	name   string        // for errors and checkers
	synced chan struct{} // closed when the store has received all collections, and fast handlers the initial objects
	view   indexer

	running sync.WaitGroup // not added to after phase is stopped

	mu           sync.Mutex // protects the fields below, and the transforms of parts
	phase        phase
	handlers     map[*registration]struct{} // those that were not removed
	resyncCheck  []time.Duration            // for each part: no handler's period is shorter; zero means no resyncs
	onWatchError cache.WatchErrorHandlerWithContext
}

// phase is the state of a [shared]: created -> started -> stopped.
type phase uint8

const (
	created phase = iota
	started
	stopped
)

// newShared returns an informer of parts. config must be valid.
func newShared(config Config, parts []Part) *shared {
	s := &shared{
		config:   config,
		parts:    slices.Clone(parts),
		name:     fmt.Sprintf("SharedIndexInformer %T", config.Object),
		synced:   make(chan struct{}),
		handlers: map[*registration]struct{}{},
	}
	for _, p := range parts {
		s.resyncCheck = append(s.resyncCheck, p.ResyncPeriod)
	}
	s.view = indexer{informer: s}
	s.view.to.Store(&store{cache.NewIndexer(cache.DeletionHandlingMetaNamespaceKeyFunc, cache.Indexers{})})
	return s
}

// Run is RunWithContext until stop is closed.
func (s *shared) Run(stop <-chan struct{}) { s.RunWithContext(wait.ContextForChannel(stop)) }

// RunWithContext runs the informer until ctx ends. An informer runs once: a later call logs a warning and returns.
func (s *shared) RunWithContext(ctx context.Context) {
	defer utilruntime.HandleCrashWithContext(ctx)
	l := s.start(ctx)
	if l == nil {
		klog.FromContext(ctx).Info("Warning: an informer can only run once", "informer", s.name)
		return
	}
	s.running.Go(func() {
		if l.waitSynced() {
			s.awaitHandlers()
			close(s.synced)
		}
	})
	var others sync.WaitGroup
	for n, i := range l.parts[1:] {
		others.Go(func() {
			defer utilruntime.HandleCrashWithContext(ctx)
			s.run(ctx, i, s.parts[n+1])
		})
	}
	s.run(ctx, l.parts[0], s.parts[0])
	others.Wait()
	s.stop()
	s.running.Wait()
	s.forgetHandlers()
}

// run runs the informer of one part.
func (s *shared) run(ctx context.Context, i *informer.Informer[Object], part Part) {
	if err := i.Run(ctx); ctx.Err() == nil {
		utilruntime.HandleErrorWithContext(ctx, err, "An informer has ended", "informer", s.name,
			"resource", part.Resource.String())
	}
}

// start creates the informers that do the work, with the settings that s has noted. It returns nil after the first
// call.
func (s *shared) start(ctx context.Context) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != created {
		return nil
	}
	var parts []*informer.Informer[Object]
	for _, p := range s.parts {
		config := s.config.informer(p)
		if config.Logger == nil {
			config.Logger = slog.New(logr.ToSlogHandler(klog.FromContext(ctx).V(2))) // states at V(2), failures always
		}
		if s.onWatchError != nil {
			config.OnFailure = s.onFailure(ctx, p, s.onWatchError)
		}
		parts = append(parts, informer.New(p.Client, p.Resource, config))
	}
	if s.config.OnStart != nil {
		s.config.OnStart(slices.Clone(parts))
	}
	l := newLive(s.name, parts)
	if err := l.AddIndexers(s.view.to.Load().GetIndexers()); err != nil {
		utilruntime.HandleErrorWithContext(ctx, err, "An index was not added", "informer", s.name)
	}
	s.view.to.Store(&store{l})
	s.phase = started
	for r := range s.handlers {
		s.subscribeLocked(r, l)
	}
	return l
}

// subscribeLocked subscribes a handler to the informers that do the work.
func (s *shared) subscribeLocked(r *registration, l *live) {
	if err := r.subscribe(l.parts); err != nil {
		utilruntime.HandleErrorWithLogger(r.logger, err, "A handler was not added", "informer", s.name)
	}
	s.running.Go(r.follow)
}

// onFailure returns a function that calls handler. client-go's handler, for example, logs the name of its reflector, so
// handler receives one that only has a name.
func (s *shared) onFailure(ctx context.Context, part Part, handler cache.WatchErrorHandlerWithContext) func(error) {
	description := s.config.ObjectDescription
	if description == "" {
		description = fmt.Sprintf("%T", s.config.Object)
	}
	r := cache.NewReflectorWithOptions(&cache.ListWatch{}, s.config.Object, nil, cache.ReflectorOptions{
		Name:            part.Resource.String(),
		TypeDescription: description,
	})
	return func(err error) { handler(ctx, r, err) }
}

func (s *shared) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase = stopped
}

// forgetHandlers frees the handlers of an informer that has stopped, as in client-go: a program may keep the informer.
func (s *shared) forgetHandlers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.handlers)
}

// AddEventHandler adds a handler with the informer's resync period.
func (s *shared) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, cache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod adds a handler with a resync period. Zero means no resync.
func (s *shared) AddEventHandlerWithResyncPeriod(h cache.ResourceEventHandler,
	resync time.Duration) (cache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(h, cache.HandlerOptions{ResyncPeriod: &resync})
}

// AddEventHandlerWithOptions adds a handler. It returns an error if h is nil or the informer has stopped.
func (s *shared) AddEventHandlerWithOptions(h cache.ResourceEventHandler,
	options cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	if h == nil {
		return nil, fmt.Errorf("%s: add a handler: it is nil", s.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == stopped {
		// Programs look for the end of this text, which is client-go's.
		return nil, fmt.Errorf("%s: %w: handler %T was not added to shared informer because it has stopped already", s.name,
			informer.ErrStopped, h)
	}
	logger := klog.Background()
	if options.Logger != nil {
		logger = *options.Logger
	}
	r := newRegistration(h, s.name, s.resyncLocked(options.ResyncPeriod), logger)
	s.handlers[r] = struct{}{}
	if s.phase == started {
		s.subscribeLocked(r, s.view.to.Load().Indexer.(*live))
	}
	return r, nil
}

// resyncLocked returns the resync period of a new handler for each part, by the rules of client-go. own is the period
// that the handler asks for, or nil.
func (s *shared) resyncLocked(own *time.Duration) []time.Duration {
	periods := make([]time.Duration, len(s.parts))
	for n, p := range s.parts {
		period, check := p.ResyncPeriod, &s.resyncCheck[n]
		if own != nil {
			period = *own
		}
		switch {
		case period <= 0 || *check <= 0:
		case s.phase == started:
			periods[n] = max(period, minResync, *check)
		default:
			periods[n] = max(period, minResync)
			*check = min(*check, periods[n])
		}
	}
	return periods
}

// RemoveEventHandler removes a handler and drops the events that wait for it. It does not wait for a call under way. It
// does nothing if the handler has been removed before, or belongs to another informer. It returns an error for a handle
// of another package.
func (s *shared) RemoveEventHandler(handle cache.ResourceEventHandlerRegistration) error {
	r, ok := handle.(*registration)
	if !ok {
		return fmt.Errorf("%s: remove a handler: its handle is a %T, of another package", s.name, handle)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, mine := s.handlers[r]; mine {
		delete(s.handlers, r)
		r.remove()
	}
	return nil
}

// handlersFirst is how long an informer waits for its handlers before it has synced. A handler of client-go runs while
// the informer syncs, so programs and their tests expect that a fast one has received the initial objects then. A handler
// may wait for the sync, so the informer does not wait for long.
const handlersFirst = 10 * time.Millisecond

// awaitHandlers waits until the handlers have processed the initial objects, for at most handlersFirst.
func (s *shared) awaitHandlers() {
	s.mu.Lock()
	handlers := slices.Collect(maps.Keys(s.handlers))
	s.mu.Unlock()
	limit := time.NewTimer(handlersFirst)
	defer limit.Stop()
	for _, r := range handlers {
		select {
		case <-r.synced:
		case <-r.ended:
		case <-limit.C:
			return
		}
	}
}

// HasSynced reports whether the store has received the whole collection.
func (s *shared) HasSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

// HasSyncedChecker returns a checker that is done when HasSynced returns true.
func (s *shared) HasSyncedChecker() cache.DoneChecker { return checker{s.name, s.synced} }

// LastSyncResourceVersion returns the resource version up to which the store is complete.
func (s *shared) LastSyncResourceVersion() string {
	if l, ok := s.view.to.Load().Indexer.(*live); ok {
		return l.LastStoreSyncResourceVersion()
	}
	return ""
}

// IsStopped reports whether the informer has stopped.
func (s *shared) IsStopped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase == stopped
}

// errStarted is the error of a setting after Run.
var errStarted = errors.New("the informer has already started")

// IsStarted reports whether Run was called. client-go's informers have no such method.
func (s *shared) IsStarted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase != created
}

// Handlers returns the handles of the handlers that were added and not removed, in no order. An informer that has stopped
// has none. client-go's informers have no such method.
func (s *shared) Handlers() []cache.ResourceEventHandlerRegistration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []cache.ResourceEventHandlerRegistration
	for r := range s.handlers {
		all = append(all, r)
	}
	return all
}

// SetWatchErrorHandler sets the function that is called when a list or a watch has failed. It returns an error after
// Run.
func (s *shared) SetWatchErrorHandler(h cache.WatchErrorHandler) error {
	return s.SetWatchErrorHandlerWithContext(func(_ context.Context, r *cache.Reflector, err error) { h(r, err) })
}

// SetWatchErrorHandlerWithContext is SetWatchErrorHandler for a function with a context, which is that of Run.
func (s *shared) SetWatchErrorHandlerWithContext(h cache.WatchErrorHandlerWithContext) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != created {
		return fmt.Errorf("%s: set the watch error handler: %w", s.name, errStarted)
	}
	s.onWatchError = h
	return nil
}

// SetTransform sets the function that is called for each object before it is stored. It replaces the Transform of each
// Part. It returns an error after Run.
func (s *shared) SetTransform(f cache.TransformFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != created {
		return fmt.Errorf("%s: set the transform: %w", s.name, errStarted)
	}
	for n := range s.parts {
		s.parts[n].Transform = f
	}
	return nil
}

// SetShardSelector restricts the informer to a shard: see informer.Shard. It replaces the Shard of each Part. Nil means
// all objects. It returns an error after Run, and for a selector that no server would accept. The interface of
// client-go has the method since 0.38.
func (s *shared) SetShardSelector(selector sharding.Selector) error {
	shard, err := shards.Of(selector)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != created {
		return fmt.Errorf("%s: set the shard selector: %w", s.name, errStarted)
	}
	parts := slices.Clone(s.parts)
	for n := range parts {
		parts[n].Resource.Shard = shard
		if err := s.config.validate(parts[n]); err != nil {
			return fmt.Errorf("%s: set the shard selector: %w", s.name, err)
		}
	}
	s.parts = parts
	return nil
}

// AddIndexers adds indexes, before or after Run.
func (s *shared) AddIndexers(indexers cache.Indexers) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == stopped {
		return fmt.Errorf("%s: add an index: %w", s.name, informer.ErrStopped)
	}
	return s.view.to.Load().AddIndexers(indexers)
}

// GetIndexer returns the objects and the indexes. Before Run, tests may write to it.
func (s *shared) GetIndexer() cache.Indexer { return &s.view }

// GetStore returns the objects.
func (s *shared) GetStore() cache.Store { return &s.view }

// GetController returns a controller that does nothing, as in client-go.
func (s *shared) GetController() cache.Controller { return controller{s} }

// controller is the [cache.Controller] of an informer, which runs by itself.
type controller struct{ informer *shared }

func (controller) Run(<-chan struct{})                   {}
func (controller) RunWithContext(context.Context)        {}
func (c controller) HasSynced() bool                     { return c.informer.HasSynced() }
func (c controller) HasSyncedChecker() cache.DoneChecker { return c.informer.HasSyncedChecker() }
func (c controller) LastSyncResourceVersion() string     { return c.informer.LastSyncResourceVersion() }
