package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/informertest"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
)

// When the lease is lost, the leader-only runnables stop first, then all others, and Run returns ErrLost.
//
// Guarantees: M4, M5
func TestLeaseLost(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{Elector: s.elector("me")})
		s.add()
		s.run()
		<-time.After(time.Minute + time.Second) // between two renewals
		s.expect("server begins", "cache begins", "replica begins", "leader begins")
		s.take()
		if err := <-s.ended; !errors.Is(err, leader.ErrLost) || err.Error() != "leader election: the lease is lost" {
			t.Errorf("%v, want ErrLost", err)
		}
		s.expect("leader returns", "replica returns", "cache returns", "server returns", "Run returns")
		if s.holder() != "thief" {
			t.Errorf("%q holds the lease", s.holder())
		}
	})
}

// The wiring of the README: a controller with the default Grace, and an elector with its defaults. Nobody can renew the
// lease, and calls of Reconcile take as long as they may. The calls end, Run returns with the reason, and the process
// is not ended by force. The same holds for a Grace that is set.
//
// Guarantees: M5, E1
func TestLeaseLostWithTheDefaults(t *testing.T) {
	for _, grace := range []time.Duration{0, 25 * time.Second} {
		for name, lose := range map[string]func(s *stage){
			"server away": func(s *stage) { s.server.Inject(informertest.Fault{Drop: true, Resource: "leases"}) },
			"taken":       func(s *stage) { s.take() },
		} {
			t.Run(fmt.Sprint(name, ", Grace ", grace), func(t *testing.T) {
				onStage(t, func(s *stage) {
					s.with(manager.Config{Elector: s.elector("me")})
					var began, ended time.Time
					queue := informer.NewQueue(informer.QueueConfig[string]{})
					s.must(s.m.AddController(&informer.Controller[string]{Name: "web", Grace: grace, Logger: quiet, Queue: queue, Reconcile: func(ctx context.Context, _ string) (informer.Result, error) {
						<-ctx.Done()
						ended = time.Now()
						return informer.Result{}, ctx.Err()
					}}))
					s.run()
					queue.Add("a")
					<-time.After(time.Minute + time.Second)
					renewed := s.m.Status().Elector.Renewed
					began = time.Now()
					lose(s)
					err := <-s.ended
					if !errors.Is(err, leader.ErrLost) || err.Error() != "leader election: the lease is lost" {
						t.Errorf("Run: %v", err)
					}
					s.expect("Run returns") // and no Fatal
					last := renewed.Add(13 * time.Second)
					if name == "taken" { // it learns that at the next renewal
						last = began.Add(time.Second + 3*time.Second)
					}
					if !ended.Equal(last) {
						t.Errorf("the call ended %v after the last renewal, want %v", ended.Sub(renewed), last.Sub(renewed))
					}
					if status := s.m.Status().Elector; status.Lost != 1 || !status.StopBy.IsZero() {
						t.Errorf("%+v", status)
					}
				})
			})
		}
	}
}

// When a signal stops the program, calls of Reconcile have the whole Grace, while the lease is renewed. A Grace that is
// longer than GracefulShutdownTimeout is refused, with both figures. The default adapts to it.
//
// Guarantees: M5, M6
func TestGraceAndTheDeadline(t *testing.T) {
	for _, c := range []struct{ grace, timeout, want time.Duration }{
		{0, 0, 20 * time.Second},
		{25 * time.Second, 0, 25 * time.Second},
		{30 * time.Second, 0, 0},
		{time.Minute, 0, 0},
		{time.Minute, -1, time.Minute},
		{time.Minute, 2 * time.Minute, time.Minute},
		{0, 10 * time.Second, 9 * time.Second},
		{-1, 10 * time.Second, time.Nanosecond},
	} {
		for _, elected := range []bool{false, true} {
			onStage(t, func(s *stage) {
				config := manager.Config{GracefulShutdownTimeout: c.timeout}
				if elected {
					config.Elector = s.elector("me")
				}
				s.with(config)
				queue := informer.NewQueue(informer.QueueConfig[string]{})
				added := s.m.AddController(&informer.Controller[string]{Name: "web", Grace: c.grace, Logger: quiet, Queue: queue, Reconcile: func(ctx context.Context, _ string) (informer.Result, error) {
					<-ctx.Done()
					return informer.Result{}, ctx.Err()
				}})
				if c.want == 0 {
					want := fmt.Sprintf("manager: web: Controller.Grace is %v: it must be less than Config.GracefulShutdownTimeout, 30s", c.grace)
					if err := s.m.Run(s.Context()); added == nil || added.Error() != want || err != added {
						t.Errorf("%+v: %v, Run: %v, want %s", c, added, err, want)
					}
					return
				}
				s.must(added)
				queue.Add("a")
				s.run()
				<-time.After(time.Minute)
				began := time.Now()
				s.must(s.stop())
				if took := time.Since(began); took != c.want.Truncate(time.Second) {
					t.Errorf("%+v: stopping took %v", c, took)
				}
				s.expect("Run returns")
			})
		}
	}
}

