package shard

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// sessionOf returns a session of a replica with 16 slots that does not run. The test calls its steps.
func sessionOf(t *testing.T, followers ...Sharded) *session {
	r := must(New(must(informer.NewClient(&rest.Config{Host: "http://127.0.0.1"})), Config{
		Namespace: "ns", Name: "group", Identity: "a", Slots: 16, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}))
	r.keepHeld = 0
	r.Follow(followers...)
	s := newSession(r)
	s.life, s.epoch = t.Context(), newEpoch(t.Context())
	t.Cleanup(s.tasks.Wait)
	return s
}

// A replica claims a slot, gives the claim up and claims the slot again, before its store has its last two Leases. The
// first claim does not count: another replica may have claimed the slot after it was given up.
//
// Guarantees: S3
func TestSlotIsNotGainedByAnOlderClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessionOf(t)
		s.holding.held = setOf(16, 3)
		written := func() *coordinationv1.Lease {
			return leaseOf("a", *s.config, s.claims.set(), int(s.claims.generation), int(s.claims.generation)+1)
		}
		steer := func(lease *coordinationv1.Lease, desired slotSet, want phase) {
			t.Helper()
			s.mu.Lock()
			g := s.roster.directory.read([]*coordinationv1.Lease{lease}, lease.UID, s.config)
			s.advanceLocked(&g, desired)
			got := s.claims.phases[3]
			s.mu.Unlock()
			if got != want {
				t.Fatalf("the slot is in phase %d, want %d", got, want)
			}
			synctest.Wait()
		}
		wanted, unwanted := setOf(16, 3), setOf(16)
		steer(written(), wanted, claimed)
		first := written()
		steer(first, unwanted, absent)
		steer(first, wanted, claimed)
		steer(first, wanted, claimed)
		second := written()
		steer(second, wanted, gaining)
		steer(second, wanted, owned)
	})
}

// lister is an informer whose lists end when the test says so.
type lister struct {
	mu    sync.Mutex // protects lists
	lists []chan struct{}
}

func (l *lister) SetShard(ctx context.Context, _ informer.Shard) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ends := make(chan struct{})
	l.mu.Lock()
	l.lists = append(l.lists, ends)
	l.mu.Unlock()
	select {
	case <-ends:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// A slot that has left the target is not held when it comes back, because the informers may have dropped its objects.
// The same holds for a slot that leaves the target while its list is under way.
//
// Guarantees: S3
func TestSlotThatLeftTheTargetIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(lister)
		s := sessionOf(t, l)
		hold := func(desired string, want string) {
			t.Helper()
			s.mu.Lock()
			s.claims.desired = must(parseSlots(desired, 16))
			s.holdLocked()
			got := s.holding.has().String()
			s.mu.Unlock()
			if got != want {
				t.Errorf("the replica desires %s and holds %q, want %q", desired, got, want)
			}
			synctest.Wait()
		}
		listed := func(n int, want string) {
			t.Helper()
			synctest.Wait()
			if len(l.lists) != n {
				t.Fatalf("%d lists, want %d", len(l.lists), n)
			}
			close(l.lists[n-1])
			synctest.Wait()
			s.mu.Lock()
			defer s.mu.Unlock()
			if got := s.holding.has().String(); got != want {
				t.Errorf("after list %d, the replica holds %q, want %q", n, got, want)
			}
		}
		hold("0-7", "")
		listed(1, "0-7")
		hold("0-6,8", "0-6") // 7 leaves
		hold("0-8", "0-6")   // and comes back before the list without it has ended
		listed(2, "0-6,8")
		listed(3, "0-8")

		hold("0-9", "0-8")
		hold("0-8,10", "0-8") // 9 leaves while its list is under way
		listed(4, "0-8")
		hold("0-10", "0-8") // and comes back while the informers drop its objects
		listed(5, "0-8,10")
		listed(6, "0-10")
	})
}

// follower is an informer that calls a function.
type follower func(ctx context.Context) error

func (f follower) SetShard(ctx context.Context, _ informer.Shard) error { return f(ctx) }

// The controllers know that keys of a slot belong to another replica before the informers drop its objects. Otherwise
// they would reconcile the keys as deleted.
//
// Guarantees: S3
func TestLeavingSlotsArePublishedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *session
		var seen []informer.Ownership // of slot 7, when a follower changes its shard
		s = sessionOf(t, follower(func(ctx context.Context) error {
			seen = append(seen, s.table.ownership(7<<60))
			return context.Cause(ctx)
		}))
		for _, desired := range []string{"0-7", "0-6,8"} {
			s.mu.Lock()
			s.claims.desired = must(parseSlots(desired, 16))
			s.holdLocked()
			s.mu.Unlock()
			synctest.Wait()
		}
		if want := []informer.Ownership{informer.KeyAwaited, informer.KeyAwaited, informer.KeyForeign}; !slices.Equal(seen, want) {
			t.Errorf("slot 7 was %v, want %v", seen, want)
		}
	})
}

// The lease is lost while a slot is released, and the replica claims the slot again before the old release ends. That
// release then changes nothing.
//
// Guarantees: S3
func TestReleaseEndsWithItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessionOf(t)
		returned := make(chan struct{})
		s.controllers = []controller{{
			own:     func() {},
			release: func(context.Context, func(uint64) bool) { <-returned },
			inWork:  func(func(uint64) bool) []Call { return nil },
		}}
		epoch, end := context.WithCancel(t.Context())
		s.mu.Lock()
		s.claims.phases[3] = releasing
		s.release(epoch, 3)
		s.mu.Unlock()
		end()
		s.mu.Lock()
		s.claims.phases[3] = claimed
		s.mu.Unlock()
		close(returned)
		synctest.Wait()
		if n := s.replica.Status().Released; s.claims.phases[3] != claimed || n != 0 {
			t.Errorf("the slot is in phase %d, and %d slots were released", s.claims.phases[3], n)
		}
	})
}

// Two replicas that leave at the same time do not wait for each other.
//
// Guarantees: S5
func TestReplicasThatLeaveTogetherEndAtOnce(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 20)
		a, b := s.join("a"), s.join("b")
		<-time.After(settle)
		began := time.Now()
		a.cancel()
		b.cancel()
		<-a.ended
		<-b.ended
		if took := time.Since(began); took > time.Second || s.leases.Len() != 0 {
			s.Errorf("leaving took %v, and left %d Leases", took, s.leases.Len())
		}
	})
}
