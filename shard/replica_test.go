package shard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
)

// settle is more than a hand-over takes.
const settle = 10 * time.Second

// Guarantees: S3
func TestReplicasShareTheObjects(t *testing.T) {
	for _, field := range []informer.ShardField{informer.ShardByUID, informer.ShardByNamespace} {
		onStage(t, 1, func(s *stage) {
			set := func(_ *actor, c *Config) { c.Field = field }
			for i := range 20 {
				s.create(fmt.Sprintf("%d-ns", i*31), 0, 5)
			}
			a := s.join("a", set)
			<-time.After(settle)
			s.wantSettled(a)
			b, c := s.join("b", set), s.join("c", set)
			<-time.After(settle)
			s.wantSettled(a, b, c)
			s.create("other", 100, 200)
			<-time.After(settle)
			s.wantSettled(a, b, c)
			b.leave()
			<-time.After(settle)
			s.wantSettled(a, c)
			c.kill()
			<-time.After(15*time.Second + settle)
			s.wantSettled(a)
			if st := a.Status(); st.Gained == 0 || st.Released == 0 || st.Lost != 0 || st.LastError != nil {
				s.Errorf("the status is %+v", st)
			}
		})
	}
}

// When a replica leaves or hands slots to a new one, a slot has no owner only for the time to write a Lease and to see
// it.
//
// Guarantees: S3
func TestMakeBeforeBreak(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 50)
		quick := func(a *actor, _ *Config) { a.takes = 0 }
		a := s.join("a", quick)
		<-time.After(settle)
		owned := func(actors ...*actor) (n int) {
			for _, names := range s.owners(actors...) {
				n += len(names)
			}
			return n
		}
		// The lists of b take 7 s. Until then, a keeps all slots.
		slow := s.server.Inject(informertest.Fault{Delay: 7 * time.Second, Match: func(r informertest.Request) bool {
			return r.Header.Get("User-Agent") == "b" && r.Resource == podsResource
		}})
		b := s.join("b", quick)
		<-time.After(6 * time.Second)
		if n := len(s.claims()["b"]); owned(a) != 16 || n != 0 {
			s.Errorf("a owns %d slots, and b claims %q", owned(a), s.claims()["b"])
		}
		slow()
		least := 16
		for range 4000 {
			<-time.After(time.Millisecond)
			least = min(least, owned(a, b))
		}
		s.wantSettled(a, b)
		a.cancel()
		for range 4000 {
			<-time.After(time.Millisecond)
			least = min(least, owned(a, b))
		}
		s.wantSettled(b)
		if least < 16 { // in virtual time, requests take none
			s.Errorf("for a millisecond or more, only %d slots had an owner", least)
		}
	})
}

// A call of Reconcile that takes long delays the hand-over of its own slot only. After Grace, its context ends.
//
// Guarantees: S3
func TestReleaseWaitsForTheCallsUnderWay(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 1)
		a := s.join("a", func(a *actor, c *Config) { a.takes, a.winds, c.Grace = 0, 3*time.Second, 20*time.Second })
		<-time.After(settle)
		s.mu.Lock()
		a.takes = 100 * time.Hour
		s.mu.Unlock()
		pod := must(s.pods.Update(labelled(s, "pod-0")))
		<-time.After(time.Second)
		slot := slotOf(informer.HashOf(pod.UID), 16)
		name := "b"
		for c := a.config; ; name += "b" { // a replica that takes the slot of the pod
			c.Identity = name
			if plan([]string{a.config.leaseName(), c.leaseName()}, 16)[slot] == 1 {
				break
			}
		}
		b := s.join(name, func(a *actor, _ *Config) { a.takes = 0 })
		<-time.After(settle)
		if p := a.phaseOf(slot); p != releasing {
			s.Errorf("the slot is in phase %d", p)
		}
		if st := b.Status(); st.Owned != st.Planned-1 {
			s.Errorf("the status of the new owner is %+v", st)
		}
		<-time.After(20*time.Second - settle)
		if st := b.Status(); st.Owned == st.Planned {
			s.Error("the slot was taken over before the call had returned")
		}
		<-time.After(4 * time.Second)
		s.wantSettled(a, b)
	})
}

