package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/internal/test/leak"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
)

func TestMain(m *testing.M) {
	runChild() // returns unless this process is one of TestSignals
	leak.Main(m)
}

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// stage is an API server, and a manager that runs on it.
type stage struct {
	*testing.T
	server *informertest.Server
	leases *informertest.Collection[*coordinationv1.Lease]
	m      *manager.Manager
	cancel context.CancelFunc // ends the context of Run
	ended  chan error         // receives the result of Run

	mu  sync.Mutex // protects the field below
	log []string
}

// onStage calls test in a bubble.
func onStage(t *testing.T, test func(s *stage)) {
	synctest.Test(t, func(t *testing.T) {
		server := informertest.NewServer(informertest.Options{InMemory: true})
		defer server.Close()
		informertest.Register[*corev1.Pod](server, informertest.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")})
		leases := informertest.Register[*coordinationv1.Lease](server, informertest.Resource{GroupVersionResource: coordinationv1.SchemeGroupVersion.WithResource("leases")})
		s := &stage{T: t, server: server, leases: leases}
		s.with(manager.Config{})
		test(s)
	})
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// with makes a manager with config.
func (s *stage) with(config manager.Config) {
	if config.Logger == nil {
		config.Logger = quiet
	}
	config.Health.Authorize = func(*http.Request) bool { return true }
	s.m = manager.New(config)
}

func (s *stage) client() *informer.Client {
	client, err := informer.NewClient(s.server.Config())
	s.must(err)
	return client
}

// pods returns an informer of pods.
func (s *stage) pods() *informer.Informer[*corev1.Pod] {
	return informer.New(s.client(), informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods")}, informer.Config[*corev1.Pod]{Logger: quiet})
}

// elector returns an elector for the Lease ns/lease.
func (s *stage) elector(identity string) *leader.Elector {
	e, err := leader.New(s.client(), leader.Config{
		Namespace: "ns", Name: "lease", Identity: identity, Logger: quiet,
		Fatal: func() { s.note("Fatal"); runtime.Goexit() },
	})
	s.must(err)
	return e
}

// holder returns the holder of the Lease.
func (s *stage) holder() string {
	l, ok := s.leases.Get(informer.Key{Namespace: "ns", Name: "lease"})
	if !ok || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// take makes another replica the holder of the Lease.
func (s *stage) take() {
	l, _ := s.leases.Get(informer.Key{Namespace: "ns", Name: "lease"})
	l = l.DeepCopy()
	l.Spec.HolderIdentity = new("thief")
	_, err := s.leases.Update(l)
	s.must(err)
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

// expect compares the log, and empties it. Goroutines that begin at the same time may do so in any order.
func (s *stage) expect(want ...string) {
	s.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, log := range [][]string{s.log, want} {
		i := slices.IndexFunc(log, func(line string) bool { return !strings.HasSuffix(line, "begins") })
		if i < 0 {
			i = len(log)
		}
		slices.Sort(log[:i])
	}
	if !slices.Equal(s.log, want) {
		s.Errorf("log: %q, want %q", s.log, want)
	}
	s.log = nil
}

// noted returns a runnable that notes its start and its end. It takes a second to return.
func (s *stage) noted(name string, phase manager.Phase) manager.Runnable {
	return manager.Runnable{Name: name, Phase: phase, Run: func(ctx context.Context) error {
		s.note("%s begins", name)
		<-ctx.Done()
		<-time.After(time.Second)
		s.note("%s returns", name)
		return ctx.Err()
	}}
}

// add adds noted runnables of all phases, in the wrong order.
func (s *stage) add() {
	for _, r := range []manager.Runnable{s.noted("leader", manager.LeaderOnly), s.noted("replica", manager.EveryReplica), s.noted("cache", manager.Caches), s.noted("server", manager.Servers)} {
		s.must(s.m.Add(r))
	}
}

// run calls Run until the test ends.
func (s *stage) run() {
	ctx, cancel := context.WithCancel(s.Context())
	m, ended := s.m, make(chan error, 1)
	s.cancel, s.ended = cancel, ended
	go func() {
		err := m.Run(ctx)
		s.note("Run returns")
		ended <- err
	}()
	s.Cleanup(cancel)
}

// stop ends the context of Run, and returns its result.
func (s *stage) stop() error { s.cancel(); return <-s.ended }

// answer returns the status and the body of a probe.
func (s *stage) answer(h http.Handler) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?verbose", nil))
	return w.Code, w.Body.String()
}

func (s *stage) ready(want bool) {
	s.Helper()
	synctest.Wait()
	if code, body := s.answer(s.m.Ready()); (code == http.StatusOK) != want {
		s.Errorf("readiness: %d, want %t:\n%s", code, want, body)
	}
}

func (s *stage) state(want manager.State) {
	s.Helper()
	synctest.Wait()
	if got := s.m.Status(); got.State != want {
		s.Errorf("%+v, want %v", got, want)
	}
}

// Phases begin in order, after the informers have synced and the replica leads. They stop in the reverse order, and the lease is
// released when the leader-only runnables have returned.
//
// Guarantees: M1, M2, M3
func TestOrder(t *testing.T) {
	onStage(t, func(s *stage) {
		other := s.elector("other")
		ctx, cancel := context.WithCancel(s.Context())
		leading := make(chan error, 1)
		go func() { leading <- other.Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil }) }()
		synctest.Wait()

		s.with(manager.Config{Elector: s.elector("me")})
		s.add()
		pods := s.pods()
		s.must(s.m.AddInformer(pods))
		ctl := &informer.Controller[informer.Key]{Name: "web", Logger: quiet, Reconcile: func(context.Context, informer.Key) (informer.Result, error) { return informer.Result{}, nil }}
		ctl.Watch(informer.EnqueueObject(pods))
		s.must(s.m.AddController(ctl))
		remove := s.server.Inject(informertest.Fault{Resource: "pods", Hang: true})
		s.state(manager.Idle)
		s.ready(false)
		s.run()
		<-time.After(5 * time.Minute)
		s.expect("server begins", "cache begins")
		s.state(manager.Starting)
		s.ready(false)
		remove()
		<-time.After(5 * time.Minute)
		s.expect("replica begins")
		s.state(manager.Running)
		s.ready(true)
		cancel()
		<-leading
		<-time.After(10 * time.Second)
		s.expect("leader begins")
		<-s.m.Elected()
		if !ctl.Status().Running || s.holder() != "me" || !s.m.Status().Leading {
			t.Errorf("%+v, holder %q, %+v", ctl.Status(), s.holder(), s.m.Status())
		}

		s.cancel()
		<-time.After(time.Millisecond)
		s.ready(false)
		s.state(manager.Stopping)
		if ctl.Status().Running || s.holder() != "me" || !pods.Status().Reflectors[0].WatchOpen {
			t.Errorf("while the leader-only runnables stop: %+v, holder %q, %+v", ctl.Status(), s.holder(), pods.Status())
		}
		s.expect()
		<-time.After(time.Second)
		s.expect("leader returns")
		if s.holder() != "" || !pods.Status().Reflectors[0].WatchOpen {
			t.Errorf("when they have stopped: holder %q, %+v", s.holder(), pods.Status())
		}
		<-time.After(time.Second)
		s.expect("replica returns")
		if pods.Status().Reflectors[0].WatchOpen {
			t.Errorf("the informer still runs: %+v", pods.Status())
		}
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		s.expect("cache returns", "server returns", "Run returns")
		s.state(manager.Stopped)
	})
}

// A replica that does not lead runs all but the leader-only runnables, and stops without them.
//
// Guarantees: M3
func TestFollowerStops(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{Elector: s.elector("other")})
		s.run()
		<-time.After(time.Second)
		other := s.m
		defer func(stop context.CancelFunc, ended chan error) { stop(); <-ended }(s.cancel, s.ended)
		s.with(manager.Config{Elector: s.elector("me")})
		s.add()
		s.run()
		<-time.After(time.Minute)
		s.expect("server begins", "cache begins", "replica begins")
		s.ready(true)
		if s.m.Status().Leading || !other.Status().Leading {
			t.Error("the wrong one leads")
		}
		s.must(s.stop())
		s.expect("replica returns", "cache returns", "server returns", "Run returns")
	})
}

