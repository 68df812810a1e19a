package shard

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/lease"
)

// Calls that do not return in time after the lease was lost end the process.
//
// Guarantees: S3
func TestStubbornReconcileEndsTheProcess(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 1)
		var fatal time.Time
		var a *actor
		a = s.join("a", func(actor *actor, c *Config) {
			actor.takes, actor.winds = 100*time.Hour, 100*time.Hour
			c.Fatal = func() { fatal = time.Now(); a.kill() }
		})
		<-time.After(time.Minute)
		cut := time.Now()
		s.isolate("a")
		<-time.After(time.Minute)
		if took := fatal.Sub(cut); took < 14*time.Second-3*time.Second || took > 14*time.Second+lease.WatchPeriod {
			s.Errorf("ended after %v, want 14 s less at most one RetryPeriod", took)
		}
	})
}

// stick makes the calls of a for a pod never return, before the returned function is called.
func (a *actor) stick(pod informer.Key) (free func()) {
	stuck := make(chan struct{})
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.sticks = func(key Key) <-chan struct{} {
		if key.Key == pod {
			return stuck
		}
		return nil
	}
	return func() {
		a.s.mu.Lock()
		defer a.s.mu.Unlock()
		a.sticks = nil
		close(stuck)
	}
}

// joinFor starts a replica that should have the slot of a hash, rather than a.
func (s *stage) joinFor(hash uint64, a *actor, change ...func(*actor, *Config)) *actor {
	s.Helper()
	c := a.config
	for c.Identity = "b"; plan([]string{a.config.leaseName(), c.leaseName()}, 16)[slotOf(hash, 16)] != 1; c.Identity += "b" {
	}
	return s.join(c.Identity, change...)
}

// The bounds of S5: LeaseDuration + RetryPeriod, with a second for a list and other requests, and the longest backoff of an informer,
// which is a part of the list after an outage of the server.
const (
	takeOver   = 15*time.Second + 3*time.Second + time.Second
	maxBackoff = 30 * time.Second
)

// After the API server was away, a replica whose call does not return stops renewing. Fatal ends its process, and the others take over.
//
// Guarantees: S3, S5
func TestStuckCallAfterAnOutage(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		var fatal time.Time
		var a *actor
		a = s.join("a", func(actor *actor, c *Config) {
			c.Fatal = func() { fatal = time.Now(); a.kill() }
		})
		b := s.join("b")
		<-time.After(settle)
		for pod := range a.pods.Store().All() {
			if a.Owns(informer.HashOf(pod.UID)) {
				a.stick(informer.KeyOf(pod))
				must(s.pods.Update(labelled(s, pod.Name)))
				break
			}
		}
		<-time.After(time.Second)
		mend := s.server.Inject(informertest.Fault{Drop: true})
		s.server.EndWatches()
		<-time.After(12 * time.Second)
		mend()
		<-time.After(takeOver + maxBackoff)
		if fatal.IsZero() {
			s.Errorf("the process of a goes on; its status is %+v", a.Status())
		}
		s.wantSettled(b)
	})
}

// A stuck call does not hold up other slots. Its replica hands them over without a gap, and then ends its process, so that the slot of the
// call becomes free. Status names the key.
//
// Guarantees: S3, S5
func TestStuckCallInASlotThatMoves(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		var fatal time.Time
		var a *actor
		a = s.join("a", func(actor *actor, c *Config) {
			actor.takes, c.Grace, c.StuckAfter = 0, 6*time.Second, 5*time.Second
			c.Fatal = func() { fatal = time.Now(); a.kill() }
		})
		<-time.After(settle)
		pod := labelled(s, "pod-7")
		a.stick(informer.KeyOf(pod))
		pod = must(s.pods.Update(pod))
		began := time.Now()
		<-time.After(time.Second)
		slot := slotOf(informer.HashOf(pod.UID), 16)
		joined := time.Now()
		b := s.joinFor(informer.HashOf(pod.UID), a, func(a *actor, _ *Config) { a.takes = 0 })
		wantRest := func(for_ time.Duration) {
			for end := time.Now().Add(for_); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
				for i, names := range s.owners(a, b) {
					if i != slot && len(names) != 1 {
						s.Fatalf("%v: slot %d belongs to %q", s.time(), i, names)
					}
				}
			}
		}
		wantRest(5 * time.Second)
		if st := b.Status(); st.Owned != st.Planned-1 {
			s.Errorf("the status of the new owner is %+v", st)
		}
		if st := a.Status(); st.Owned != st.Planned || len(st.Overdue) != 0 {
			s.Errorf("before the end of Grace, the status of a is %+v", st)
		}
		wantRest(time.Until(joined.Add(7 * time.Second)))
		if st := a.Status(); st.Owned != st.Planned || !slices.Equal(st.Overdue, []Call{{KeyOf(pod).String(), began}}) || st.LastError != nil {
			s.Errorf("after Grace, the status of a is %+v", st)
		}
		wantRest(time.Until(joined.Add(12 * time.Second)))
		if st := a.Status(); st.Owned != 0 || st.Claimed != 1 || !errors.Is(st.LastError, errOverdue) || !strings.Contains(st.LastError.Error(), KeyOf(pod).String()) {
			s.Errorf("after StuckAfter, the status of a is %+v", st)
		}
		if st := b.Status(); st.Owned != 15 || st.Planned != 16 {
			s.Errorf("the status of b is %+v", st)
		}
		renewed := a.Status().Renewed
		wantRest(takeOver)
		if took := fatal.Sub(renewed); took < 14*time.Second || took > 14*time.Second+2*lease.WatchPeriod {
			s.Errorf("the process ended %v after the last renewal", took)
		}
		s.wantSettled(b)
	})
}

