package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/run"
)

// phase is the state of one slot in a replica.
//
//	absent -- desired, and held --> claimed -- no other Lease claims it --> gaining -- keys added --> owned
//	  ^                                |                                                                |
//	  +------- no longer desired ------+                                                                |
//	  +-------- calls returned -------- releasing <-------- another replica should have it, and claims it
//
// The Lease claims the slot in all phases except absent.
type phase uint8

const (
	absent    phase = iota
	claimed         // the Lease claims the slot, or soon does
	gaining         // no other replica has it. The controllers add its keys
	owned           // the controllers reconcile its keys
	releasing       // no call of Reconcile begins. Those under way have not returned
)

// session is one call of Run.
//
// Its invariant is that at most one replica has a slot in the phases gaining to releasing. A replica enters gaining
// only after it has seen its own Lease with the claim, at a resource version at which no other Lease claims the slot.
// Of two replicas that claim a slot, the one that wrote its claim later sees the claim of the other. So at most one of
// them enters gaining, and the other waits until that claim is gone. A claim ends in two ways. Either the replica
// itself writes its Lease without the claim, after all calls of Reconcile have returned. Or another replica deletes the
// Lease, if it has not changed for LeaseDuration. By then the replica has lost the lease by its own clocks, and its
// calls have returned or its process has ended.
//
// No slot stays in a phase for ever, because a replica stops renewing when only the end of its process can free a slot:
// while it drains after a lost lease, and when a call in a releasing slot is stuck and no other slot is left to hand
// over.
type session struct {
	*Replica
	run         string // identifies this call of Run in its Lease
	config      *Config
	api         *informer.TypedClient[*coordinationv1.Lease]
	leases      *informer.Informer[*coordinationv1.Lease]
	followers   []Sharded
	controllers []controller

	table   atomic.Pointer[[]informer.Ownership] // for each slot
	valid   atomic.Pointer[instant]              // when the last renewal was sent; nil after the lease was lost
	parked  atomic.Bool                          // a key of an owned slot had to wait, because the lease was old
	wake    chan struct{}                        // holds a token while steer must look
	dirty   chan struct{}                        // holds a token while the Lease must be written
	known   chan struct{}                        // closed when the first shard is known
	empty   chan struct{}                        // closed when a replica that leaves has nothing more to hand over
	records chan func()                          // for log
	tasks   sync.WaitGroup
	life    context.Context // ends when the work has returned

	mu         sync.Mutex // protects the fields below
	directory  directory
	state      State
	phases     []phase
	since      []uint64           // for each slot that is claimed, the first generation that claims it
	generation uint64             // counts the changes of claims
	held       slotSet            // all informers hold their objects
	target     slotSet            // the informers hold their objects, or are about to; nil before the first plan
	listing    slotSet            // the slots that the informers are changing to; nil if they are not
	relist     context.CancelFunc // makes the informers change to target at once
	settled    time.Time          // since when no slot is moving; zero while one is
	planned    int
	leaving    bool
	uid        types.UID       // of the Lease; empty if there is none
	version    string          // its resource version; empty if it must be read
	seen       bool            // the store has had the Lease with that uid
	unseen     time.Time       // when the oldest renewal succeeded that the store has not seen; zero if there is none
	renewed    instant         // when the last successful renewal was sent
	lost       bool            // the lease was lost, and not written since
	draining   bool            // the lease was lost, and calls of Reconcile may be under way
	epoch      context.Context // ends when the lease is lost
	endEpoch   context.CancelFunc
	observed   map[types.UID]observation // of the Leases in the store
	failing    bool                      // the last request failed
	told       map[types.UID]bool        // reported Leases that cannot be read
	replicas   []string
	releases   map[int]time.Time // for each slot in the phase releasing, when that began
	stuck      time.Time         // when a call got stuck; zero if none is
	yields     yields
	published  uint64 // the generation of the last successful write
	created    bool   // a request to create the Lease was sent
}

// instant is a point in time on both clocks. Each of them may stop while the process or the system is suspended, and
// the wall clock may be set.
type instant struct{ monotonic, wall time.Time }