// Without an elector, the replica leads at once.
func TestWithoutElector(t *testing.T) {
	onStage(t, func(s *stage) {
		s.add()
		s.run()
		s.expect("server begins", "cache begins", "replica begins", "leader begins")
		<-s.m.Elected()
		s.must(s.stop())
		s.expect("leader returns", "replica returns", "cache returns", "server returns", "Run returns")
	})
}

// While an informer does not sync, no later phase begins. Run can be stopped, or fails after CacheSyncTimeout.
//
// Guarantees: M1
func TestInformerThatNeverSyncs(t *testing.T) {
	for _, timeout := range []time.Duration{0, 2 * time.Minute} {
		onStage(t, func(s *stage) {
			s.server.Inject(informertest.Fault{Resource: "pods", Hang: true})
			s.with(manager.Config{CacheSyncTimeout: timeout})
			s.add()
			s.must(s.m.AddInformer(s.pods()))
			group := informer.NewGroup(s.client())
			_, _, err := informer.Shared(group, s.pods().Resource(), informer.Config[*corev1.Pod]{Logger: quiet})
			s.must(err)
			s.must(s.m.AddGroup("group", group))
			s.run()
			if timeout == 0 {
				<-time.After(time.Hour)
				s.expect("server begins", "cache begins")
				s.ready(false)
				s.must(s.stop())
				s.expect("cache returns", "server returns", "Run returns")
				return
			}
			err = <-s.ended
			var missing *informer.NotSyncedError
			if !errors.As(err, &missing) || !strings.Contains(err.Error(), "start: informer v1 pods: ") || !strings.Contains(err.Error(), "group: ") {
				t.Errorf("%v, want a NotSyncedError with both names", err)
			}
			s.expect("server begins", "cache begins", "cache returns", "server returns", "Run returns")
		})
	}
}