// A call that returns late, but before the lease is lost, costs nothing: the replica takes part again.
//
// Guarantees: S3, S5
func TestStuckCallThatReturns(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		a := s.join("a", func(a *actor, c *Config) { a.takes, c.Grace = 0, -1 })
		<-time.After(settle)
		pod := labelled(s, "pod-7")
		free := a.stick(informer.KeyOf(pod))
		pod = must(s.pods.Update(pod))
		<-time.After(time.Second)
		b := s.joinFor(informer.HashOf(pod.UID), a)
		<-time.After(9 * time.Second)
		if st := a.Status(); st.Owned != 0 || st.Claimed != 1 {
			s.Errorf("the status of a is %+v", st)
		}
		free()
		<-time.After(settle)
		s.wantSettled(a, b)
		if st := a.Status(); st.LeasesLost != 0 || st.Overdue != nil {
			s.Errorf("the status of a is %+v", st)
		}
	})
}

// If the other slots cannot be handed over, because nobody takes them, the replica stops renewing after HandOverTimeout.
//
// Guarantees: S5
func TestStuckCallEndsTheProcessIfNobodyTakesOver(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		var fatal time.Time
		var a *actor
		a = s.join("a", func(actor *actor, c *Config) {
			actor.takes, c.Grace, c.HandOverTimeout = 0, -1, 7*time.Second
			c.Fatal = func() { fatal = time.Now(); a.kill() }
		})
		<-time.After(settle)
		pod := labelled(s, "pod-7")
		a.stick(informer.KeyOf(pod))
		pod = must(s.pods.Update(pod))
		<-time.After(time.Second)
		joined := time.Now()
		b := s.joinFor(informer.HashOf(pod.UID), a)
		<-time.After(time.Second)
		mend := s.isolate(b.name) // b has claimed the slot
		<-time.After(time.Minute)
		// The last renewal comes at most a RetryPeriod before the end of HandOverTimeout.
		if took := fatal.Sub(joined); took < 4*time.Second+4*time.Second+14*time.Second || took > 4*time.Second+7*time.Second+14*time.Second+time.Second {
			s.Errorf("the process ended after %v", took)
		}
		mend()
		<-time.After(time.Minute)
		s.wantSettled(b)
	})
}

// A replica that leaves does not renew its lease for ever while a call does not return.
//
// Guarantees: S5
func TestStuckCallOfAReplicaThatLeaves(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		var fatal time.Time
		var a *actor
		a = s.join("a", func(actor *actor, c *Config) {
			actor.takes, c.Grace, c.HandOverTimeout = 0, -1, -1
			c.Fatal = func() { fatal = time.Now(); a.kill() }
		})
		b := s.join("b")
		<-time.After(settle)
		for pod := range a.pods.Store().All() {
			if a.Owns(informer.HashOf(pod.UID)) {
				a.stick(informer.KeyOf(pod))
				must(s.pods.Update(labelled(s, pod.Name)))
				break
			}
		}
		<-time.After(time.Second)
		a.cancel()
		<-time.After(a.config.StuckAfter + 14*time.Second + time.Second)
		if fatal.IsZero() {
			s.Errorf("the process of a goes on; its status is %+v", a.Status())
		}
		<-time.After(5 * time.Second)
		s.wantSettled(b)
	})
}

// If somebody deletes the Lease while a call hangs, the replica creates it again only after the call has returned, and
// without claims. With the old claims, the new Lease would look as if the replica had held them all the time.
//
// Guarantees: S3
func TestDeletedLeaseIsMadeAgainAfterTheDrain(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		a := s.join("a", func(a *actor, _ *Config) { a.takes = 0 })
		<-time.After(settle)
		pod := labelled(s, "pod-7")
		free := a.stick(informer.KeyOf(pod))
		must(s.pods.Update(pod))
		<-time.After(time.Second)
		s.server.ResetRequests()
		for lease := range s.leases.All() {
			must(s.leases.Delete(informer.KeyOf(lease)))
		}
		<-time.After(8 * time.Second)
		for _, r := range s.server.Requests() {
			if r.Verb == "create" {
				s.Errorf("at %v, a Lease was made before the call had returned", r.Time)
			}
		}
		if st := a.Status(); st.Owned != 0 || st.LeasesLost != 1 || len(st.Overdue) != 1 {
			s.Errorf("the status is %+v", st)
		}
		// The new Lease stays as it was created, so that its claims can be seen.
		mend := s.server.Inject(informertest.Fault{Verb: "update", Resource: "leases", Error: errors.New("down"), Match: func(informertest.Request) bool { return s.leases.Len() > 0 }})
		free()
		<-time.After(time.Second)
		if claims, ok := s.claims()["a"]; !ok || claims != "" {
			s.Errorf("a new Lease was made: %t, with the claims %q", ok, claims)
		}
		mend()
		<-time.After(settle)
		s.wantSettled(a)
	})
}
