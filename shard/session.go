package shard

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/run"
)

// session is one call of Run. It has a machine for each thing that it must know, and moves them:
//
//	roster      what the Leases of the group say, and which have expired
//	claims      the phase of each slot; the replica's Lease shows it to the others
//	holding     the slots whose objects the informers hold
//	term        how long the replica's lease lasts, by the clocks
//	table       the keys that the controllers may reconcile
//
// Its goroutines are these:
//
//	follow      calls steer when a machine or the group has changed. steer brings claims and holding closer to the plan
//	keep        writes the replica's Lease every RetryPeriod, and when its content changes
//	watch       looks at the clocks. It loses the lease in time, finds stuck calls, and calls Fatal
//	leave       hands over the slots when ctx ends
//	tasks       gain and release slots, wait for the calls of a lost lease, and delete expired Leases
//
// No slot stays in a phase for ever, because a replica stops renewing when only the end of its process can free a slot:
// while it drains after a lost lease, and when a call in a releasing slot is stuck and no other slot is left to hand
// over.
type session struct {
	replica     *Replica
	config      *Config
	controllers controllers
	journal     *journal
	holding     *holding
	table       table
	record      *lease.Record // of the replica's Lease; only keep uses it, and delete after keep has ended

	wake  chan struct{} // holds a token while steer must look
	dirty chan struct{} // holds a token while the Lease must be written
	empty chan struct{} // closed when a replica that leaves has nothing more to hand over
	tasks sync.WaitGroup
	life  context.Context // ends when the work has returned

	mu     sync.Mutex // protects the fields below
	state  State
	term   *lease.Term // table asks it without the lock whether the lease is alive
	roster roster
	claims claims
	yields yields
	own    ownLease
	epoch  epoch
}

// epoch is the time until the lease is lost.
type epoch struct {
	context.Context
	end context.CancelFunc
}

func newEpoch(life context.Context) epoch {
	ctx, end := context.WithCancel(life)
	return epoch{ctx, end}
}

func newSession(r *Replica) *session {
	c := &r.config
	api := informer.NewTypedClient[*coordinationv1.Lease](r.client, leasesResource)
	key := informer.Key{Namespace: c.Namespace, Name: c.leaseName()}
	followers, controllers := r.bound()
	s := &session{
		replica:     r,
		config:      c,
		controllers: controllers,
		journal:     newJournal(r),
		record:      lease.NewRecord(api, key, c.requestTimeout()),
		wake:        make(chan struct{}, 1),
		dirty:       make(chan struct{}, 1),
		empty:       make(chan struct{}),
		state:       Joining,
		term:        lease.NewTerm(c.timing(), r.wall),
		roster:      newRoster(r.client, api, c),
		claims:      newClaims(c.Slots),
		yields:      newYields(c.Slots),
		own:         ownLease{run: string(uuid.NewUUID())},
	}
	s.holding = newHolding(r, followers, controllers, s.journal, &s.tasks, s.wake)
	s.table.term, s.table.controllers = s.term, controllers
	s.table.reset(c.Slots)
	return s
}