// observation is the last change of a Lease that this replica has seen.
type observation struct {
	version string
	at      time.Time
	patient time.Duration // a wait in addition to its duration, so that replicas do not all delete it at once
}

var (
	errExpired = errors.New("the lease was not renewed in time")
	errDeleted = errors.New("the Lease was deleted, or another replica has it")
)

func newSession(r *Replica) *session {
	s := &session{
		Replica:  r,
		config:   &r.config,
		api:      informer.NewTypedClient[*coordinationv1.Lease](r.client, leasesResource),
		wake:     make(chan struct{}, 1),
		dirty:    make(chan struct{}, 1),
		known:    make(chan struct{}),
		empty:    make(chan struct{}),
		records:  make(chan func(), 100),
		state:    Joining,
		phases:   make([]phase, r.config.Slots),
		since:    make([]uint64, r.config.Slots),
		held:     make(slotSet, r.config.Slots),
		observed: map[types.UID]observation{},
		told:     map[types.UID]bool{},
		releases: map[int]time.Time{},
		yields:   newYields(r.config.Slots),
		run:      string(uuid.NewUUID()),
	}
	s.followers, s.controllers = r.bound()
	table := make([]informer.Ownership, r.config.Slots)
	for i := range table {
		table[i] = informer.KeyAwaited
	}
	s.table.Store(&table)
	s.leases = informer.New(r.client, informer.Resource{
		GroupVersionResource: leasesResource,
		Namespaces:           []string{r.config.Namespace},
		LabelSelector:        GroupLabel + "=" + r.config.Name,
	}, informer.Config[*coordinationv1.Lease]{Logger: r.config.Logger})
	return s
}

