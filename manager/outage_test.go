package manager_test

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/health"
	"github.com/typedinformer/informer/leader"
	"github.com/typedinformer/informer/manager"
)

// With leader.Config.Recover, an outage of the server ends nothing. The controllers pause, the probes pass, and the status shows it. If
// another replica takes the lease, the program ends as without it.
//
// Guarantees: M5, E7, Z2
func TestOutageWithRecover(t *testing.T) {
	for _, taken := range []bool{false, true} {
		onStage(t, func(s *stage) {
			elector, err := leader.New(s.client(), leader.Config{
				Namespace: "ns", Name: "lease", Identity: "me", Recover: new(informer.Gate), Logger: quiet, Fatal: func() { s.note("Fatal") },
			})
			s.must(err)
			s.with(manager.Config{Elector: elector, Health: health.Config{MaxReady: time.Minute, MaxNoWatch: -1}})
			queue, calls := informer.NewQueue(informer.QueueConfig[string]{}), new(atomic.Int32)
			s.must(s.m.AddController(&informer.Controller[string]{Name: "web", Logger: quiet, Queue: queue, Reconcile: func(context.Context, string) (informer.Result, error) {
				calls.Add(1)
				return informer.Result{}, nil
			}}))
			s.run()
			<-time.After(time.Minute)
			queue.Add("first")
			s.server.Stop()
			<-time.After(15 * time.Second)
			queue.Add("second")
			<-time.After(10 * time.Minute)
			synctest.Wait()
			status := s.m.Status()
			if calls.Load() != 1 || status.State != manager.Running || !status.Leading || status.Elector.State != leader.Paused {
				t.Errorf("%d calls, %+v, %+v", calls.Load(), status, status.Elector)
			}
			for name, probe := range map[string]http.Handler{"ready": s.m.Ready(), "live": s.m.Live()} {
				if code, body := s.answer(probe); code != http.StatusOK {
					t.Errorf("%s: %d\n%s", name, code, body)
				}
			}
			if taken {
				s.take()
			}
			s.server.Start()
			<-time.After(5 * time.Second)
			if taken {
				if err := <-s.ended; !errors.Is(err, leader.ErrLost) || calls.Load() != 1 {
					t.Errorf("%v, %d calls", err, calls.Load())
				}
				s.expect("Run returns")
				return
			}
			if status := s.m.Status(); calls.Load() != 2 || status.Elector.State != leader.Leading || status.Elector.Terms != 1 {
				t.Errorf("%d calls, %+v", calls.Load(), status.Elector)
			}
			s.must(s.stop())
		})
	}
}
