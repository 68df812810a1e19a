package leader

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
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
		<-time.After(watchPeriod)
		synctest.Wait()
		if took := fatal.Sub(went); took < 0 || took > watchPeriod {
			s.Errorf("the process ended after %v", took)
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