// do is Run.
func (s *session) do(ctx context.Context, work func(context.Context) error) (err error) {
	// The tasks outlive ctx while the work runs.
	renewing, returned := context.WithCancel(context.WithoutCancel(ctx))
	defer returned()
	s.life = renewing
	s.epoch, s.endEpoch = context.WithCancel(renewing)
	working, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	s.leases.Subscribe(informer.HandlerFuncs[*coordinationv1.Lease]{
		AddFunc:    func(lease *coordinationv1.Lease, _ bool) { s.observe(lease, true) },
		UpdateFunc: func(old, lease *coordinationv1.Lease) { s.observe(lease, changed(old, lease)) },
		DeleteFunc: func(*coordinationv1.Lease, bool) { run.Signal(s.wake) },
	}, informer.SubscriptionConfig[*coordinationv1.Lease]{Name: "shards " + s.config.Name})
	s.tasks.Go(func() {
		if err := s.leases.Run(renewing); renewing.Err() == nil {
			s.fault("the informer of the Leases has ended", err)
		}
	})
	s.tasks.Go(func() { s.log(renewing) })
	s.tasks.Go(func() { s.keep(renewing) })
	s.tasks.Go(func() { s.watch(renewing) })
	s.tasks.Go(func() { s.follow(renewing) })
	s.tasks.Go(func() { s.leave(ctx, renewing, end) })
	func() {
		defer s.tasks.Wait() // also if work calls runtime.Goexit
		defer returned()
		select {
		case <-s.known:
			s.enter(Member)
			err = work(working)
		case <-working.Done():
		}
		s.enter(Leaving)
	}()
	s.delete(ctx)
	if working.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// leave hands over the slots when ctx ends, and then ends the context of the work.
func (s *session) leave(ctx, renewing context.Context, end context.CancelCauseFunc) {
	select {
	case <-ctx.Done():
	case <-renewing.Done():
		return
	}
	s.mu.Lock()
	s.leaving, s.state = true, Leaving
	s.generation++
	if s.lost {
		s.nothingLeftLocked()
	}
	s.mu.Unlock()
	s.say(slog.LevelInfo, "leaving")
	run.Signal(s.dirty)
	run.Signal(s.wake)
	timer := time.NewTimer(max(s.config.HandOverTimeout, 0))
	defer timer.Stop()
	if run.IsClosed(s.known) {
		select {
		case <-s.empty:
		case <-timer.C:
		case <-renewing.Done():
		}
	}
	end(context.Cause(ctx))
}

// ownership looks up the slot of a hash.
func (s *session) ownership(hash uint64) informer.Ownership {
	o := (*s.table.Load())[slotOf(hash, s.config.Slots)]
	if o == informer.KeyOwned && !s.alive() {
		s.parked.Store(true)
		return informer.KeyAwaited
	}
	return o
}

// alive reports whether the lease is young enough to begin a call of Reconcile.
func (s *session) alive() bool {
	renewed := s.valid.Load()
	return renewed != nil && s.age(*renewed) < s.config.RenewDeadline
}

// age returns the time since t, on the clock that shows more.
func (s *session) age(t instant) time.Duration {
	return max(time.Since(t.monotonic), s.wall().Sub(t.wall))
}

func (s *session) now() instant { return instant{time.Now(), s.wall()} }

// observe records a change of a Lease.
func (s *session) observe(lease *coordinationv1.Lease, look bool) {
	s.mu.Lock()
	s.observed[lease.UID] = observation{lease.ResourceVersion, time.Now(), rand.N(s.config.RetryPeriod)}
	if lease.UID == s.uid {
		s.unseen = time.Time{}
	}
	s.mu.Unlock()
	if look {
		run.Signal(s.wake)
	}
}

// changed reports whether a Lease has changed in more than its renewal time.
func changed(old, lease *coordinationv1.Lease) bool {
	return slices.ContainsFunc([]string{layoutAnnotation, claimsAnnotation, generationAnnotation, leavingAnnotation,
		yieldsAnnotation}, func(name string) bool {
		return old.Annotations[name] != lease.Annotations[name]
	})
}

// follow calls steer whenever something has changed.
func (s *session) follow(ctx context.Context) {
	if s.leases.WaitSynced(ctx) != nil {
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
	leases := slices.Collect(s.leases.Store().All()) // under the lock, so that each Lease in observed is in it, or gone
	g := s.directory.read(leases, s.uid, s.config)
	s.noteGroupLocked(&g)
	next := s.reapLocked(ctx, &g)
	switch {
	case g.own >= 0:
		s.seen = true
	case s.seen:
		s.loseLocked(errDeleted)
	}
	if g.own < 0 || s.lost {
		return next
	}
	desired := g.desired()
	s.planned = desired.count()
	next = min(next, s.yieldLocked(&g, desired))
	s.advanceLocked(&g, desired)
	next = min(next, s.holdLocked(desired))
	s.publishLocked()
	if s.leaving && s.handedOverLocked(&g) {
		s.nothingLeftLocked()
	}
	return next
}

// nothingLeftLocked signals that this replica has nothing more to hand over.
func (s *session) nothingLeftLocked() {
	if !run.IsClosed(s.empty) {
		close(s.empty)
	}
}

// advanceLocked changes the phases of the slots.
func (s *session) advanceLocked(g *group, desired slotSet) {
	own := &g.members[g.own]
	var gained []int
	claims := false
	// each gain visits all objects, so slots that become free during one gain are gained together in the next
	busy := s.inPhaseLocked(gaining) > 0
	for slot, p := range s.phases {
		switch {
		case p == absent && desired[slot] && s.held[slot]:
			s.phases[slot], s.since[slot], claims = claimed, s.generation+1, true // claimsChangedLocked counts
		case p == claimed && !desired[slot]:
			s.phases[slot], claims = absent, true
		case p == claimed && !busy && own.generation >= s.since[slot] && own.claimed(slot) && g.free(slot):
			s.phases[slot] = gaining
			gained = append(gained, slot)
		case p == owned && g.heir(slot):
			s.phases[slot], s.releases[slot] = releasing, time.Now()
			s.release(s.epoch, slot)
		}
	}
	if claims {
		s.claimsChangedLocked()
	}
	if len(gained) > 0 {
		s.gain(s.epoch, gained)
	}
}

// claimsChangedLocked requests a write of the Lease.
func (s *session) claimsChangedLocked() {
	s.generation++
	run.Signal(s.dirty)
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
					s.fault("cannot enqueue the keys of new slots", err)
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
		for _, slot := range slots {
			s.phases[slot] = owned
		}
		s.count(func(st *Status) { st.Gained += uint64(len(slots)) })
		s.publishLocked()
		s.say(slog.LevelInfo, "gained slots", "slots", len(slots), "owned", s.inPhaseLocked(owned))
		run.Signal(s.wake)
	})
}

