package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/lease"
	"github.com/typedinformer/informer/internal/test/testkit"
)

// nearlyGrace is the longest time that work may take to return.
const nearlyGrace = 4*time.Second - time.Millisecond

// takenOver is the time until another replica holds a lease that is no longer renewed. A candidate tries every 2 s to
// 4.4 s, sees the last renewal at most 4.4 s late, then waits for 15 s, and tries again at most 4.4 s later.
const takenOver = 24 * time.Second

// stage runs replicas. It fails the test if two work at the same time.
type stage struct {
	*testing.T
	server *informertest.Server
	leases *informertest.Collection[*coordinationv1.Lease]

	mu     sync.Mutex // protects the fields below
	active string
	terms  []string // the start of each work, with its replica
	began  time.Time
}

func onStage(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		leases := informertest.Register[*coordinationv1.Lease](server, informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
		test(&stage{T: t, server: server, leases: leases, began: time.Now()})
	})
}

// elector returns the elector of a replica.
func (s *stage) elector(name string, change ...func(*Config, *rest.Config)) *Elector {
	config := Config{
		Namespace: "ns", Name: "lease", Identity: name,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Fatal:  func() { s.Errorf("%s: Fatal", name) },
	}
	r := s.server.Config()
	r.UserAgent = name
	for _, c := range change {
		c(&config, r)
	}
	client, err := informer.NewClient(r)
	if err != nil {
		s.Fatal(err)
	}
	e, err := New(client, config)
	if err != nil {
		s.Fatal(err)
	}
	return e
}

// replica runs one replica, whose work takes winding to return. stop ends it, and returns the result of Run.
func (s *stage) replica(name string, winding time.Duration, change ...func(*Config, *rest.Config)) (stop func() error) {
	return s.run(s.elector(name, change...), winding)
}

// run runs an elector, whose work takes winding to return.
func (s *stage) run(e *Elector, winding time.Duration) (stop func() error) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx, s.work(e.config.Identity, winding)) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	s.Cleanup(func() { stop() })
	return stop
}

// work returns the work of a replica. It takes winding to return.
func (s *stage) work(name string, winding time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		s.enter(name)
		defer s.leave()
		<-ctx.Done()
		<-testkit.After(winding)
		return ctx.Err()
	}
}

// lease returns the Lease.
func (s *stage) lease() *coordinationv1.Lease {
	s.Helper()
	l, ok := s.leases.Get(informer.Key{Namespace: "ns", Name: "lease"})
	if !ok {
		s.Fatal("there is no Lease")
	}
	return l
}

func (s *stage) enter(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active != "" {
		s.Errorf("%s begins to work while %s works", name, s.active)
	}
	s.active = name
	s.terms = append(s.terms, fmt.Sprintf("%s@%v", name, time.Since(s.began).Round(time.Second)))
}

func (s *stage) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = ""
}

func (s *stage) working() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active
}

// When a replica stops, the next one waits for the end of its work, but not for the lease to expire.
//
// Guarantees: E2
func TestReleasedWhenTheWorkHasReturned(t *testing.T) {
	onStage(t, func(s *stage) {
		stop := s.replica("a", time.Minute) // longer than the lease, which is renewed meanwhile
		<-time.After(time.Second)
		s.replica("b", 0)
		<-time.After(time.Minute)
		if s.working() != "a" {
			s.Errorf("%q works, want a", s.active)
		}
		began := time.Now()
		if err := stop(); !errors.Is(err, context.Canceled) {
			s.Error(err)
		}
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			s.Errorf("stopping took %v", took)
		}
		<-time.After(4 * time.Second) // b tries every 2 s to 4.4 s
		<-time.After(time.Second)
		if s.working() != "b" {
			s.Errorf("%q works after %v, want b", s.active, s.terms)
		}
	})
}

func (s *stage) isolate(name string) (remove func()) {
	return s.server.Inject(informertest.Fault{Hang: true, Match: func(r informertest.Request) bool { return r.Header.Get("User-Agent") == name }})
}

