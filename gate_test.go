package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// closing is a cause with a time.
type closing struct{ stopBy time.Time }

func (c closing) Error() string { return "closing" }

func (c closing) StopBy() time.Time { return c.stopBy }

// A gate that closes ends the contexts of all passes, and hands out none until it opens.
//
// Guarantees: Q14
func TestGateEndsItsPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := new(Gate)
		enter := func(want bool) (context.Context, func()) {
			t.Helper()
			ctx, leave, err := gate.Enter(t.Context())
			if (err == nil) != want || err != nil && !errors.Is(err, ErrGateClosed) {
				t.Fatalf("Enter: %v", err)
			}
			return ctx, leave
		}
		enter(false)
		gate.Open(nil)
		a, leaveA := enter(true)
		b, leaveB := enter(true)
		leaveA()
		if a.Err() == nil || b.Err() != nil {
			t.Error("leaving a pass does not end its context, or ends that of another")
		}
		stopBy := time.Now().Add(time.Minute)
		gate.Close(closing{stopBy})
		var limit interface{ StopBy() time.Time }
		if cause := context.Cause(b); !errors.Is(cause, ErrGateClosed) || !errors.As(cause, &limit) || !limit.StopBy().Equal(stopBy) {
			t.Errorf("the cause is %v", cause)
		}
		enter(false)
		waits := func(wait func(context.Context) error) chan error {
			waited := make(chan error, 1)
			go func() { waited <- wait(t.Context()) }()
			synctest.Wait()
			return waited
		}
		left, opened := waits(gate.WaitLeft), waits(gate.Wait)
		if s := gate.Status(); s.Open || s.Passes != 1 || s.Closed != 1 || s.Refused != 2 || len(left)+len(opened) > 0 {
			t.Errorf("%+v, left %d, opened %d", s, len(left), len(opened))
		}
		leaveB()
		if err := <-left; err != nil || gate.WaitLeft(t.Context()) != nil {
			t.Error("passes are left, but WaitLeft fails")
		}
		gate.Close(errors.New("again"))
		gate.Open(nil)
		if err := <-opened; err != nil || gate.Wait(t.Context()) != nil || gate.Status().Closed != 1 {
			t.Error("the gate is open, but Wait fails")
		}
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(errors.ErrUnsupported)
		_, leave := enter(true)
		defer leave()
		if err := gate.WaitLeft(ended); err != errors.ErrUnsupported {
			t.Error(err)
		}
		gate.Close(errors.ErrUnsupported)
		if err := gate.Wait(ended); err != errors.ErrUnsupported {
			t.Error(err)
		}
	})
}

// Open's function is called before each pass, and may close the gate: the pass is then refused.
//
// Guarantees: Q14
func TestGateLooksBeforeEachPass(t *testing.T) {
	gate, looks := new(Gate), 0
	gate.Open(func() {
		if looks++; looks == 2 {
			gate.Close(closing{})
		}
	})
	_, leave, err := gate.Enter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leave()
	for range 2 {
		if _, _, err := gate.Enter(t.Context()); !errors.Is(err, ErrGateClosed) {
			t.Error(err)
		}
	}
	if looks != 2 {
		t.Errorf("%d looks, want 2: none at a closed gate", looks)
	}
}

// A nil gate is open.
func TestNilGateIsOpen(t *testing.T) {
	var gate *Gate
	ctx, leave, err := gate.Enter(t.Context())
	if leave(); err != nil || ctx != t.Context() || gate.Wait(ctx) != nil || gate.WaitLeft(ctx) != nil || !gate.Status().Open {
		t.Errorf("%v, %+v", err, gate.Status())
	}
	if GateOf(WithGate(t.Context(), gate)) != nil {
		t.Error("the context has a gate")
	}
}