// release waits until no key of slot is being reconciled, and then gives up the claim.
func (s *session) release(epoch context.Context, slot int) {
	s.publishLocked()
	s.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(epoch, max(s.config.Grace, 0))
		defer cancel()
		s.waitReleased(ctx, s.in(slot))
		s.mu.Lock()
		defer s.mu.Unlock()
		if epoch.Err() != nil || s.phases[slot] != releasing {
			return
		}
		s.phases[slot] = absent
		delete(s.releases, slot)
		s.lookForStuckLocked()
		s.count(func(st *Status) { st.Released++ })
		s.claimsChangedLocked()
		run.Signal(s.wake)
	})
}

// waitReleased waits until no controller reconciles a key with such a hash.
func (s *session) waitReleased(ctx context.Context, in func(uint64) bool) {
	var all sync.WaitGroup
	for _, c := range s.controllers {
		all.Go(func() { c.release(ctx, in) })
	}
	all.Wait()
}

// in returns a function that reports whether a hash belongs to one of the slots.
func (s *session) in(slots ...int) func(hash uint64) bool {
	set := make(slotSet, s.config.Slots)
	for _, slot := range slots {
		set[slot] = true
	}
	return func(hash uint64) bool { return set[slotOf(hash, len(set))] }
}

// keepPeriod is how long the informers keep the objects of slots that have moved to another replica. The next change of
// the group may bring the slots back, and fetching the objects again would need a list.
const keepPeriod = time.Minute

// holdLocked makes the informers hold the slots that are desired or claimed. It removes slots only when it also adds
// some, or when no slot has been moving for keepPeriod. The caller must call it again after the returned time at the
// latest.
func (s *session) holdLocked(desired slotSet) time.Duration {
	target := slices.Clone(desired)
	settled, more := !s.leaving, s.target == nil
	for slot, p := range s.phases {
		target[slot] = target[slot] || p != absent || s.yields.slots[slot]
		settled = settled && (p == absent && !desired[slot] || p == owned && desired[slot])
		more = more || target[slot] && !s.target[slot]
	}
	switch {
	case !settled:
		s.settled = time.Time{}
	case s.settled.IsZero():
		s.settled = time.Now()
	}
	if s.target != nil && slices.Equal(target, s.target) {
		return keepPeriod
	}
	if !more {
		if !settled {
			return keepPeriod
		}
		if left := s.keepHeld - time.Since(s.settled); left > 0 {
			return left
		}
	}
	first := s.target == nil
	s.target = target
	for slot := range s.held {
		s.held[slot] = s.held[slot] && target[slot]
	}
	s.publishLocked() // before the informers report leaving objects as deleted
	if first {
		ended, end := context.WithCancel(s.life)
		end()
		shard := target.shard(s.config.Field)
		for _, f := range s.followers {
			_ = f.SetShard(ended, shard) // an informer that has not begun to run lists this shard first
		}
		close(s.known)
	}
	switch {
	case s.listing == nil:
		s.listing, s.relist = target, func() {} // change reads the target when it begins
		s.tasks.Go(s.change)
	case 4*s.listing.common(target) < 3*s.listing.count():
		s.relist() // more than a quarter of the list in progress is no longer desired
	}
	return keepPeriod
}

