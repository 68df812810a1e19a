package transport

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// After a suspension, all open watches end, and then the idle connections. Nothing runs while no watch is open.
// Guarantees: R18
func TestSuspensionEndsWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asleep atomic.Int64 // a time.Duration
		closed := 0
		s := newSuspension(func() { closed++ })
		s.Wall = func() time.Time { return time.Now().Round(0).Add(time.Duration(asleep.Load())) }
		watch := func() (context.Context, func()) {
			ctx, end := context.WithCancelCause(t.Context())
			return ctx, s.Watch(end)
		}
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		first, forgetFirst := watch()
		second, forgetSecond := watch()
		ended, forgetEnded := watch()
		forgetEnded()
		pass(time.Hour)
		asleep.Store(int64(clockJump))
		pass(clockPeriod)
		if context.Cause(first) != ErrSuspended || context.Cause(second) != ErrSuspended || ended.Err() != nil {
			t.Errorf("the watches ended with %v, %v and %v", context.Cause(first), context.Cause(second), ended.Err())
		}
		if pass(closeIdleAfter); closed != 1 {
			t.Errorf("the idle connections were closed %d times", closed)
		}
		forgetFirst()
		forgetSecond()
		if s.timer != nil || len(s.watches) > 0 {
			t.Error("it looks at the clocks although no watch is open")
		}
		asleep.Store(int64(time.Hour))
		pass(time.Minute)
		third, forgetThird := watch() // after the jump
		pass(time.Minute)
		if third.Err() != nil || closed != 1 {
			t.Errorf("a watch after the suspension ended with %v; %d times closed", context.Cause(third), closed)
		}
		forgetThird()
	})
}