// phaseOf returns the phase of a slot.
func (a *actor) phaseOf(slot int) phase {
	s := a.session.Load()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims.phases[slot]
}

// A replica that was cut off until its lease was lost gives up nothing before its calls have returned, even if it can write again.
//
// Guarantees: S3
func TestLostLeaseIsGivenUpAfterTheCallsHaveReturned(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 40)
		a := s.join("a", func(a *actor, _ *Config) {
			a.takes, a.winds, a.least = 100*time.Hour, 3900*time.Millisecond, 3900*time.Millisecond
		})
		<-time.After(time.Minute + 2*time.Second) // the last renewal was sent after a minute
		mend := s.isolate("a")
		s.server.EndWatches()
		b := s.join("b", func(a *actor, _ *Config) { a.takes = 0 })
		<-time.After(7 * time.Second) // the last renewal was sent 9 s ago
		if a.Status().Owned != 16 {
			s.Errorf("the status of a is %+v", a.Status())
		}
		<-time.After(2 * time.Second)
		if st := a.Status(); st.Owned != 0 || st.LeasesLost != 1 || st.Lost != 16 || !errors.Is(st.LastError, errExpired) {
			s.Errorf("the status of a is %+v", st)
		}
		mend()
		s.mu.Lock()
		a.takes = 0
		s.mu.Unlock()
		<-time.After(time.Second)
		if claims := s.claims()["a"]; claims != "0-15" { // calls are still under way
			s.Errorf("a claims %q before its calls have returned", claims)
		}
		<-time.After(2 * settle) // the watch of a would get no response for a minute
		s.wantSettled(a, b)
	})
}

// slowAnswers delays the response to the first write by 4.9 s once it is switched on, and fails the later ones.
type slowAnswers struct {
	http.RoundTripper
	on      *atomic.Bool
	answers *atomic.Int32
	sent    *atomic.Int64 // when the first write was sent, in nanoseconds
}

func (t slowAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.on.Load() || r.Method == http.MethodGet {
		return t.RoundTripper.RoundTrip(r)
	}
	if t.answers.Add(1) > 1 {
		return nil, errors.New("no route")
	}
	t.sent.Store(time.Now().UnixNano())
	resp, err := t.RoundTripper.RoundTrip(r)
	<-time.After(4900 * time.Millisecond)
	return resp, err
}

// Guarantees: S3
func TestTheLeaseIsCountedFromWhenItsRenewalWasSent(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		var on atomic.Bool
		var answers atomic.Int32
		var sent atomic.Int64
		config := s.server.Config()
		config.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return slowAnswers{rt, &on, &answers, &sent} }
		r := must(New(must(informer.NewClient(config)), Config{Namespace: "ns", Name: "group", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}))
		ctx, cancel := context.WithCancel(s.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- r.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		<-time.After(time.Minute)
		on.Store(true)
		for r.Owns(0) {
			<-time.After(10 * time.Millisecond)
		}
		if age := time.Duration(time.Now().UnixNano() - sent.Load()); answers.Load() < 2 || age > 10*time.Second+10*time.Millisecond {
			s.Errorf("the replica owned a slot for %v after its last renewal was sent", age)
		}
		cancel()
		<-ended
	})
}

// Guarantees: S3
func TestSlotsOfAKilledReplicaAreTakenOverWhenItsLeaseExpires(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 50)
		a, b := s.join("a"), s.join("b")
		<-time.After(time.Minute)
		before := b.Status()
		a.kill()
		<-time.After(11 * time.Second)
		if n := b.Status().Owned; n != before.Owned {
			s.Errorf("b owns %d slots before the lease of a has expired, and owned %d", n, before.Owned)
		}
		// The last renewal was up to 3 s before, and b waits up to 3 s more, so that not all replicas delete the Lease.
		<-time.After(8 * time.Second)
		s.wantSettled(b)
	})
}

