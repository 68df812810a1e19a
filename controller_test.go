package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/typedinformer/informer/internal/histogram"
	"github.com/typedinformer/informer/status"
)

// reconciler is a controller of string keys that records each call and its time.
type reconciler struct {
	*Controller[string]
	t     *testing.T
	began time.Time
	stop  func() error

	mu    sync.Mutex // protects calls
	calls []string
}

// startController runs c, filled in where needed, until the test ends.
func startController(t *testing.T, c *Controller[string]) *reconciler {
	r := &reconciler{Controller: c, t: t, began: time.Now()}
	if c.Queue == nil {
		c.Queue = NewQueue(QueueConfig[string]{})
	}
	c.Logger = slog.New(slog.DiscardHandler)
	reconcile := c.Reconcile
	c.Reconcile = func(ctx context.Context, key string) (Result, error) {
		r.mu.Lock()
		r.calls = append(r.calls, fmt.Sprintf("%s@%v", key, time.Since(r.began)))
		r.mu.Unlock()
		if reconcile == nil {
			return Result{}, nil
		}
		return reconcile(ctx, key)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	r.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { r.stop(); c.Queue.Close() })
	return r
}

func (r *reconciler) want(calls ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.calls, calls) {
		r.t.Errorf("reconciled %q, want %q", r.calls, calls)
	}
	r.calls = nil
}

// wantInAnyOrder is want in any order; calls are sorted.
func (r *reconciler) wantInAnyOrder(calls ...string) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	slices.Sort(r.calls)
	r.mu.Unlock()
	r.want(calls...)
}

func TestControllerRequeuesByTheResult(t *testing.T) {
	for _, c := range []struct {
		name    string
		result  Result
		err     error
		limit   bool
		want    []string // one or two calls
		retries int      // the failure count afterwards
		count   status.Controller
	}{
		{name: "success", want: []string{"a@0s"}, count: status.Controller{Succeeded: 1}},
		{name: "error", err: errors.New("no"), want: []string{"a@0s", "a@5ms"}, retries: 1, count: status.Controller{Failed: 1}},
		{name: "error with RequeueAfter", err: errors.New("no"), result: Result{RequeueAfter: time.Hour}, want: []string{"a@0s", "a@5ms"}, retries: 1, count: status.Controller{Failed: 1}},
		{name: "terminal error", err: fmt.Errorf("wrapped: %w", TerminalError(errors.New("no"))), want: []string{"a@0s"}, count: status.Controller{Failed: 1, Terminal: 1}},
		{name: "terminal error of nil", err: TerminalError(nil), want: []string{"a@0s"}, count: status.Controller{Failed: 1, Terminal: 1}},
		{name: "RequeueAfter", result: Result{RequeueAfter: time.Second}, want: []string{"a@0s", "a@1s"}, count: status.Controller{RequeuedAfter: 1}},
		{name: "short RequeueAfter", result: Result{RequeueAfter: 1}, want: []string{"a@0s", "a@1ns"}, count: status.Controller{RequeuedAfter: 1}},
		{name: "short RequeueAfter, limited", result: Result{RequeueAfter: 1}, limit: true, want: []string{"a@0s", "a@5ms"}, retries: 1, count: status.Controller{RequeuedAfter: 1}},
		{name: "Backoff", result: Result{Backoff: true}, want: []string{"a@0s", "a@5ms"}, retries: 1, count: status.Controller{BackedOff: 1}},
		{name: "Backoff with RequeueAfter", result: Result{Backoff: true, RequeueAfter: time.Minute}, want: []string{"a@0s", "a@1m0s"}, retries: 1, count: status.Controller{BackedOff: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				var ctl *reconciler
				ctl = startController(t, &Controller[string]{
					LimitRequeueAfter: c.limit,
					Reconcile: func(context.Context, string) (Result, error) {
						if !first {
							if n := ctl.Queue.NumRequeues("a"); n != c.retries {
								t.Errorf("%d failures counted, want %d", n, c.retries)
							}
							return Result{}, nil
						}
						first = false
						return c.result, c.err
					},
				})
				ctl.Queue.Add("a")
				synctest.Wait()
				got := ctl.Status()
				want := c.count
				want.Name, want.Running, want.Workers = "controller", true, 1
				want.Queue = got.Queue
				histogram.Add(&want.Reconciles, 0)
				if c.err == nil {
					want.LastSuccess = time.Now()
				} else {
					want.Failing, want.FailingKeys = 1, []status.FailingKey{{Key: "a", Since: time.Now(), Failures: 1}}
					want.LastError, want.LastErrorTime, want.LastErrorKey = c.err, time.Now(), "a"
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("status %+v, want %+v", got, want)
				}
				<-time.After(2 * time.Hour)
				ctl.want(c.want...)
				if n := ctl.Queue.NumRequeues("a"); n != 0 {
					t.Errorf("%d failures counted after success", n)
				}
			})
		})
	}
}

