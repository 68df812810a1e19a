package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// shop is a replica that survives outages. Its controller writes a ConfigMap for each key.
type shop struct {
	*Elector
	s      *stage
	gate   *informer.Gate
	client *informer.TypedClient[*corev1.ConfigMap] // with the gate
	ctl    *informer.Controller[string]
	log    *testkit.Log
	skew   atomic.Int64 // of its wall clock
	stop   func() error
	fatal  atomic.Pointer[time.Time]
	ended  atomic.Pointer[error] // the cause with which the context of the last work ended
}

// shop runs a replica until the test ends. Its calls of Reconcile are those of reconcile; nil means that each writes.
func (s *stage) shop(name string, reconcile func(p *shop, ctx context.Context, key string) error, change ...func(*Config, *rest.Config)) *shop {
	p := &shop{s: s, gate: new(informer.Gate), log: new(testkit.Log)}
	p.Elector = s.elector(name, append(change, func(c *Config, _ *rest.Config) {
		c.Recover = p.gate
		c.Fatal = func() { p.fatal.Store(new(time.Now())) }
		c.Logger = slog.New(slog.NewTextHandler(p.log, nil))
	})...)
	p.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(p.skew.Load())) }
	config := s.server.Config()
	config.UserAgent, config.QPS = name, -1
	client, err := informer.NewClient(config)
	if err != nil {
		s.Fatal(err)
	}
	p.client = informer.NewTypedClient[*corev1.ConfigMap](client.WithGate(p.gate), corev1.SchemeGroupVersion.WithResource("configmaps"))
	if reconcile == nil {
		reconcile = (*shop).write
	}
	p.ctl = &informer.Controller[string]{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Queue: informer.NewQueue(informer.QueueConfig[string]{}),
		Reconcile: func(ctx context.Context, key string) (informer.Result, error) {
			return informer.Result{}, reconcile(p, ctx, key)
		},
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- p.Run(ctx, func(ctx context.Context) error {
			s.enter(name)
			defer s.leave()
			defer func() { p.ended.Store(new(context.Cause(ctx))) }()
			return p.ctl.Run(ctx)
		})
	}()
	p.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	s.Cleanup(func() { p.stop() })
	return p
}

// write creates the ConfigMap of key.
func (p *shop) write(ctx context.Context, key string) error {
	_, err := p.client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: key}}, metav1.CreateOptions{})
	return err
}

// written reports whether the server has the ConfigMap of key.
func (p *shop) written(key string) bool {
	synctest.Wait()
	_, err := p.client.Get(p.s.Context(), informer.Key{Namespace: "ns", Name: key}, metav1.GetOptions{})
	return err == nil
}

// want fails the test unless the replica is in a state, and has led and lost so often.
func (p *shop) want(when string, state State, terms, lost uint64) {
	p.s.Helper()
	synctest.Wait()
	if got := p.Status(); got.State != state || got.Terms != terms || got.Lost != lost || p.gate.Status().Open != (state == Leading) {
		p.s.Errorf("%s: %+v, %+v; want %v, %d terms, %d lost", when, got, p.gate.Status(), state, terms, lost)
	}
}

// onShops is onStage with ConfigMaps.
func onShops(t *testing.T, test func(s *stage)) {
	onStage(t, func(s *stage) {
		informertest.Register[*corev1.ConfigMap](s.server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("configmaps")})
		test(s)
	})
}

// An outage of the server pauses the leader. It hands out no key, and then goes on in the same term: a candidate that sees the old
// Lease after the outage leaves it the time to renew.
//
// Guarantees: E4, E7
func TestOutagePausesTheLeader(t *testing.T) {
	for _, outage := range []time.Duration{12 * time.Second, 16 * time.Second, time.Minute, time.Hour} {
		onShops(t, func(s *stage) {
			a := s.shop("a", nil)
			<-time.After(time.Second)
			b := s.shop("b", nil)
			<-time.After(time.Minute)
			a.ctl.Queue.Add("before")
			if !a.written("before") {
				s.Error("the leader does not work")
			}
			s.server.Stop()
			<-time.After(11 * time.Second)
			a.ctl.Queue.Add("during")
			a.want("in the outage", Paused, 1, 0)
			if status := a.ctl.Status(); status.Running || status.Queue.InWork > 0 || !a.Status().StopBy.IsZero() {
				s.Errorf("in the outage: %+v", status)
			}
			<-time.After(outage - 11*time.Second)
			s.server.Start()
			<-time.After(5 * time.Second)
			a.want("after the outage", Leading, 1, 0)
			if !a.written("during") || !a.ctl.Status().Running {
				s.Error("the controller has not gone on")
			}
			<-time.After(time.Minute)
			a.want("a minute later", Leading, 1, 0)
			b.want("the candidate", Candidate, 0, 0)
			if lines := a.log.Take(); a.ended.Load() != nil || a.fatal.Load() != nil || a.gate.Status().Closed != 1 || len(lines) != 4 {
				s.Errorf("%+v, log:\n%q", a.gate.Status(), lines)
			}
		})
	}
}