// A clock that jumps looks like a process that was suspended: the replica gives up its slots at once, and joins again.
//
// Guarantees: S3
func TestClockThatJumpsLosesTheLease(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		<-time.After(settle)
		a.skewMu.Lock()
		a.skew = 11 * time.Second
		a.skewMu.Unlock()
		if a.Owns(0) {
			s.Error("a owns a slot with an old lease")
		}
		<-time.After(settle)
		s.wantSettled(a)
		a.skewMu.Lock()
		a.skew = -time.Hour
		a.skewMu.Unlock()
		<-time.After(settle)
		s.wantSettled(a)
		if st := a.Status(); st.LeasesLost != 1 {
			s.Errorf("the status is %+v", st)
		}
	})
}

// A clock that jumps beyond the lease does not end a process that reconciles nothing.
func TestIdleReplicaSurvivesAPause(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		<-time.After(settle)
		a.skewMu.Lock()
		a.skew = time.Hour
		a.skewMu.Unlock()
		<-time.After(settle)
		s.wantSettled(a)
	})
}

// One request without a response does not cost the lease.
func TestLostRequestDoesNotCostTheLease(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		<-time.After(settle)
		s.server.Inject(informertest.Fault{Verb: "update", Hang: true, Times: 1})
		<-time.After(time.Minute)
		s.wantSettled(a)
		if st := a.Status(); st.LeasesLost != 0 {
			s.Errorf("the status is %+v", st)
		}
	})
}

// A replica claims nothing until all sources of its controllers have synced, including those that it does not follow.
// Until then, the old owner keeps its slots.
//
// Guarantees: S3
func TestNoClaimBeforeEverySourceHasSynced(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		nodes := corev1.SchemeGroupVersion.WithResource("nodes")
		s.create("ns", 0, 20)
		a := s.join("a")
		<-time.After(settle)
		b := s.join("b", func(a *actor, _ *Config) {
			a.also = informer.New(s.client("b"), informer.Resource{GroupVersionResource: nodes}, informer.Config[*corev1.Node]{Logger: slog.New(slog.DiscardHandler)})
		})
		<-time.After(time.Minute)
		if n := len(s.claims()["b"]); n != 0 || a.Status().Owned != 16 {
			s.Errorf("b claims %q, and a owns %d slots", s.claims()["b"], a.Status().Owned)
		}
		if err := b.Status().LastError; err == nil || !strings.Contains(err.Error(), "nodes") {
			s.Errorf("the last error of b is %v", err)
		}
		informertest.Register[*corev1.Node](s.server, informertest.Resource{GroupVersionResource: nodes})
		<-time.After(2 * time.Minute) // b retries the absent resource
		s.wantSettled(a, b)
	})
}

// A Lease keeps the time at which it was acquired.
func TestRenewalKeepsTheTimeOfAcquisition(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		began := time.Now()
		a := s.join("a")
		<-time.After(settle)
		for lease := range s.leases.All() {
			if acquired := lease.Spec.AcquireTime; acquired == nil || acquired.Sub(began) > time.Second || !lease.Spec.RenewTime.After(acquired.Time) {
				s.Errorf("acquired at %v, renewed at %v, began at %v", acquired, lease.Spec.RenewTime, began)
			}
		}
		s.wantSettled(a)
	})
}

// If somebody deletes the Lease, the replica gives up its slots, and makes a new one.
//
// Guarantees: S3
func TestDeletedLeaseIsMadeAgain(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a, b := s.join("a"), s.join("b")
		<-time.After(settle)
		for lease := range s.leases.All() {
			must(s.leases.Delete(informer.KeyOf(lease)))
		}
		<-time.After(settle)
		s.wantSettled(a, b)
		if a.Status().LeasesLost != 1 || b.Status().LeasesLost != 1 || s.leases.Len() != 2 {
			s.Errorf("%+v, %+v, %d Leases", a.Status(), b.Status(), s.leases.Len())
		}
	})
}

