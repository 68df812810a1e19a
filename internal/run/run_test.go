package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Sleep ends at its time or with its context. It returns nil only if the context is alive at the end.
func TestSleep(t *testing.T) {
	ended := errors.New("ended")
	for _, c := range []struct {
		name        string
		after, wait time.Duration // until the context ends, and of Sleep
		want        error
		took        time.Duration
	}{
		{"time", 2 * time.Second, time.Second, nil, time.Second},
		{"context", time.Second, 2 * time.Second, ended, time.Second},
		{"zero", time.Second, 0, nil, 0},
		{"negative", time.Second, -time.Second, nil, 0},
		{"ended before", 0, time.Second, ended, 0},
		{"zero, ended before", 0, 0, ended, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				if c.after == 0 {
					end(ended)
				}
				time.AfterFunc(c.after, func() { end(ended) })
				began := time.Now()
				if err := Sleep(ctx, c.wait); err != c.want || time.Since(began) != c.took {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), c.want, c.took)
				}
			})
		})
	}
}

// A token is not lost and not doubled.
func TestSignal(t *testing.T) {
	token := make(chan struct{}, 1)
	for range 3 {
		Signal(token)
	}
	if len(token) != 1 {
		t.Errorf("%d tokens", len(token))
	}
}

func TestIsClosed(t *testing.T) {
	ch := make(chan struct{})
	if IsClosed(ch) || IsClosed(nil) {
		t.Error("an open channel is closed")
	}
	if close(ch); !IsClosed(ch) {
		t.Error("a closed channel is open")
	}
}

// No more goroutines than the limit are inside, and all get in. Nil limits nothing.
func TestLimit(t *testing.T) {
	for _, n := range []int{0, 1, 2, 6} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var limit Limit
				want := 7
				if n > 0 {
					limit, want = NewLimit(n), n
				}
				var inside, all atomic.Int32
				leave := make(chan struct{})
				for range 7 {
					go func() {
						limit.Enter()
						inside.Add(1)
						all.Add(1)
						<-leave
						inside.Add(-1)
						limit.Leave()
					}()
				}
				synctest.Wait()
				if inside.Load() != int32(want) {
					t.Errorf("%d goroutines are inside, want %d", inside.Load(), want)
				}
				close(leave)
				synctest.Wait()
				if all.Load() != 7 {
					t.Errorf("%d goroutines of 7 got in", all.Load())
				}
			})
		})
	}
}

// A context of Until ends with the reason when the channel is closed, at once if it is closed already, and like its
// parent otherwise.
func TestUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why, stopped := errors.New("stopped"), make(chan struct{})
		ctx, end := Until(t.Context(), stopped, why)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("ended early")
		}
		close(stopped)
		<-ctx.Done()
		if context.Cause(ctx) != why {
			t.Error(context.Cause(ctx))
		}
		end()
		ctx, end = Until(t.Context(), stopped, why)
		if context.Cause(ctx) != why {
			t.Error("did not end at once")
		}
		end()
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, end = Until(parent, make(chan struct{}), why)
		cancel(io.EOF)
		<-ctx.Done()
		if context.Cause(ctx) != io.EOF {
			t.Error(context.Cause(ctx))
		}
		end()
	})
}
