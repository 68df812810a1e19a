package informer

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
)

// Group shares informers: all users of the same type, resource, namespaces and selectors get the same informer. It runs
// from the first user until the last one releases it. A group starts its informers together, and waits for all of them.
//
// Create one with [NewGroup], get informers with [Shared], and call Run. All methods are safe for concurrent use.
type Group struct {
	client *Client

	mu      sync.Mutex // protects the fields below
	members map[shareKey]*member
	order   []*member               // in the order in which they joined
	ctx     context.Context         // the context of Run; nil before Run
	end     context.CancelCauseFunc // ends ctx
	running sync.WaitGroup          // the running informers; only added to before Run waits for it
	started bool
	stopped bool
}

// shareKey identifies an informer of a group. Users with equal keys share one informer.
type shareKey struct {
	object   reflect.Type // T
	decoded  reflect.Type // the same, or the type of Config.Prototype
	resource string
}

// member is an informer of a group.
type member struct {
	key      shareKey
	informer sharedInformer
	users    int
	cancel   context.CancelFunc // ends its Run; nil if it does not run
}

// sharedInformer is an Informer of any T.
type sharedInformer interface {
	Run(ctx context.Context) error
	HasSynced() bool
	WaitSynced(ctx context.Context) error
	Status() InformerStatus
	abandon()
}

// NewGroup returns a group without informers.
func NewGroup(client *Client) *Group {
	return &Group{client: client, members: map[shareKey]*member{}}
}

// Shared returns the group's informer of resource, and a function that releases it. The first call creates the informer
// with config. The informer stops when its last user releases it; a later call creates a new one. release does not wait
// until the informer has stopped. Calling it again does nothing.
//
// A later call returns the informer with its first configuration, also if [Informer.SetShard] has changed its shard
// since. Its config must be the zero Config, or equal to the first one; only its Logger may differ, and is not used.
// Functions are never equal, so a later Transform, Filter, OnDecodeError or OnFailure is an error. So is a resource or
// config that is wrong. If the group has stopped, the error wraps [ErrStopped].
func Shared[T Object](g *Group, resource Resource, config Config[T]) (shared *Informer[T], release func(), err error) {
	sorted := resource
	sorted.Namespaces = slices.Sorted(slices.Values(resource.Namespaces))
	key := shareKey{reflect.TypeFor[T](), config.goType(),
		fmt.Sprintf("%q", []any{sorted.Group, sorted.Version, sorted.Resource, sorted.Namespaces, sorted.LabelSelector,
			sorted.FieldSelector, sorted.Shard.String()})}

	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopped {
		return nil, nil, fmt.Errorf("share %s: %w", resource, ErrStopped)
	}
	m := g.members[key]
	if m == nil {
		shared = newInformer(g.client, resource, config)
		if shared.invalid != nil {
			return nil, nil, shared.invalid
		}
		m = &member{key: key, informer: shared}
		g.members[key] = m
		g.order = append(g.order, m)
		g.startLocked(m)
	} else {
		shared = m.informer.(*Informer[T])
		if err := config.joins(&shared.config); err != nil {
			return nil, nil, fmt.Errorf("share %s: %w", resource, err)
		}
	}
	m.users++
	return shared, sync.OnceFunc(func() { g.release(m) }), nil
}

// joins returns an error unless a user with config c can share an informer with config first.
func (c *Config[T]) joins(first *Config[T]) error {
	if c.Transform != nil || c.Filter != nil || c.OnDecodeError != nil || c.OnFailure != nil {
		return errors.New("the informer exists already, with the functions of its first Config: " +
			"leave Transform, Filter, OnDecodeError and OnFailure nil, or create another informer with New")
	}
	mine, theirs := *c, *first
	theirs.Transform, theirs.Filter, theirs.OnDecodeError, theirs.OnFailure = nil, nil, nil, nil
	zero := Config[T]{}
	mine.Prototype, theirs.Prototype = zero.Prototype, zero.Prototype // of the same type
	mine.Logger, theirs.Logger = nil, nil                             // in use: to look into one is a data race
	if !reflect.DeepEqual(mine, zero) && !reflect.DeepEqual(mine, theirs) {
		return fmt.Errorf("the informer exists already, with another Config")
	}
	return nil
}