// The first failure stops everything, and Run returns it with its name. A later one appears only in the log.
//
// Guarantees: M4
func TestFirstFailure(t *testing.T) {
	boom := errors.New("boom")
	fails := func(s *stage, name string, phase manager.Phase, after time.Duration) {
		s.must(s.m.Add(manager.Runnable{Name: name, Phase: phase, Run: func(ctx context.Context) error {
			<-time.After(after)
			return fmt.Errorf("%w of %s", boom, name)
		}}))
	}
	for _, phase := range []manager.Phase{manager.LeaderOnly, manager.EveryReplica, manager.Caches, manager.Servers} {
		onStage(t, func(s *stage) {
			s.add()
			fails(s, "second", manager.Servers, 1500*time.Millisecond)
			fails(s, "first", phase, time.Second)
			s.run()
			if err := <-s.ended; !errors.Is(err, boom) || err.Error() != "first: boom of first" {
				t.Errorf("%v: %v", phase, err)
			}
			s.expect("server begins", "cache begins", "replica begins", "leader begins", "leader returns", "replica returns", "cache returns", "server returns", "Run returns")
			if status := s.m.Status(); status.Err == nil || status.State != manager.Stopped {
				t.Errorf("%+v", status)
			}
		})
	}
}

// A controller, an informer and a group that end by themselves are failures.
//
// Guarantees: M4
func TestFailuresByKind(t *testing.T) {
	for want, add := range map[string]func(s *stage){
		"web: web: Controller.Reconcile is nil": func(s *stage) { s.must(s.m.AddController(&informer.Controller[string]{Name: "web", Logger: quiet})) },
		"web: closed": func(s *stage) {
			queue := informer.NewQueue(informer.QueueConfig[string]{})
			s.must(s.m.AddController(&informer.Controller[string]{Name: "web", Logger: quiet, Queue: queue, Reconcile: func(context.Context, string) (informer.Result, error) {
				return informer.Result{}, nil
			}}))
			go func() { <-time.After(time.Minute); queue.Close() }()
		},
		"informer v1 pods with labels a=(: ": func(s *stage) {
			resource := s.pods().Resource()
			resource.LabelSelector = "a=("
			s.must(s.m.AddInformer(informer.New(s.client(), resource, informer.Config[*corev1.Pod]{Logger: quiet})))
		},
		"group: informer already started": func(s *stage) {
			group := informer.NewGroup(s.client())
			s.must(s.m.AddGroup("group", group))
			s.must(s.m.AddGroup("group", group))
		},
		"exits: it called runtime.Goexit": func(s *stage) {
			s.must(s.m.Add(manager.Runnable{Name: "exits", Run: func(context.Context) error { runtime.Goexit(); return nil }}))
		},
	} {
		onStage(t, func(s *stage) {
			add(s)
			s.run()
			if err := <-s.ended; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// An error after the end of the context is a failure, too. The cause of the context is not.
//
// Guarantees: M4
func TestFailureWhileItStops(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.m.Add(manager.Runnable{Name: "flush", Run: func(ctx context.Context) error { <-ctx.Done(); return errors.New("disk full") }}))
		s.must(s.m.Add(manager.Runnable{Name: "other", Run: func(ctx context.Context) error { <-ctx.Done(); return fmt.Errorf("read: %w", ctx.Err()) }}))
		s.run()
		s.state(manager.Running)
		if err := s.stop(); err == nil || err.Error() != "flush: disk full" {
			t.Error(err)
		}
	})
}

// A runnable that returns nil is done. Nothing else stops, and the replica keeps the lease.
func TestJobThatIsDone(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{Elector: s.elector("me")})
		for _, phase := range []manager.Phase{manager.LeaderOnly, manager.EveryReplica, manager.Caches, manager.Servers} {
			s.must(s.m.Add(manager.Runnable{Name: "job " + phase.String(), Phase: phase, Run: func(context.Context) error { return nil }}))
		}
		s.run()
		<-time.After(time.Hour)
		s.state(manager.Running)
		if s.holder() != "me" {
			t.Errorf("%q holds the lease", s.holder())
		}
		for _, task := range s.m.Status().Tasks {
			if task.State != manager.TaskReturned || task.Err != nil {
				t.Errorf("%+v", task)
			}
		}
		s.must(s.stop())
	})
}

