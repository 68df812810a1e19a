package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The status of a controller whose reconciles fail has the number of failing keys, those failing for longest, the last
// error, and the time of the last success. A key that succeeds no longer counts.
// Guarantees: O5
func TestStatusSaysWhichKeysFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var recovered atomic.Bool
		ctl := startController(t, &Controller[string]{
			Queue: NewQueue(QueueConfig[string]{RateLimiter: &ExponentialLimiter[string]{Base: time.Minute, Max: time.Minute}}),
			Reconcile: func(_ context.Context, key string) (Result, error) {
				switch {
				case key == "good" || recovered.Load():
					return Result{}, nil
				case key == "terminal":
					return Result{}, TerminalError(errors.New("never"))
				}
				return Result{}, fmt.Errorf("no %s", key)
			},
		})
		for i := range 12 {
			ctl.Queue.Add(fmt.Sprint("k", i))
			<-time.After(time.Second)
		}
		ctl.Queue.Add("good")
		ctl.Queue.Add("terminal")
		<-time.After(50 * time.Second) // k0 and k1 have failed a second time
		synctest.Wait()
		s := ctl.Status()
		if s.Failing != 13 || len(s.FailingKeys) != 10 || !s.LastSuccess.Equal(began.Add(12*time.Second)) {
			t.Errorf("%d keys fail, last success %v: %+v", s.Failing, s.LastSuccess, s.FailingKeys)
		}
		for i, k := range s.FailingKeys {
			failures := 1
			if i <= 2 {
				failures = 2
			}
			if k.Key != fmt.Sprint("k", i) || k.Failures != failures || !k.Since.Equal(began.Add(time.Duration(i)*time.Second)) {
				t.Errorf("%d: %+v", i, k)
			}
		}
		if s.LastError == nil || s.LastError.Error() != "no k2" || s.LastErrorKey != "k2" || !s.LastErrorTime.Equal(began.Add(62*time.Second)) {
			t.Errorf("last error %v of %q at %v", s.LastError, s.LastErrorKey, s.LastErrorTime)
		}

		recovered.Store(true)
		<-time.After(2 * time.Minute)
		s = ctl.Status()
		if s.Failing != 1 || s.FailingKeys[0].Key != "terminal" || s.LastError == nil {
			t.Errorf("%+v, want terminal: nothing retries it", s)
		}
		ctl.Queue.Add("terminal")
		synctest.Wait()
		if s := ctl.Status(); s.Failing != 0 || s.FailingKeys != nil || !s.LastSuccess.Equal(time.Now()) {
			t.Errorf("%+v, want no failing key", s)
		}
	})
}

// A replica does not report failing keys that another one has come to own.
// Guarantees: O5
func TestKeysOfOtherReplicasDoNotFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctl := startController(t, &Controller[string]{Reconcile: func(context.Context, string) (Result, error) {
			return Result{}, TerminalError(errors.New("no"))
		}})
		ctl.Queue.Add("a")
		ctl.Queue.Add("b")
		synctest.Wait()
		ctl.WaitReleased(t.Context(), func(key string) bool { return key == "a" })
		if s := ctl.Status(); s.Failing != 1 || s.FailingKeys[0].Key != "b" {
			t.Errorf("%+v, want b", s.FailingKeys)
		}
	})
}

// stopBy is a cause with a time by which Run must have returned.
type stopBy struct{ time.Time }

func (stopBy) Error() string { return "stop" }

func (s stopBy) StopBy() time.Time { return s.Time }

// If the cause of the end names a time by which Run must return, the calls end before it, however long Grace is, and
// the log says so.
func TestGraceFitsTheTimeThatIsLeft(t *testing.T) {
	for _, c := range []struct{ left, grace, want time.Duration }{
		{4 * time.Second, 0, 3 * time.Second},
		{4 * time.Second, time.Minute, 3 * time.Second},
		{4 * time.Second, 2 * time.Second, 2 * time.Second},
		{4 * time.Second, -1, 0},
		{time.Second, 0, 750 * time.Millisecond},
		{30 * time.Second, time.Minute, 29 * time.Second},
		{30 * time.Second, 0, 20 * time.Second},
		{-time.Second, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			ctl := &Controller[string]{Grace: c.grace, Queue: NewQueue(QueueConfig[string]{}), Logger: slog.New(slog.NewTextHandler(&log, nil))}
			ctl.Reconcile = func(ctx context.Context, _ string) (Result, error) {
				<-ctx.Done()
				return Result{}, nil
			}
			ctl.Queue.Add("a")
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Minute, func() { cancel(fmt.Errorf("wrapped: %w", stopBy{time.Now().Add(c.left)})) })
			began := time.Now()
			_ = ctl.Run(ctx)
			if took := time.Since(began) - time.Minute; took != c.want {
				t.Errorf("%+v: the call ended after %v", c, took)
			}
			grace := c.grace
			if grace == 0 {
				grace = defaultGrace
			}
			if shorter := c.want < grace; strings.Contains(log.String(), "less time than Grace") != shorter {
				t.Errorf("%+v: log %q", c, &log)
			}
		})
	}
}
