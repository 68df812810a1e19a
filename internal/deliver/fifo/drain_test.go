package fifo

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/typedinformer/informer/internal/run"
)

// drained is a drain of a buffer, and what it has applied.
type drained struct {
	*Drain[item]
	batches [][]item
	room    chan struct{} // closed while there is room
	fail    error
	exits   int
}

// newDrained returns a drain of a buffer with room. Flush applies up to 2 items.
func newDrained() *drained {
	d := &drained{room: make(chan struct{})}
	close(d.room)
	d.Drain = &Drain[item]{
		Buffer: newBuffer(8),
		Few:    2,
		Apply: func(batch []item) error {
			d.batches = append(d.batches, slices.Clone(batch))
			return d.fail
		},
		Wait: func(ctx context.Context) {
			select {
			case <-d.room:
			case <-ctx.Done():
			}
		},
		Full: func() bool {
			select {
			case <-d.room:
				return false
			default:
				return true
			}
		},
		Exited: func() { d.exits++ },
	}
	return d
}

// queue puts items with these numbers into the buffer, as a producer does before Flush.
func (d *drained) queue(t *testing.T, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		if err := d.Buffer.Queue(t.Context(), &item{number: n, alone: n < 0}); err != nil {
			t.Fatal(err)
		}
	}
}

// flush flushes, and then checks the numbers of the items of each batch that was applied since the last call.
func (d *drained) flush(t *testing.T, want string) {
	t.Helper()
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	d.applied(t, want)
}

func (d *drained) applied(t *testing.T, want string) {
	t.Helper()
	synctest.Wait()
	var got [][]int
	for _, batch := range d.batches {
		var numbers []int
		for _, i := range batch {
			numbers = append(numbers, i.number)
		}
		got = append(got, numbers)
	}
	if fmt.Sprint(got) != want {
		t.Errorf("applied %v, want %s", got, want)
	}
	d.batches = nil
}

// Flush applies few items by itself, and leaves others to Run: many, one that is a batch of its own, and those for which
// there is no room.
// Guarantees: F1, F3, F4
func TestFlushAppliesWhatItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrained()
		d.flush(t, "[]")
		d.queue(t, 1, 2)
		d.flush(t, "[[1 2]]")
		d.queue(t, 3, 4, 5)
		d.flush(t, "[]")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		d.applied(t, "[[3 4 5]]")
		d.queue(t, 6, -7)
		d.flush(t, "[[6] [-7]]")
		d.room = make(chan struct{})
		d.queue(t, 8)
		d.flush(t, "[[8]]") // nothing says before it that there is no room
		d.queue(t, 9)
		d.flush(t, "[]")
		close(d.room)
		d.applied(t, "[[9]]")
		why := errors.New("why")
		cancel(why)
		if err := <-ended; err != why {
			t.Errorf("Run returned %v", err)
		}
	})
}

// Settle applies everything, in batches, and waits for room. It ends with its context.
// Guarantees: F1, F3, F4
func TestSettleAppliesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrained()
		settled := make(chan error, 1)
		settle := func(ctx context.Context) { settled <- d.Settle(ctx) }
		d.queue(t, 1, 2, 3, -4, 5)
		settle(t.Context())
		d.applied(t, "[[1 2 3] [-4] [5]]")
		if err := <-settled; err != nil {
			t.Error(err)
		}
		d.room = make(chan struct{})
		d.queue(t, 7)
		ctx, cancel := context.WithCancelCause(t.Context())
		go settle(ctx)
		d.applied(t, "[]")
		why := errors.New("why")
		cancel(why)
		if err := <-settled; err != why {
			t.Error(err)
		}
		close(d.room)
		d.Apply = func([]item) error { runtime.Goexit(); return nil }
		go func() { _ = d.Settle(t.Context()) }()
		if synctest.Wait(); d.exits != 1 {
			t.Errorf("reported %d times", d.exits)
		}
	})
}

// Run ends with the error of Apply, and when the buffer is closed and empty.
// Guarantees: F5
func TestRunEndsWithTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrained()
		d.fail = errors.New("fail")
		d.queue(t, 1)
		if err := d.Flush(); err != d.fail || d.exits != 0 {
			t.Errorf("Flush returned %v, and exited %d times", err, d.exits)
		}
		d.queue(t, 2, 3, 4)
		d.Buffer.wake()
		if err := d.Run(t.Context()); err != d.fail {
			t.Errorf("Run returned %v", err)
		}
		d.Buffer.Close(true)
		if err := d.Run(t.Context()); err != ErrClosed {
			t.Errorf("Run of a closed buffer returned %v", err)
		}
	})
}

// An Apply that ends its goroutine in Flush is reported, and another goroutine can apply then.
// Guarantees: C3
func TestFlushReportsAnApplyThatExits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrained()
		apply := d.Apply
		d.Apply = func([]item) error { runtime.Goexit(); return nil }
		d.queue(t, 1)
		go func() { _ = d.Flush() }()
		synctest.Wait()
		if d.exits != 1 {
			t.Errorf("reported %d times", d.exits)
		}
		d.Apply = apply
		d.queue(t, 2)
		d.flush(t, "[[2]]")
	})
}

// An Apply that ends its goroutine ends Run, whose caller's goroutine goes on.
// Guarantees: C3
func TestRunReturnsAfterAnApplyThatExits(t *testing.T) {
	d := newDrained()
	d.Apply = func([]item) error { runtime.Goexit(); return nil }
	d.queue(t, 1)
	d.Buffer.wake()
	if err := d.Run(t.Context()); err != run.ErrGoroutineEnded {
		t.Errorf("Run returned %v", err)
	}
}