// A 404 of a proxy that has no server behind it does not show that the Lease is gone: the replica keeps its slots while
// its lease lasts.
//
// Guarantees: S3
func TestPageThatIsNotFoundIsNoDeletion(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a, b := s.join("a"), s.join("b")
		<-time.After(settle)
		page := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "page not found", 0, true)
		mend := s.server.Inject(informertest.Fault{Resource: "leases", Error: page})
		<-time.After(5 * time.Second)
		mend()
		<-time.After(settle)
		s.wantSettled(a, b)
		if a.Status().LeasesLost != 0 || b.Status().LeasesLost != 0 {
			s.Errorf("%+v, %+v", a.Status(), b.Status())
		}
	})
}

// Somebody else may change labels of a Lease, and a response may get lost.
func TestConflictOfTheLeaseIsResolved(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		a := s.join("a")
		<-time.After(settle)
		for lease := range s.leases.All() {
			lease = lease.DeepCopy()
			lease.Annotations["note"] = "hello"
			must(s.leases.Update(lease))
		}
		<-time.After(settle)
		mend := s.server.Inject(informertest.Fault{Verb: "update", AfterHeaders: true, Drop: true, Times: 1})
		<-time.After(settle)
		mend()
		s.wantSettled(a)
		if st := a.Status(); st.LeasesLost != 0 {
			s.Errorf("the status is %+v", st)
		}
	})
}

// The next process with the same identity waits until the Lease of the one before has expired.
//
// Guarantees: S3
func TestIdentityThatIsUsedAgain(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 20)
		a := s.join("a")
		<-time.After(settle)
		a.kill()
		again := s.join("a2", func(_ *actor, c *Config) { c.Identity = "a" })
		<-time.After(10 * time.Second)
		if st := again.Status(); st.Owned != 0 || st.State != Joining || st.LastError == nil {
			s.Errorf("the status is %+v", st)
		}
		<-time.After(15 * time.Second)
		s.wantSettled(again)
	})
}

// While a replica has another layout, no slot is free, so nothing is reconciled twice.
//
// Guarantees: S3
func TestOtherLayoutsBlock(t *testing.T) {
	for name, change := range map[string]func(lease *coordinationv1.Lease){
		"layout":     func(lease *coordinationv1.Lease) { lease.Annotations[layoutAnnotation] = "uid 32 v1" },
		"claims":     func(lease *coordinationv1.Lease) { lease.Annotations[claimsAnnotation] = "99" },
		"generation": func(lease *coordinationv1.Lease) { lease.Annotations[generationAnnotation] = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, 1, func(s *stage) {
				c := Config{Namespace: "ns", Name: "group", Slots: 16}
				other := &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "group-other", Labels: map[string]string{GroupLabel: "group"}, Annotations: map[string]string{
						layoutAnnotation: c.layout(), claimsAnnotation: "", generationAnnotation: "1",
					}},
					Spec: coordinationv1.LeaseSpec{HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(3600))},
				}
				change(other)
				other = must(s.leases.Create(other))
				a := s.join("a")
				<-time.After(settle)
				if st := a.Status(); st.Owned != 0 || st.LastError == nil || !strings.Contains(st.LastError.Error(), "replica other") {
					s.Errorf("the status is %+v", st)
				}
				must(s.leases.Delete(informer.KeyOf(other)))
				<-time.After(settle)
				s.wantSettled(a)
			})
		})
	}
}

// If nobody takes over, Run ends the work at HandOverTimeout. If there is no other replica, it ends the work at once.
func TestLeaving(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		s.create("ns", 0, 20)
		a := s.join("a")
		<-time.After(settle)
		began := time.Now()
		a.leave()
		if took := time.Since(began); took > time.Second || !errors.Is(a.err, context.Canceled) || s.leases.Len() != 0 {
			s.Errorf("leaving alone took %v, and Run returned %v", took, a.err)
		}
		a = s.join("a")
		<-time.After(settle)
		b := s.join("b")
		<-time.After(settle)
		s.isolate("b")
		began = time.Now()
		a.leave()
		if took := time.Since(began); took < 10*time.Second || took > 12*time.Second {
			s.Errorf("leaving took %v with a replica that does not take over", took)
		}
		b.kill()
	})
}