// A leader that loses its connection has ended its work before the next one begins, and becomes a candidate again.
//
// Guarantees: E1
func TestCutOff(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("a", nearlyGrace)
		<-time.After(time.Second)
		s.replica("b", nearlyGrace)
		<-time.After(time.Minute)
		mend := s.isolate("a")
		<-time.After(takenOver)
		if s.working() != "b" {
			s.Errorf("%q works after %v, want b", s.active, s.terms)
		}
		mend()
		<-time.After(time.Minute)
		s.isolate("b")
		<-time.After(takenOver)
		if s.working() != "a" {
			s.Errorf("%q works after %v, want a", s.active, s.terms)
		}
	})
}

// slowAnswers delays the response to the first write by 4.9 s once it is switched on, and fails the later ones. In this
// case, leaderelection alone leads for longer than its lease.
type slowAnswers struct {
	http.RoundTripper
	on      *atomic.Bool
	answers *atomic.Int32
}

func (t slowAnswers) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.on.Load() {
		return t.RoundTripper.RoundTrip(r)
	}
	if t.answers.Add(1) > 1 {
		return nil, errors.New("no route")
	}
	resp, err := t.RoundTripper.RoundTrip(r)
	<-time.After(4900 * time.Millisecond)
	return resp, err
}

// Guarantees: E1
func TestTheLeaseIsCountedFromWhenItsRenewalWasSent(t *testing.T) {
	onStage(t, func(s *stage) {
		var on atomic.Bool
		var answers atomic.Int32
		s.replica("a", nearlyGrace, func(_ *Config, r *rest.Config) {
			r.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return slowAnswers{rt, &on, &answers} }
		})
		<-time.After(time.Second)
		s.replica("b", 0)
		<-time.After(time.Minute)
		on.Store(true)
		<-time.After(30 * time.Second)
		if s.working() != "b" || answers.Load() < 2 {
			s.Errorf("%q works after %v and %d requests, want b", s.active, s.terms, answers.Load())
		}
	})
}

// While the server is down for a minute, no replica works. Afterwards one does.
//
// Guarantees: E1
func TestServerAway(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("a", nearlyGrace)
		s.replica("b", nearlyGrace)
		<-time.After(time.Minute)
		s.server.Stop()
		<-time.After(15 * time.Second)
		if s.working() != "" {
			s.Errorf("%q works without a lease", s.active)
		}
		<-time.After(45 * time.Second)
		s.server.Start()
		<-time.After(20 * time.Second)
		if s.working() == "" {
			s.Errorf("no replica works after %v", s.terms)
		}
	})
}

// Guarantees: E4
func TestStubbornWorkEndsTheProcess(t *testing.T) {
	onStage(t, func(s *stage) {
		var cut, fatal time.Time
		s.replica("a", time.Hour, func(c *Config, _ *rest.Config) { c.Fatal = func() { fatal = time.Now() } })
		<-time.After(time.Minute)
		cut = time.Now()
		defer s.isolate("a")()
		<-time.After(time.Minute)
		synctest.Wait()
		if took := fatal.Sub(cut); took < 14*time.Second-2*time.Second || took > 14*time.Second {
			s.Errorf("ended after %v, want 14s less at most one RetryPeriod", took)
		}
	})
}