// TerminalError(nil) is an error that can be printed and logged, as in controller-runtime. It does not count as success.
func TestTerminalErrorOfNilIsAnError(t *testing.T) {
	for _, c := range []struct {
		err  error
		says string
	}{
		{TerminalError(nil), "TerminalError(nil)"},
		{fmt.Errorf("child: %w", TerminalError(nil)), "child: terminal: TerminalError(nil)"},
		{fmt.Errorf("child: %w", TerminalError(errors.New("no"))), "child: terminal: no"},
	} {
		var log strings.Builder
		queue := NewQueue(QueueConfig[string]{})
		queue.Add("a")
		ctl := &Controller[string]{
			Queue:  queue,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Reconcile: func(context.Context, string) (Result, error) {
				queue.Close()
				return Result{}, c.err
			},
		}
		if err := ctl.Run(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatal(err)
		}
		if status := ctl.Status(); status.Terminal != 1 {
			t.Errorf("%v: status %+v", c.err, status)
		}
		if !strings.Contains(c.err.Error(), c.says) || !strings.Contains(log.String(), c.says) {
			t.Errorf("error %q, log %q; want %q in both", c.err, &log, c.says)
		}
	}
	if cause := errors.Unwrap(TerminalError(nil)); cause != nil {
		t.Errorf("it wraps %v", cause)
	}
}

// A terminal error resets a key's failure count: when the key returns, its first retry has the shortest delay again.
// Guarantees: Q5
func TestTerminalErrorForgetsTheFailuresBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("no")
		results := []error{failure, failure, TerminalError(failure), failure, nil}
		ctl := startController(t, &Controller[string]{Reconcile: func(context.Context, string) (Result, error) {
			err := results[0]
			results = results[1:]
			return Result{}, err
		}})
		ctl.Queue.Add("a")
		<-time.After(time.Hour)
		ctl.want("a@0s", "a@5ms", "a@15ms")
		if n := ctl.Queue.NumRequeues("a"); n != 0 {
			t.Errorf("%d failures counted after a terminal error", n)
		}
		ctl.Queue.Add("a")
		<-time.After(time.Hour)
		ctl.want("a@1h0m0s", "a@1h0m0.005s")
	})
}

// With LimitRequeueAfter, many keys requeued every 5 s cannot exceed the limiter's bucket. The default has 100 tokens and
// gains 10 a second.
// Guarantees: Q6
func TestRequeueAfterIsLimited(t *testing.T) {
	for limit, atLeast := range map[bool]int{false: 5000, true: 800} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int32
			ctl := startController(t, &Controller[string]{
				LimitRequeueAfter: limit,
				Reconcile: func(context.Context, string) (Result, error) {
					calls.Add(1)
					return Result{RequeueAfter: 5 * time.Second}, nil
				},
			})
			for i := range 500 {
				ctl.Queue.Add(fmt.Sprint(i))
			}
			<-time.After(time.Minute + time.Second)
			n := int(calls.Load())
			if limit && n > 500+100+10*61 || n < atLeast {
				t.Errorf("limit %v: %d calls in a minute", limit, n)
			}
			ctl.stop()
		})
	}
}

func TestControllerKeepsThePriorityOfRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		results := map[string]Result{"kept": {RequeueAfter: 1}, "raised": {RequeueAfter: 1, Priority: HighPriority}}
		ctl := startController(t, &Controller[string]{
			Reconcile: func(_ context.Context, key string) (Result, error) {
				defer delete(results, key)
				return results[key], nil
			},
		})
		q := ctl.Queue
		q.AddWith(AddOptions{Priority: LowPriority}, "kept", "raised")
		synctest.Wait()
		ctl.want("kept@0s", "raised@0s")
		ctl.stop()
		<-time.After(time.Second)
		if q.Len(LowPriority) != 1 || q.Len(HighPriority) != 1 {
			t.Errorf("status %+v", q.Status())
		}
	})
}

func TestControllerBoundsWorkersAndTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []time.Duration
		var mu sync.Mutex
		queue := NewQueue(QueueConfig[string]{})
		for _, key := range []string{"a", "b", "c", "d"} {
			queue.Add(key)
			queue.Add(key)
		}
		ctl := startController(t, &Controller[string]{
			Queue:                   queue,
			MaxConcurrentReconciles: 3,
			Timeout:                 time.Minute,
			Reconcile: func(ctx context.Context, key string) (Result, error) {
				began := time.Now()
				<-ctx.Done()
				mu.Lock()
				defer mu.Unlock()
				ends = append(ends, time.Since(began))
				return Result{}, TerminalError(ctx.Err())
			},
		})
		synctest.Wait()
		slices.Sort(ctl.calls) // the order of three concurrent workers varies
		ctl.want("a@0s", "b@0s", "c@0s")
		if s := ctl.Status(); s.Active != 3 || s.Workers != 3 || s.Queue.InWork != 3 || s.Queue.Depth.Normal != 1 {
			t.Errorf("status %+v", s)
		}
		<-time.After(time.Minute)
		ctl.want("d@1m0s")
		<-time.After(time.Minute)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(ends) != 4 || slices.Max(ends) != time.Minute || slices.Min(ends) != time.Minute {
			t.Errorf("ended after %v", ends)
		}
	})
}

// After the controller stops, workers take no more keys. Calls under way may finish; their context ends after Grace.
func TestControllerStopLetsCallsFinish(t *testing.T) {
	for _, c := range []struct {
		grace, takes, want time.Duration
		cancelled          bool
	}{
		{0, 10 * time.Second, 10 * time.Second, false},
		{0, time.Hour, 20 * time.Second, true},
		{time.Minute, time.Hour, time.Minute, true},
		{-1, time.Hour, 0, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			var cancelled error
			ctl := startController(t, &Controller[string]{
				Grace: c.grace,
				Reconcile: func(ctx context.Context, _ string) (Result, error) {
					select {
					case <-time.After(c.takes):
					case <-ctx.Done():
					}
					cancelled = ctx.Err()
					return Result{}, nil
				},
			})
			ctl.Queue.Add("a")
			ctl.Queue.Add("b")
			synctest.Wait()
			began := time.Now()
			if err := ctl.stop(); !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
			if took := time.Since(began); took != c.want || (cancelled != nil) != c.cancelled {
				t.Errorf("%+v: took %v, context: %v", c, took, cancelled)
			}
			ctl.want("a@0s")
			if n := ctl.Queue.Len(); n != 1 {
				t.Errorf("%d keys left", n)
			}
		})
	}
}

func TestControllerEndsWithItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueConfig[string]{})
		ctl := startController(t, &Controller[string]{Queue: q, MaxConcurrentReconciles: 4})
		q.Add("a")
		if err := q.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if err := ctl.stop(); !errors.Is(err, ErrClosed) {
			t.Errorf("Run: %v", err)
		}
		ctl.want("a@0s")
	})
}

func TestControllerSurvivesAPanicIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		ctl := startController(t, &Controller[string]{
			OnPanic: func(key string, value any) { told = append(told, fmt.Sprint(key, ": ", value)) },
			Reconcile: func(_ context.Context, key string) (Result, error) {
				if len(told) < 2 {
					panic("oh")
				}
				return Result{}, nil
			},
		})
		ctl.Queue.Add("a")
		<-time.After(time.Second)
		ctl.want("a@0s", "a@5ms", "a@15ms")
		if s := ctl.Status(); s.Panicked != 2 || s.Failed != 2 || s.Succeeded != 1 || s.Active != 0 || !slices.Equal(told, []string{"a: oh", "a: oh"}) {
			t.Errorf("status %+v, told %q", s, told)
		}
	})
}

// If Reconcile calls runtime.Goexit, Run returns an error that says so.
func TestControllerEndsWithAnErrorOnGoexit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(QueueConfig[string]{})
		ctl := &Controller[string]{Queue: q, MaxConcurrentReconciles: 2, Reconcile: func(context.Context, string) (Result, error) {
			runtime.Goexit()
			return Result{}, nil
		}}
		q.Add("a")
		if err := ctl.Run(t.Context()); !errors.Is(err, errExitedReconcile) {
			t.Errorf("Run: %v", err)
		}
		if s := ctl.Status(); s.Active != 0 || s.Queue.InWork != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// Guarantees: L4
func TestControllerInTheWrongOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reconcile := func(context.Context, string) (Result, error) { return Result{}, nil }
		q := NewQueue(QueueConfig[string]{})
		watched := &Controller[string]{Reconcile: reconcile}
		watched.Watch(Enqueue(New(nil, Resource{}, Config[*thing]{Logger: slog.New(slog.DiscardHandler)}), nameOf))
		watched.Queue = q
		for field, c := range map[string]*Controller[string]{
			"Controller.Queue was set":           watched,
			"Controller.Reconcile":               {Queue: q},
			"Controller.MaxConcurrentReconciles": {Queue: q, Reconcile: reconcile, MaxConcurrentReconciles: -1},
			"Controller.Timeout":                 {Queue: q, Reconcile: reconcile, Timeout: -1},
		} {
			c.Name, c.Logger = "mine", slog.New(slog.DiscardHandler)
			if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), "mine") {
				t.Errorf("Run without %s: %v", field, err)
			}
			if err := c.WaitSynced(t.Context()); err == nil || !strings.Contains(err.Error(), field) {
				t.Errorf("WaitSynced without %s: %v", field, err)
			}
		}
		ctl := &Controller[string]{Queue: q, Reconcile: reconcile}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := ctl.WaitSynced(brief); !errors.Is(err, errNotRunning) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitSynced before Run: %v", err)
		}
		r := startController(t, ctl)
		synctest.Wait()
		if err := ctl.Run(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("Run twice: %v", err)
		}
		r.stop()
		q.Add("left") // Run may be called again
		again := startController(t, ctl)
		again.want("left@0s")
		if err := ctl.WaitSynced(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// WaitSynced waits for the sources, then until each of their keys was reconciled once, at any priority.
// Guarantees: Q10
func TestWaitSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		q := NewQueue(QueueConfig[Key]{})
		defer q.Close()
		var mu sync.Mutex
		seen := map[string]int{}
		ctl := &Controller[Key]{
			Queue:  q,
			Logger: slog.New(slog.DiscardHandler),
			Reconcile: func(_ context.Context, key Key) (Result, error) {
				<-time.After(time.Second)
				mu.Lock()
				defer mu.Unlock()
				seen[key.Name]++
				if _, ok := inf.Store().Get(key); !ok {
					t.Errorf("%s is not in the store", key)
				}
				if key.Name == "fails" {
					return Result{}, errors.New("again and again")
				}
				return Result{}, nil
			},
		}
		ctl.Watch(EnqueueObject(inf.Informer))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- ctl.Run(ctx) }()
		q.Add(Key{Name: "a"}) // nothing is reconciled before the source is synced
		brief, cancelBrief := context.WithTimeout(t.Context(), time.Minute)
		defer cancelBrief()
		if err := ctl.WaitSynced(brief); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("WaitSynced before the list: %v", err)
		}
		if len(seen) != 0 {
			t.Errorf("reconciled too early: %v", seen)
		}
		began := time.Now()
		inf.put(list(1, "a", "b", "c", "fails"))
		synctest.Wait()
		if s := q.Status(); s.Depth.Low != 3 {
			t.Errorf("depth %v", s.Depth)
		}
		if err := ctl.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if took := time.Since(began); len(seen) != 4 || took < 4*time.Second || took > 6*time.Second {
			t.Errorf("after %v: %v", took, seen)
		}
		mu.Unlock()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A controller without a Queue makes one with the controller's name, and its status includes the queue's.
func TestControllerMakesItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inf := startFed(t)
		defer inf.stop()
		reconciled := make(chan string, 1)
		ctl := &Controller[string]{Name: "mine", Reconcile: func(_ context.Context, key string) (Result, error) {
			reconciled <- key
			return Result{}, nil
		}}
		if s := ctl.Status(); s.Queue.Name != "" {
			t.Errorf("Status made a queue: %+v", s)
		}
		ctl.Watch(Enqueue(inf.Informer, nameOf))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- ctl.Run(ctx) }()
		inf.put(list(1, "a"))
		if key := <-reconciled; key != "a" {
			t.Errorf("reconciled %q", key)
		}
		if s := ctl.Status(); s.Queue.Name != "mine" || s.Queue.Adds != 1 {
			t.Errorf("status %+v", s)
		}
		cancel()
		<-ended
	})
}

// Run of an invalid controller also logs its error, since go ctl.Run(ctx) drops the result.
// Guarantees: L4
func TestInvalidControllerLogsTheError(t *testing.T) {
	var log strings.Builder
	ctl := &Controller[string]{Name: "mine", Logger: slog.New(slog.NewTextHandler(&log, nil))}
	err := ctl.Run(t.Context())
	if err == nil || !strings.Contains(log.String(), err.Error()) || !strings.Contains(log.String(), "Controller.Reconcile is nil") {
		t.Errorf("Run: %v, log %q", err, &log)
	}
}

// Guarantees: O4
func TestReconcileWithoutTracerAllocatesNothing(t *testing.T) {
	c := &Controller[string]{Reconcile: func(context.Context, string) (Result, error) { return Result{}, nil }}
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _ = c.call(ctx, "a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