// If another replica takes the lease, or somebody deletes it, while the leader is paused, the work ends as without Recover. Nothing that
// has the gate is written in between.
//
// Guarantees: E4, E7
func TestTakenInAnOutage(t *testing.T) {
	for name, other := range map[string]bool{"by another replica": true, "deleted": false} {
		t.Run(name, func(t *testing.T) {
			onShops(t, func(s *stage) {
				a := s.shop("a", nil)
				<-time.After(time.Minute)
				mend := s.isolate("a")
				<-time.After(11 * time.Second)
				a.want("cut off", Paused, 1, 0)
				if l := s.lease().DeepCopy(); other {
					l.Spec.HolderIdentity = new("b")
					if _, err := s.leases.Update(l); err != nil {
						s.Error(err)
					}
				} else if _, err := s.leases.Delete(informer.KeyOf(l)); err != nil {
					s.Error(err)
				}
				<-time.After(time.Minute)
				a.ctl.Queue.Add("late")
				a.want("the other leads", Paused, 1, 0)
				if err := a.write(s.Context(), "now"); !errors.Is(err, informer.ErrGateClosed) || a.ended.Load() != nil {
					s.Errorf("a write: %v", err)
				}
				mend()
				<-time.After(8 * time.Second)
				synctest.Wait()
				status := a.Status()
				if end := a.ended.Load(); end == nil || !errors.Is(*end, ErrLost) || status.Lost != 1 || a.fatal.Load() != nil {
					s.Errorf("%v, %+v", end, status)
				}
				if taken := status.Holder == "b"; taken != other || other && a.written("late") {
					s.Errorf("written by a replica that lost its lease: %+v", status)
				}
			})
		})
	}
}

// When the gate closes, a call of Reconcile has the time that it would have after a lost lease. It is no failure of the key, which is
// reconciled again after the outage.
//
// Guarantees: E7, Q14
func TestCallsEndWhenTheGateCloses(t *testing.T) {
	onShops(t, func(s *stage) {
		var began, ended []time.Duration
		a := s.shop("a", func(p *shop, ctx context.Context, key string) error {
			began = append(began, time.Since(s.began))
			if len(began) == 1 {
				<-ctx.Done()
				ended = append(ended, time.Since(s.began))
				return context.Cause(ctx)
			}
			return p.write(ctx, key)
		})
		<-time.After(time.Minute + time.Second) // renewed at 60 s
		a.ctl.Queue.Add("key")
		mend := s.isolate("a")
		<-time.After(20 * time.Second)
		a.want("in the outage", Paused, 1, 0)
		if len(ended) != 1 || ended[0] != 73*time.Second || a.fatal.Load() != nil {
			s.Errorf("the calls ended at %v, want 73s", ended)
		}
		mend()
		<-time.After(8 * time.Second)
		status := a.ctl.Status()
		if !a.written("key") || len(began) != 2 || status.Failed != 0 || status.Succeeded != 1 || a.ctl.Queue.NumRequeues("key") != 0 {
			s.Errorf("calls at %v, %+v", began, status)
		}
	})
}

// A call that does not return in time ends the process, before another replica can take the lease.
//
// Guarantees: E4, E7
func TestStuckCallInAnOutageEndsTheProcess(t *testing.T) {
	onShops(t, func(s *stage) {
		stuck := make(chan struct{})
		a := s.shop("a", func(*shop, context.Context, string) error { <-stuck; return nil })
		<-time.After(time.Minute + time.Second) // renewed at 60 s
		a.ctl.Queue.Add("key")
		mend := s.isolate("a")
		<-time.After(13 * time.Second)
		mend()
		<-time.After(time.Minute)
		if end := a.fatal.Load(); end == nil || end.Sub(s.began) != 74*time.Second {
			s.Errorf("ended at %v, want 74s", end)
		}
		if renewed := s.lease().Spec.RenewTime.Sub(s.began).Round(time.Second); renewed != time.Minute {
			s.Errorf("renewed at %v, with a call under way", renewed)
		}
		close(stuck)
	})
}