// do is Run.
func (s *session) do(ctx context.Context, work func(context.Context) error) (err error) {
	// The tasks outlive ctx while the work runs.
	renewing, returned := context.WithCancel(context.WithoutCancel(ctx))
	defer returned()
	s.life, s.epoch = renewing, newEpoch(renewing)
	working, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	s.roster.leases.Subscribe(informer.HandlerFuncs[*coordinationv1.Lease]{
		AddFunc:    func(lease *coordinationv1.Lease, _ bool) { s.observe(lease, true) },
		UpdateFunc: func(old, lease *coordinationv1.Lease) { s.observe(lease, changed(old, lease)) },
		DeleteFunc: func(*coordinationv1.Lease, bool) { run.Signal(s.wake) },
	}, informer.SubscriptionConfig[*coordinationv1.Lease]{Name: "shards " + s.config.Name})
	s.tasks.Go(func() {
		if err := s.roster.leases.Run(renewing); renewing.Err() == nil {
			s.journal.fault("the informer of the Leases has ended", err)
		}
	})
	s.tasks.Go(func() { s.journal.write(renewing) })
	s.tasks.Go(func() { s.keep(renewing) })
	s.tasks.Go(func() { s.watch(renewing) })
	s.tasks.Go(func() { s.follow(renewing) })
	s.tasks.Go(func() { s.leave(ctx, renewing, end) })
	func() {
		defer s.tasks.Wait() // also if work calls runtime.Goexit
		defer returned()
		select {
		case <-s.holding.known:
			s.enter(Member)
			err = work(working)
		case <-working.Done():
		}
	}()
	s.enter(Leaving)
	s.delete(ctx)
	if working.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (s *session) enter(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = max(s.state, state)
}

// leave hands over the slots when ctx ends, and then ends the context of the work.
func (s *session) leave(ctx, renewing context.Context, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-renewing.Done():
		return
	}
	s.mu.Lock()
	s.state = Leaving
	s.changedLocked()
	if s.term.State() != lease.Held {
		s.nothingLeftLocked()
	}
	s.mu.Unlock()
	s.journal.say(slog.LevelInfo, "leaving")
	run.Signal(s.wake)
	timer := time.NewTimer(max(s.config.HandOverTimeout, 0))
	defer timer.Stop()
	if run.IsClosed(s.holding.known) {
		select {
		case <-s.empty:
		case <-timer.C:
		case <-renewing.Done():
		}
	}
	end(context.Cause(ctx))
}

// nothingLeftLocked signals that this replica has nothing more to hand over.
func (s *session) nothingLeftLocked() {
	if !run.IsClosed(s.empty) {
		close(s.empty)
	}
}

// observe records a change of a Lease. look means that steer must look at it.
func (s *session) observe(lease *coordinationv1.Lease, look bool) {
	s.mu.Lock()
	s.roster.observe(lease)
	if lease.UID == s.own.uid {
		s.own.unseen = time.Time{}
	}
	s.mu.Unlock()
	if look {
		run.Signal(s.wake)
	}
}

