package shard

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/lease"
)

// The response to a renewal comes after RenewDeadline, between two looks at the clock. By then, the contexts of all
// calls must have ended, so the replica gives up its slots although the server has accepted the renewal.
//
// Guarantees: S3
func TestResponseAfterRenewDeadlineLosesTheLease(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a", func(_ *actor, c *Config) { c.RenewDeadline = 10100 * time.Millisecond })
		<-time.After(62 * time.Second)
		renewed := a.Status().Renewed
		if s.time() != 62*time.Second || time.Since(renewed) != 2*time.Second {
			s.Fatalf("%v: the last renewal was sent at %v", s.time(), renewed)
		}
		mend := s.isolate("a")
		<-time.After(5 * time.Second)
		// The renewal after 63 s has had no response. The next one is sent after 67.3 s. The lease reaches RenewDeadline
		// after 70.1 s, and the replica looks at the clock every 250 ms, next after 70.25 s.
		mend()
		s.delayWrites("a", 2850*time.Millisecond)
		<-time.After(3140 * time.Millisecond)
		if st := a.Status(); st.LeasesLost != 0 || st.Claimed != 16 {
			s.Errorf("%v: before the response, the status is %+v", s.time(), st)
		}
		<-time.After(20 * time.Millisecond)
		if st := a.Status(); st.LeasesLost != 1 || st.Lost != 16 || st.Owned != 0 || !errors.Is(st.LastError, errExpired) ||
			!st.Renewed.After(renewed) {
			s.Errorf("%v: after the response, the status is %+v", s.time(), st)
		}
		s.delayWrites("a", 0)
		<-time.After(settle)
		s.wantSettled(a)
	})
}

// delayWrites makes the writes of a replica land late.
func (s *stage) delayWrites(name string, late time.Duration) {
	n := s.network(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.late = late
}

// slowResponses makes the responses to the writes of a replica come late.
func (s *stage) slowResponses(name string, slow time.Duration) {
	n := s.network(name)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow = slow
}

// A renewal was sent before the lease was lost, and its response comes when all calls have returned. It does not end
// the loss, because it has claims: the replica claims slots again after the response to a write that was sent later.
//
// Guarantees: S3
func TestRenewalFromBeforeTheLossDoesNotEndIt(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		<-time.After(time.Minute + time.Second)
		s.slowResponses("a", 3*time.Second)
		<-time.After(2500 * time.Millisecond)
		// The renewal after 63 s has no response yet.
		a.skewMu.Lock()
		a.skew = 11 * time.Second
		a.skewMu.Unlock()
		<-time.After(2 * lease.WatchPeriod)
		if st := a.Status(); st.LeasesLost != 1 || st.Claimed != 0 || s.claims()["a"] != "0-15" {
			s.Errorf("%v: the status is %+v, and the Lease claims %q", s.time(), st, s.claims()["a"])
		}
		<-time.After(3 * time.Second) // the response has come, that to the next write has not
		if st := a.Status(); st.Claimed != 0 || s.claims()["a"] != "" {
			s.Errorf("%v: the status is %+v, and the Lease claims %q", s.time(), st, s.claims()["a"])
		}
		s.slowResponses("a", 0)
		<-time.After(settle)
		s.wantSettled(a)
		if n := a.Status().LeasesLost; n != 1 {
			s.Errorf("the lease was lost %d times", n)
		}
	})
}

// The event of a renewal comes before the response. If the next renewals then fail, the replica has seen all of its
// renewals, so it keeps its watch, and sees a replica that joins although it cannot list.
//
// Guarantees: S5
func TestRenewalSeenBeforeItsResponse(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.network("a").slow = time.Millisecond
		a := s.join("a")
		<-time.After(time.Minute + 500*time.Millisecond)
		mend := s.isolate("a") // the open watch goes on
		<-time.After(2*a.config.RetryPeriod + 2*lease.WatchPeriod)
		b := s.join("b")
		<-time.After(time.Second)
		if st := a.Status(); len(st.Replicas) != 2 || st.LeasesLost != 0 {
			s.Errorf("the status of a is %+v", st)
		}
		mend()
		<-time.After(settle)
		s.wantSettled(a, b)
	})
}

// Somebody deletes the Lease, and another process creates one with the same name, before the watch of the replica
// delivers that. The next renewal finds it: the replica gives up its slots at once, and never writes that Lease.
//
// Guarantees: S3
func TestLeaseOfAnotherProcessIsNotWritten(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		<-time.After(settle)
		n := s.network("a")
		n.mu.Lock()
		n.lag = time.Minute
		n.mu.Unlock()
		var other *coordinationv1.Lease
		for lease := range s.leases.All() {
			other = lease.DeepCopy()
		}
		must(s.leases.Delete(informer.KeyOf(other)))
		other.UID, other.ResourceVersion, other.Annotations[runAnnotation] = "", "", "another"
		other.Spec.LeaseDurationSeconds = new(int32(3600))
		other = must(s.leases.Create(other))
		<-time.After(3*time.Second + time.Millisecond) // a RetryPeriod
		if st := a.Status(); st.LeasesLost != 1 || st.Owned != 0 {
			s.Errorf("the status is %+v", st)
		}
		<-time.After(2 * time.Minute)
		now, ok := s.leases.Get(informer.KeyOf(other))
		if !ok || now.UID != other.UID || now.ResourceVersion != other.ResourceVersion {
			s.Errorf("the Lease of the other process is %+v, and was %+v", now, other)
		}
		if st := a.Status(); st.Owned != 0 || st.Claimed != 0 {
			s.Errorf("while another process has the Lease, the status is %+v", st)
		}
		n.mu.Lock()
		n.lag = 0
		n.mu.Unlock()
		must(s.leases.Delete(informer.KeyOf(other)))
		<-time.After(2 * settle)
		s.wantSettled(a)
	})
}

