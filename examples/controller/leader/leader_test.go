package leader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/typedinformer/informer/informertest"
)

// nearlyGrace is the longest time that work may take to return.
const nearlyGrace = DefaultGrace - time.Millisecond

// takenOver is the time until another replica holds a lease that is no longer renewed. A candidate tries every 2 s to
// 4.4 s, sees the last renewal at most 4.4 s late, then waits for 15 s, and tries again at most 4.4 s later.
const takenOver = 24 * time.Second

// stage runs replicas. It fails the test if two work at the same time.
type stage struct {
	*testing.T
	server *informertest.Server

	mu     sync.Mutex // protects the fields below
	active string
	terms  []string // the start of each work, with its replica
	began  time.Time
}

func onStage(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		informertest.Register[*coordinationv1.Lease](server, informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
		test(&stage{T: t, server: server, began: time.Now()})
	})
}

// replica runs one replica, whose work takes winding to return. stop ends it, and returns the result of Run.
func (s *stage) replica(name string, winding time.Duration, change ...func(*Config, *rest.Config)) (stop func() error) {
	config := Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Fatal: func() { s.Errorf("%s: Fatal", name) }}
	r := s.server.Config()
	r.UserAgent = name
	for _, c := range change {
		c(&config, r)
	}
	client, err := coordinationv1client.NewForConfig(r)
	if err != nil {
		s.Fatal(err)
	}
	config.Lock = &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: "ns", Name: "lease"},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, config, func(ctx context.Context) error {
			s.enter(name)
			<-ctx.Done()
			<-time.After(winding)
			s.leave()
			return ctx.Err()
		})
	}()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	s.Cleanup(func() { stop() })
	return stop
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

// The server returns when the leader has just given up. The lease is not released before the work has returned.
func TestNotReleasedWhileTheWorkWindsDown(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("a", nearlyGrace)
		<-time.After(60*time.Second + 500*time.Millisecond) // the last renewal was at 60 s
		mend := s.server.Inject(informertest.Fault{Drop: true, Resource: "leases"})
		<-time.After(11 * time.Second)
		mend()
		<-time.After(1500 * time.Millisecond) // the election has ended after 72 s
		client, err := coordinationv1client.NewForConfig(s.server.Config())
		if err != nil {
			s.Fatal(err)
		}
		lease, err := client.Leases("ns").Get(s.Context(), "lease", metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != "a" || s.working() != "a" {
			s.Errorf("%q works, and the lease is %+v, %v", s.active, lease, err)
		}
	})
}

// A lease that another replica holds is not released.
func TestOnlyTheOwnLeaseIsReleased(t *testing.T) {
	onStage(t, func(s *stage) {
		s.replica("b", 0)
		<-time.After(time.Second)
		client, err := coordinationv1client.NewForConfig(s.server.Config())
		if err != nil {
			s.Fatal(err)
		}
		foreign := &term{config: Config{RetryPeriod: time.Second}, lock: &lock{timeout: time.Second, Interface: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, Client: client, LockConfig: resourcelock.ResourceLockConfig{Identity: "a"},
		}}}
		foreign.release(s.Context())
		lease, err := client.Leases("ns").Get(s.Context(), "lease", metav1.GetOptions{})
		if err != nil || *lease.Spec.HolderIdentity != "b" {
			s.Errorf("%v, %v", lease, err)
		}
	})
}

func TestWorkThatEnds(t *testing.T) {
	onStage(t, func(s *stage) {
		client, err := coordinationv1client.NewForConfig(s.server.Config())
		if err != nil {
			s.Fatal(err)
		}
		lock := &resourcelock.LeaseLock{LeaseMeta: metav1.ObjectMeta{Namespace: "ns", Name: "lease"}, Client: client, LockConfig: resourcelock.ResourceLockConfig{Identity: "a"}}
		boom := errors.New("boom")
		if err := Run(s.Context(), Config{Lock: lock}, func(context.Context) error { return boom }); err != boom {
			s.Errorf("Run: %v", err)
		}
		if lease, err := client.Leases("ns").Get(s.Context(), "lease", metav1.GetOptions{}); err != nil || *lease.Spec.HolderIdentity != "" {
			s.Errorf("not released: %v, %v", lease, err)
		}
	})
}

func TestConfig(t *testing.T) {
	lock := &resourcelock.LeaseLock{LockConfig: resourcelock.ResourceLockConfig{Identity: "a"}}
	for want, config := range map[string]Config{
		"Lock is nil": {},
		"no identity": {Lock: &resourcelock.LeaseLock{}},
		"seconds":     {Lock: lock, LeaseDuration: 1500 * time.Millisecond},
		"negative":    {Lock: lock, RetryPeriod: -1},
		"too short":   {Lock: lock, LeaseDuration: 8 * time.Second},
	} {
		if err := Run(t.Context(), config, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}