// After RenewDeadline, the lease is lost for good, even if the server is back before the work has returned, or an
// earlier renewal succeeds late. The work learns by when it must have returned, and the process ends at that time.
//
// Guarantees: E4, E6
func TestLostLeaseIsNotRenewed(t *testing.T) {
	for name, away := range map[string]informertest.Fault{
		"no connection":    {Drop: true, Resource: "leases"},
		"a response hangs": {Delay: 2600 * time.Millisecond, Resource: "leases"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				var fatal atomic.Pointer[time.Time] // when the process ended
				var stopBy []time.Time
				e := s.elector("a", func(c *Config, _ *rest.Config) {
					c.Fatal = func() { fatal.Store(new(time.Now())) }
					if away.Delay > 0 { // the last renewal before RenewDeadline is answered after it
						c.RetryPeriod = 5 * time.Second
					}
				})
				ctx, cancel := context.WithCancel(s.Context())
				end, ended := make(chan struct{}), make(chan error, 1)
				go func() {
					ended <- e.Run(ctx, func(ctx context.Context) error {
						<-ctx.Done()
						var limit interface{ StopBy() time.Time }
						if !errors.As(context.Cause(ctx), &limit) || !errors.Is(context.Cause(ctx), ErrLost) {
							s.Errorf("cause %v", context.Cause(ctx))
							return nil
						}
						stopBy = append(stopBy, limit.StopBy())
						<-end
						return nil
					})
				}()
				defer func() { cancel(); <-ended }()
				defer close(end)
				<-time.After(time.Minute + 100*time.Millisecond)
				synctest.Wait()
				renewed := e.Status().Renewed
				mend := s.server.Inject(away)
				if away.Delay > 0 {
					// The renewal at 65 s is answered at 67.6 s, and counts. The next one is sent at 72.6 s.
					renewed = renewed.Add(5 * time.Second)
				}
				<-time.After(time.Until(renewed.Add(10*time.Second + time.Millisecond)))
				synctest.Wait()
				want := renewed.Add(14 * time.Second)
				status := e.Status()
				if status.State != Stopping || !status.Renewed.Equal(renewed) || !status.StopBy.Equal(want) || status.Lost != 1 || len(stopBy) != 1 || !stopBy[0].Equal(want) {
					s.Fatalf("%+v, want StopBy %v: %v", status, want, stopBy)
				}
				mend()
				before := s.lease().Spec.RenewTime.Time
				<-time.After(time.Until(want) - time.Millisecond)
				synctest.Wait()
				if end := fatal.Load(); end != nil {
					s.Errorf("the process ended %v too early", want.Sub(*end))
				}
				if away.Drop && !s.lease().Spec.RenewTime.Time.Equal(before) {
					s.Errorf("renewed at %v, after the loss", s.lease().Spec.RenewTime)
				}
				<-time.After(2 * time.Millisecond)
				synctest.Wait()
				if end := fatal.Load(); end == nil || !end.Equal(want) || !e.Status().Renewed.Equal(renewed) {
					s.Errorf("the process ended at %v, want %v; %+v", end, want, e.Status())
				}
			})
		})
	}
}

// A 404 of a proxy without a server behind it does not show that the Lease is gone: the leader tries again until its
// lease ends, as after any other failure.
//
// Guarantees: E1
func TestPageThatIsNotFoundIsNoDeletion(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("a", 0)
		<-time.After(time.Second)
		s.replica("b", 0)
		<-time.After(time.Minute)
		page := apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "page not found", 0, true)
		mend := s.server.Inject(informertest.Fault{Resource: "leases", Error: page})
		<-time.After(5 * time.Second)
		mend()
		<-time.After(time.Minute)
		if s.working() != "a" || len(s.terms) != 1 {
			s.Errorf("%q works after %v, want a without a break", s.active, s.terms)
		}
	})
}

// After the context of Run has ended, the work is returning anyway. If the server is back in time, the replica renews
// the lease, so that the work has the time that it needs.
//
// Guarantees: E2
func TestWorkThatReturnsSurvivesAnOutage(t *testing.T) {
	onStage(t, func(s *stage) {
		stop := s.replica("a", 30*time.Second)
		<-time.After(time.Second)
		s.replica("b", 0)
		<-time.After(time.Minute)
		go stop()
		mend := s.server.Inject(informertest.Fault{Drop: true, Resource: "leases"})
		<-time.After(10500 * time.Millisecond) // the last renewal was at 60 s, and the next ones are at 72 s and 74 s
		mend()
		<-time.After(18 * time.Second)
		if s.working() != "a" {
			s.Errorf("%q works after %v, want a", s.active, s.terms)
		}
		<-time.After(7 * time.Second)
		if s.working() != "b" {
			s.Errorf("%q works after %v, want b", s.active, s.terms)
		}
	})
}

