package shard

import (
	"context"
	"errors"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/run"
)

// logPeriod is how long a process waits for its last log record before it ends itself.
const logPeriod = lease.Margin / 10

var (
	errExpired = errors.New("the lease was not renewed in time")
	errDeleted = errors.New("the Lease was deleted, or another replica has it")
)

// ownLease is what a session knows about its own Lease, besides the term and the record.
type ownLease struct {
	run       string    // identifies this call of Run in the Lease
	created   bool      // a request to create it was sent
	uid       types.UID // empty if there is none
	seen      bool      // the store has had the Lease with that uid
	unseen    time.Time // when the oldest renewal succeeded that the store has not seen; zero if there is none
	published uint64    // the generation of the last successful write
	failing   bool      // the last request failed
}

// keep writes the Lease every RetryPeriod, and when the claims change.
func (s *session) keep(ctx context.Context) {
	for ctx.Err() == nil {
		again, failed := s.write(ctx)
		if again {
			continue
		}
		wait := s.config.RetryPeriod
		if failed {
			wait /= 4 // one lost request must not cost the lease
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.dirty:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// write writes the Lease. again means that the caller should write it again at once, and failed that it should do so
// soon.
func (s *session) write(ctx context.Context) (again, failed bool) {
	s.mu.Lock()
	if s.silentLocked() {
		s.mu.Unlock()
		return false, false
	}
	next, uid, generation := s.leaseLocked(), s.own.uid, s.claims.generation
	s.own.created = s.own.created || uid == ""
	sent := s.term.Stamp()
	s.mu.Unlock()
	err := s.send(ctx, next, uid)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil && err != nil {
		return false, false // the work has returned
	}
	switch {
	case err == nil:
		s.own.published = generation
		s.renewLocked(sent)
	case errors.Is(err, lease.ErrTaken):
		s.loseLocked(errDeleted)
		s.record.Forget()
		s.own.uid, s.own.seen = "", false
		if uid != "" {
			return true, false
		}
	}
	if err != nil && !s.own.failing {
		s.journal.fault("requests for the Lease fail", err)
	}
	s.own.failing = err != nil
	return false, s.own.failing
}

// leaseLocked returns the Lease to write. While the lease is lost, it has no claims: none is made before the term is
// held again.
func (s *session) leaseLocked() *coordinationv1.Lease {
	now := metav1.NewMicroTime(s.replica.wall())
	annotations := map[string]string{
		layoutAnnotation:     s.config.layout(),
		claimsAnnotation:     s.claims.set().String(),
		generationAnnotation: strconv.FormatUint(s.claims.generation, 10),
		runAnnotation:        s.own.run,
	}
	if s.state == Leaving || !s.claims.stuck.IsZero() {
		annotations[leavingAnnotation] = "true"
	}
	if s.yields.slots.count() > 0 {
		annotations[yieldsAnnotation] = s.yields.slots.String()
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{GroupLabel: s.config.Name}, Annotations: annotations},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity:       &s.config.Identity,
			LeaseDurationSeconds: new(int32(s.config.LeaseDuration / time.Second)),
			RenewTime:            &now,
		},
	}
}

// send writes a Lease. uid is that of the present one; empty means that there is none. If somebody else has deleted or
// replaced it, the error is lease.ErrTaken.
func (s *session) send(ctx context.Context, next *coordinationv1.Lease, uid types.UID) error {
	own := func(seen *coordinationv1.Lease) bool { return seen.UID == uid || uid == "" && s.wrote(seen) }
	if s.record.Seen() == nil {
		next.Spec.AcquireTime = next.Spec.RenewTime
		err := s.record.Write(ctx, next)
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// The response to an earlier request was lost, or another process with this identity has the Lease.
		if s.record.Read(ctx) != nil || !s.wrote(s.record.Seen()) {
			s.record.Forget()
			return err
		}
	}
	return s.record.Renew(ctx, own, func(seen *coordinationv1.Lease) *coordinationv1.Lease {
		next.Spec.AcquireTime = seen.Spec.AcquireTime
		return next
	})
}

// wrote reports whether this session has created a Lease. Nil means that there is none.
func (s *session) wrote(seen *coordinationv1.Lease) bool {
	return seen != nil && seen.Annotations[runAnnotation] == s.own.run
}

// renewLocked records a successful write, which the record has.
func (s *session) renewLocked(sent lease.Stamp) {
	written := s.record.Seen()
	if s.own.uid != written.UID {
		s.own.uid, s.own.seen = written.UID, false
		run.Signal(s.wake) // the informer may have the Lease already
	}
	if s.own.unseen.IsZero() && !s.roster.has(written.UID, written.ResourceVersion) { // the event may be first
		s.own.unseen = time.Now()
	}
	vacant := s.term.State() == lease.Vacant
	switch {
	case s.term.Renew(sent):
		if vacant {
			run.Signal(s.wake) // slots may be claimed again
		}
	case s.term.Overdue():
		s.loseLocked(errExpired)
	}
}

// watch gives up all slots when the lease reaches RenewDeadline, and calls Fatal if calls of Reconcile have not
// returned by its end. It returns when ctx ends.
func (s *session) watch(ctx context.Context) {
	draining := false // at the last look: at the first look, nothing may be under way
	for run.Sleep(ctx, min(lease.WatchPeriod, s.config.RetryPeriod)) == nil {
		s.mu.Lock()
		s.lookForStuckLocked()
		if s.term.Overdue() {
			s.loseLocked(errExpired)
		}
		drained := s.term.State() != lease.Draining
		fatal := draining && !drained && s.term.Left() <= 0
		draining = !drained
		stale := !s.own.unseen.IsZero() && time.Since(s.own.unseen) >= 2*s.config.RetryPeriod
		if stale {
			s.own.unseen = time.Time{}
		}
		s.mu.Unlock()
		if stale {
			// The replica can write its Lease, but has not seen the write for some time, so the watch is broken and has not
			// failed yet. A replica that does not see the others cannot hand over slots.
			s.tasks.Go(func() { s.roster.refresh(ctx) })
		}
		s.table.unpark()
		if fatal {
			s.tasks.Go(func() { // nothing may delay Fatal
				s.mu.Lock()
				defer s.mu.Unlock()
				s.journal.fault("the lease is about to end: ending the process", overdueError(s.overdueLocked()))
			})
			_ = run.Sleep(ctx, logPeriod)
			s.config.Fatal()
			return
		}
	}
}

// loseLocked gives up all slots at once: no call of Reconcile begins, and the contexts of those under way end. It does
// nothing if the lease is not held.
func (s *session) loseLocked(cause error) {
	if !s.term.Lose() {
		return
	}
	if s.state == Leaving {
		s.nothingLeftLocked()
	}
	s.epoch.end()
	s.journal.fault("the lease is lost", cause)
	n := s.claims.count(owned) + s.claims.count(releasing)
	s.replica.count(func(st *Status) { st.Lost += uint64(n); st.LeasesLost++ })
	s.tasks.Go(func() {
		ended, end := context.WithCancelCause(context.Background())
		end(cause)
		s.controllers.waitReleased(ended, func(uint64) bool { return true })
		s.mu.Lock()
		defer s.mu.Unlock()
		s.claims.clear()
		s.term.Drained()
		s.epoch = newEpoch(s.life)
		s.publishLocked()
		run.Signal(s.dirty)
	})
}

// delete deletes the replica's own Lease at the end of Run, when nothing is reconciled.
func (s *session) delete(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	s.mu.Lock()
	uid, created := s.own.uid, s.own.created
	s.mu.Unlock()
	if uid == "" && created && s.record.Read(ctx) == nil && s.wrote(s.record.Seen()) {
		uid = s.record.Seen().UID // the response to its creation was lost
	}
	if uid == "" {
		return
	}
	if err := s.roster.delete(ctx, s.config.leaseName(), uid, ""); err != nil && !notfound.Is(err) {
		s.journal.fault("cannot delete the Lease, which will expire by itself", err)
	}
}