func (g *Group) startLocked(m *member) {
	if g.ctx == nil {
		return
	}
	var ctx context.Context
	ctx, m.cancel = context.WithCancel(g.ctx)
	g.running.Go(func() {
		if err := m.informer.Run(ctx); ctx.Err() == nil {
			g.end(err) // the informer ended by itself
		}
	})
}

func (g *Group) release(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.users--; m.users > 0 {
		return
	}
	delete(g.members, m.key)
	g.order = slices.DeleteFunc(g.order, func(other *member) bool { return other == m })
	if m.cancel != nil {
		m.cancel()
	} else {
		m.informer.abandon() // no Run will end it, and somebody may wait for it
	}
}

// Run runs all informers of the group, also those that join later, until ctx ends. It returns the cause of ctx, once
// all of them have stopped. If one of them ends by itself, Run stops the others and returns its error: [ErrRunning] for
// an informer whose Run was called directly. A group runs once; later calls return [ErrRunning].
func (g *Group) Run(ctx context.Context) error {
	g.mu.Lock()
	if g.started {
		g.mu.Unlock()
		return fmt.Errorf("group: %w", ErrRunning)
	}
	g.started = true
	g.ctx, g.end = context.WithCancelCause(ctx)
	ctx = g.ctx
	for _, m := range g.order {
		g.startLocked(m)
	}
	g.mu.Unlock()
	defer g.end(nil)

	<-ctx.Done()
	g.mu.Lock()
	g.stopped = true
	g.mu.Unlock()
	g.running.Wait()
	return context.Cause(ctx)
}

// HasSynced reports whether every informer that is now in the group has synced. For an empty group it returns true. It
// returns false again after an informer has joined that has not synced yet.
func (g *Group) HasSynced() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !slices.ContainsFunc(g.order, func(m *member) bool { return !m.informer.HasSynced() })
}

// WaitSynced waits until every informer that is now in the group has synced, and then returns nil. If ctx ends first or
// the group stops, it returns the errors of all informers that have not synced, each a [*NotSyncedError].
func (g *Group) WaitSynced(ctx context.Context) error {
	g.mu.Lock()
	members := slices.Clone(g.order)
	g.mu.Unlock()
	var errs []error
	for _, m := range members {
		err := m.informer.WaitSynced(ctx)
		g.mu.Lock()
		released := m.users == 0
		g.mu.Unlock()
		if err != nil && !released {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Status returns the status of each informer, in the order in which they joined.
func (g *Group) Status() []InformerStatus {
	g.mu.Lock()
	members := slices.Clone(g.order)
	g.mu.Unlock()
	var statuses []InformerStatus
	for _, m := range members {
		statuses = append(statuses, m.informer.Status())
	}
	return statuses
}

// SharedInto returns a function for [Group.Join]. The function calls [Shared] with the zero [Config], and stores the
// informer in *to.
func SharedInto[T Object](to **Informer[T], resource Resource) func(g *Group) (release func(), err error) {
	return func(g *Group) (release func(), err error) {
		*to, release, err = Shared(g, resource, Config[T]{})
		return release, err
	}
}

// Join gets several informers of the group, each by a function from [SharedInto]. It returns a function that releases
// all of them. If one fails, Join releases the others and returns the error. Generated code uses it for the Set of an
// API version. To configure one of the informers, call [Shared] for it first.
func (g *Group) Join(members ...func(g *Group) (release func(), err error)) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, r := range releases {
			r()
		}
	}
	for _, m := range members {
		r, err := m(g)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, r)
	}
	return sync.OnceFunc(release), nil
}