// The server is back when the leader has just given up. The lease is not released before the work has returned.
//
// Guarantees: E2
func TestNotReleasedWhileTheWorkWindsDown(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("a", nearlyGrace)
		<-time.After(60*time.Second + 500*time.Millisecond) // the last renewal was at 60 s
		mend := s.server.Inject(informertest.Fault{Drop: true, Resource: "leases"})
		<-time.After(11 * time.Second)
		mend()
		<-time.After(1500 * time.Millisecond) // the election has ended after 72 s
		if lease := s.lease(); *lease.Spec.HolderIdentity != "a" || s.working() != "a" {
			s.Errorf("%q works, and the lease is %+v", s.active, lease)
		}
	})
}

// A lease that another replica holds is not released.
//
// Guarantees: E2
func TestOnlyTheOwnLeaseIsReleased(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("b", 0)
		<-time.After(time.Second)
		a := s.elector("a")
		if err := a.newClaim().release(s.Context()); err != nil || *s.lease().Spec.HolderIdentity != "b" {
			s.Errorf("%v, %v", s.lease(), err)
		}
	})
}

func TestWorkThatEnds(t *testing.T) {
	for _, result := range []error{errors.New("boom"), nil} {
		onStage(t, func(s *stage) {
			e := s.elector("a")
			if err := e.Run(s.Context(), func(context.Context) error { return result }); err != result {
				s.Errorf("Run: %v, want %v", err, result)
			}
			if holder := *s.lease().Spec.HolderIdentity; holder != "" {
				s.Errorf("not released: %s is the holder", holder)
			}
			if status := e.Status(); status.State != Idle || status.Holder != "" || status.LastError != nil {
				s.Errorf("%+v", status)
			}
		})
	}
}

// If somebody else takes or deletes the lease, the work's context ends at the next renewal.
//
// Guarantees: E5
func TestTakenAway(t *testing.T) {
	for name, take := range map[string]func(s *stage){
		"by another": func(s *stage) {
			l := s.lease().DeepCopy()
			l.Spec.HolderIdentity = new("thief")
			if _, err := s.leases.Update(l); err != nil {
				s.Error(err)
			}
		},
		"deleted": func(s *stage) {
			if _, err := s.leases.Delete(informer.KeyOf(s.lease())); err != nil {
				s.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				e := s.elector("a")
				var causes []error
				ctx, cancel := context.WithCancel(s.Context())
				var run sync.WaitGroup
				run.Go(func() {
					_ = e.Run(ctx, func(ctx context.Context) error {
						<-ctx.Done()
						causes = append(causes, context.Cause(ctx))
						return nil
					})
				})
				defer run.Wait()
				defer cancel()
				<-time.After(time.Minute + time.Second)
				take(s)
				<-time.After(2 * time.Second)
				synctest.Wait()
				if len(causes) != 1 || !errors.Is(causes[0], ErrLost) {
					s.Errorf("causes: %v, want ErrLost", causes)
				}
				if status := e.Status(); !errors.Is(status.LastError, lease.ErrTaken) {
					s.Errorf("%+v", status)
				}
			})
		})
	}
}

// A conflict is not a loss: somebody else may have changed the metadata of the Lease.
//
// Guarantees: E5
func TestMetadataOfOthers(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("a", 0)
		<-time.After(500 * time.Millisecond) // a renewal every 2 s
		for range 30 {
			<-time.After(3 * time.Second)
			l := s.lease().DeepCopy()
			l.Annotations = map[string]string{"seen": time.Now().String()}
			if _, err := s.leases.Update(l); err != nil {
				s.Error(err)
			}
		}
		if s.working() != "a" || len(s.terms) != 1 || s.lease().Annotations == nil {
			s.Errorf("%q works after %v, want a", s.active, s.terms)
		}
	})
}