// A write under way is cancelled when the gate closes, and others are refused. Reads go on.
//
// Guarantees: E7, Q14
func TestWritesStopAtTheGate(t *testing.T) {
	onShops(t, func(s *stage) {
		a := s.shop("a", nil)
		<-time.After(time.Minute + time.Second) // renewed at 60 s
		if err := s.shop("b", nil).write(s.Context(), "early"); !errors.Is(err, informer.ErrGateClosed) {
			s.Errorf("a replica that does not lead: %v", err)
		}
		hang := s.server.Inject(informertest.Fault{Resource: "configmaps", Verb: "create", Hang: true})
		defer s.server.Inject(informertest.Fault{Resource: "leases", Drop: true})()
		var limit interface{ StopBy() time.Time }
		err := a.write(s.Context(), "key")
		if took := time.Since(s.began); !errors.Is(err, informer.ErrGateClosed) || !errors.As(err, &limit) || took != 70*time.Second {
			s.Errorf("%v after %v, want 70s", err, took)
		} else if stopBy := limit.StopBy().Sub(s.began); stopBy != 74*time.Second {
			s.Errorf("StopBy is %v, want 74s", stopBy)
		}
		hang()
		if err := a.write(s.Context(), "key"); !errors.Is(err, informer.ErrGateClosed) || a.written("key") {
			s.Errorf("a write after the closing: %v", err)
		}
		if _, list, err := a.client.List(s.Context(), "ns", metav1.ListOptions{}); err != nil || list.ResourceVersion == "" {
			s.Errorf("a read: %v", err)
		}
	})
}

// A renewal that was sent before the gate closed does not open it: only one that was sent when all passes had been left.
//
// Guarantees: E6, E7
func TestLateRenewalDoesNotOpenTheGate(t *testing.T) {
	onShops(t, func(s *stage) {
		a := s.shop("a", nil, func(c *Config, _ *rest.Config) { c.RetryPeriod = 5 * time.Second })
		<-time.After(time.Minute + 100*time.Millisecond)
		// The renewal at 65 s is answered at 69.9 s. That of 74.9 s would be due by 75 s, and is answered at 79.8 s.
		mend := s.server.Inject(informertest.Fault{Delay: 4900 * time.Millisecond, Resource: "leases"})
		<-time.After(time.Until(s.began.Add(75*time.Second + time.Millisecond)))
		a.want("at RenewDeadline", Paused, 1, 0)
		mend()
		<-time.After(time.Until(s.began.Add(79900 * time.Millisecond)))
		a.want("after the late answer", Paused, 1, 0)
		<-time.After(time.Until(s.began.Add(85 * time.Second)))
		a.want("after the next renewal", Leading, 1, 0)
		if renewed := a.Status().Renewed.Sub(s.began); renewed < 79*time.Second {
			s.Errorf("renewed at %v", renewed)
		}
	})
}

// The server executes renewals, and their responses get lost. The leader finds its own writes, and goes on.
//
// Guarantees: E7
func TestLostAnswersInAnOutage(t *testing.T) {
	onShops(t, func(s *stage) {
		a := s.shop("a", nil)
		<-time.After(time.Minute + time.Second)
		s.shop("b", nil)
		mend := s.server.Inject(informertest.Fault{AfterHeaders: true, Hang: true, Match: func(r informertest.Request) bool {
			return r.Header.Get("User-Agent") == "a" && r.Verb == "update"
		}})
		<-time.After(40 * time.Second)
		a.want("without answers", Paused, 1, 0)
		if renewed := s.lease().Spec.RenewTime.Sub(s.began); renewed < 80*time.Second {
			s.Errorf("renewed at %v: no renewal lands", renewed)
		}
		mend()
		<-time.After(12 * time.Second)
		a.want("afterwards", Leading, 1, 0)
	})
}

// After a suspension of the system, no pass is handed out before the lease was renewed. The process goes on if nothing was under way,
// and ends if something was.
//
// Guarantees: E3, E7
func TestSuspensionPausesTheLeader(t *testing.T) {
	for _, working := range []bool{false, true} {
		t.Run(fmt.Sprint("with a call under way: ", working), func(t *testing.T) {
			onShops(t, func(s *stage) {
				returns := make(chan struct{})
				a := s.shop("a", func(*shop, context.Context, string) error { <-returns; return nil })
				defer close(returns)
				<-time.After(time.Minute + time.Second)
				if working {
					a.ctl.Queue.Add("key")
				}
				synctest.Wait()
				a.skew.Store(int64(time.Hour))
				if err := a.write(s.Context(), "key"); !errors.Is(err, informer.ErrGateClosed) {
					s.Errorf("a write after the suspension: %v", err)
				}
				a.want("at once", Paused, 1, 0)
				<-time.After(lease.WatchPeriod)
				synctest.Wait()
				if ended := a.fatal.Load() != nil; ended != working {
					s.Errorf("the process has ended: %t", ended)
				}
				<-time.After(4 * time.Second)
				if !working {
					a.want("after a renewal", Leading, 1, 0)
				}
			})
		})
	}
}

