package shard

import (
	"context"
	"errors"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/internal/notfound"
	"github.com/typedinformer/informer/internal/run"
)

// watchPeriod is the longest time between two looks at the clocks. One timer for the deadline would not suffice: it may
// fire late after the system was suspended.
const watchPeriod = Margin / 4

// logPeriod is how long a process waits for its last log record before it ends itself.
const logPeriod = Margin / 10

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
	next, generation := s.leaseLocked(), s.generation
	s.created = s.created || next.UID == ""
	afresh := s.lost && !s.draining // this write has no claims, and nothing is reconciled
	s.mu.Unlock()
	sent := s.now()
	written, err := s.send(ctx, next)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil && err != nil {
		return false, false // the work has returned
	}
	switch {
	case err == nil:
		s.published = generation
		s.renewLocked(written, sent, afresh)
	case apierrors.IsConflict(err) && s.version != "":
		s.version = "" // read it: the conflict may come from a change of metadata, or from a write whose response was lost
		return true, false
	case notfound.Is(err) && next.UID != "", errors.Is(err, errDeleted):
		s.loseLocked(errDeleted)
		s.uid, s.version, s.seen = "", "", false
		return true, false
	}
	if err != nil && !s.failing {
		s.faultLocked("requests for the Lease fail", err)
	}
	s.failing = err != nil
	return false, s.failing
}

// leaseLocked returns the Lease to write.
func (s *session) leaseLocked() *coordinationv1.Lease {
	now := metav1.NewMicroTime(s.wall())
	claims := make(slotSet, len(s.phases))
	for slot, p := range s.phases {
		claims[slot] = p != absent
	}
	annotations := map[string]string{
		layoutAnnotation:     s.config.layout(),
		claimsAnnotation:     claims.String(),
		generationAnnotation: strconv.FormatUint(s.generation, 10),
		runAnnotation:        s.run,
	}
	if s.leaving || !s.stuck.IsZero() {
		annotations[leavingAnnotation] = "true"
	}
	if s.yields.slots.count() > 0 {
		annotations[yieldsAnnotation] = s.yields.slots.String()
	}
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.config.Namespace, Name: s.config.leaseName(), UID: s.uid, ResourceVersion: s.version,
			Labels: map[string]string{GroupLabel: s.config.Name}, Annotations: annotations,
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &s.config.Identity, LeaseDurationSeconds: new(int32(s.config.LeaseDuration / time.Second)), RenewTime: &now,
		},
	}
}

// send writes a Lease. If somebody else has deleted or replaced it, the error is errDeleted.
func (s *session) send(ctx context.Context, next *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, s.config.requestTimeout())
	defer cancel()
	if next.UID == "" {
		next.Spec.AcquireTime = next.Spec.RenewTime
		written, err := s.api.Create(ctx, next, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return written, err
		}
		present, err2 := s.api.Get(ctx, informer.KeyOf(next), metav1.GetOptions{})
		if err2 != nil || !s.wrote(present) {
			return nil, err // another process with this identity has the Lease
		}
		next.UID, next.ResourceVersion = present.UID, present.ResourceVersion // the response to an earlier request was lost
		return s.api.Update(ctx, next, metav1.UpdateOptions{})
	}
	if next.ResourceVersion == "" {
		present, err := s.api.Get(ctx, informer.KeyOf(next), metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if present.UID != next.UID {
			return nil, errDeleted
		}
		next.ResourceVersion = present.ResourceVersion
	}
	return s.api.Update(ctx, next, metav1.UpdateOptions{})
}

// wrote reports whether this session has created lease.
func (s *session) wrote(lease *coordinationv1.Lease) bool {
	return lease.Annotations[runAnnotation] == s.run
}

// renewLocked records a successful write. afresh means that this write had no claims after the lease was lost.
func (s *session) renewLocked(written *coordinationv1.Lease, sent instant, afresh bool) {
	late := s.valid.Load() != nil && !s.alive()
	if s.uid != written.UID {
		run.Signal(s.wake) // the informer may have the Lease already
	}
	if s.unseen.IsZero() && s.observed[written.UID].version != written.ResourceVersion { // the event may be first
		s.unseen = time.Now()
	}
	s.renewed, s.uid, s.version = sent, written.UID, written.ResourceVersion
	switch {
	case late:
		s.loseLocked(errExpired)
	case !s.lost:
		s.valid.Store(&sent)
	case afresh && !s.draining:
		s.lost = false
		s.valid.Store(&sent)
		run.Signal(s.wake)
	}
}

// watch gives up all slots when the lease reaches RenewDeadline, and calls Fatal if calls of Reconcile have not
// returned by the expiry. It returns when ctx ends.
func (s *session) watch(ctx context.Context) {
	draining := false // at the last look
	for run.Sleep(ctx, min(watchPeriod, s.config.RetryPeriod)) == nil {
		s.mu.Lock()
		s.lookForStuckLocked()
		if s.valid.Load() != nil && !s.alive() {
			s.loseLocked(errExpired)
		}
		age := s.age(s.renewed)
		fatal := draining && s.draining && age >= s.config.expiry() // at the first look, nothing may be under way
		draining = s.draining
		stale := !s.unseen.IsZero() && time.Since(s.unseen) >= 2*s.config.RetryPeriod
		if stale {
			s.unseen = time.Time{}
		}
		s.mu.Unlock()
		if stale {
			s.tasks.Go(func() { s.refresh(ctx) })
		}
		if s.parked.Load() && s.alive() { // the lease was renewed at the last moment
			s.parked.Store(false)
			for _, c := range s.controllers {
				c.own()
			}
		}
		if fatal {
			s.tasks.Go(func() { // nothing may delay Fatal
				s.mu.Lock()
				defer s.mu.Unlock()
				s.faultLocked("the lease is about to end: ending the process", overdueError(s.overdueLocked()))
			})
			_ = run.Sleep(ctx, logPeriod)
			s.config.Fatal()
			return
		}
	}
}

// refresh makes the informer of the Leases list again. The replica can write its Lease, but has not seen the write for
// some time, so the watch is broken and has not failed yet. A replica that does not see the others cannot hand over
// slots.
func (s *session) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.config.requestTimeout())
	defer cancel()
	_ = s.leases.SetShard(ctx, informer.Shard{}) // lists, because the shard is the same
}

// loseLocked gives up all slots at once: no call of Reconcile begins, and the contexts of those under way end.
func (s *session) loseLocked(why error) {
	if s.lost {
		return
	}
	n := s.inPhaseLocked(owned) + s.inPhaseLocked(releasing)
	s.lost, s.draining = true, true
	if s.leaving {
		s.nothingLeftLocked()
	}
	s.valid.Store(nil)
	s.endEpoch()
	s.faultLocked("the lease is lost", why)
	s.count(func(st *Status) { st.Lost += uint64(n); st.LeasesLost++ })
	s.tasks.Go(func() {
		ended, end := context.WithCancelCause(context.Background())
		end(why)
		s.waitReleased(ended, func(uint64) bool { return true })
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.phases)
		clear(s.releases)
		s.draining, s.stuck = false, time.Time{}
		s.epoch, s.endEpoch = context.WithCancel(s.life)
		s.publishLocked()
		s.claimsChangedLocked()
	})
}
