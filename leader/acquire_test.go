package leader

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/typedinformer/informer"
)

// afterWrites calls written when the response to a write has arrived, before its sender sees it.
type afterWrites struct {
	http.RoundTripper
	written func()
}

func (t afterWrites) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(r)
	if err != nil || r.Method == http.MethodGet {
		return resp, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	t.written()
	return resp, err
}

// calling makes an elector call written after each write.
func calling(written func()) func(*Config, *rest.Config) {
	return func(_ *Config, r *rest.Config) {
		r.Wrap(func(next http.RoundTripper) http.RoundTripper { return afterWrites{next, written} })
	}
}

// If the context ends while the lease is acquired, the work does not begin, and the lease is released.
//
// Guarantees: E1, E2
func TestContextThatEndsDuringTheAcquisition(t *testing.T) {
	onStage(t, func(s *stage) {
		ctx, cancel := context.WithCancel(s.Context())
		e := s.elector("a", calling(cancel))
		err := e.Run(ctx, func(context.Context) error {
			s.Error("the work begins")
			return nil
		})
		if !errors.Is(err, context.Canceled) || e.Status().Terms != 0 {
			s.Errorf("%v, %+v", err, e.Status())
		}
		if holder := s.lease().Spec.HolderIdentity; holder != nil && *holder != "" {
			s.Errorf("%q still holds the lease", *holder)
		}
	})
}

// If RenewDeadline passes while the lease is acquired, as in a system that is suspended, the work begins after the next renewal only.
//
// Guarantees: E1, E3
func TestRenewDeadlineThatPassesDuringTheAcquisition(t *testing.T) {
	onStage(t, func(s *stage) {
		var writes, asleep atomic.Int64
		e := s.elector("a", calling(func() {
			if writes.Add(1) == 1 {
				asleep.Store(int64(time.Hour))
			}
		}))
		e.wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(asleep.Load())) }
		var began []int64 // for each term: the writes before it
		ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		err := e.Run(ctx, func(ctx context.Context) error {
			began = append(began, writes.Load())
			<-ctx.Done()
			return nil
		})
		if status := e.Status(); !errors.Is(err, context.DeadlineExceeded) || len(began) != 1 || began[0] != 2 || status.Lost != 0 {
			s.Errorf("%v, the work began after %v writes, want one term after 2; %+v", err, began, status)
		}
	})
}

// If another replica takes the lease early, the process ends when the work has had its grace, not when the own lease would have ended.
//
// Guarantees: E4, E5
func TestFatalAtTheGraceAfterAnotherTookTheLease(t *testing.T) {
	onStage(t, func(s *stage) {
		var fatal atomic.Pointer[time.Time]
		e := s.elector("a", func(c *Config, _ *rest.Config) { c.Fatal = func() { fatal.Store(new(time.Now())) } })
		var lost time.Time
		ctx, cancel := context.WithCancel(s.Context())
		release, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- e.Run(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				lost = time.Now()
				<-release
				return nil
			})
		}()
		<-time.After(time.Minute + time.Second)
		l := s.lease().DeepCopy()
		l.Spec.HolderIdentity = new("thief")
		if _, err := s.leases.Update(l); err != nil {
			s.Error(err)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if grace := e.Status().Grace; fatal.Load() == nil || fatal.Load().Sub(lost) != grace || grace != 4*time.Second {
			s.Errorf("lost at %v, ended at %v, with a grace of %v", lost, fatal.Load(), grace)
		}
		cancel()
		close(release)
		<-ended
	})
}

// leaseTransitions counts the changes of the holder: none for a new Lease, also after its first renewals.
//
// Guarantees: E1
func TestLeaseTransitions(t *testing.T) {
	onStage(t, func(s *stage) {
		transitions := func() int32 {
			n := s.lease().Spec.LeaseTransitions
			if n == nil {
				s.Fatal("leaseTransitions is missing")
			}
			return *n
		}
		stop := s.replica("a", 0)
		<-time.After(time.Second)
		if n := transitions(); n != 0 {
			s.Errorf("%d in a new Lease", n)
		}
		<-time.After(time.Minute)
		if n := transitions(); n != 0 {
			s.Errorf("%d after renewals", n)
		}
		stop()
		s.replica("b", 0)
		<-time.After(time.Minute)
		if n := transitions(); n != 1 {
			s.Errorf("%d after the second holder", n)
		}
		if _, err := s.leases.Delete(informer.KeyOf(s.lease())); err != nil {
			s.Fatal(err)
		}
		<-time.After(time.Minute)
		if n := transitions(); n != 0 {
			s.Errorf("%d in a Lease that was made again", n)
		}
	})
}