// follow calls steer whenever something has changed.
func (s *session) follow(ctx context.Context) {
	if s.roster.leases.WaitSynced(ctx) != nil {
		return
	}
	for {
		timer := time.NewTimer(s.steer(ctx))
		select {
		case <-s.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// steer acts on the Leases and the phases of the slots. The caller must call it again after the returned time at the
// latest.
func (s *session) steer(ctx context.Context) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.roster.read(s.own.uid)
	s.noteGroupLocked(&g)
	next := s.reapLocked(ctx, &g)
	switch {
	case g.own >= 0:
		s.own.seen = true
	case s.own.seen:
		s.loseLocked(errDeleted)
	}
	if g.own < 0 || s.term.State() != lease.Held {
		return next
	}
	desired := g.desired()
	next = min(next, s.yieldLocked(&g, desired))
	s.advanceLocked(&g, desired)
	next = min(next, s.holdLocked())
	s.publishLocked()
	if s.state == Leaving && s.handedOverLocked(&g) {
		s.nothingLeftLocked()
	}
	return next
}

// noteGroupLocked reports changes of the group.
func (s *session) noteGroupLocked(g *group) {
	other, unreadable := s.roster.note(g)
	for _, err := range unreadable {
		s.journal.fault("cannot read which slots another replica claims, so no slot is free", err)
	}
	if other {
		s.journal.say(slog.LevelInfo, "the group has changed", "replicas", len(g.members))
	}
}

// reapLocked deletes expired Leases. It returns the time until the next one expires.
func (s *session) reapLocked(ctx context.Context, g *group) time.Duration {
	expired, next := s.roster.expired(g, s.own.uid)
	for _, m := range expired {
		s.tasks.Go(func() { s.reap(ctx, m) })
	}
	return next
}

// reap deletes the Lease of a replica that has not renewed it. If the replica renews it meanwhile, the deletion fails.
func (s *session) reap(ctx context.Context, m member) {
	err := s.roster.delete(ctx, m.name, m.uid, m.resourceVersion)
	switch {
	case err == nil:
		s.journal.say(slog.LevelInfo, "deleted an expired Lease", "replica", m.identity)
	case !notfound.Is(err) && !apierrors.IsConflict(err) && ctx.Err() == nil:
		s.journal.fault("cannot delete an expired Lease", fmt.Errorf("replica %s: %w", m.identity, err))
	}
}

// advanceLocked changes the phases of the slots.
func (s *session) advanceLocked(g *group, desired slotSet) {
	m := s.claims.advance(g, desired, s.holding.has())
	if m.written {
		run.Signal(s.dirty)
	}
	if len(m.releasing) > 0 {
		s.publishLocked() // from here on, no call begins in them
	}
	for _, slot := range m.releasing {
		s.release(s.epoch, slot)
	}
	if len(m.gaining) > 0 {
		s.gain(s.epoch, m.gaining)
	}
}

// gain adds the keys of the slots to the queues, and then owns the slots.
func (s *session) gain(epoch context.Context, slots []int) {
	s.tasks.Go(func() {
		in := s.in(slots...)
		for _, c := range s.controllers {
			for {
				err := c.replay(epoch, in)
				if err == nil {
					break
				}
				if epoch.Err() == nil {
					s.journal.fault("cannot enqueue the keys of new slots", err)
				}
				if run.Sleep(epoch, s.config.RetryPeriod) != nil {
					return
				}
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if epoch.Err() != nil {
			return
		}
		s.claims.gained(slots)
		s.replica.count(func(st *Status) { st.Gained += uint64(len(slots)) })
		s.publishLocked()
		s.journal.say(slog.LevelInfo, "gained slots", "slots", len(slots), "owned", s.claims.count(owned))
		run.Signal(s.wake)
	})
}

// release waits until no key of slot is being reconciled, and then gives up the claim.
func (s *session) release(epoch context.Context, slot int) {
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(epoch, max(s.config.Grace, 0))
		defer cancel()
		s.controllers.waitReleased(ctx, s.in(slot))
		s.mu.Lock()
		defer s.mu.Unlock()
		if epoch.Err() != nil || !s.claims.released(slot) {
			return
		}
		s.lookForStuckLocked()
		s.replica.count(func(st *Status) { st.Released++ })
		run.Signal(s.dirty)
		run.Signal(s.wake)
	})
}

// in returns a function that reports whether a hash belongs to one of the slots.
func (s *session) in(slots ...int) func(hash uint64) bool {
	set := make(slotSet, s.config.Slots)
	for _, slot := range slots {
		set[slot] = true
	}
	return func(hash uint64) bool { return set[slotOf(hash, len(set))] }
}

// holdLocked makes the informers hold the slots that are desired, claimed or yielded. The caller must call it again
// after the returned time at the latest.
func (s *session) holdLocked() time.Duration {
	needed := s.claims.set()
	for slot := range needed {
		needed[slot] = needed[slot] || s.claims.desired[slot] || s.yields.slots[slot]
	}
	changed, next := s.holding.aim(needed, s.state != Leaving && s.claims.settled())
	if changed {
		s.publishLocked() // before the informers report leaving objects as deleted
		s.holding.pursue(s.life)
	}
	return next
}

// publishLocked tells the controllers which keys are theirs in the present phases.
func (s *session) publishLocked() { s.table.publish(s.claims.phases, s.holding.wants()) }

// changedLocked requests a write of the Lease, because its content has changed.
func (s *session) changedLocked() {
	s.claims.generation++
	run.Signal(s.dirty)
}

// handedOverLocked reports whether a replica that leaves has nothing more to hand over.
func (s *session) handedOverLocked(g *group) bool {
	if s.claims.none() {
		return true
	}
	for i := range g.members {
		if i != g.own && !g.members[i].leaving && g.members[i].claims != nil {
			return false
		}
	}
	return true // there is nobody to wait for
}

// describe fills in the status.
func (s *session) describe(status *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status.State, status.Replicas, status.Planned = s.state, s.roster.replicas, s.claims.desired.count()
	status.Held, status.Claimed = s.holding.has().count(), s.claims.set().count()
	if s.term.Alive() {
		status.Owned = s.claims.count(owned)
	}
	if target := s.holding.wants(); target != nil {
		status.Shard = target.shard(s.config.Field)
	}
	status.Renewed = s.term.Renewed()
	status.Yielded, status.Overdue = s.yields.slots.count(), s.overdueLocked()
}
