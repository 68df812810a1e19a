package shard

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/typedinformer/informer/informertest"
)

// forbid makes the server refuse requests of replicas for pods.
func (s *stage) forbid(names ...string) (mend func()) {
	return s.server.Inject(informertest.Fault{Resource: "pods", Error: apierrors.NewForbidden(corev1.Resource("pods"), "", nil), Match: func(r informertest.Request) bool {
		return slices.Contains(names, r.Header.Get("User-Agent"))
	}})
}

// A replica that may not list the objects of its slots yields the slots after ListTimeout, and takes them back when it
// can list.
//
// Guarantees: S3, S5
func TestReplicaThatCannotListYields(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		quick := func(_ *actor, c *Config) { c.ListTimeout = 20 * time.Second }
		mend := s.forbid("a")
		a := s.join("a", quick)
		<-time.After(time.Second)
		b, c, d := s.join("b", quick), s.join("c", quick), s.join("d", quick)
		<-time.After(settle)
		lacks := a.Status().Planned
		if n := b.Status().Owned + c.Status().Owned + d.Status().Owned; lacks == 0 || n != 16-lacks {
			s.Errorf("%d slots have an owner, and a should have %d", n, lacks)
		}
		<-time.After(20*time.Second - settle + 5*time.Second)
		if st := a.Status(); st.Yielded != lacks || st.Planned != 0 || st.Owned != 0 || st.LastError == nil || !strings.Contains(st.LastError.Error(), "forbidden") {
			s.Errorf("the status of a is %+v", st)
		}
		s.mu.Lock()
		reconciled := len(s.reconciled)
		s.mu.Unlock()
		if n := b.Status().Owned + c.Status().Owned + d.Status().Owned; n != 16 || reconciled != 100 {
			s.Errorf("%d slots have an owner, and %d pods were reconciled", n, reconciled)
		}
		mend()
		<-time.After(time.Minute) // the informer of a waits up to 30 s before it tries again
		s.wantSettled(a, b, c, d)
		if st := a.Status(); st.Yielded != 0 || st.Planned != lacks {
			s.Errorf("the status of a is %+v", st)
		}
	})
}

// yielded returns the slots that a yields.
func (a *actor) yielded() map[int]bool {
	s := a.session.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	slots := map[int]bool{}
	for slot, yields := range s.yields.slots {
		if yields {
			slots[slot] = true
		}
	}
	return slots
}

// Slots of a replica that cannot list stay with their owners. If an owner is killed, another one takes its slots.
//
// Guarantees: S5
func TestYieldedSlotsStayWithTheirOwners(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		quick := func(_ *actor, c *Config) { c.ListTimeout = 20 * time.Second }
		b, c, d := s.join("b", quick), s.join("c", quick), s.join("d", quick)
		<-time.After(settle)
		before := s.owners(b, c, d)
		s.forbid("a")
		a := s.join("a", quick)
		<-time.After(time.Minute)
		after := s.owners(b, c, d)
		for slot := range a.yielded() {
			if !slices.Equal(before[slot], after[slot]) || len(after[slot]) != 1 {
				s.Errorf("slot %d belonged to %q, and belongs to %q", slot, before[slot], after[slot])
			}
		}
		if st := a.Status(); st.Yielded == 0 || st.Planned != 0 {
			s.Errorf("the status of a is %+v", st)
		}
		d.kill()
		<-time.After(takeOver)
		for slot, names := range s.owners(a, b, c) {
			if len(names) != 1 {
				s.Errorf("slot %d belongs to %q", slot, names)
			}
		}
	})
}

// If no replica can list, the slots stay with their planned owners, which own them as soon as the server allows lists.
//
// Guarantees: S5
func TestNobodyCanList(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 100)
		quick := func(_ *actor, c *Config) { c.ListTimeout = 20 * time.Second }
		mend := s.forbid("a", "b")
		a, b := s.join("a", quick), s.join("b", quick)
		<-time.After(time.Minute)
		if x, y := a.Status(), b.Status(); x.Planned == 0 || x.Yielded != x.Planned || x.Planned+y.Planned != 16 {
			s.Errorf("%+v, %+v", x, y)
		}
		mend()
		<-time.After(time.Minute)
		s.wantSettled(a, b)
	})
}

