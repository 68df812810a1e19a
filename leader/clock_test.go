package leader

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer/internal/lease"
)

// While the system is suspended, the monotonic clock stops. When it continues, the wall clock shows that another
// replica may work, so the context ends, and then the process.
//
// Guarantees: E3
func TestSuspendedSystem(t *testing.T) {
	onStage(t, func(s *stage) {
		var fatal time.Time
		e := s.elector("a", func(c *Config, _ *rest.Config) { c.Fatal = func() { fatal = time.Now() } })
		var asleep atomic.Int64
		e.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(asleep.Load())) }
		s.run(e, time.Hour)
		<-time.After(time.Minute + time.Second)
		asleep.Store(int64(time.Hour))
		went := time.Now()
		if status := e.Status(); status.State != Stopping {
			s.Errorf("%v right after the suspension, want Stopping", status.State)
		}
		<-time.After(lease.WatchPeriod)
		synctest.Wait()
		if took := fatal.Sub(went); took < 0 || took > lease.WatchPeriod {
			s.Errorf("the process ended after %v", took)
		}
	})
}

// The system is suspended until the lease has passed RenewDeadline. When it continues, a renewal succeeds before the
// replica looks at its clocks. It does not count: the lease is lost for good.
//
// Guarantees: E3, E6
func TestRenewalAfterASuspensionDoesNotCount(t *testing.T) {
	onStage(t, func(s *stage) {
		e := s.elector("a", func(c *Config, _ *rest.Config) { c.RetryPeriod = 2100 * time.Millisecond })
		var asleep atomic.Int64
		e.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(asleep.Load())) }
		s.run(e, 0)
		// The replica looks at its clocks after 65 s and 65.25 s, and sends a renewal after 65.1 s.
		<-time.After(65*time.Second + 50*time.Millisecond)
		asleep.Store(int64(11 * time.Second))
		<-time.After(5 * time.Second)
		synctest.Wait()
		if status := e.Status(); status.Lost != 1 || status.Terms != 2 || status.State != Leading {
			s.Errorf("%+v", status)
		}
	})
}

// A wall clock that is set back does not make a lease younger.
//
// Guarantees: E1
func TestWallClockSetBack(t *testing.T) {
	onStage(t, func(s *stage) {
		e := s.elector("a")
		var set atomic.Int64
		e.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(set.Load())) }
		s.run(e, nearlyGrace)
		<-time.After(time.Second)
		s.replica("b", 0)
		<-time.After(time.Minute)
		set.Store(-int64(time.Hour))
		s.isolate("a")
		<-time.After(takenOver)
		if s.working() != "b" {
			s.Errorf("%q works after %v, want b", s.active, s.terms)
		}
	})
}

// Replicas whose wall clocks differ by a day do not work at the same time. Times in the Lease do not count.
//
// Guarantees: E1
func TestWallClocksDiffer(t *testing.T) {
	for _, skew := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		onStage(t, func(s *stage) {
			s.replica("a", nearlyGrace)
			<-time.After(time.Second)
			e := s.elector("b")
			e.wall = func() time.Time { return time.Now().Round(0).Add(skew) }
			s.run(e, 0)
			<-time.After(time.Minute)
			if s.working() != "a" {
				s.Errorf("%q works after %v, want a", s.active, s.terms)
			}
			s.isolate("a")
			<-time.After(takenOver)
			if s.working() != "b" {
				s.Errorf("%q works after %v, want b", s.active, s.terms)
			}
		})
	}
}
