package informer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/typedinformer/informer/internal/group"
	"github.com/typedinformer/informer/status"
)

// Group shares informers: all users of the same type, resource, namespaces and selectors get the same informer. It runs
// from the first user until the last one releases it. A group starts its informers together, and waits for all of them.
//
// Create one with [NewGroup], get informers with [Shared], and call Run. All methods are safe for concurrent use.
type Group struct {
	client  *Client
	members *group.Table[shareKey, sharedInformer]
}

// shareKey identifies an informer of a group. Users with equal keys share one informer.
type shareKey struct {
	object   reflect.Type // T
	decoded  reflect.Type // the same, or the type of Config.Prototype
	resource string
}

// sharedInformer is an Informer of any T.
type sharedInformer interface {
	Run(ctx context.Context) error
	HasSynced() bool
	WaitSynced(ctx context.Context) error
	Status() InformerStatus
	Audit(ctx context.Context) (status.AuditResult, error)
	abandon()
}

// NewGroup returns a group without informers.
func NewGroup(client *Client) *Group {
	return &Group{client, group.New[shareKey](
		func(ctx context.Context, i sharedInformer) error { return i.Run(ctx) }, sharedInformer.abandon)}
}

// Shared returns the group's informer of resource, and a function that releases it. The first call creates the informer
// with config. The informer stops when its last user releases it; a later call creates a new one. release does not wait
// until the informer has stopped. Calling it again does nothing.
//
// A later call returns the informer with its first configuration, even if [Informer.SetShard] has changed its shard
// since. Its config must be the zero Config, or equal to the first one; only its Logger may differ, and is ignored.
// Functions are never equal, so a later Transform, Filter, OnDecodeError or OnFailure is an error. An invalid resource
// or config is an error, too. If the group has stopped, the error wraps [ErrStopped].
func Shared[T Object](g *Group, resource Resource, config Config[T]) (shared *Informer[T], release func(), err error) {
	sorted := resource
	sorted.Namespaces = slices.Sorted(slices.Values(resource.Namespaces))
	sorted.Selections = slices.SortedFunc(slices.Values(resource.Selections), func(a, b Selection) int {
		return cmp.Compare(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b))
	})
	key := shareKey{reflect.TypeFor[T](), config.goType(),
		fmt.Sprintf("%q", []any{sorted.Group, sorted.Version, sorted.Resource, sorted.Namespaces, sorted.LabelSelector,
			sorted.FieldSelector, fmt.Sprintf("%+v", sorted.Selections), sorted.Shard.String()})}

	create := func() (sharedInformer, error) {
		i := newInformer(g.client, resource, config)
		return i, i.invalid
	}
	accept := func(first sharedInformer) error {
		if err := config.joins(&first.(*Informer[T]).config); err != nil {
			return fmt.Errorf("share %s: %w", resource, err)
		}
		return nil
	}
	member, release, err := g.members.Join(key, create, accept)
	if err == group.ErrStopped {
		err = fmt.Errorf("share %s: %w", resource, ErrStopped)
	}
	if err != nil {
		return nil, nil, err
	}
	return member.(*Informer[T]), release, nil
}

// joins returns an error unless a user with config c can share the informer that has the config first.
func (c *Config[T]) joins(first *Config[T]) error {
	if c.Transform != nil || c.Filter != nil || c.OnDecodeError != nil || c.OnFailure != nil {
		return errors.New("the informer already exists, with the functions of its first Config: " +
			"leave Transform, Filter, OnDecodeError and OnFailure nil, or create another informer with New")
	}
	mine, theirs := *c, *first
	theirs.Transform, theirs.Filter, theirs.OnDecodeError, theirs.OnFailure = nil, nil, nil, nil
	zero := Config[T]{}
	mine.Prototype, theirs.Prototype = zero.Prototype, zero.Prototype // of the same type
	mine.Logger, theirs.Logger = nil, nil                             // in use: comparing them is a data race
	mine.Parts, theirs.Parts = nil, nil                               // in use as well
	if (c.Parts != nil || !reflect.DeepEqual(mine, zero)) &&
		(c.Parts != first.Parts || !reflect.DeepEqual(mine, theirs)) {
		return errors.New("the informer already exists, with another Config")
	}
	return nil
}

// Run runs all informers of the group, also those that join later, until ctx ends. It returns the cause of ctx, once
// all of them have stopped. If one of them ends by itself, Run stops the others and returns its error: [ErrRunning] for
// an informer whose Run was called directly. A group runs once; later calls return [ErrRunning].
func (g *Group) Run(ctx context.Context) error {
	err := g.members.Run(ctx)
	if err == group.ErrRunning {
		return fmt.Errorf("group: %w", ErrRunning)
	}
	return err
}

// HasSynced reports whether every informer that is now in the group has synced. For an empty group it returns true. It
// returns false again when an unsynced informer joins.
func (g *Group) HasSynced() bool { return g.members.Every(sharedInformer.HasSynced) }

// WaitSynced waits until every informer that is now in the group has synced, and then returns nil. If ctx ends first or
// the group stops, it returns the errors of all informers that have not synced, each a [*NotSyncedError].
func (g *Group) WaitSynced(ctx context.Context) error {
	return g.members.Each(func(i sharedInformer) error { return i.WaitSynced(ctx) })
}

// Status returns the status of each informer, in the order in which they joined.
func (g *Group) Status() []InformerStatus {
	var statuses []InformerStatus
	_ = g.members.Each(func(i sharedInformer) error {
		statuses = append(statuses, i.Status())
		return nil
	})
	return statuses
}

// Audit calls [Informer.Audit] of each informer that is now in the group, one after the other, in the order in which
// they joined. It returns the results of the audits that succeeded, and the joined errors of the others.
func (g *Group) Audit(ctx context.Context) (results []status.AuditResult, err error) {
	err = g.members.Each(func(i sharedInformer) error {
		r, err := i.Audit(ctx)
		if err == nil {
			results = append(results, r)
		}
		return err
	})
	return results, err
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