// Run returns the error of work that returns by itself, and ends without a server, too.
func TestRun(t *testing.T) {
	onStage(t, 1, func(s *stage) {
		config := Config{Namespace: "ns", Name: "group", Identity: "a", Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
		r := must(New(s.client("a"), config))
		failure := errors.New("work has failed")
		if err := r.Run(s.Context(), func(context.Context) error { return failure }); err != failure || s.leases.Len() != 0 {
			s.Errorf("Run returned %v, and left %d Leases", err, s.leases.Len())
		}
		ctx, cancel := context.WithCancelCause(s.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- r.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		}()
		synctest.Wait()
		if err := r.Run(ctx, nil); !errors.Is(err, informer.ErrRunning) {
			s.Errorf("a second Run returned %v", err)
		}
		if r.Status().State != Member {
			s.Errorf("the status is %+v", r.Status())
		}
		cancel(failure)
		if err := <-ended; err != failure {
			s.Errorf("Run returned %v", err)
		}
		s.server.Stop()
		ctx, cancelled := context.WithTimeout(s.Context(), time.Minute)
		defer cancelled()
		if err := r.Run(ctx, func(context.Context) error { s.Error("work began without a server"); return nil }); !errors.Is(err, context.DeadlineExceeded) {
			s.Errorf("Run returned %v", err)
		}
		if st := r.Status(); st.State != Idle || st.LastError == nil {
			s.Errorf("the status is %+v", st)
		}
	})
}

func TestConfigIsChecked(t *testing.T) {
	client := must(informer.NewClient(&rest.Config{Host: "http://127.0.0.1"}))
	valid := Config{Namespace: "ns", Name: "group"}
	for _, c := range []struct {
		change func(*Config)
		want   string
	}{
		{func(c *Config) {}, ""},
		{func(c *Config) { c.Namespace = "" }, "Namespace is empty"},
		{func(c *Config) { c.Name = "" }, "Name is empty"},
		{func(c *Config) { c.Name = "A b" }, "Config.Name"},
		{func(c *Config) { c.Field = 7 }, "Config.Field is 7"},
		{func(c *Config) { c.Slots = 100 }, "Config.Slots is 100"},
		{func(c *Config) { c.Slots = 8192 }, "Config.Slots is 8192"},
		{func(c *Config) { c.LeaseDuration = time.Millisecond }, "Config.LeaseDuration"},
		{func(c *Config) { c.RetryPeriod = -1 }, "Config.RetryPeriod"},
		{func(c *Config) { c.RetryPeriod = 6 * time.Second }, "Config.RenewDeadline is 10s"},
		{func(c *Config) { c.RenewDeadline = 14 * time.Second }, "Config.RenewDeadline is 14s"},
		{func(c *Config) { c.StuckAfter = -1 }, "Config.StuckAfter"},
		{func(c *Config) { c.ListTimeout = -1 }, "Config.ListTimeout"},
	} {
		config := valid
		c.change(&config)
		switch _, err := New(client, config); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("the error is %v, want %q", err, c.want)
		}
	}
	if _, err := New(nil, valid); err == nil {
		t.Error("a nil client is no error")
	}
}

// A controller whose keys have another hash than the informers would never reconcile most of them.
func TestHashOfAnotherFieldIsRefused(t *testing.T) {
	client := must(informer.NewClient(&rest.Config{Host: "http://127.0.0.1"}))
	for field, want := range map[informer.ShardField]string{informer.ShardByUID: "ByNamespace", informer.ShardByNamespace: "ByUID"} {
		r := must(New(client, Config{Namespace: "ns", Name: "group", Field: field}))
		if field == informer.ShardByUID {
			Control(r, &informer.Controller[Key]{}, ByUID)
			Control(r, &informer.Controller[informer.Key]{}, ByNamespace)
		} else {
			Control(r, &informer.Controller[informer.Key]{}, ByNamespace)
			Control(r, &informer.Controller[Key]{}, ByUID)
		}
		err := r.Run(t.Context(), func(context.Context) error { t.Error("work was called"); return nil })
		if err == nil || !strings.Contains(err.Error(), "the hash "+want) {
			t.Errorf("the error is %v", err)
		}
	}
}