// change changes the shards of the informers until they hold the target. It completes a list in progress even if the
// target changes, unless holdLocked cancels the list because too much of it is obsolete. Otherwise no list would end
// while the group keeps changing.
func (s *session) change() {
	for {
		s.mu.Lock()
		target := s.target
		ctx, cancel := context.WithCancel(s.life)
		s.listing, s.relist = target, cancel
		s.mu.Unlock()
		done := s.setShard(ctx, target.shard(s.config.Field)) && s.waitSources(ctx)
		again := ctx.Err() != nil && s.life.Err() == nil
		cancel()
		s.mu.Lock()
		if done {
			for slot := range s.held {
				s.held[slot] = target[slot] && s.target[slot]
			}
			run.Signal(s.wake)
			if slices.Equal(target, s.target) {
				s.listing = nil
				s.mu.Unlock()
				return
			}
		}
		s.mu.Unlock()
		if !done && !again && run.Sleep(s.life, s.config.RetryPeriod) != nil {
			return
		}
	}
}

// waitSources waits until the sources of the controllers have synced, so that they can reconcile as soon as they own a
// slot. It reports whether they have.
func (s *session) waitSources(ctx context.Context) bool {
	for _, c := range s.controllers {
		for {
			patience, cancel := context.WithTimeout(ctx, s.config.LeaseDuration)
			err := c.synced(patience)
			cancel()
			if err == nil {
				break
			}
			if ctx.Err() != nil {
				return false
			}
			s.fault("claiming no slots until the sources of a controller have synced", err)
			if run.Sleep(ctx, s.config.RetryPeriod) != nil {
				return false
			}
		}
	}
	return true
}