// Once readiness fails, the servers, the informers and the runnables on every replica go on for DrainDelay. Leader-only
// runnables stop at once, and their time is part of the delay.
//
// Guarantees: M8
func TestDrainDelay(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{DrainDelay: 5 * time.Second, Elector: s.elector("me")})
		s.add()
		s.run()
		<-time.After(time.Minute)
		s.expect("server begins", "cache begins", "replica begins", "leader begins")
		began := time.Now()
		s.cancel()
		<-time.After(time.Millisecond)
		s.ready(false)
		if status := s.m.Status(); status.State != manager.Stopping || !status.StopBy.Equal(began.Add(30*time.Second)) {
			t.Errorf("%+v", status)
		}
		states := func(want ...manager.TaskState) {
			t.Helper()
			for i, task := range s.m.Status().Tasks {
				if task.State != want[i] {
					t.Errorf("%s: %v, want %v", task.Name, task.State, want[i])
				}
			}
		}
		states(manager.TaskRunning, manager.TaskRunning, manager.TaskRunning, manager.TaskStopping)
		<-time.After(5*time.Second - 2*time.Millisecond)
		s.expect("leader returns")
		if s.holder() != "" {
			t.Errorf("%q holds the lease", s.holder())
		}
		states(manager.TaskRunning, manager.TaskRunning, manager.TaskRunning, manager.TaskReturned)
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		states(manager.TaskRunning, manager.TaskRunning, manager.TaskStopping, manager.TaskReturned)
		s.must(<-s.ended)
		s.expect("replica returns", "cache returns", "server returns", "Run returns")
		if took := time.Since(began); took != 8*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
}

// A program that was never ready does not wait for DrainDelay, nor does one whose leader-only runnables take longer.
// The deadline also ends the delay.
//
// Guarantees: M6, M8
func TestDrainDelayIsNotWaitedForInVain(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{DrainDelay: 20 * time.Second})
		s.server.Inject(informertest.Fault{Resource: "pods", Hang: true})
		s.must(s.m.AddInformer(s.pods()))
		s.run()
		<-time.After(time.Minute)
		began := time.Now()
		s.must(s.stop())
		if took := time.Since(began); took > time.Second {
			t.Errorf("a program that was never ready stopped after %v", took)
		}
	})
	onStage(t, func(s *stage) {
		s.with(manager.Config{DrainDelay: 5 * time.Second})
		s.must(s.m.Add(manager.Runnable{Name: "slow", Run: func(ctx context.Context) error { <-ctx.Done(); <-time.After(12 * time.Second); return nil }}))
		s.run()
		<-time.After(time.Minute)
		began := time.Now()
		s.must(s.stop())
		if took := time.Since(began); took != 12*time.Second {
			t.Errorf("stopping took %v", took)
		}
	})
	for want, config := range map[string]manager.Config{
		"Config.DrainDelay is -1ns: it must not be negative":                          {DrainDelay: -1},
		"Config.DrainDelay is 30s: it must be less than GracefulShutdownTimeout, 30s": {DrainDelay: 30 * time.Second},
		"Config.DrainDelay is 11s: it must be less than GracefulShutdownTimeout, 10s": {DrainDelay: 11 * time.Second, GracefulShutdownTimeout: 10 * time.Second},
	} {
		if err := manager.New(config).Run(t.Context()); err == nil || err.Error() != "manager: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// If leader-only runnables do not return in time after a loss, the elector ends the process.
//
// Guarantees: M5
func TestLeaseLostAndStubbornWork(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{Elector: s.elector("me")})
		end := make(chan struct{})
		s.must(s.m.Add(manager.Runnable{Name: "stubborn", Run: func(context.Context) error { <-end; return nil }}))
		s.run()
		<-time.After(time.Minute + time.Second) // between two renewals
		s.take()
		<-time.After(15 * time.Second)
		s.expect("Fatal")
		close(end)
		<-s.ended
	})
}

// At the deadline, all contexts end, and Run names the runnables that still run.
//
// Guarantees: M6
func TestShutdownDeadline(t *testing.T) {
	for _, phase := range []manager.Phase{manager.LeaderOnly, manager.EveryReplica, manager.Caches, manager.Servers} {
		for _, failure := range []error{nil, errors.New("boom")} {
			onStage(t, func(s *stage) {
				s.with(manager.Config{GracefulShutdownTimeout: 10 * time.Second, Elector: s.elector("me")})
				end := make(chan struct{})
				stubborn := func(context.Context) error { <-end; return nil }
				s.must(s.m.Add(manager.Runnable{Name: "a", Phase: phase, Run: stubborn}))
				s.must(s.m.Add(manager.Runnable{Name: "b", Phase: phase, Run: stubborn}))
				s.add()
				s.run()
				<-time.After(time.Minute)
				began := time.Now()
				if failure != nil {
					s.must(s.m.Add(manager.Runnable{Name: "failing", Run: func(context.Context) error { return failure }}))
				} else {
					s.cancel()
				}
				err := <-s.ended
				var late *manager.ShutdownError
				if !errors.As(err, &late) || !slices.Equal(late.Running, []string{"a", "b"}) || late.Timeout != 10*time.Second || !errors.Is(err, failure) && failure != nil {
					t.Errorf("%v: %v", phase, err)
				}
				if took := time.Since(began); took != 10*time.Second {
					t.Errorf("%v: stopping took %v", phase, took)
				}
				<-time.After(time.Second)
				synctest.Wait()
				for _, task := range s.m.Status().Tasks {
					if want := task.Name != "a" && task.Name != "b"; (task.State == manager.TaskReturned) != want {
						t.Errorf("%v: %+v", phase, task)
					}
				}
				if held := s.holder() == "me"; held != (phase == manager.LeaderOnly) {
					t.Errorf("%v: holder %q", phase, s.holder())
				}
				close(end)
				<-time.After(10 * time.Second) // the elector releases the lease
			})
		}
	}
}

// A negative timeout means no limit.
func TestShutdownWithoutDeadline(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(manager.Config{GracefulShutdownTimeout: -1})
		s.must(s.m.Add(manager.Runnable{Name: "slow", Run: func(ctx context.Context) error { <-ctx.Done(); <-time.After(time.Hour); return nil }}))
		s.run()
		synctest.Wait()
		began := time.Now()
		s.must(s.stop())
		if took := time.Since(began); took != time.Hour {
			t.Errorf("stopping took %v", took)
		}
	})
}