// A replica with this package and one with client-go's leaderelection do not work at the same time.
//
// Guarantees: E1, E2
func TestTogetherWithClientGo(t *testing.T) {
	onStage(t, func(s *stage) {
		peer := func() (stop func()) {
			leases, err := coordinationv1client.NewForConfig(s.server.Config())
			if err != nil {
				s.Fatal(err)
			}
			ctx, cancel := context.WithCancel(s.Context())
			var run sync.WaitGroup
			run.Go(func() {
				leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
					Lock: &resourcelock.LeaseLock{
						LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, Client: leases,
						LockConfig: resourcelock.ResourceLockConfig{Identity: "client-go"},
					},
					LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
					Callbacks: leaderelection.LeaderCallbacks{
						OnStartedLeading: func(context.Context) { s.enter("client-go") },
						OnStoppedLeading: s.leave,
					},
				})
			})
			return sync.OnceFunc(func() { cancel(); run.Wait() })
		}
		stopA := s.replica("a", nearlyGrace)
		<-time.After(time.Second)
		stopPeer := peer()
		defer stopPeer()
		<-time.After(time.Minute)
		_ = stopA()
		<-time.After(5 * time.Second)
		if s.working() != "client-go" {
			s.Errorf("%q works after %v, want client-go", s.active, s.terms)
		}
		s.replica("b", 0)
		<-time.After(time.Minute)
		stopPeer()
		<-time.After(5 * time.Second)
		if s.working() != "b" || len(s.terms) != 3 {
			s.Errorf("%q works after %v, want b", s.active, s.terms)
		}
	})
}

func TestStatus(t *testing.T) {
	onStage(t, func(s *stage) {
		a, b := s.elector("a"), s.elector("b")
		expect := func(when string, e *Elector, state State, since time.Duration, holder string) {
			s.Helper()
			synctest.Wait()
			got := e.Status()
			if got.State != state || got.Holder != holder || got.Identity != e.config.Identity || got.Since.Sub(s.began).Round(time.Second) != since {
				s.Errorf("%s: %+v, want %v since %v, holder %q", when, got, state, since, holder)
			}
		}
		expect("before Run", a, Idle, 0, "")
		stop := s.run(a, 3*time.Second)
		<-time.After(time.Second)
		s.run(b, 0)
		<-time.After(time.Minute - time.Second)
		expect("the leader", a, Leading, 0, "a")
		expect("the other", b, Candidate, time.Second, "a")
		if got := a.Status(); time.Since(got.Renewed) > 2*time.Second || got.LastError != nil {
			s.Errorf("%+v", got)
		}
		if err := a.Run(s.Context(), nil); !errors.Is(err, informer.ErrRunning) {
			s.Errorf("a second Run: %v", err)
		}
		go stop()
		<-time.After(time.Second)
		expect("while the work returns", a, Stopping, time.Minute, "a")
		<-time.After(10 * time.Second)
		expect("after Run", a, Idle, time.Minute+3*time.Second, "")
		if got := b.Status(); got.State != Leading {
			s.Errorf("%+v", got)
		}
		s.server.Stop()
		<-time.After(5 * time.Second)
		if got := b.Status(); got.State != Leading || got.LastError == nil || got.LastErrorTime.IsZero() {
			s.Errorf("without a server: %+v", got)
		}
		s.server.Start()
	})
}

// A program that imports this package does not link client-go's clientset, or its scheme of all types.
func TestNoClientset(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(out), "k8s.io/client-go/kubernetes") {
		t.Error("the package links k8s.io/client-go/kubernetes")
	}
}

func TestConfig(t *testing.T) {
	client, err := informer.NewClient(&rest.Config{Host: "http://127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for want, config := range map[string]Config{
		"Namespace is empty":  {Name: "a"},
		"Name is empty":       {Namespace: "a"},
		"seconds":             {Namespace: "a", Name: "a", LeaseDuration: 1500 * time.Millisecond},
		"RetryPeriod is -1ns": {Namespace: "a", Name: "a", RetryPeriod: -1},
		"twice RetryPeriod":   {Namespace: "a", Name: "a", LeaseDuration: 5 * time.Second},
		"before":              {Namespace: "a", Name: "a", RenewDeadline: 14 * time.Second},
	} {
		if _, err := New(client, config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
	if _, err := New(nil, Config{Namespace: "a", Name: "a"}); err == nil || !strings.Contains(err.Error(), "client") {
		t.Errorf("nil client: %v", err)
	}
	a, err := New(client, Config{Namespace: "a", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := New(client, Config{Namespace: "a", Name: "a"})
	if err != nil || a.Status().Identity == "" || a.Status().Identity == b.Status().Identity {
		t.Errorf("identities %q and %q, %v: want different ones", a.Status().Identity, b.Status().Identity, err)
	}
}