// setShard makes all informers hold the objects of shard, and reports whether they do.
func (s *session) setShard(ctx context.Context, shard informer.Shard) bool {
	errs := make([]error, len(s.followers))
	var all sync.WaitGroup
	for i, f := range s.followers {
		all.Go(func() { errs[i] = f.SetShard(ctx, shard) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if err != nil && ctx.Err() == nil {
		s.fault("cannot change the shard of an informer", err)
	}
	return err == nil
}

// publishLocked tells the controllers which keys are theirs in the present phases.
func (s *session) publishLocked() {
	old := *s.table.Load()
	table := make([]informer.Ownership, len(s.phases))
	for slot, p := range s.phases {
		switch {
		case p == owned:
			table[slot] = informer.KeyOwned
		case s.target == nil || s.target[slot] || p != absent:
			table[slot] = informer.KeyAwaited
		}
	}
	if slices.Equal(old, table) {
		return
	}
	s.table.Store(&table)
	s.parked.Store(false)
	for _, c := range s.controllers {
		c.own()
	}
}

// handedOverLocked reports whether a replica that leaves has nothing more to hand over.
func (s *session) handedOverLocked(g *group) bool {
	if s.inPhaseLocked(absent) == len(s.phases) {
		return true
	}
	for i := range g.members {
		if i != g.own && !g.members[i].leaving && g.members[i].claims != nil {
			return false
		}
	}
	return true // there is nobody to wait for
}

func (s *session) inPhaseLocked(p phase) int {
	n := 0
	for _, q := range s.phases {
		if q == p {
			n++
		}
	}
	return n
}

// noteGroupLocked reports changes of the group.
func (s *session) noteGroupLocked(g *group) {
	var replicas []string
	for _, m := range g.members {
		replicas = append(replicas, m.identity)
		if m.why != nil && !s.told[m.uid] {
			s.told[m.uid] = true
			s.faultLocked("cannot read which slots another replica claims, so no slot is free", m.why)
		}
	}
	if !slices.Equal(replicas, s.replicas) {
		s.replicas = replicas
		s.say(slog.LevelInfo, "the group has changed", "replicas", len(replicas))
	}
}

// reapLocked deletes expired Leases. It returns the time until the next one expires.
func (s *session) reapLocked(ctx context.Context, g *group) time.Duration {
	next := s.config.LeaseDuration
	for i, m := range g.members {
		if i == g.own || m.uid == s.uid {
			continue
		}
		o, ok := s.observed[m.uid]
		if !ok {
			continue // the handler is about to see it, and wakes steer
		}
		left := m.duration + o.patient - time.Since(o.at)
		if left > 0 || o.version != m.resourceVersion {
			next = min(next, max(left, 0)+time.Millisecond)
			continue
		}
		o.at, o.patient = time.Now(), -m.duration+s.config.RetryPeriod // try again then
		s.observed[m.uid] = o
		next = min(next, s.config.RetryPeriod)
		s.tasks.Go(func() { s.reap(ctx, m) })
	}
	for uid := range s.observed {
		if _, ok := s.directory.members[uid]; !ok {
			delete(s.observed, uid)
		}
	}
	return next
}

// reap deletes the Lease of a replica that has not renewed it. If the replica renews it meanwhile, the deletion fails.
func (s *session) reap(ctx context.Context, m member) {
	err := s.deleteLease(ctx, m.name, m.uid, m.resourceVersion)
	switch {
	case err == nil:
		s.say(slog.LevelInfo, "deleted an expired Lease", "replica", m.identity)
	case !notfound.Is(err) && !apierrors.IsConflict(err) && ctx.Err() == nil:
		s.fault("cannot delete an expired Lease", fmt.Errorf("replica %s: %w", m.identity, err))
	}
}

func (s *session) deleteLease(ctx context.Context, name string, uid types.UID, version string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.requestTimeout())
	defer cancel()
	conditions := metav1.Preconditions{UID: &uid}
	if version != "" {
		conditions.ResourceVersion = &version
	}
	return s.api.Delete(ctx, informer.Key{Namespace: s.config.Namespace, Name: name},
		metav1.DeleteOptions{Preconditions: &conditions})
}

// delete deletes the replica's own Lease at the end of Run, when nothing is reconciled.
func (s *session) delete(ctx context.Context) {
	s.mu.Lock()
	uid, created := s.uid, s.created
	s.mu.Unlock()
	if uid == "" && created { // a response may have been lost
		uid = s.lostUID(context.WithoutCancel(ctx))
	}
	if uid == "" {
		return
	}
	if err := s.deleteLease(context.WithoutCancel(ctx), s.config.leaseName(), uid, ""); err != nil &&
		!notfound.Is(err) {
		s.fault("cannot delete the Lease, which will expire by itself", err)
	}
}

// lostUID returns the UID of the Lease if this session has created it, or an empty one.
func (s *session) lostUID(ctx context.Context) types.UID {
	ctx, cancel := context.WithTimeout(ctx, s.config.requestTimeout())
	defer cancel()
	present, err := s.api.Get(ctx, informer.Key{Namespace: s.config.Namespace, Name: s.config.leaseName()},
		metav1.GetOptions{})
	if err != nil || !s.wrote(present) {
		return ""
	}
	return present.UID
}

func (s *session) enter(state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = max(s.state, state)
}

// fault records a failure and logs it.
func (s *session) fault(what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultLocked(what, err)
}

func (s *session) faultLocked(what string, err error) {
	s.fail(fmt.Errorf("%s: %w", what, err))
	s.say(slog.LevelWarn, what, "err", err)
}

// say logs without waiting for the logger, which must not delay the end of the work after a lost lease.
func (s *session) say(level slog.Level, what string, args ...any) {
	select {
	case s.records <- func() { s.config.Logger.Log(context.Background(), level, what, args...) }:
	default: // the logger has been blocked for long
	}
}

// log writes the records of say until ctx ends, and then the rest.
func (s *session) log(ctx context.Context) {
	for {
		select {
		case record := <-s.records:
			record()
			continue
		default:
		}
		select {
		case record := <-s.records:
			record()
		case <-ctx.Done():
			return
		}
	}
}

// describe fills in the status.
func (s *session) describe(status *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status.State, status.Replicas, status.Planned = s.state, s.replicas, s.planned
	status.Held, status.Claimed = s.held.count(), len(s.phases)-s.inPhaseLocked(absent)
	if s.alive() {
		status.Owned = s.inPhaseLocked(owned)
	}
	if s.target != nil {
		status.Shard = s.target.shard(s.config.Field)
	}
	status.Renewed = s.renewed.wall
	status.Yielded, status.Overdue = s.yields.slots.count(), s.overdueLocked()
}