// After a lost lease, the replica claims no slot before it has written its Lease without claims, even if the group
// changes meanwhile.
//
// Guarantees: S3
func TestNoClaimBetweenTheLossAndTheFirstWrite(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		<-time.After(time.Minute + time.Second)
		mend := s.isolate("a") // the open watch goes on
		a.skewMu.Lock()
		a.skew = 11 * time.Second
		a.skewMu.Unlock()
		<-time.After(2 * lease.WatchPeriod)
		if st := a.Status(); st.LeasesLost != 1 || st.Claimed != 0 {
			s.Errorf("the status of a is %+v", st)
		}
		b := s.join("b")
		<-time.After(time.Second)
		if st := a.Status(); len(st.Replicas) != 2 || st.Held != 16 || st.Claimed != 0 {
			s.Errorf("before the first write, the status of a is %+v", st)
		}
		if claims := s.claims()["a"]; claims != "0-15" {
			s.Errorf("the Lease of a was written: it claims %q", claims)
		}
		// The Lease stays as the first write leaves it.
		renewed := a.Status().Renewed
		allow := s.server.Inject(informertest.Fault{Verb: "update", Resource: "leases", Error: errors.New("down"),
			Match: func(r informertest.Request) bool {
				return r.Header.Get("User-Agent") == "a" && s.claims()["a"] != "0-15"
			}})
		mend()
		<-time.After(2 * time.Second)
		if claims := s.claims()["a"]; claims != "" || !a.Status().Renewed.After(renewed) {
			s.Errorf("the first write claims %q", claims)
		}
		allow()
		<-time.After(settle)
		s.wantSettled(a, b)
		if st := a.Status(); st.LeasesLost != 1 || st.Owned == 0 {
			s.Errorf("the status of a is %+v", st)
		}
	})
}

// A replica that sees its own renewals does not list the Leases again.
//
// Guarantees: S5
func TestNoListWhileOwnRenewalsAreSeen(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a, b := s.join("a"), s.join("b")
		<-time.After(5 * time.Minute)
		for _, actor := range []*actor{a, b} {
			lists := 0
			for _, r := range actor.session.Load().roster.leases.Status().Reflectors {
				lists += r.Traffic.Lists
			}
			if lists != 1 {
				s.Errorf("%s listed the Leases %d times", actor.name, lists)
			}
		}
	})
}

// A replica loses its lease while it releases a slot to another one. The release ends with the lease: the replica joins
// again, no call counts as stuck, and it leaves as any other.
//
// Guarantees: S3, S5
func TestLostLeaseEndsReleases(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		a := s.join("a", func(a *actor, _ *Config) { a.takes = 0 })
		<-time.After(settle)
		s.mu.Lock()
		a.takes = 100 * time.Hour
		s.mu.Unlock()
		pod := must(s.pods.Update(labelled(s, "pod-7")))
		<-time.After(time.Second)
		b := s.joinFor(informer.HashOf(pod.UID), a)
		<-time.After(time.Second)
		if p := a.phaseOf(slotOf(informer.HashOf(pod.UID), 16)); p != releasing {
			s.Errorf("the slot is in phase %d", p)
		}
		s.mu.Lock()
		a.takes = 0
		s.mu.Unlock()
		a.skewMu.Lock()
		a.skew = 11 * time.Second
		a.skewMu.Unlock()
		<-time.After(settle)
		s.wantSettled(a, b)
		<-time.After(a.config.Grace + a.config.StuckAfter + time.Minute)
		s.wantSettled(a, b)
		if st := a.Status(); st.LeasesLost != 1 || !errors.Is(st.LastError, errExpired) {
			s.Errorf("the status of a is %+v", st)
		}
		began := time.Now()
		a.leave()
		if took := time.Since(began); took > 2*time.Second {
			s.Errorf("leaving took %v", took)
		}
		if _, ok := s.claims()["a"]; ok {
			s.Error("the Lease of a is left")
		}
		<-time.After(settle)
		s.wantSettled(b)
	})
}

// A replica that loses its lease while it leaves has nothing more to hand over. Run ends as soon as its calls have
// returned, and does not wait for HandOverTimeout.
//
// Guarantees: S3, S5
func TestLostLeaseEndsTheHandOver(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		a := s.join("a", func(a *actor, c *Config) { a.takes, c.Grace, c.HandOverTimeout = 0, time.Hour, time.Hour })
		b := s.join("b")
		<-time.After(time.Minute)
		s.mu.Lock()
		a.takes = 100 * time.Hour
		s.mu.Unlock()
		slot := 0
		for pod := range a.pods.Store().All() {
			if a.Owns(informer.HashOf(pod.UID)) {
				slot = slotOf(informer.HashOf(pod.UID), 16)
				must(s.pods.Update(labelled(s, pod.Name)))
				break
			}
		}
		<-time.After(time.Second)
		a.cancel()
		<-time.After(time.Second)
		if st := a.Status(); a.phaseOf(slot) != releasing || st.Claimed != 1 || st.State != Leaving {
			s.Errorf("the slot is in phase %d, and the status of a is %+v", a.phaseOf(slot), st)
		}
		began := time.Now()
		mend := s.isolate("a")
		<-a.ended
		// The lease reaches RenewDeadline, the call returns, and the deletion of the Lease gets no response.
		limit := a.config.RenewDeadline + lease.WatchPeriod + a.winds + a.config.requestTimeout()
		if took := time.Since(began); took > limit {
			s.Errorf("Run ended after %v", took)
		}
		if n := a.Status().LeasesLost; n != 1 {
			s.Errorf("the lease was lost %d times", n)
		}
		mend()
		<-time.After(takeOver)
		s.wantSettled(b)
	})
}
