package shard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/typedinformer/informer"
)

// State is the state of a [Replica].
//
//	Idle -- Run --> Joining -- the group is known --> Member -- Run's context ended --> Leaving -- the work has returned --> Idle
type State uint8

const (
	// Idle means that Run is not under way.
	Idle State = iota
	// Joining creates the Lease and reads those of the other replicas.
	Joining
	// Member runs the work.
	Member
	// Leaving hands over the slots, and then stops the work.
	Leaving
)

// String returns the name of the state, such as "Member".
func (s State) String() string {
	switch s {
	case Idle:
		return "Idle"
	case Joining:
		return "Joining"
	case Member:
		return "Member"
	case Leaving:
		return "Leaving"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Status is the status of a [Replica].
type Status struct {
	// Group identifies the group of replicas: Config.Namespace, "/" and Config.Name.
	Group string
	// Identity is the name of this replica; see Config.Identity.
	Identity string
	// State is the state of the replica.
	State State
	// Replicas are the identities in the Leases of the group, ordered by the names of the Leases. They include replicas
	// that are leaving, or that have ended and whose Leases have not expired.
	Replicas []string
	// Slots is the number of slots of the group. Planned counts those that this replica should have, and Held those whose
	// objects the informers hold. Claimed counts the slots in the replica's Lease: owned, awaited from another replica, or
	// being released. Owned counts those whose keys it reconciles.
	Slots, Planned, Held, Claimed, Owned int
	// Yielded is the number of slots that this replica should have, but leaves to others because it cannot list their
	// objects; see Config.ListTimeout.
	Yielded int
	// Overdue are the calls of Reconcile that have not returned although their contexts have ended, because their slots
	// must move to another replica or the lease was lost. The oldest call is the first. See Config.StuckAfter.
	Overdue []Call
	// Shard is the shard that the informers hold, or are about to hold.
	Shard informer.Shard
	// Gained counts the slots that the replica has gained. Released counts those that it handed over, and Lost those that
	// it lost with its lease.
	Gained, Released, Lost uint64
	// LeasesLost is the number of times that the lease was lost.
	LeasesLost uint64
	// Renewed is the time at which this replica sent its last successful renewal. Zero means that there was none.
	Renewed time.Time
	// LastError is the last failed request or unreadable Lease. Nil means that there was none. A success does not clear
	// it.
	LastError error
	// LastErrorTime is the time of LastError.
	LastErrorTime time.Time
}

// Sharded is an informer whose shard can change, such as an [informer.Informer].
type Sharded interface {
	SetShard(ctx context.Context, shard informer.Shard) error
}

// Replica is one replica of a program that shares objects with others. Create one with [New]. All methods are safe for
// concurrent use.
type Replica struct {
	config   Config
	client   *informer.Client
	wall     func() time.Time // the wall clock
	keepHeld time.Duration    // keepPeriod, or less in tests

	session atomic.Pointer[session] // nil unless Run is under way

	mu          sync.Mutex // protects the fields below
	followers   []Sharded
	controllers []controller
	misused     error  // of Control; Run returns it
	status      Status // without the fields that session.describe sets
}

// controller is an informer.Controller for keys of any type.
type controller struct {
	own     func()                                                // Controller.Own
	synced  func(ctx context.Context) error                       // Controller.WaitSources
	replay  func(ctx context.Context, in func(uint64) bool) error // Controller.Replay
	release func(ctx context.Context, in func(uint64) bool)       // Controller.WaitReleased
	inWork  func(in func(uint64) bool) []Call                     // Controller.InWork
}

// New returns a replica. It sends no request; Run does. It returns an error that names the field of config that is
// wrong.
//
// Give the replica a client of its own. With a shared client, renewals wait for the rate limit behind the requests of
// the work, and may come too late.
func New(client *informer.Client, config Config) (*Replica, error) {
	if client == nil {
		return nil, errors.New("shard: the client is nil: create one with informer.NewClient")
	}
	if err := config.complete(); err != nil {
		return nil, fmt.Errorf("shard: %w", err)
	}
	config.Logger = config.Logger.With("shards", config.group(), "identity", config.Identity)
	return &Replica{
		config:   config,
		client:   client,
		wall:     func() time.Time { return time.Now().Round(0) },
		keepHeld: keepPeriod,
		status:   Status{Group: config.group(), Identity: config.Identity, Slots: config.Slots},
	}, nil
}

// Follow makes the informers hold the objects of this replica's slots: those that it owns, and those that it is about
// to own. Objects of slots that have moved away stay until the informers list anyway, or for a minute after the group
// has settled. Call Follow before Run, for each informer that should not hold the whole collection. Its objects must
// have the field that Config.Field names.
func (r *Replica) Follow(informers ...Sharded) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers = append(r.followers, informers...)
}

// Control makes ctl reconcile only the keys that r owns. hash returns the hash of a key: [informer.HashOf] of the UID
// or of the namespace, as Config.Field says. It must be fast, and always return the same for the same key. Call Control
// before Run and before ctl.Run. With [ByUID] or [ByNamespace] for another Config.Field, Run returns an error.
func Control[K comparable](r *Replica, ctl *informer.Controller[K], hash func(key K) uint64) {
	uses := func(f any) bool { return reflect.ValueOf(hash).Pointer() == reflect.ValueOf(f).Pointer() }
	var misused error
	switch field := r.config.Field; {
	case uses(ByUID) && field != informer.ShardByUID:
		misused = errors.New("shard: Control has the hash ByUID, but Config.Field is ShardByNamespace")
	case uses(ByNamespace) && field != informer.ShardByNamespace:
		misused = errors.New("shard: Control has the hash ByNamespace, but Config.Field is ShardByUID")
	}
	own := func() { ctl.Own(func(key K) informer.Ownership { return r.ownership(hash(key)) }) }
	own()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.misused = cmp.Or(r.misused, misused)
	r.controllers = append(r.controllers, controller{
		own:    own,
		synced: ctl.WaitSources,
		replay: func(ctx context.Context, in func(uint64) bool) error {
			return ctl.Replay(ctx, func(key K) bool { return in(hash(key)) })
		},
		release: func(ctx context.Context, in func(uint64) bool) {
			ctl.WaitReleased(ctx, func(key K) bool { return in(hash(key)) })
		},
		inWork: func(in func(uint64) bool) (calls []Call) {
			for key, since := range ctl.InWork(func(key K) bool { return in(hash(key)) }) {
				calls = append(calls, Call{fmt.Sprint(key), since})
			}
			return calls
		},
	})
}

// Owns reports whether this replica owns the objects with that hash; see [informer.HashOf]. It is fast and takes no
// lock. It checks the clocks, so it is correct even in a process that was suspended.
func (r *Replica) Owns(hash uint64) bool { return r.ownership(hash) == informer.KeyOwned }

func (r *Replica) ownership(hash uint64) informer.Ownership {
	s := r.session.Load()
	if s == nil {
		return informer.KeyAwaited
	}
	return s.table.ownership(hash)
}

// Run joins the group, and calls work when it knows the group and the informers have their first shard. work runs the
// informers and the controllers. When ctx ends, Run hands over the slots to the other replicas, within
// Config.HandOverTimeout, and then ends the context of work. A lost lease does not end it: the controllers then own no
// key until the replica has joined again. Run returns the cause of ctx, or the result of work if work returns before
// its context ends. By then, work has returned, the Lease is deleted, and every goroutine that Run started has ended.
// If the deletion fails, the Lease expires by itself. Failing requests do not end Run; see Status.
//
// Run may be called again later, with informers that have not ended. If it is already under way, it returns an error
// that wraps [informer.ErrRunning].
func (r *Replica) Run(ctx context.Context, work func(ctx context.Context) error) error {
	if err := r.mistake(); err != nil {
		return err
	}
	s := newSession(r)
	if !r.session.CompareAndSwap(nil, s) {
		return fmt.Errorf("shard: %w", informer.ErrRunning)
	}
	defer r.session.Store(nil)
	return s.do(ctx, work)
}

// Status returns the present status of the replica.
func (r *Replica) Status() Status {
	r.mu.Lock()
	status := r.status
	r.mu.Unlock()
	if s := r.session.Load(); s != nil {
		s.describe(&status)
	}
	return status
}

// count changes the counts of the status.
func (r *Replica) count(change func(s *Status)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.status)
}

// fail records a failure.
func (r *Replica) fail(err error) {
	r.count(func(s *Status) { s.LastError, s.LastErrorTime = err, time.Now() })
}

func (r *Replica) mistake() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.misused
}

// bound returns the informers of Follow and the controllers of Control.
func (r *Replica) bound() ([]Sharded, []controller) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.followers), slices.Clone(r.controllers)
}

var leasesResource = coordinationv1.SchemeGroupVersion.WithResource("leases")