// The owner of a yielded slot is the replica that claims it, or else one that yields nothing, or else the first choice.
func TestSubstitutes(t *testing.T) {
	c := Config{Namespace: "ns", Name: "group"}
	if err := c.complete(); err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c", "d"}
	claims := [4]slotSet{}
	all := plan(names, c.Slots)
	for i := range claims {
		claims[i] = make(slotSet, c.Slots)
		for slot, owner := range all {
			claims[i][slot] = owner == i && i != 0
		}
	}
	mine := make(slotSet, c.Slots) // planned for a
	for slot, owner := range all {
		mine[slot] = owner == 0
	}
	held := slices.Index(mine, true) // b claims it
	claims[1][held] = true
	read := func(yields ...slotSet) group {
		var leases []*coordinationv1.Lease
		for i, name := range names {
			lease := leaseOf(name, c, claims[i], 1, i+1)
			if i < len(yields) && yields[i] != nil {
				lease.Annotations[yieldsAnnotation] = yields[i].String()
			}
			leases = append(leases, lease)
		}
		g := new(directory).read(leases, "uid of a", &c)
		return g
	}
	for _, test := range []struct {
		name   string
		yields []slotSet
		want   func(slot, owner int) bool
	}{
		{"nobody yields", nil, func(_, owner int) bool { return owner == 0 }},
		{"a yields", []slotSet{mine}, func(slot, owner int) bool { return owner != 0 && (slot != held || owner == 1) }},
		{"b yields another slot, and keeps the one that it has", []slotSet{mine, setOf(c.Slots, slices.Index(all, 1))}, func(slot, owner int) bool {
			return slot == held && owner == 1 || slot != held && owner >= 2
		}},
		{"all yield something", []slotSet{mine, mine, mine, mine}, func(_, owner int) bool { return owner == 0 }},
	} {
		g := read(test.yields...)
		owners := map[int]int{}
		for slot, owner := range g.planned {
			if mine[slot] {
				owners[owner]++
				if !test.want(slot, owner) {
					t.Errorf("%s: slot %d belongs to %d", test.name, slot, owner)
				}
			} else if owner != all[slot] && len(test.yields) < 2 {
				t.Errorf("%s: slot %d moves from %d to %d", test.name, slot, all[slot], owner)
			}
		}
		if test.name == "a yields" && len(owners) != 3 {
			t.Errorf("the slots of a go to %v", owners)
		}
	}
	broken := leaseOf("a", c, nil, 1, 1)
	broken.Annotations[yieldsAnnotation] = "x"
	if m := memberOf(broken, member{}, &c); m.claims != nil || m.cause == nil {
		t.Errorf("a Lease that cannot be read is %+v", m)
	}
}

// The response to the creation of a Lease is lost. The replica recognizes the Lease as its own, and does not wait until it expires.
//
// Guarantees: S5
func TestLostResponseToTheCreationOfALease(t *testing.T) {
	for name, fault := range map[string]informertest.Fault{
		"dropped": {Verb: "create", Resource: "leases", AfterHeaders: true, Drop: true, Times: 1},
		"hangs":   {Verb: "create", Resource: "leases", AfterHeaders: true, Hang: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(s *stage) {
				s.create("ns", 0, 20)
				s.server.Inject(fault)
				a := s.join("a")
				<-time.After(a.config.requestTimeout() + a.config.RetryPeriod)
				if st := a.Status(); st.Owned != 16 || s.leases.Len() != 1 {
					s.Errorf("%d Leases; the status is %+v", s.leases.Len(), st)
				}
			})
		})
	}
	t.Run("and Run ends", func(t *testing.T) {
		onStage(t, 1, func(s *stage) {
			s.server.Inject(informertest.Fault{Verb: "create", Resource: "leases", AfterHeaders: true, Hang: true, Times: 1})
			a := s.join("a")
			<-time.After(time.Second)
			a.leave()
			if s.leases.Len() != 0 {
				s.Errorf("the Lease is left: %v", s.claims())
			}
		})
	})
}

// A replica ignores the result of a gain that began under an earlier lease: another replica may have owned the slots
// since.
//
// Guarantees: S3
func TestGainOfAnEarlierLeaseOwnsNothing(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		r := must(New(s.client("a"), Config{Namespace: "ns", Name: "group", Slots: 16, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}))
		var skew time.Duration
		var replays []chan struct{} // each ends a call of replay
		r.wall = func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return time.Now().Round(0).Add(skew)
		}
		r.controllers = append(r.controllers, controller{
			own:     func() {},
			synced:  func(context.Context) error { return nil },
			release: func(context.Context, func(uint64) bool) {},
			inWork:  func(func(uint64) bool) []Call { return nil },
			replay: func(context.Context, func(uint64) bool) error {
				ends := make(chan struct{})
				s.mu.Lock()
				replays = append(replays, ends)
				s.mu.Unlock()
				<-ends
				return nil
			},
		})
		ctx, cancel := context.WithCancel(s.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = r.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		<-time.After(settle)
		s.mu.Lock()
		skew = 11 * time.Second
		s.mu.Unlock()
		<-time.After(settle) // the replica has a new lease, and gains the slots again
		if len(replays) != 2 || r.Status().LeasesLost != 1 {
			s.Fatalf("%d calls of Replay; the status is %+v", len(replays), r.Status())
		}
		close(replays[0])
		<-time.After(time.Second)
		if n := r.Status().Owned; n != 0 {
			s.Errorf("the replica owns %d slots before their keys were added", n)
		}
		close(replays[1])
		<-time.After(time.Second)
		if n := r.Status().Owned; n != 16 {
			s.Errorf("the replica owns %d slots", n)
		}
		cancel()
		<-ended
	})
}

// A replica deletes a Lease only at the version that has not changed for its duration. The store may have a newer
// version that the handler has not seen yet.
//
// Guarantees: S3
func TestRenewedLeaseIsNotDeleted(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		other := leaseOf("group-other", a.config, make(slotSet, 16), 1, 0)
		other.Namespace, other.Labels, other.UID, other.ResourceVersion = "ns", map[string]string{GroupLabel: "group"}, "", ""
		other.Spec.LeaseDurationSeconds = new(int32(3600))
		other = must(s.leases.Create(other))
		<-time.After(settle)
		reap := func(version string) {
			session := a.session.Load()
			session.mu.Lock()
			g := session.roster.read(session.own.uid)
			session.roster.observed[other.UID] = observation{version: version, time: time.Now().Add(-2 * time.Hour)}
			session.reapLocked(session.life, &g)
			session.mu.Unlock()
			<-time.After(time.Second)
		}
		reap("1")
		if s.leases.Len() != 2 {
			s.Error("a Lease was deleted that had been renewed")
		}
		reap(other.ResourceVersion)
		if s.leases.Len() != 1 {
			s.Error("an expired Lease was not deleted")
		}
	})
}