// A controller hands out no key while its gate is closed. A call that the closing has interrupted is no failure of its key, which runs
// again when the gate opens, without a backoff. Terminal errors and panics count as always, and so does success.
//
// Guarantees: Q14
func TestControllerStopsAtItsGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := new(Gate)
		var mu sync.Mutex
		var calls []string
		began := time.Now()
		c := &Controller[string]{
			MaxConcurrentReconciles: 5, Logger: slog.New(slog.DiscardHandler), OnPanic: func(string, any) {}, Grace: time.Minute,
			Queue: NewQueue(QueueConfig[string]{}),
		}
		c.Reconcile = func(ctx context.Context, key string) (Result, error) {
			mu.Lock()
			calls = append(calls, fmt.Sprintf("%s@%v", key, time.Since(began)))
			mu.Unlock()
			if time.Since(began) > 30*time.Second {
				return Result{}, nil
			}
			<-ctx.Done()
			switch err := context.Cause(ctx); key {
			case "terminal":
				return Result{}, TerminalError(err)
			case "panic":
				panic(err)
			case "success":
				return Result{}, nil
			default:
				return Result{}, err
			}
		}
		ctx, cancel := context.WithCancel(WithGate(t.Context(), gate))
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		c.Queue.AddWith(AddOptions{}, "success", "panic", "terminal", "failure", "other")
		want := func(when string, n int, running bool) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if s := c.Status(); len(calls) != n || s.Running != running || s.Queue.InWork != s.Active {
				t.Errorf("%s: calls %q, want %d; %+v", when, calls, n, s)
			}
		}
		<-time.After(10 * time.Second)
		want("before the gate opens", 0, false)
		gate.Open(nil)
		want("open", 5, true)
		gate.Close(closing{time.Now().Add(4 * time.Second)}) // the calls have 3 s
		<-time.After(3*time.Second - 1)
		if s := gate.Status(); s.Passes != 5 {
			t.Errorf("calls end too early: %+v", s)
		}
		<-time.After(1)
		want("closed", 5, false)
		if s := c.Status(); s.Failed != 2 || s.Terminal != 1 || s.Panicked != 1 || s.Succeeded != 1 || s.Failing != 2 || c.Queue.Len() != 2 || gate.Status().Passes != 0 {
			t.Errorf("%+v, %+v", s, gate.Status())
		}
		<-time.After(30 * time.Second)
		c.Queue.Add("later")
		want("still closed", 5, false)
		refused := gate.Status().Refused
		<-time.After(time.Hour)
		if refused != gate.Status().Refused || refused > 5 {
			t.Errorf("%d and %d refusals: the workers spin", refused, gate.Status().Refused)
		}
		gate.Open(nil)
		want("open again", 9, true) // failure and other, the panic after its backoff, and later
		if c.Queue.NumRequeues("failure") != 0 || c.Status().Failing != 1 {
			t.Errorf("%+v", c.Status())
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// While a worker waits for a key, the gate may close. The next key is not reconciled before it opens.
//
// Guarantees: Q14
func TestKeyThatComesWhileTheGateIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, calls := new(Gate), 0
		gate.Open(nil)
		c := &Controller[string]{Queue: NewQueue(QueueConfig[string]{}), Reconcile: func(context.Context, string) (Result, error) { calls++; return Result{}, nil }}
		ctx, cancel := context.WithCancel(WithGate(t.Context(), gate))
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		gate.Close(closing{})
		c.Queue.Add("key")
		synctest.Wait()
		if s := c.Queue.Status(); calls != 0 || s.InWork != 0 || c.Queue.Len() != 1 {
			t.Errorf("%d calls, %+v", calls, s)
		}
		gate.Open(nil)
		synctest.Wait()
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
		gate.Close(closing{})
		cancel() // a controller that waits for its gate ends
		<-ended
	})
}

// A controller that waits for its gate ends with its queue.
//
// Guarantees: Q14
func TestClosedQueueEndsAPausedController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Controller[string]{Queue: NewQueue(QueueConfig[string]{}), Reconcile: func(context.Context, string) (Result, error) { return Result{}, nil }}
		ended := make(chan error, 1)
		go func() { ended <- c.Run(WithGate(t.Context(), new(Gate))) }()
		synctest.Wait()
		c.Queue.Close()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

// A pass that is refused comes with the context of the caller, who can wait with it.
func TestRefusedPassKeepsTheContext(t *testing.T) {
	ctx, leave, err := new(Gate).Enter(t.Context())
	if ctx != t.Context() || !errors.Is(err, ErrGateClosed) {
		t.Errorf("%v, %v", ctx, err)
	}
	leave()
}