// The context of Run may end while the leader is paused. The work then returns, and nothing opens the gate again.
//
// Guarantees: E2, E7
func TestContextThatEndsInAnOutage(t *testing.T) {
	for name, back := range map[string]bool{"the server is back": true, "it stays away": false} {
		t.Run(name, func(t *testing.T) {
			onShops(t, func(s *stage) {
				a := s.shop("a", nil)
				<-time.After(time.Minute)
				mend := s.isolate("a")
				<-time.After(30 * time.Second)
				a.want("cut off", Paused, 1, 0)
				if back {
					mend()
				}
				if err := a.stop(); !errors.Is(err, context.Canceled) || a.fatal.Load() != nil {
					s.Errorf("Run: %v", err)
				}
				a.want("after Run", Idle, 1, 0)
				if released := *s.lease().Spec.HolderIdentity == ""; released != back {
					s.Errorf("released: %t", released)
				}
			})
		})
	}
}

// When the context of Run has ended, calls of Reconcile under way may still write, until they have returned.
//
// Guarantees: E2, E7
func TestGateIsOpenUntilTheWorkHasReturned(t *testing.T) {
	onShops(t, func(s *stage) {
		a := s.shop("a", func(p *shop, ctx context.Context, key string) error {
			<-time.After(15 * time.Second)
			return p.write(ctx, key)
		})
		<-time.After(time.Minute)
		a.ctl.Queue.Add("key")
		synctest.Wait()
		if err := a.stop(); !errors.Is(err, context.Canceled) || !a.written("key") {
			s.Errorf("Run: %v; the last write is missing", err)
		}
		if err := a.write(s.Context(), "later"); !errors.Is(err, informer.ErrGateClosed) {
			s.Errorf("a write after Run: %v", err)
		}
	})
}

// onLine is a log that calls a function with each line.
type onLine func(line string)

func (f onLine) Write(line []byte) (int, error) { f(string(line)); return len(line), nil }

// The work may return while a renewal ends a pause. The gate is then closed, however slow the log is.
//
// Guarantees: E7
func TestNothingOpensTheGateAfterTheWork(t *testing.T) {
	onShops(t, func(s *stage) {
		gate, returned := new(informer.Gate), false
		var current *tenure
		e := s.elector("a", func(c *Config, _ *rest.Config) {
			c.Recover = gate
			c.Logger = slog.New(slog.NewTextHandler(onLine(func(line string) {
				if strings.Contains(line, "leading again") {
					_ = current.returned()
					returned = true
				}
			}), nil))
		})
		e.term = lease.NewTerm(e.config.timing(), e.wall)
		e.renew(e.stamp())
		working, end := context.WithCancelCause(s.Context())
		current = &tenure{e, working, end}
		current.begin()
		<-time.After(e.config.RenewDeadline)
		current.check()
		current.check() // without passes, the pause begins at once
		if gate.Status().Open || e.Status().State != Paused {
			s.Fatalf("%+v, %+v", e.Status(), gate.Status())
		}
		current.renewed(e.stamp())
		if !returned || gate.Status().Open {
			s.Errorf("returned=%v, %+v", returned, gate.Status())
		}
	})
}

// A candidate whose reads succeed takes the lease of a replica that is gone when it has expired, also if its pauses are as
// long as RenewDeadline.
//
// Guarantees: E7
func TestPausesOfACandidateAreNoOutage(t *testing.T) {
	onShops(t, func(s *stage) {
		slow := func(c *Config, _ *rest.Config) {
			c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 5*time.Minute, 10*time.Second, 5*time.Second
		}
		gone := s.elector("gone", slow)
		c := gone.newClaim()
		if acquired, err := c.acquire(s.Context()); !acquired || err != nil {
			s.Fatal(acquired, err)
		}
		b := s.shop("b", nil, slow)
		<-time.After(5*time.Minute + 12*time.Second)
		b.want("after the lease has expired", Leading, 1, 0)
	})
}
