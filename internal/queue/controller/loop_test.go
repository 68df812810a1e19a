package controller

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/internal/run"
)

// The first error ends the loop. Calls under way go on for the grace, and Run returns after the last one.
// Guarantees: L1
func TestLoopWaitsForItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		var keys atomic.Int32
		var ended atomic.Int64 // when the contexts of the calls ended
		began := time.Now()
		err := Loop[int]{
			Workers: 2,
			Get: func(loop context.Context) (int, error) {
				if n := keys.Add(1); n <= 2 {
					return int(n), nil
				}
				<-loop.Done()
				return 0, errors.New("a later error")
			},
			Do: func(loop, calls context.Context, key int) error {
				if key == 1 {
					<-loop.Done()
					<-calls.Done()
					ended.Store(int64(time.Since(began)))
					return nil
				}
				time.Sleep(time.Second)
				return why
			},
			Grace: func(cause error) time.Duration {
				if cause != why {
					t.Errorf("the loop ends with %v", cause)
				}
				return 3 * time.Second
			},
		}.Run(t.Context())
		if err != why || time.Duration(ended.Load()) != 4*time.Second {
			t.Errorf("Run returned %v, and the calls ended after %v", err, time.Duration(ended.Load()))
		}
	})
}

// A worker whose goroutine ends itself ends the loop.
func TestLoopEndsWithAWorker(t *testing.T) {
	exited := errors.New("exited")
	err := Loop[int]{
		Workers: 1,
		Get:     func(context.Context) (int, error) { return 1, nil },
		Do:      func(context.Context, context.Context, int) error { runtime.Goexit(); return nil },
		Grace:   func(error) time.Duration { return 0 },
		Exited:  exited,
	}.Run(context.Background())
	if err != exited {
		t.Errorf("Run returned %v", err)
	}
}

// end is a cause that leaves some time.
type end struct{ deadline time.Time }

func (end) Error() string       { return "end" }
func (e end) StopBy() time.Time { return e.deadline }

func TestGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct{ grace, left, want time.Duration }{
			{20 * time.Second, time.Hour, 20 * time.Second},
			{20 * time.Second, 10 * time.Second, 9 * time.Second}, // a second for what comes after the calls
			{20 * time.Second, 2 * time.Second, 1500 * time.Millisecond},
			{20 * time.Second, -time.Second, 0},
			{-1, time.Hour, -1},
			{-1, -time.Hour, -1},
		} {
			if got := Grace(c.grace, end{time.Now().Add(c.left)}); got != c.want {
				t.Errorf("%v, and %v left: %v, want %v", c.grace, c.left, got, c.want)
			}
		}
		if got := Grace(time.Minute, context.Canceled); got != time.Minute {
			t.Errorf("without a limit: %v", got)
		}
	})
}

// If a key is lost while a call for it begins, the call ends.
// Guarantees: S3
func TestNoCallSurvivesTheLossOfItsKey(t *testing.T) {
	var c Calls[int]
	c.Track()
	lost, ended := errors.New("lost"), make(chan struct{})
	ctx, done := c.Begin(t.Context(), 1, func(int) bool {
		go func() { // at the earliest moment after Begin has asked
			c.End(func(int) bool { return true }, lost)
			close(ended)
		}()
		for n := 0; n < 1000 && !run.IsClosed(ended); n++ {
			runtime.Gosched()
		}
		return true
	})
	<-ended
	if cause := context.Cause(ctx); cause != lost {
		t.Errorf("the call goes on: %v", cause)
	}
	done()
	if len(c.cancels) > 0 {
		t.Errorf("%d calls are left", len(c.cancels))
	}
	if _, done := c.Begin(t.Context(), 1, func(int) bool { return false }); done != nil {
		t.Error("a call for a lost key began")
	}
}

func TestCallsAreNotTrackedBeforeTrack(t *testing.T) {
	var c Calls[int]
	ctx, ended := c.Begin(t.Context(), 1, func(int) bool { t.Error("asked for the owner"); return false })
	c.End(func(int) bool { return true }, errors.New("lost"))
	if ended == nil || ctx.Err() != nil {
		t.Fatal("the call ended")
	}
	ended()
}