// If a lost lease leaves less time than the Grace that is set, a manager logs both at the start. It logs a failure as
// an error with the name of the runnable, and the names of runnables that do not stop in time.
//
// Guarantees: M4, M6
func TestLog(t *testing.T) {
	onStage(t, func(s *stage) {
		var log strings.Builder
		s.with(manager.Config{Elector: s.elector("me"), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, grace := range []time.Duration{0, 3 * time.Second, 10 * time.Second} {
			s.must(s.m.AddController(&informer.Controller[string]{Name: "web", Grace: grace, Logger: quiet, Reconcile: func(context.Context, string) (informer.Result, error) {
				return informer.Result{}, nil
			}}))
		}
		end := make(chan struct{})
		s.must(s.m.Add(manager.Runnable{Name: "stubborn", Run: func(context.Context) error { <-end; return nil }}))
		s.run()
		<-time.After(time.Minute)
		s.must(s.m.Add(manager.Runnable{Name: "failing", Phase: manager.EveryReplica, Run: func(context.Context) error { return errors.New("boom") }}))
		<-s.ended
		close(end)
		<-time.After(10 * time.Second) // the elector releases the lease
		var lines []string
		for line := range strings.Lines(log.String()) {
			_, line, _ = strings.Cut(strings.TrimSpace(line), " ")
			lines = append(lines, line)
		}
		if want := []string{
			`level=INFO msg="after a lost lease, calls of Reconcile have less time than Grace" controller=web grace=10s leaseLeaves=4s`,
			`level=ERROR msg="a failure stops the program" name=failing err=boom`,
			`level=INFO msg=stopping cause="failing: boom"`,
			`level=ERROR msg="not stopped in time" names=[stubborn] timeout=30s`,
		}; !slices.Equal(lines, want) {
			t.Errorf("log\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	})
}

func TestRunTwice(t *testing.T) {
	onStage(t, func(s *stage) {
		s.add()
		s.run()
		s.expect("server begins", "cache begins", "replica begins", "leader begins")
		if err := s.m.Run(s.Context()); !errors.Is(err, informer.ErrRunning) {
			t.Errorf("while it runs: %v", err)
		}
		s.must(s.stop())
		s.expect("leader returns", "replica returns", "cache returns", "server returns", "Run returns")
		if err := s.m.Run(s.Context()); !errors.Is(err, informer.ErrRunning) {
			t.Errorf("afterwards: %v", err)
		}
		s.expect()
	})
}

// If the context has ended before Run, nothing begins.
func TestContextEndedBeforeRun(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{Elector: s.elector("me")})
		s.add()
		ctx, cancel := context.WithCancel(s.Context())
		cancel()
		s.must(s.m.Run(ctx))
		s.expect()
		s.state(manager.Stopped)
		if s.holder() != "" {
			t.Errorf("%q holds the lease", s.holder())
		}
	})
}

// A runnable that is added while Run is under way starts at once. One that is added while its phase stops does not run.
func TestAddWhileItRuns(t *testing.T) {
	onStage(t, func(s *stage) {
		s.run()
		s.state(manager.Running)
		s.add()
		s.expect("leader begins", "replica begins", "cache begins", "server begins")
		pods := s.pods()
		s.must(s.m.AddInformer(pods))
		s.must(pods.WaitSynced(s.Context()))
		s.ready(true)
		s.cancel()
		<-time.After(time.Millisecond)
		if err := s.m.Add(s.noted("late", manager.LeaderOnly)); !errors.Is(err, informer.ErrStopped) || !strings.Contains(err.Error(), "add late") {
			t.Errorf("%v, want ErrStopped", err)
		}
		s.must(s.m.Add(s.noted("replica 2", manager.EveryReplica)))
		s.expect("replica 2 begins")
		s.must(<-s.ended)
		for _, phase := range []manager.Phase{manager.LeaderOnly, manager.EveryReplica, manager.Caches, manager.Servers} {
			if err := s.m.Add(s.noted("late", phase)); !errors.Is(err, informer.ErrStopped) {
				t.Errorf("%v: %v, want ErrStopped", phase, err)
			}
		}
		if err := s.m.AddInformer(s.pods()); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("%v, want ErrStopped", err)
		}
	})
}

// Run returns an error for a wrong configuration or runnable, and starts nothing.
func TestInvalid(t *testing.T) {
	run := func(context.Context) error { return nil }
	for want, add := range map[string]func(m *manager.Manager) error{
		"Runnable.Name is empty":     func(m *manager.Manager) error { return m.Add(manager.Runnable{Run: run}) },
		"a: Runnable.Run is nil":     func(m *manager.Manager) error { return m.Add(manager.Runnable{Name: "a"}) },
		"Runnable.Phase is Phase(9)": func(m *manager.Manager) error { return m.Add(manager.Runnable{Name: "a", Run: run, Phase: 9}) },
		"a: Runnable.WaitSynced":     func(m *manager.Manager) error { return m.Add(manager.Runnable{Name: "a", Run: run, WaitSynced: run}) },
		"web: set either Server": func(m *manager.Manager) error {
			return m.AddServer(manager.Server{Name: "web", Handler: http.NotFoundHandler()})
		},
		"server at :1: Server.Handler is nil": func(m *manager.Manager) error {
			return m.AddServer(manager.Server{Addr: ":1"})
		},
	} {
		onStage(t, func(s *stage) {
			s.add()
			added := add(s.m)
			if err := s.m.Run(s.Context()); err == nil || !strings.Contains(err.Error(), want) || err != added {
				t.Errorf("Run: %v, Add: %v, want %q", err, added, want)
			}
			s.expect()
		})
	}
	if err := manager.New(manager.Config{CacheSyncTimeout: -1}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "Config.CacheSyncTimeout is -1ns") {
		t.Error(err)
	}
}

// The probes make the checks of package health and of the configuration, and check the state of the manager.
func TestProbes(t *testing.T) {
	onStage(t, func(s *stage) {
		var failure error
		config := manager.Config{}
		config.Health.ReadyChecks = []health.Check{{Name: "webhook", Func: func(*http.Request) error { return failure }}}
		config.Health.MaxWork = time.Minute
		s.with(config)
		pods := s.pods()
		s.must(s.m.AddInformer(pods))
		queue := informer.NewQueue(informer.QueueConfig[string]{})
		end := make(chan struct{})
		s.must(s.m.AddController(&informer.Controller[string]{Name: "web", Logger: quiet, Queue: queue, Reconcile: func(context.Context, string) (informer.Result, error) {
			<-end
			return informer.Result{}, nil
		}}))
		has := func(h http.Handler, code int, lines ...string) {
			t.Helper()
			synctest.Wait()
			got, body := s.answer(h)
			for _, line := range lines {
				if got != code || !strings.Contains(body, line) {
					t.Errorf("%d, want %d and %q:\n%s", got, code, line, body)
				}
			}
		}
		has(s.m.Ready(), 500, "[-]manager failed: state Idle", "[-]informer/v1 pods/synced failed", "[+]webhook ok")
		s.run()
		has(s.m.Ready(), 200, "[+]manager ok", "[+]informer/v1 pods/synced ok", "[+]webhook ok")
		has(s.m.Live(), 200, "[+]informer/v1 pods/handlers ok", "[+]controller/web/queue ok")
		failure = errors.New("no certificate")
		has(s.m.Ready(), 500, "[-]webhook failed: no certificate")
		queue.AddWith(informer.AddOptions{}, "a")
		<-time.After(2 * time.Minute)
		has(s.m.Live(), 500, "[-]controller/web/queue failed: a key in work for 2m0s")
		close(end)
		s.must(s.stop())
		has(s.m.Ready(), 500, "[-]manager failed: state Stopped")
	})
}

func TestStatus(t *testing.T) {
	onStage(t, func(s *stage) {
		s.add()
		want := func(state manager.State, leading bool, task manager.TaskState) {
			t.Helper()
			synctest.Wait()
			got := s.m.Status()
			if got.State != state || got.Leading != leading || len(got.Tasks) != 4 {
				t.Errorf("%+v, want %v, leading %t", got, state, leading)
			}
			for i, name := range []string{"server", "cache", "replica", "leader"} {
				if got := got.Tasks[i]; got.Name != name || got.State != task || got.Phase != manager.Phase(3-i) {
					t.Errorf("%+v, want %v", got, task)
				}
			}
		}
		want(manager.Idle, false, manager.TaskWaiting)
		s.run()
		want(manager.Running, true, manager.TaskRunning)
		s.must(s.stop())
		want(manager.Stopped, false, manager.TaskReturned)
	})
	for want, got := range map[string]fmt.Stringer{
		"Starting": manager.Starting, "Stopping": manager.TaskStopping, "State(9)": manager.State(9), "Running": manager.TaskRunning, "TaskState(9)": manager.TaskState(9),
		"LeaderOnly": manager.LeaderOnly, "Phase(9)": manager.Phase(9),
	} {
		if got.String() != want {
			t.Errorf("%v, want %s", got, want)
		}
	}
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
